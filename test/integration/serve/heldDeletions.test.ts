import { expect, test, vi } from 'vitest';
import { manifest } from '../../support/manifest.ts';
import { runQuery } from '../../support/statementClient.ts';
import { call, worldOf } from '../../support/world.ts';

const world = worldOf('test');
const until = (check: () => Promise<void>): Promise<void> => vi.waitFor(check, { timeout: 40_000, interval: 100 });

test('queries go on through clusters that most of the source was lost with, until a call confirms it', async () => {
  const engine = await world.engine({ name: 'engine' });
  const declare = (names: readonly string[]) =>
    world.declare(
      ...names.map((name) =>
        manifest('EngineCluster', name, { proxyTo: engine.url, routingGroup: name === 'a' ? 'other' : 'adhoc' }),
      ),
    );
  await declare(['a', 'b', 'c', 'd', 'e']);
  const gateway = await world.startReady();
  const select = () => runQuery(gateway.url, 'SELECT * FROM tpch.tiny.region');
  const losses = async () => (await call(gateway, 'GET', '/api/heldDeletions')).json.losses;
  expect(await losses()).toEqual([]);
  await declare(['a']);
  await until(async () =>
    expect(await losses()).toMatchObject([
      { kind: 'EngineCluster', held: 4, left: 1, names: expect.arrayContaining(['default/b']) },
    ]),
  );
  expect((await select()).rows).toHaveLength(5);
  expect((await call(gateway, 'GET', '/readyz?verbose')).text).toContain(
    '[-] held deletions: lost at once and still routed: 4 of 5',
  );
  expect((await call(gateway, 'GET', '/metrics')).text).toContain(
    'engine_gateway_held_deletions{kind="EngineCluster"} 4',
  );
  const line = await gateway.logged(({ msg }) => String(msg).includes('lost more than half'));
  expect(line).toMatchObject({ kind: 'EngineCluster', deletions: 4, left: 1 });
  expect((await call(gateway, 'POST', '/api/heldDeletions/confirm')).status).toBe(200);
  const { error } = await select();
  expect(error).toMatchObject({ errorName: 'NO_NODES_AVAILABLE' });
  expect(await losses()).toEqual([]);
});
