import { afterEach, expect, test } from 'vitest';
import { startSimulatedEngine } from '../../../demo/simulatedEngine.ts';
import type { GroupPolicy } from '../../../src/routing/admissionPolicy.ts';
import { neverChecked } from '../../../src/routing/routingTable.ts';
import { freePort } from '../../support/freePort.ts';
import { closeAll, closing, clusterAt, startGateway } from '../../support/gateway.ts';
import { groupPolicy, groupsOf } from '../../support/groupPolicy.ts';
import { send } from '../../support/rawHttp.ts';

afterEach(closeAll);

/** A gateway whose group etl has a cluster that refuses connections; etl-spill and adhoc have engines. */
async function gatewayWith(...policies: readonly GroupPolicy[]) {
  const [spill, adhoc] = [
    closing(await startSimulatedEngine({ name: 'spill', record: true })),
    closing(await startSimulatedEngine({ name: 'adhoc', record: true })),
  ];
  const gateway = await startGateway({
    clusters: [
      clusterAt('etl-1', `http://127.0.0.1:${await freePort()}`, { routingGroup: 'etl' }),
      clusterAt('spill-1', spill.url, { routingGroup: 'etl-spill' }),
      clusterAt('adhoc-1', adhoc.url),
    ],
    settings: { explainHeader: true },
  });
  gateway.table.setInputs({ admission: { groups: groupsOf(...policies), limits: [] } });
  const makeSick = (name: string, reason: string) => {
    const { proxyTo } = gateway.table.current.clusters.get(name)!;
    gateway.table.setHealth(name, proxyTo, { ...neverChecked, status: 'UNHEALTHY', reason, checkedAt: 2 });
  };
  const submitTo = async (group: string) => {
    const response = await send(gateway.url, '/v1/statement', {
      method: 'POST',
      body: 'SELECT 1',
      headers: ['X-Engine-User', 'alice', 'X-Engine-Routing-Group', group],
    });
    return {
      error: (JSON.parse(response.text) as { error?: { message: string } }).error?.message,
      header: response.headers['x-engine-routing-decision'],
      decision: JSON.parse(gateway.records.at(-1)?.decision ?? 'null') as Record<string, unknown> | null,
      line: gateway.log.filter((line) => line.msg === 'query').at(-1),
    };
  };
  return { gateway, spill, adhoc, makeSick, submitTo };
}

test('a fallback serves, and header, history and log say how it came to that', async () => {
  const { makeSick, submitTo, spill } = await gatewayWith(groupPolicy('etl', { fallbacks: ['etl-spill'] }));
  makeSick('etl-1', 'status 500');
  const { header, decision, line } = await submitTo('etl');
  const steps = ['group etl: no healthy cluster (etl-1 is UNHEALTHY (status 500))', 'fallback etl-spill: spill-1'];
  expect(spill.queries).toHaveLength(1);
  expect(header).toBe('cluster=spill-1; group=etl; by=header; fallback=true; steps=etl:unavailable,etl-spill:serves');
  expect(decision).toMatchObject({ group: 'etl', cluster: 'spill-1', fallback: true, steps });
  expect(line).toMatchObject({ group: 'etl', cluster: 'spill-1', fallback: true, steps: steps.join('; ') });
});

test('another attempt goes along the same list', async () => {
  const { submitTo, spill, adhoc } = await gatewayWith(groupPolicy('etl', { fallbacks: ['etl-spill'] }));
  const { decision } = await submitTo('etl');
  expect([spill.queries.length, adhoc.queries.length]).toEqual([1, 0]);
  expect(decision).toMatchObject({
    cluster: 'spill-1',
    attempts: [{ cluster: 'etl-1' }],
    steps: [expect.stringMatching(/^group etl: no healthy cluster \(etl-1 failed \(.*/), 'fallback etl-spill: spill-1'],
  });
});

test('best effort asks an unhealthy cluster, and says so', async () => {
  const { makeSick, submitTo, adhoc } = await gatewayWith(groupPolicy('adhoc', { bestEffort: true }));
  makeSick('adhoc-1', 'metrics too high');
  const { header, decision } = await submitTo('adhoc');
  expect(adhoc.queries).toHaveLength(1);
  expect(header).toBe('cluster=adhoc-1; group=adhoc; by=header; steps=adhoc:unavailable,adhoc:bestEffort');
  expect(decision).toMatchObject({
    steps: [expect.any(String), 'best effort: adhoc-1 is UNHEALTHY (metrics too high)'],
  });
});

test('a refusal names the groups that were looked at', async () => {
  const { makeSick, submitTo } = await gatewayWith(groupPolicy('etl', { fallbacks: ['etl-spill', 'nowhere'] }));
  for (const name of ['etl-1', 'spill-1', 'adhoc-1']) makeSick(name, 'down');
  expect((await submitTo('etl')).error).toBe(
    'No healthy cluster in routing group "etl" nor in its fallbacks "etl-spill", "nowhere" nor in the default routing group "adhoc": etl-1 is UNHEALTHY (down); spill-1 is UNHEALTHY (down); adhoc-1 is UNHEALTHY (down)',
  );
});
