import { afterEach, expect, test } from 'vitest';
import { OpenRequests } from '../../../src/gateway/server/openRequests.ts';
import { closeAll, clusterAt, startGateway, startServer, until } from '../../support/gateway.ts';
import { send } from '../../support/rawHttp.ts';
import { submit } from '../../support/statementClient.ts';

afterEach(closeAll);

test('refused and answered requests are counted once each while a stop listens for their ends', async () => {
  const openRequests = new OpenRequests();
  const engine = await startServer((_request, response) => void response.end('{}'));
  const clusters = [clusterAt('a', engine.url, { routingGroup: 'etl' })];
  const gateway = await startGateway({ clusters, server: { openRequests } });
  expect((await submit(gateway.url, 'SELECT 1')).error?.message).toContain('adhoc');
  expect((await send(gateway.url, '/v1/info', { headers: ['X-Engine-Routing-Group', 'etl'] })).status).toBe(200);
  await until(() => openRequests.count === 0, 'the ends');
  const metric = await gateway.registry.getSingleMetric('engine_gateway_requests_total')!.get();
  expect(metric.values.map(({ labels, value }) => [labels.kind, labels.status, value]).sort()).toEqual([
    ['other', '2xx', 1],
    ['submission', '2xx', 1],
  ]);
});

test('a stop waits for the last byte that a client takes', async () => {
  const openRequests = new OpenRequests();
  const waiting: (() => void)[] = [];
  const engine = await startServer((_request, response) => {
    response.write('begin ');
    waiting.push(() => response.end('end'));
  });
  const gateway = await startGateway({ clusters: [clusterAt('a', engine.url)], server: { openRequests } });
  const answer = send(gateway.url, '/v1/info');
  await until(() => waiting.length === 1, 'the request at the cluster');
  expect(await openRequests.idle(20)).toBe(false);
  openRequests.drain();
  const idle = openRequests.idle(10_000);
  waiting[0]!();
  expect(await idle).toBe(true);
  expect((await answer).text).toBe('begin end');
  const late = send(gateway.url, '/v1/statement', { method: 'OPTIONS' });
  expect((await late).headers.connection).toBe('close');
});
