import { request as httpRequest } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { afterEach, expect, test } from 'vitest';
import { hasOpenssl, localCertificate } from '../../support/certificates.ts';
import { closeAll, closing, clusterAt, startGateway, startServer, type TestGateway } from '../../support/gateway.ts';
import { http2Client } from '../../support/http2Client.ts';
import { send } from '../../support/rawHttp.ts';
import { startSecureGateway } from '../../support/secureGateway.ts';

afterEach(closeAll);

/** Makes addresses the gateway's clusters. */
function setClusters(gateway: TestGateway, ...urls: readonly string[]): void {
  const clusters = urls.map((url, index) => clusterAt(`c${index}`, url));
  gateway.table.setInputs({ clusters, rules: null });
  for (const { name } of clusters) gateway.setHealthy(name);
}

/** Requests that the gateway answered, by class of status. */
async function answered({ registry }: TestGateway): Promise<Record<string, number>> {
  const metric = await registry.getSingleMetric('engine_gateway_requests_total')?.get();
  return Object.fromEntries((metric?.values ?? []).map(({ labels, value }) => [labels.status, value]));
}

const submission = { method: 'POST', body: 'SELECT 1', headers: ['X-Engine-User', 'u'] };

test.each([
  ['POST', '/v1/statement'],
  ['GET', '/v1/info'],
  ['GET', '/ui/'],
])('%s %s to a cluster that is the gateway itself is 508 when it returns', async (method, path) => {
  const gateway = await startGateway({ clusters: [] });
  setClusters(gateway, gateway.url.replace('127.0.0.1', 'localhost'));
  const { status, text } = await send(gateway.url, path, method === 'POST' ? submission : { method });
  expect([status, text]).toEqual([508, expect.stringContaining('the proxyTo of a cluster leads back to the gateway')]);
  // The client's request, and the same as it returned.
  expect(await answered(gateway)).toEqual({ '5xx': 2 });
});

test('a loop of two gateways ends at the one that began it, and their way to a cluster is no loop', async () => {
  const engine = await startServer((request, response) => void request.resume().on('end', () => response.end('{}')));
  const [first, second] = [await startGateway({ clusters: [] }), await startGateway({ clusters: [] })];
  setClusters(first, second.url);
  setClusters(second, engine.url);
  expect((await send(first.url, '/v1/statement', submission)).status).toBe(200);
  setClusters(second, first.url);
  expect((await send(first.url, '/v1/statement', submission)).status).toBe(508);
  expect(await answered(first)).toEqual({ '2xx': 1, '5xx': 2 });
  expect(await answered(second)).toEqual({ '2xx': 1, '5xx': 1 });
});

test('a proxy on the way that joins Via with lines of its own does not hide the loop of a follow-up', async () => {
  const gateway = await startGateway({ clusters: [] });
  const id = '20261121_015745_00000_kvhrm';
  const proxy = await startServer((incoming, response) => {
    const { method, url, headers } = incoming;
    if (method === 'POST') {
      response.end(JSON.stringify({ id, nextUri: `${gateway.url}/v1/statement/executing/${id}/y/1` }));
      return;
    }
    const via = `1.0 before, ${headers.via}, 1.1 proxy (a, b)`;
    const outgoing = httpRequest(gateway.url + url, { method, headers: { ...headers, via } }, (answer) => {
      response.writeHead(answer.statusCode as number);
      answer.pipe(response);
    });
    outgoing.end();
  });
  setClusters(gateway, proxy.url);
  expect((await send(gateway.url, '/v1/statement', submission)).status).toBe(200);
  expect((await send(gateway.url, `/v1/statement/executing/${id}/y/1`)).status).toBe(508);
  expect(await answered(gateway)).toEqual({ '2xx': 1, '5xx': 2 });
});

test.skipIf(!hasOpenssl)('the same over HTTP/2', async () => {
  const { authority, certificate } = localCertificate();
  const gateway = await startSecureGateway(certificate, authority.cert, { clusters: [] });
  const client = closing(await http2Client(gateway.url, { ca: authority.cert }));
  const proxy = await startServer(async (incoming, response) => {
    const body = await buffer(incoming);
    const { via = '' } = incoming.headers;
    const lines = { ':path': incoming.url as string, ':method': incoming.method as string, via };
    const answer = await client.send(lines, body.toString());
    response.writeHead(answer.status).end(answer.text);
  });
  setClusters(gateway, proxy.url);
  const answer = await client.send({ ':path': '/v1/statement', ':method': 'POST', 'x-engine-user': 'u' }, 'SELECT 1');
  expect([answer.status, await answered(gateway)]).toEqual([508, { '5xx': 2 }]);
});
