import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import manifest from '../../../package.json' with { type: 'json' };
import { runCli } from '../../../src/cli/program.ts';
import { type GatewayProcess, startGateway } from '../../support/gatewayProcess.ts';

const { version } = manifest;

describe('the version is shown', () => {
  const checks: IncomingMessage[] = [];
  const engine = createServer((request, response) => {
    checks.push(request);
    response.end('{}');
  });
  let folder: string;
  let gateway: GatewayProcess;
  beforeAll(async () => {
    await new Promise<void>((resolve) => engine.listen(0, '127.0.0.1', resolve));
    folder = await mkdtemp(join(tmpdir(), 'version-'));
    const jdbcUrl = `jdbc:sqlite:${join(folder, 'gateway.db')}`;
    gateway = await startGateway({
      monitor: { taskDelay: '1s' },
      dataStore: { jdbcUrl },
      uiConfiguration: { enabled: false },
    });
    const { port } = engine.address() as AddressInfo;
    const proxyTo = `http://127.0.0.1:${port}`;
    const body = JSON.stringify({ name: 'a', proxyTo, active: true, routingGroup: 'adhoc' });
    const headers = { 'content-type': 'application/json' };
    await fetch(`${gateway.url}/gateway/backend/modify/add`, { method: 'POST', headers, body });
  });
  afterAll(async () => {
    await gateway?.stop();
    engine.close();
    await rm(folder, { recursive: true, force: true });
  });
  const text = async (path: string): Promise<string> => await (await fetch(`${gateway.url}${path}`)).text();

  test('by --version', async () => {
    let out = '';
    const io = { stdout: { write: (line: string) => (out += line) }, stderr: { write: () => true }, environment: {} };
    expect(await runCli(['--version'], io as unknown as Parameters<typeof runCli>[1])).toBe(0);
    expect(out).toBe(`${version}\n`);
  });

  test('in the first line of the log, and when it listens', () => {
    expect(gateway.log[0]).toMatchObject({ msg: 'starting', version });
    expect(gateway.listening).toMatchObject({ version });
  });

  test('as a metric', async () => {
    expect(await text('/metrics')).toContain(`engine_gateway_build_info{version="${version}"} 1`);
  });

  test('by REST', async () => {
    expect(JSON.parse(await text('/api/overview'))).toMatchObject({ version });
    expect(JSON.parse(await text('/openapi.json'))).toMatchObject({ info: { version } });
  });

  test('at the foot of the index page', async () => {
    expect(await text('/')).toContain(`<footer>engine-gateway ${version}</footer>`);
  });

  test('to clusters, as the user agent of health checks', async () => {
    await vi.waitFor(() => expect(checks.length).toBeGreaterThan(0), { timeout: 20_000 });
    for (const { headers } of checks) expect(headers['user-agent']).toBe(`engine-gateway/${version}`);
  });
});
