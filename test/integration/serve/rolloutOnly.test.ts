import { afterEach, expect, test } from 'vitest';
import { closeAll } from '../../support/gateway.ts';
import { manifest } from '../../support/queueing.ts';
import { runQuery } from '../../support/statementClient.ts';
import { call, worldOf } from '../../support/world.ts';

const world = worldOf('test');
afterEach(closeAll);

test('a cluster for rollouts gets queries of rules that name it only', async () => {
  const [stable, candidate] = await Promise.all(['stable', 'next'].map((name) => world.engine({ name, record: true })));
  const cluster = (url = '', more: object = {}) => ({ proxyTo: url, routingGroup: 'adhoc', ...more });
  await world.declare(
    manifest('EngineCluster', 'stable', cluster(stable?.url)),
    manifest('EngineCluster', 'next', cluster(candidate?.url, { rolloutOnly: true })),
    manifest('RoutingGroup', 'adhoc', { bestEffort: true }),
    manifest('RoutingRule', 'pioneers', {
      condition: 'request.getHeader("X-Engine-User") == "eva"',
      routeTo: { cluster: 'next' },
    }),
  );
  const gateway = await world.startReady();
  for (let count = 0; count < 20; count++) await runQuery(gateway.url, 'SELECT 1', { user: 'adam' });
  expect([stable?.queries.length, candidate?.queries.length]).toEqual([20, 0]);
  await runQuery(gateway.url, 'SELECT 1', { user: 'eva' });
  expect([stable?.queries.length, candidate?.queries.length]).toEqual([20, 1]);

  const read = async (path: string) => (await call(gateway, 'GET', path)).json;
  expect(await read('/api/clusters/next')).toMatchObject({
    ...{ status: 'HEALTHY', active: true, takesNewQueries: false, rolloutOnly: true },
    group: { others: ['stable'] },
    fields: expect.arrayContaining([
      { field: 'rolloutOnly', declared: true, inForce: true, differs: false, managers: [] },
    ]),
  });
  expect(await read('/api/clusters/stable')).toMatchObject({ takesNewQueries: true, rolloutOnly: false });
  expect(await read('/api/groups/adhoc')).toMatchObject({
    clusters: [
      { name: 'next', takesNewQueries: false },
      { name: 'stable', takesNewQueries: true },
    ],
  });
  // Without the other cluster the group has none, in spite of best effort.
  await call(gateway, 'PUT', '/api/clusters/stable/active', { active: false });
  const rejected = await fetch(`${gateway.url}/v1/statement`, {
    method: 'POST',
    headers: { 'X-Engine-User': 'adam' },
    body: 'SELECT 1',
  });
  expect(await rejected.text()).toContain('next takes only queries of rollouts (rolloutOnly)');
});
