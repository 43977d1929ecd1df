import type { IncomingMessage } from 'node:http';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import manifest from '../../../package.json' with { type: 'json' };
import { runCommand } from '../../support/commandLine.ts';
import { closeAll, startServer } from '../../support/gateway.ts';
import type { GatewayProcess } from '../../support/gatewayProcess.ts';
import { addCluster, call, worldOf } from '../../support/world.ts';

const { version } = manifest;

describe('the version is shown', () => {
  const checks: IncomingMessage[] = [];
  const world = worldOf('suite');
  let gateway: GatewayProcess;
  beforeAll(async () => {
    const engine = await startServer((request, response) => {
      checks.push(request);
      response.end('{}');
    });
    gateway = await world.start({ monitor: { taskDelay: '1s' }, uiConfiguration: { enabled: false } });
    await addCluster(gateway, 'a', engine.url);
  });
  afterAll(closeAll);
  const text = async (path: string): Promise<string> => (await call(gateway, 'GET', path)).text;

  test('by --version', async () => {
    expect(await runCommand(['--version'])).toEqual({ code: 0, stdout: `${version}\n`, stderr: '' });
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
