import { afterEach, expect, test } from 'vitest';
import { startSimulatedEngine } from '../../../demo/simulatedEngine.ts';
import { ClusterWait } from '../../../src/gateway/admission/clusterWait.ts';
import { QueueCounts } from '../../../src/gateway/admission/queueCounts.ts';
import { QueueMetrics } from '../../../src/gateway/admission/queueMetrics.ts';
import { systemClock } from '../../../src/model/clock.ts';
import type { QueuePolicy } from '../../../src/routing/admissionPolicy.ts';
import { closeAll, closing, clusterAt, startGateway, until } from '../../support/gateway.ts';
import { groupPolicy, groupsOf } from '../../support/groupPolicy.ts';
import { sampleRequest } from '../../support/ruleAttempt.ts';
import { decided } from '../../support/ruleDecision.ts';
import { runQuery, submit } from '../../support/statementClient.ts';
import { TransactionClient } from '../../support/transactionClient.ts';

/** There is no other replica. */
const uncounted = { noteRefused: () => undefined };
const lonely = { setWaiting: () => {}, waitingElsewhere: () => 0 };

afterEach(closeAll);

const toNight = { headers: { 'X-Engine-Routing-Group': 'night' } };

/** A gateway whose group night has a cluster that sleeps, and lets queries wait for it; adhoc is awake. */
async function gatewayWith(queue: Partial<QueuePolicy> = {}, fallbacks: readonly string[] = []) {
  const [night, adhoc] = [
    closing(await startSimulatedEngine({ name: 'night', record: true, queuedPolls: 0 })),
    closing(await startSimulatedEngine({ name: 'adhoc', record: true, queuedPolls: 0 })),
  ];
  const running: string[] = [];
  const user = () => ({ user: 'alice', userInfo: null });
  const gateway = await startGateway({
    clusters: [clusterAt('night-1', night.url, { routingGroup: 'night' }), clusterAt('adhoc-1', adhoc.url)],
    healthy: false,
    analyzer: {
      user,
      analyze: () => ({
        user: user(),
        queryProperties: { ...sampleRequest.queryProperties!, queryId: running[0] ?? null },
      }),
    },
    admission: (table, registry) => {
      const metrics = new QueueMetrics({ registry, table, clock: systemClock });
      return metrics.measured(
        new ClusterWait({
          table,
          queueCounts: new QueueCounts(lonely),
          counts: uncounted,
          defaultGroup: 'adhoc',
        }),
      );
    },
  });
  gateway.setHealthy('adhoc-1');
  const policy = groupPolicy('night', { fallbacks, queue: { whenUnavailable: 'wait', ...queue } });
  gateway.table.setInputs({ admission: { groups: groupsOf(policy), limits: [] } });
  const metric = async (name: string) => {
    const line = (await gateway.registry.metrics())
      .split('\n')
      .find((text) => text.startsWith(`${name}{group="night"}`));
    return line === undefined ? null : Number(line.split(' ')[1]);
  };
  const waiting = (count: number) =>
    until(async () => (await metric('engine_gateway_queue_length')) === count, `${count} to wait`);
  return { gateway, night, adhoc, running, metric, waiting };
}

test('queries wait while their cluster sleeps, and run when it wakes; nobody else gets them', async () => {
  const { gateway, night, adhoc, metric, waiting } = await gatewayWith();
  const queries = Array.from({ length: 5 }, () => runQuery(gateway.url, 'SELECT 1', toNight));
  await waiting(5);
  expect(night.requests).toEqual([]);
  gateway.setHealthy('night-1');
  expect((await Promise.all(queries)).map(({ rows }) => rows)).toEqual(Array.from({ length: 5 }, () => [[1]]));
  expect([night.queries.length, adhoc.requests.length]).toEqual([5, 0]);
  expect(await metric('engine_gateway_queue_length')).toBe(0);
  expect(await metric('engine_gateway_queue_wait_seconds_count')).toBe(5);
});

test('a cluster that is registered only now wakes them too', async () => {
  const { gateway, waiting } = await gatewayWith();
  const late = closing(await startSimulatedEngine({ name: 'late', record: true, queuedPolls: 0 }));
  const query = runQuery(gateway.url, 'SELECT 1', toNight);
  await waiting(1);
  const clusters = [...gateway.table.current.clusters.values()];
  gateway.table.setInputs({ clusters: [...clusters, clusterAt('night-2', late.url, { routingGroup: 'night' })] });
  gateway.setHealthy('night-2');
  expect((await query).rows).toEqual([[1]]);
  expect(late.queries).toHaveLength(1);
});

test('a fallback that is awake serves at once, the default group only where it is one', async () => {
  const { gateway, adhoc } = await gatewayWith({}, ['adhoc']);
  await submit(gateway.url, 'SELECT 1', toNight);
  expect(adhoc.queries).toHaveLength(1);
});

test('beyond maxQueued and after maxWait they are refused, in the protocol', async () => {
  const { gateway, waiting, night } = await gatewayWith({ maxQueued: 1, maxWaitMs: 400 });
  const first = submit(gateway.url, 'SELECT 1', toNight);
  await waiting(1);
  expect((await submit(gateway.url, 'SELECT 1', toNight)).error).toMatchObject({
    errorName: 'QUERY_QUEUE_FULL',
    errorType: 'INSUFFICIENT_RESOURCES',
    errorCode: 131_074,
  });
  expect((await first).error).toMatchObject({
    errorName: 'EXCEEDED_TIME_LIMIT',
    errorCode: 131_075,
    message:
      'No cluster of routing group "night" became available within 400.00ms (queue.maxWait); send the query again later.',
  });
  await waiting(0);
  expect(night.requests).toEqual([]);
});

test('a client that goes away frees its place', async () => {
  const { gateway, waiting } = await gatewayWith({ maxQueued: 1 });
  const leaving = new AbortController();
  const gone = fetch(`${gateway.url}/v1/statement`, {
    ...{ method: 'POST', body: 'SELECT 1', signal: leaving.signal },
    headers: { 'X-Engine-User': 'alice', ...toNight.headers },
  }).catch(() => null);
  await waiting(1);
  leaving.abort();
  await gone;
  await waiting(0);
  const query = runQuery(gateway.url, 'SELECT 1', toNight);
  await waiting(1);
  gateway.setHealthy('night-1');
  expect((await query).rows).toEqual([[1]]);
});

test('statements of a transaction and calls of kill_query never wait, also while their cluster takes no queries', async () => {
  const { gateway, night, running, waiting } = await gatewayWith();
  gateway.setHealthy('night-1');
  const client = new TransactionClient([gateway.url]);
  const toGroup = decided({ routingGroup: 'night', rule: 'to-night' });
  gateway.table.setInputs({ rules: { needsAnalysis: false, decide: () => toGroup } });
  expect((await client.run('START TRANSACTION')).error).toBeUndefined();
  const { proxyTo } = gateway.table.current.clusters.get('night-1')!;
  gateway.table.setHealth('night-1', proxyTo, {
    ...gateway.table.current.clusters.get('night-1')!.health,
    status: 'UNHEALTHY',
  });
  const other = submit(gateway.url, 'SELECT 2', toNight);
  await waiting(1);
  const statement = await client.run('SELECT 1');
  expect(statement).toMatchObject({ error: undefined, rows: [[1]] });
  running.push(statement.queryId);
  const killed = await submit(gateway.url, `CALL system.runtime.kill_query('${running[0]}')`, toNight);
  expect(killed.error).toBeUndefined();
  expect((await client.run('COMMIT')).error).toBeUndefined();
  await waiting(1);
  running.pop();
  gateway.setHealthy('night-1');
  expect((await other).error).toBeUndefined();
  expect(night.queries.map(({ text }) => text).at(-1)).toBe('SELECT 2');
});
