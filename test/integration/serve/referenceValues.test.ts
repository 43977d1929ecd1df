import { afterEach, describe, expect, test } from 'vitest';
import { startSimulatedEngine } from '../../../demo/simulatedEngine.ts';
import { type GatewayProcess, startGateway } from '../../support/gatewayProcess.ts';

/** A statement as a client sends it; the answer's text. */
async function submit({ url }: GatewayProcess, headers: Readonly<Record<string, string>> = {}): Promise<string> {
  const init = { method: 'POST', headers: { 'X-Trino-User': 'ann', ...headers }, body: 'SELECT 1' };
  return (await fetch(`${url}/v1/statement`, init)).text();
}

describe('a gateway with odd values that Trino Gateway starts with', () => {
  let gateway: GatewayProcess | null = null;
  afterEach(async () => {
    await gateway?.stop();
    gateway = null;
  });

  const start = async (config: Readonly<Record<string, unknown>>) => {
    gateway = await startGateway({
      protocol: { productName: 'Trino' },
      dataStore: { jdbcUrl: 'jdbc:sqlite::memory:' },
      ...config,
    });
    return gateway;
  };
  const register = async ({ url }: GatewayProcess, name: string, routingGroup: string) => {
    const engine = await startSimulatedEngine({ name, productName: 'Trino' });
    const body = JSON.stringify({ name, proxyTo: engine.url, active: true, routingGroup });
    const headers = { 'content-type': 'application/json' };
    expect((await fetch(`${url}/gateway/backend/modify/add`, { method: 'POST', headers, body })).status).toBe(200);
    await expect
      .poll(async () => (await fetch(`${url}/api/public/backends/${name}/state`)).text(), { timeout: 20_000 })
      .toContain('HEALTHY');
    return engine;
  };

  test.each([
    ['nothing in it', {}],
    ['a way that is not there', { defaultType: 'form' }],
    ['none in it', { defaultType: 'none' }],
  ])('authentication with %s lets no call pass but queries', async (_, authentication) => {
    const { url } = await start({ authentication });
    const basic = `Basic ${Buffer.from('ann:abc').toString('base64')}`;
    for (const headers of [{}, { authorization: basic }]) {
      expect((await fetch(`${url}/gateway/backend/all`, { headers })).status).toBe(401);
      expect((await fetch(`${url}/webapp/getAllBackends`, { method: 'POST', headers })).status).toBe(401);
    }
    expect(await (await fetch(`${url}/loginType`, { method: 'POST' })).json()).toMatchObject({ data: 'none' });
    const body = JSON.stringify({ username: 'ann', password: 'abc' });
    const login = await fetch(`${url}/login`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body,
    });
    expect(await login.text()).toContain('holds neither form nor oauth');
    expect(login.status).toBe(422);
    expect((await fetch(`${url}/api/public/backends`)).status).toBe(200);
    // Routed, and refused as no cluster is there: not for want of a login.
    expect(await submit(gateway as GatewayProcess)).toContain('No healthy cluster');
    const readiness = await (await fetch(`${url}/readyz?verbose`)).text();
    expect(readiness).not.toContain('every call passes');
  });

  test('an empty default group refuses what no group is determined for', async () => {
    const started = await start({
      authentication: 'none',
      routing: { defaultRoutingGroup: '' },
      monitor: { taskDelay: '1s' },
    });
    const engine = await register(started, 'etl-one', 'etl');
    try {
      expect(await submit(started)).toContain('No healthy cluster');
      expect(await submit(started, { 'X-Trino-Routing-Group': 'etl' })).toContain('nextUri');
    } finally {
      await engine.close();
    }
  });

  test('external rules without their URL leave the decision to the header', async () => {
    const started = await start({
      ...{ authentication: 'none', monitor: { taskDelay: '1s' } },
      routingRules: { rulesEngineEnabled: 1, rulesType: 'EXTERNAL' },
    });
    const engine = await register(started, 'etl-one', 'etl');
    try {
      expect(await submit(started, { 'X-Trino-Routing-Group': 'etl' })).toContain('nextUri');
      const note = started.log.find(({ key }) => key === 'routingRules.rulesType');
      expect(note?.msg).toContain('so that no service is asked');
    } finally {
      await engine.close();
    }
  });
});
