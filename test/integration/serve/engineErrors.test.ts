import { afterAll, beforeAll, expect, test } from 'vitest';
import type { RateSeries } from '../../../src/api/responses/overview.ts';
import type { QueryPage, Statistics } from '../../../src/api/responses/queries.ts';
import { closeAll, startServer, until } from '../../support/gateway.ts';
import type { GatewayProcess } from '../../support/gatewayProcess.ts';
import { manifest } from '../../support/manifest.ts';
import { worldOf } from '../../support/world.ts';

const world = worldOf('suite');
let gateway: GatewayProcess;

/** Sends a statement, which the cluster answers with the HTTP status that it names. */
const submit = (statement: string, more: Readonly<Record<string, string>> = {}) =>
  fetch(`${gateway.url}/v1/statement`, {
    method: 'POST',
    body: statement,
    headers: { 'X-Engine-User': 'alice', 'X-Engine-Source': 'cli', ...more },
  });
const read = async <T>(path: string): Promise<T> => (await (await fetch(`${gateway.url}${path}`)).json()) as T;

beforeAll(async () => {
  const cluster = await startServer((request, response) => {
    let statement = '';
    request.setEncoding('utf8').on('data', (chunk: string) => {
      statement += chunk;
    });
    request.on('end', () => {
      const status = Number(/^STATUS (\d+)/.exec(statement)?.[1] ?? 200);
      response.writeHead(status, { 'content-type': 'application/json' });
      response.end(status === 200 ? '{"starting":false}' : 'no');
    });
  });
  await world.declare(manifest('EngineCluster', 'broken', { proxyTo: cluster.url, routingGroup: 'adhoc' }));
  gateway = await world.start();
  await until(async () => (await (await submit('STATUS 200')).text()).includes('starting'), 'routing');
}, 60_000);
afterAll(closeAll);

test('statements that an engine answers with 4xx or 5xx are in the history and count as failed', async () => {
  const statuses = [400, 403, 404, 429, 500, 502, 503];
  for (const status of statuses) expect((await submit(`STATUS ${status}`)).status).toBe(status);
  expect((await submit('STATUS 401', { Authorization: 'Basic eDp5' })).status).toBe(401);
  // A login begins so: the client sends the statement again with credentials.
  expect((await submit('STATUS 401')).status).toBe(401);
  const failed = [...statuses, 401];

  await until(async () => (await read<QueryPage>('/api/queries?state=FAILED')).queries.length >= failed.length, 'rows');
  const { queries } = await read<QueryPage>('/api/queries?state=FAILED');
  expect(
    queries.map(({ queryText, user, source, cluster, routingGroup, outcome }) => ({
      ...{ queryText, user, source, cluster, routingGroup },
      ...{ state: outcome?.state, name: outcome?.errorName, code: outcome?.errorCode, message: outcome?.errorMessage },
    })),
  ).toEqual(
    expect.arrayContaining(
      failed.map((status) => ({
        ...{ queryText: `STATUS ${status}`, user: 'alice', source: 'cli', cluster: 'broken', routingGroup: 'adhoc' },
        ...{ state: 'FAILED', name: `HTTP_${status}`, code: status },
        message: `Cluster "broken" answered with HTTP status ${status}.`,
      })),
    ),
  );
  expect(queries).toHaveLength(failed.length);
  expect(await read(`/api/queries/${queries[0]?.queryId}`)).toMatchObject({ user: 'alice', cluster: 'broken' });

  const { values } = await read<Statistics>('/api/statistics?by=cluster');
  expect(values.find(({ value }) => value === 'broken')).toMatchObject({ failures: failed.length, userErrors: 0 });
  const series = await read<RateSeries>('/api/overview/rates?minutes=60');
  expect(series.intervals.reduce((sum, { failures }) => sum + failures, 0)).toBe(failed.length);
  const metrics = await (await fetch(`${gateway.url}/metrics`)).text();
  expect(metrics).toContain(`engine_gateway_queries_ended_total{state="failed"} ${failed.length}\n`);
});
