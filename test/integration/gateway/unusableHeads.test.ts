import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import { createSecureGatewayServer } from '../../../src/gateway/server/gatewayServer.ts';
import { hasOpenssl, localCertificate } from '../../support/certificates.ts';
import { defaultServerOptions } from '../../support/defaults.ts';
import { closeAll, closing, clusterAt, startGateway, type TestGateway } from '../../support/gateway.ts';
import { http2Client } from '../../support/http2Client.ts';
import { send } from '../../support/rawHttp.ts';

afterEach(closeAll);

const BODY = '{"id":"20260101_000000_00001_aaaaa"}';
const responseWith = (statusLine: string, ...lines: readonly string[]) =>
  `${statusLine}\r\n${[...lines, `Content-Length: ${BODY.length}`].join('\r\n')}\r\n\r\n${BODY}`;

/** Answers that HTTP parsers take, and that cannot be sent on. */
const unusable: readonly (readonly [string, string])[] = [
  ['a reason phrase in Latin-1', responseWith('HTTP/1.1 200 d\xe9j\xe0')],
  ['a reason phrase in UTF-8', responseWith('HTTP/1.1 200 \xe5\xae\x8c\xe6\x88\x90')],
  ['a reason phrase with a control character', responseWith('HTTP/1.1 200 a\x07b')],
  ['a reason phrase with DEL', responseWith('HTTP/1.1 201 a\x7fb')],
  ['a reason phrase with a tab', responseWith('HTTP/1.1 500 a\tb')],
  ['a reason phrase of status 204', 'HTTP/1.1 204 \xe9\r\n\r\n'],
  ['a header value with a control character', responseWith('HTTP/1.1 200 OK', 'X-A: a\x01b')],
  ['a header value with DEL', responseWith('HTTP/1.1 200 OK', 'X-A: a\x7fb')],
  ['such a value and status 204', 'HTTP/1.1 204 No Content\r\nX-A: a\x7fb\r\n\r\n'],
  ['such a value and status 304', 'HTTP/1.1 304 Not Modified\r\nX-A: a\x7fb\r\n\r\n'],
];

/** What the gateway asks of a cluster before it sends a request for a query that it does not know. */
const info = '{"coordinatorId":"bbbbb"}';
const infoResponse = `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${info.length}\r\n\r\n${info}`;

/** A cluster that answers every request with these bytes, except for the one about itself. */
async function clusterOf(answer: string): Promise<string> {
  const server = createTcpServer((socket) => {
    socket.on('error', () => undefined);
    socket.on('data', (bytes) => {
      socket.write(bytes.toString('latin1').startsWith('GET /v1/info ') ? infoResponse : answer, 'latin1');
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closing({
    close: () => {
      server.close();
      return Promise.resolve();
    },
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** A request to each way through the gateway: a submission, a follow-up whose cluster is asked for, a page. */
const requests = [
  ['POST', '/v1/statement'],
  ['GET', '/v1/statement/executing/20260101_000000_00002_bbbbb/y/1'],
  ['GET', '/ui/page'],
] as const;

const ask = (gateway: Pick<TestGateway, 'url'>, method: string, path: string) =>
  send(gateway.url, path, {
    method,
    headers: ['X-Engine-User', 'u', 'Connection', 'close'],
    ...(method === 'POST' ? { body: 'SELECT 1' } : {}),
  });

describe('a head that cannot be sent to a client', () => {
  test.for(unusable)('%s: 502 on every way, and the gateway goes on', async ([_name, answer]) => {
    const gateway = await startGateway({ clusters: [clusterAt('a', await clusterOf(answer))] });
    for (const [method, path] of requests) {
      const { status, text, headers } = await ask(gateway, method, path);
      expect({ path, status, text }).toEqual({
        path,
        status: 502,
        text: expect.stringMatching(/^(Failed reading response from|Request to) remote Engine server/),
      });
      expect(headers['x-a']).toBeUndefined();
    }
  });

  test('trailers that cannot be sent cut the answer', async () => {
    const answer =
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-A\r\n\r\n2\r\n{}\r\n0\r\nX-A: a\x7fb\r\n\r\n';
    const gateway = await startGateway({ clusters: [clusterAt('a', await clusterOf(answer))] });
    await expect(ask(gateway, 'GET', '/ui/page')).rejects.toThrow(/aborted|hang up|reset/);
  });

  test('a printable reason phrase of the cluster reaches the client', async () => {
    const gateway = await startGateway({
      clusters: [clusterAt('a', await clusterOf(responseWith('HTTP/1.1 299 So ~ so')))],
    });
    const response = await fetch(`${gateway.url}/ui/page`);
    expect([response.status, response.statusText]).toEqual([299, 'So ~ so']);
  });
});

describe.skipIf(!hasOpenssl)('a head that cannot be sent to a client over HTTP/2', () => {
  const { authority, certificate } = localCertificate();

  test.for([...unusable])('%s: 502, and the connection goes on', async ([_name, answer]) => {
    const gateway = await startGateway({ clusters: [clusterAt('a', await clusterOf(answer))] });
    const { server, closeAllConnections } = createSecureGatewayServer(
      { ...defaultServerOptions(), dataPlane: gateway.dataPlane, api: null },
      { context: { cert: certificate.cert, key: certificate.key, ca: authority.cert }, chain: [] },
      'ignore',
    );
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    closing({
      close: () => {
        closeAllConnections();
        return new Promise((resolve) => server.close(resolve));
      },
    });
    const url = `https://localhost:${(server.address() as AddressInfo).port}`;
    const client = closing(await http2Client(url, { ca: authority.cert }));
    for (const [method, path] of requests) {
      const head = { ':method': method, ':path': path, 'x-engine-user': 'u' };
      const { status, text, headers } = await client.send(head, method === 'POST' ? 'SELECT 1' : undefined);
      const message = expect.stringMatching(/^(Failed reading response from|Request to) remote Engine server/);
      expect({ path, status, text }).toEqual({ path, status: 502, text: message });
      expect([headers['x-a'], headers.etag]).toEqual([undefined, undefined]);
    }
  });
});
