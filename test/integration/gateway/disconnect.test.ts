import { type ClientRequest, request } from 'node:http';
import { afterEach, describe, expect, test } from 'vitest';
import { startSimulatedEngine } from '../../../demo/simulatedEngine.ts';
import {
  closeAll,
  closing,
  clusterAt,
  startGateway,
  startServer,
  type TestGateway,
  until,
} from '../../support/gateway.ts';
import { submit } from '../../support/statementClient.ts';

afterEach(closeAll);

const id = '20261121_015745_00007_tests';
const headers = { 'X-Engine-User': 'test', Authorization: 'Basic eA==' };

/** Asks and goes away as soon as the condition holds. */
async function abandon(url: string, condition: () => boolean, method = 'GET'): Promise<void> {
  const sent: ClientRequest = request(url, { method, headers });
  sent.on('error', () => undefined).on('response', (response) => void response.on('error', () => undefined).resume());
  sent.end();
  await until(condition, 'the moment to go away');
  sent.destroy();
}

/** A cluster with one query, whose answers hang after the bytes given; records its requests. */
async function hanging(bytes: number, more: { readonly cancelQueryOnDisconnect?: boolean } = {}) {
  const asked: string[] = [];
  const cluster = await startServer((incoming, response) => {
    incoming.resume();
    asked.push(`${incoming.method} ${incoming.url} ${incoming.headers.authorization ?? '-'}`);
    if (incoming.method === 'POST') response.end(JSON.stringify({ id }));
    else if (incoming.method === 'DELETE') response.writeHead(204).end();
    else if (bytes > 0) response.write('x'.repeat(bytes));
  });
  const gateway = await startGateway({
    clusters: [clusterAt('a', cluster.url)],
    settings: { cancelQueryOnDisconnect: true, ...more },
  });
  await submit(gateway.url, 'SELECT 1');
  asked.length = 0;
  return { gateway, cluster, asked };
}

const isOver = (gateway: TestGateway) => async () =>
  /requests_total\{kind="(follow_up|query)",method="(GET|HEAD)",status="0xx"\} 1/.test(
    await gateway.registry.metrics(),
  );

describe('with routing.cancelQueryOnDisconnect a query ends with its client', () => {
  test.each([
    ['before the first byte of an answer', 0],
    ['in the middle of an answer', 1000],
  ])('%s', async (_, bytes) => {
    const { gateway, asked } = await hanging(bytes);
    const path = `/v1/statement/executing/${id}/y/3?targetResultSize=1MB`;
    await abandon(gateway.url + path, () => asked.length === 1);
    await until(() => asked.length === 2, 'the DELETE');
    expect(asked).toEqual([`GET ${path} Basic eA==`, `DELETE ${path} Basic eA==`]);
    await until(() => gateway.log.some((line) => line.queryId === id && line.status === 204), 'the line of the log');
  });

  test('on a real query of an engine', async () => {
    const engine = closing(await startSimulatedEngine({ name: 'a', record: true }));
    const gateway = await startGateway({
      clusters: [clusterAt('a', engine.url)],
      settings: { cancelQueryOnDisconnect: true },
    });
    const started = await submit(gateway.url, 'SELECT 1');
    engine.setState({ delayMillis: 30_000 });
    const before = engine.requests.length;
    await abandon(started.nextUri!, () => engine.requests.length > before);
    engine.setState({ delayMillis: 0 });
    await until(() => engine.queries[0]!.state === 'FAILED', 'the query cancelled');
  });
});

describe('it does not end', () => {
  test.each([
    ['without the setting', 'GET', `/v1/statement/executing/${id}/y/3`, false],
    ['with a HEAD', 'HEAD', `/v1/statement/executing/${id}/y/3`, true],
    ['with who looks at it', 'GET', `/v1/query/${id}`, true],
  ])('%s', async (_, method, path, cancelQueryOnDisconnect) => {
    const { gateway, asked } = await hanging(0, { cancelQueryOnDisconnect });
    await abandon(gateway.url + path, () => asked.length === 1, method);
    await until(isOver(gateway), 'the end of the request');
    await gateway.dataPlane.close(1_000);
    expect(asked).toHaveLength(1);
  });

  test('with a cluster that breaks off its answer', async () => {
    const asked: string[] = [];
    const cluster = await startServer((incoming, response) => {
      incoming.resume();
      asked.push(incoming.method!);
      if (incoming.method === 'POST') response.end(JSON.stringify({ id }));
      else response.write('x', () => setImmediate(() => response.destroy()));
    });
    const gateway = await startGateway({
      clusters: [clusterAt('a', cluster.url)],
      settings: { cancelQueryOnDisconnect: true },
    });
    await submit(gateway.url, 'SELECT 1');
    await expect(
      fetch(`${gateway.url}/v1/statement/executing/${id}/y/1`).then((answer) => answer.text()),
    ).rejects.toThrow();
    await until(isOver(gateway), 'the end of the request');
    await gateway.dataPlane.close(1_000);
    expect(asked).toEqual(['POST', 'GET']);
  });

  test('with a client that has its answer', async () => {
    const engine = closing(await startSimulatedEngine({ name: 'a', record: true }));
    const gateway = await startGateway({
      clusters: [clusterAt('a', engine.url)],
      settings: { cancelQueryOnDisconnect: true },
    });
    const started = await submit(gateway.url, 'SELECT 1');
    const answer = await fetch(started.nextUri!, { headers: { ...headers, Connection: 'close' } });
    await answer.text();
    await gateway.dataPlane.close(1_000);
    expect(engine.requests.map(({ method }) => method)).toEqual(['POST', 'GET']);
  });
});
