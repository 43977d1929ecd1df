import { afterEach, expect, test } from 'vitest';
import { startCountingCluster } from '../../support/countingCluster.ts';
import { closeAll, startServer, until } from '../../support/gateway.ts';
import { manifest, sharedSecret } from '../../support/queueing.ts';
import { follow, type QueryResults, submit } from '../../support/statementClient.ts';
import { worldOf } from '../../support/world.ts';

const world = worldOf('test');
afterEach(closeAll);

test.each([
  ['its request is held', '10s'],
  ['it is answered as queued', '100ms'],
])('a query whose cluster failed waits for the other one, which is full: %s', async (_, hold) => {
  const full = await startCountingCluster(() => 0);
  // Without a limit, so that it is picked first when the other one is full.
  const failing = await startServer((request, response) => {
    request.resume();
    response.setHeader('content-type', 'application/json');
    const id = '20261123_000000_00000_fails';
    const answer = request.method === 'POST' ? { id, infoUri: '', stats: { state: 'FINISHED' } } : { starting: false };
    response.end(JSON.stringify(answer));
  });
  const cluster = (proxyTo: string, more: object) => ({ proxyTo, routingGroup: 'adhoc', ...more });
  await world.declare(
    manifest('EngineCluster', 'full', cluster(full.url, { maxRunningQueries: 1 })),
    manifest('EngineCluster', 'failing', cluster(failing.url, { healthCheck: { interval: '1h' } })),
    manifest('RoutingGroup', 'adhoc', { queue: { hold, maxWait: '60s' } }),
  );
  const { url } = await world.start(sharedSecret);
  let first: QueryResults | null = null;
  await until(async () => {
    const page = await submit(url, 'SELECT 1').catch(() => null);
    if (full.running === 1) first = page;
    return first !== null;
  }, 'a query on the cluster with a limit');
  await failing.close();

  const waiting = submit(url, 'SELECT 2');
  const metrics = async () => await (await fetch(`${url}/metrics`)).text();
  await until(async () => (await metrics()).includes('engine_gateway_queue_length{group="adhoc"} 1'), 'it to wait');
  expect(full.running).toBe(1);
  if (hold === '100ms') expect((await waiting).stats.state).toBe('QUEUED');
  await follow((first as QueryResults | null)?.nextUri ?? '');
  let page = await waiting;
  while (page.nextUri !== undefined) page = await follow(page.nextUri);
  expect([page.error, page.id.split('_').at(-1)]).toEqual([undefined, 'count']);
  expect([full.most, full.ended]).toEqual([1, 2]);
});
