import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { stringify } from 'yaml';
import { startSimulatedEngine } from '../../../demo/simulatedEngine.ts';
import { closeAll, closing } from '../../support/gateway.ts';
import { type GatewayProcess, startGateway } from '../../support/gatewayProcess.ts';
import { manifest } from '../../support/manifest.ts';
import { runQuery } from '../../support/statementClient.ts';

let folder: string;
const gateways: GatewayProcess[] = [];
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'held-'));
});
afterEach(async () => {
  for (const gateway of gateways.splice(0)) await gateway.stop();
  await closeAll();
  await rm(folder, { recursive: true, force: true });
});

const until = (check: () => Promise<void>): Promise<void> => vi.waitFor(check, { timeout: 40_000, interval: 100 });
const call = async (gateway: GatewayProcess, path: string, method = 'GET') => {
  const response = await fetch(`${gateway.url}${path}`, { method, signal: AbortSignal.timeout(30_000) });
  const text = await response.text();
  return { status: response.status, text };
};

test('queries go on through clusters that most of the source was lost with, until a call confirms it', async () => {
  const engine = await startSimulatedEngine({ name: 'engine' });
  closing(engine);
  const cluster = (name: string, routingGroup: string) =>
    stringify(manifest('EngineCluster', name, { proxyTo: engine.url, routingGroup }));
  const names = ['a', 'b', 'c', 'd', 'e'];
  const declare = (kept: readonly string[]) =>
    writeFile(
      join(folder, 'clusters.yaml'),
      kept.map((name) => cluster(name, name === 'a' ? 'other' : 'adhoc')).join('---\n'),
    );
  await declare(names);
  const gateway = await startGateway({
    dataStore: { jdbcUrl: `jdbc:sqlite:${join(folder, 'gateway.db')}` },
    resources: { source: 'directory', directory: folder },
  });
  gateways.push(gateway);
  const select = () => runQuery(gateway.url, 'SELECT * FROM tpch.tiny.region');
  await until(async () => expect((await call(gateway, '/readyz')).status).toBe(200));
  expect(await call(gateway, '/api/heldDeletions')).toEqual({ status: 200, text: '{"losses":[]}' });
  await declare(['a']);
  await until(async () => {
    const { losses } = JSON.parse((await call(gateway, '/api/heldDeletions')).text);
    expect(losses).toMatchObject([
      { kind: 'EngineCluster', held: 4, left: 1, names: expect.arrayContaining(['default/b']) },
    ]);
  });
  expect((await select()).rows).toHaveLength(5);
  expect((await call(gateway, '/readyz?verbose')).text).toContain(
    '[-] held deletions: lost at once and still routed: 4 of 5',
  );
  expect((await call(gateway, '/metrics')).text).toContain('engine_gateway_held_deletions{kind="EngineCluster"} 4');
  const line = await gateway.logged(({ msg }) => String(msg).includes('lost more than half'));
  expect(line).toMatchObject({ kind: 'EngineCluster', deletions: 4, left: 1 });
  expect((await call(gateway, '/api/heldDeletions/confirm', 'POST')).status).toBe(200);
  const { error } = await select();
  expect(error).toMatchObject({ errorName: 'NO_NODES_AVAILABLE' });
  expect(await call(gateway, '/api/heldDeletions')).toEqual({ status: 200, text: '{"losses":[]}' });
});
