import { describe, expect, test } from 'vitest';
import type { GatewayProcess } from '../../support/gatewayProcess.ts';
import { addCluster, basic, call, worldOf } from '../../support/world.ts';

/** A statement as a client sends it; the answer's text. */
async function submit({ url }: GatewayProcess, headers: Readonly<Record<string, string>> = {}): Promise<string> {
  const init = { method: 'POST', headers: { 'X-Trino-User': 'ann', ...headers }, body: 'SELECT 1' };
  return (await fetch(`${url}/v1/statement`, init)).text();
}

describe('a gateway with odd values that Trino Gateway starts with', () => {
  const world = worldOf('test');
  const start = (config: Readonly<Record<string, unknown>>) =>
    world.start({
      ...{ protocol: { productName: 'Trino' }, dataStore: { jdbcUrl: 'jdbc:sqlite::memory:' } },
      ...{ resources: { source: 'database' }, monitor: { taskDelay: '1s' }, ...config },
    });
  const register = async (gateway: GatewayProcess, name: string, routingGroup: string) => {
    const engine = await world.engine({ name, productName: 'Trino' });
    await addCluster(gateway, name, engine.url, routingGroup);
    const state = async () => (await call(gateway, 'GET', `/api/public/backends/${name}/state`)).text;
    await expect.poll(state, { timeout: 20_000 }).toContain('HEALTHY');
  };

  test.each([
    ['nothing in it', {}],
    ['a way that is not there', { defaultType: 'form' }],
    ['none in it', { defaultType: 'none' }],
  ])('authentication with %s lets no call pass but queries', async (_, authentication) => {
    const gateway = await start({ authentication });
    for (const headers of [{}, basic('ann', 'abc')]) {
      expect((await call(gateway, 'GET', '/gateway/backend/all', undefined, headers)).status).toBe(401);
      expect((await call(gateway, 'POST', '/webapp/getAllBackends', undefined, headers)).status).toBe(401);
    }
    expect((await call(gateway, 'POST', '/loginType')).json).toMatchObject({ data: 'none' });
    const login = await call(gateway, 'POST', '/login', { username: 'ann', password: 'abc' });
    expect([login.status, login.text]).toEqual([422, expect.stringContaining('holds neither form nor oauth')]);
    expect((await call(gateway, 'GET', '/api/public/backends')).status).toBe(200);
    // Routed, and refused as no cluster is there: not for want of a login.
    expect(await submit(gateway)).toContain('No healthy cluster');
    expect((await call(gateway, 'GET', '/readyz?verbose')).text).not.toContain('every call passes');
  });

  test('an empty default group refuses what no group is determined for', async () => {
    const started = await start({ authentication: 'none', routing: { defaultRoutingGroup: '' } });
    await register(started, 'etl-one', 'etl');
    expect(await submit(started)).toContain('No healthy cluster');
    expect(await submit(started, { 'X-Trino-Routing-Group': 'etl' })).toContain('nextUri');
  });

  test('external rules without their URL leave the decision to the header', async () => {
    const started = await start({
      authentication: 'none',
      routingRules: { rulesEngineEnabled: 1, rulesType: 'EXTERNAL' },
    });
    await register(started, 'etl-one', 'etl');
    expect(await submit(started, { 'X-Trino-Routing-Group': 'etl' })).toContain('nextUri');
    const note = started.log.find(({ key }) => key === 'routingRules.rulesType');
    expect(note?.msg).toContain('so that no service is asked');
  });
});
