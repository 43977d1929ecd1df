import { randomBytes } from 'node:crypto';
import { request as httpRequest } from 'node:http';
import { connect } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib';
import { RE2JS } from 're2js';
import { afterEach, describe, expect, test } from 'vitest';
import { headerValues } from '../../../src/model/http.ts';
import { startFloodingServer } from '../../support/floodingServer.ts';
import { freePort } from '../../support/freePort.ts';
import {
  closeAll,
  clusterAt,
  startGateway,
  startServer,
  type TestGatewayOptions,
  until,
} from '../../support/gateway.ts';
import { send, sendBytes, valuesOf } from '../../support/rawHttp.ts';

afterEach(closeAll);

const echo = async () => {
  const seen: { method: string; url: string; rawHeaders: string[]; body: Buffer }[] = [];
  const server = await startServer((request, response) => {
    void buffer(request).then((body) => {
      seen.push({ method: request.method!, url: request.url!, rawHeaders: request.rawHeaders, body });
      response.writeHead(200, { 'content-type': 'application/octet-stream' }).end(body);
    });
  });
  return { ...server, seen };
};

describe('paths and methods', () => {
  test.each(['GET', 'POST', 'PUT', 'DELETE'])('%s passes with path and query as sent', async (method) => {
    const engine = await echo();
    const gateway = await startGateway({ clusters: [clusterAt('a', engine.url)] });
    const answer = await send(gateway.url, '/v1/info/%7Ex//y?a=%20b&c', { method });
    expect(answer.status).toBe(200);
    expect(engine.seen[0]).toMatchObject({ method, url: '/v1/info/%7Ex//y?a=%20b&c' });
  });

  test('HEAD, 204 and 304 have no body and keep their headers', async () => {
    const engine = await startServer((request, response) => {
      const status = Number(/status=(\d+)/.exec(request.url!)?.[1] ?? 200);
      response.writeHead(status, status === 204 ? { etag: '"x"' } : { etag: '"x"', 'content-length': 5 });
      response.end(status === 200 && request.method !== 'HEAD' ? 'hello' : undefined);
    });
    const gateway = await startGateway({ clusters: [clusterAt('a', engine.url)] });
    const head = await send(gateway.url, '/v1/info', { method: 'HEAD' });
    expect([head.status, head.headers['content-length'], head.text]).toEqual([200, '5', '']);
    for (const status of [204, 304]) {
      const answer = await send(gateway.url, `/v1/info?status=${status}`);
      expect([answer.status, answer.headers.etag, answer.text]).toEqual([status, '"x"', '']);
    }
    expect((await send(gateway.url, '/v1/info')).text).toBe('hello');
  });

  test('OPTIONS is answered, PATCH and strangers are 405 with Allow', async () => {
    const gateway = await startGateway({ clusters: [] });
    const options = await send(gateway.url, '/v1/statement', { method: 'OPTIONS' });
    expect([options.status, options.headers.allow]).toEqual([200, 'GET, HEAD, POST, PUT, DELETE, OPTIONS']);
    for (const method of ['PATCH', 'PROPFIND', 'TRACE']) {
      const answer = await send(gateway.url, '/v1/statement', { method });
      expect([answer.status, answer.headers.allow]).toEqual([405, 'GET, HEAD, POST, PUT, DELETE, OPTIONS']);
    }
  });

  test.each([
    '/v1/info/../../gateway',
    '/v1/info/./x',
    '/ui/%2e%2e/gateway/backend/all',
    '/ui/%2E./x',
    '/v1/statement/..;x=1/y',
    '/ui/..%2fx',
    '/v1/query/..',
  ])('%s is refused with 400', async (path) => {
    const engine = await echo();
    const gateway = await startGateway({ clusters: [clusterAt('a', engine.url)] });
    expect((await send(gateway.url, path)).status).toBe(400);
    expect(engine.seen).toEqual([]);
  });

  test.each([
    ['/v1/statementX', true],
    ['/v1/node', true],
    ['/oauth2/callback', true],
    ['/v1/spooled/download/x', true],
    ['/v1/extra/thing', true],
    ['/v1/extra/thing/else', false],
    ['/v1/status', false],
    ['/V1/info', false],
    ['/gateway', false],
  ])('%s is proxied: %s', async (path, proxied) => {
    const engine = await echo();
    const gateway = await startGateway({
      clusters: [clusterAt('a', engine.url)],
      dataPlane: { extraWhitelistPaths: [RE2JS.compile('/v1/extra/[a-z]+')] },
    });
    expect((await send(gateway.url, path)).status).toBe(proxied ? 200 : 418);
  });

  test('a target in absolute form reaches the cluster in origin form', async () => {
    const engine = await echo();
    const gateway = await startGateway({ clusters: [clusterAt('a', engine.url)] });
    const answer = await sendBytes(
      gateway.port,
      'GET http://other:1/v1/info?x=1 HTTP/1.1\r\nHost: other:1\r\nConnection: close\r\n\r\n',
    );
    expect(answer).toMatch(/^HTTP\/1.1 200/);
    expect(engine.seen[0]!.url).toBe('/v1/info?x=1');
  });
});

describe('headers', () => {
  test('repeated ones are kept, hop-by-hop ones and own cookies dropped, Via and Host written', async () => {
    const engine = await echo();
    const gateway = await startGateway({
      clusters: [clusterAt('a', engine.url)],
      dataPlane: { ownCookies: ['eg-session'] },
    });
    await send(gateway.url, '/v1/info', {
      headers: [
        ...['X-Engine-Session', 'a=1', 'X-Engine-Session', 'b=2', 'x-latin', 'caf\u00e9'],
        ...['Connection', 'close, X-Hop', 'X-Hop', 'secret', 'Keep-Alive', 'timeout=5', 'TE', 'trailers'],
        ...['Authorization', 'Bearer x', 'Cookie', 'TG.OAUTH2=y; eg-session=mine; z=1', 'Accept-Encoding', 'gzip'],
      ],
    });
    const lines = engine.seen[0]!.rawHeaders;
    expect(valuesOf(lines, 'x-engine-session')).toEqual(['a=1', 'b=2']);
    expect(valuesOf(lines, 'x-latin')).toEqual(['caf\u00e9']);
    expect(valuesOf(lines, 'x-hop')).toEqual([]);
    expect(valuesOf(lines, 'te')).toEqual([]);
    expect(valuesOf(lines, 'connection')).toEqual(['keep-alive']);
    expect(valuesOf(lines, 'authorization')).toEqual(['Bearer x']);
    expect(valuesOf(lines, 'cookie')).toEqual(['TG.OAUTH2=y; z=1']);
    expect(valuesOf(lines, 'accept-encoding')).toEqual(['gzip']);
    expect(valuesOf(lines, 'via')).toEqual([expect.stringMatching(/^HTTP\/1\.1 EngineGateway \([0-9a-z]{8}\)$/)]);
    expect(valuesOf(lines, 'host')).toEqual([new URL(engine.url).host]);
  });

  test('of the answer: repeated ones are kept, hop-by-hop ones dropped', async () => {
    const engine = await startServer((_request, response) => {
      response.writeHead(200, 'Fine', [
        ...['Set-Cookie', 'a=1', 'Set-Cookie', 'b=2', 'Location', 'http://else/', 'X-Hop', '1'],
        ...['Connection', 'close, x-hop', 'Proxy-Connection', 'x', 'Content-Length', '2'],
      ]);
      response.end('ok');
    });
    const gateway = await startGateway({ clusters: [clusterAt('a', engine.url)] });
    const answer = await send(gateway.url, '/v1/info');
    expect(answer.headers['set-cookie']).toEqual(['a=1', 'b=2']);
    expect(answer.headers.location).toBe('http://else/');
    expect(answer.headers['x-hop']).toBeUndefined();
    expect(answer.headers['proxy-connection']).toBeUndefined();
  });

  test.each(['X-Engine-', 'X-Trino-'])('%s headers and cookies stay although Connection names them', async (prefix) => {
    const engine = await startServer((request, response) => {
      response.writeHead(200, [
        ...[
          'Connection',
          `${prefix}set-session, set-cookie, x-hop`,
          `${prefix}Set-Session`,
          'a=1',
          'Set-Cookie',
          'a=1',
        ],
        ...['X-Hop', '1', 'X-Got', `${headerValues(request.rawHeaders, 'cookie')}`],
        ...['X-Got', `${headerValues(request.rawHeaders, `${prefix}user`.toLowerCase())}`],
      ]);
      response.end('ok');
    });
    const gateway = await startGateway({ clusters: [clusterAt('a', engine.url)] });
    const { headers } = await send(gateway.url, '/v1/info', {
      headers: ['Connection', `${prefix}USER, Cookie`, `${prefix}User`, 'eve', 'Cookie', 'z=1'],
    });
    expect(headers['x-got']).toBe('z=1, eve');
    expect(headers[`${prefix}set-session`.toLowerCase()]).toBe('a=1');
    expect(headers['set-cookie']).toEqual(['a=1']);
    expect(headers['x-hop']).toBeUndefined();
  });

  const trusted: Partial<TestGatewayOptions> = { dataPlane: { trustPeer: () => true } };
  /** Header lines that a cluster gets of a request. */
  const forwarded = async (headers: string[], more: Partial<TestGatewayOptions> = {}) => {
    const engine = await echo();
    const gateway = await startGateway({ clusters: [clusterAt('a', engine.url)], ...more });
    await send(gateway.url, '/v1/info', { headers });
    return engine.seen[0]!.rawHeaders;
  };

  test('forwarded headers of strangers are replaced, -Prefix dropped', async () => {
    const lines = await forwarded([
      ...['Host', 'gw.example:8443', 'X-Forwarded-For', '6.6.6.6', 'X-Forwarded-Proto', 'https'],
      ...['X-Forwarded-Prefix', '/evil', 'Forwarded', 'for=6.6.6.6'],
    ]);
    expect(valuesOf(lines, 'x-forwarded-for')).toEqual(['127.0.0.1']);
    expect(valuesOf(lines, 'x-forwarded-proto')).toEqual(['http']);
    expect(valuesOf(lines, 'x-forwarded-host')).toEqual(['gw.example']);
    expect(valuesOf(lines, 'x-forwarded-port')).toEqual(['8443']);
    expect(valuesOf(lines, 'x-forwarded-prefix')).toEqual([]);
    expect(valuesOf(lines, 'forwarded')).toEqual([]);
  });

  test('those of a trusted proxy are believed, extended and rewritten together', async () => {
    const lines = await forwarded(
      [
        ...['X-Forwarded-For', '10.0.0.7', 'X-Forwarded-Proto', 'https', 'X-Forwarded-Host', 'gw.example'],
        ...['X-Forwarded-Prefix', '/sql', 'Forwarded', 'for=10.0.0.7;proto=https;host=gw.example'],
      ],
      trusted,
    );
    expect(valuesOf(lines, 'x-forwarded-for')).toEqual(['10.0.0.7, 127.0.0.1']);
    expect(valuesOf(lines, 'x-forwarded-proto')).toEqual(['https']);
    expect(valuesOf(lines, 'x-forwarded-host')).toEqual(['gw.example']);
    expect(valuesOf(lines, 'x-forwarded-port')).toEqual(['443']);
    expect(valuesOf(lines, 'x-forwarded-prefix')).toEqual(['/sql']);
    expect(valuesOf(lines, 'forwarded')).toEqual(['for=10.0.0.7;host="gw.example:443";proto=https, for=127.0.0.1']);
  });

  test('several lines of a trusted chain are one list, in any letter case', async () => {
    const lines = await forwarded(
      [
        ...['Host', 'inner:80', 'x-forwarded-for', '10.0.0.7', 'X-FORWARDED-FOR', '10.0.0.8'],
        ...['X-Forwarded-Host', 'outer.example', 'x-forwarded-port', '8443'],
      ],
      trusted,
    );
    expect(valuesOf(lines, 'x-forwarded-for')).toEqual(['10.0.0.7, 10.0.0.8, 127.0.0.1']);
    expect(valuesOf(lines, 'x-forwarded-host')).toEqual(['outer.example']);
    expect(valuesOf(lines, 'x-forwarded-port')).toEqual(['8443']);
    expect(valuesOf(lines, 'forwarded')).toEqual([]);
  });

  test('what trusted proxies write in other forms is read, and what cannot be read is left out', async () => {
    const engine = await echo();
    const gateway = await startGateway({ clusters: [clusterAt('a', engine.url)], ...trusted });
    const view = async (headers: Record<string, string>) => {
      await send(gateway.url, '/v1/info', { headers: ['Host', 'gw:8080', ...Object.entries(headers).flat()] });
      const lines = engine.seen.at(-1)!.rawHeaders;
      return ['for', 'proto', 'host', 'port'].map((name) => valuesOf(lines, `x-forwarded-${name}`).join()).join(' ');
    };
    const rows: readonly (readonly [headers: Record<string, string>, view: string])[] = [
      [{}, '127.0.0.1 http gw 8080'],
      [{ 'X-Forwarded-For': '1.1.1.1, 2.2.2.2' }, '1.1.1.1, 2.2.2.2, 127.0.0.1 http gw 8080'],
      [{ 'X-Forwarded-Proto': 'HTTPS, http' }, '127.0.0.1 https gw 8080'],
      [{ 'X-Forwarded-Proto': 'gopher' }, '127.0.0.1 http gw 8080'],
      [{ 'X-Forwarded-Proto': 'https', 'X-Forwarded-Host': 'pub.example' }, '127.0.0.1 https pub.example 443'],
      [{ 'X-Forwarded-Host': 'pub.example:8443, inner' }, '127.0.0.1 http pub.example 8443'],
      [{ 'X-Forwarded-Host': 'pub.example', 'X-Forwarded-Port': 'x' }, '127.0.0.1 http pub.example 80'],
      [{ Forwarded: 'for=1.1.1.1;proto=https;host=pub.example' }, '1.1.1.1, 127.0.0.1 https pub.example 443'],
      [
        { Forwarded: 'For="[2001:db8::1]:99"; Proto=https; Host="pub:8443", for=2.2.2.2' },
        '2001:db8::1, 127.0.0.1 https pub 8443',
      ],
      [{ Forwarded: 'nonsense', 'X-Forwarded-For': '3.3.3.3' }, '3.3.3.3, 127.0.0.1 http gw 8080'],
    ];
    for (const [headers, expected] of rows) expect([headers, await view(headers)]).toEqual([headers, expected]);
  });

  test('none are sent with forwardedHeadersEnabled: false', async () => {
    const lines = await forwarded(['X-Forwarded-For', '1.1.1.1', 'Forwarded', 'for=1.1.1.1'], {
      ...trusted,
      settings: { forwardedHeadersEnabled: false },
    });
    expect(lines.filter((line) => /forwarded/i.test(line))).toEqual([]);
  });
});

describe('bodies', () => {
  test('binary ones pass untouched both ways, with a length and chunked', async () => {
    const engine = await echo();
    const gateway = await startGateway({ clusters: [clusterAt('a', engine.url)] });
    const body = randomBytes(3_000_000);
    const plain = await send(gateway.url, '/v1/info', { method: 'PUT', body });
    expect(plain.body.equals(body)).toBe(true);
    const chunked = await send(gateway.url, '/v1/info', {
      method: 'PUT',
      body,
      headers: ['Transfer-Encoding', 'chunked'],
    });
    expect(chunked.body.equals(body)).toBe(true);
    expect(valuesOf(engine.seen[0]!.rawHeaders, 'content-length')).toEqual(['3000000']);
    expect(valuesOf(engine.seen[1]!.rawHeaders, 'transfer-encoding')).toEqual(['chunked']);
  });

  test.each([
    ['PUT', '/v1/info', 'gzip', gzipSync],
    ['GET', '/v1/statement/executing/20261121_015745_00000_kvhrm/y/1', 'gzip', gzipSync],
    ['GET', '/v1/statement/executing/20261121_015745_00000_kvhrm/y/1', 'br', brotliCompressSync],
    ['GET', '/v1/query/20261121_015745_00000_kvhrm', 'zstd', zstdCompressSync],
    ['GET', '/ui/api/stats', 'deflate', deflateSync],
    ['GET', '/v1/spooled/download/x', 'gzip, br', (bytes: Buffer) => brotliCompressSync(gzipSync(bytes))],
    ['GET', '/v1/spooled/download/x', 'own-code', (bytes: Buffer) => bytes],
    ['POST', '/v1/statement', 'zstd', zstdCompressSync],
  ] as const)('compressed ones pass untouched: %s %s, %s', async (method, path, encoding, compress) => {
    const packed = compress(randomBytes(20_000));
    const seen: { accepts: string | undefined; body: Buffer }[] = [];
    const engine = await startServer((request, response) => {
      // Asked for the cluster of the query, of which the gateway has not heard.
      if (request.method === 'GET' && request.url === '/v1/info') {
        response.end('{"coordinatorId":"kvhrm"}');
        return;
      }
      void buffer(request).then((body) => {
        seen.push({ accepts: request.headers['accept-encoding'], body });
        const type = { 'content-type': 'application/octet-stream', 'content-encoding': encoding };
        response.writeHead(200, type).end(packed);
      });
    });
    const gateway = await startGateway({ clusters: [clusterAt('a', engine.url)] });
    const sent = method === 'GET' ? {} : { body: packed };
    const headers = ['Accept-Encoding', 'gzip, br;q=0.5', 'Content-Encoding', encoding];
    const answer = await send(gateway.url, path, { method, headers, ...sent });
    expect([answer.status, answer.headers['content-encoding']]).toEqual([200, encoding]);
    expect(answer.body.equals(packed)).toBe(true);
    expect(seen).toHaveLength(1);
    if (method !== 'GET') expect(seen[0]!.body.equals(packed)).toBe(true);
    // Submissions are answered plainly, so that the query id can be read.
    expect(seen[0]!.accepts).toBe(method === 'POST' ? undefined : 'gzip, br;q=0.5');
  });

  test('over the limit: 413, announced or not', async () => {
    const engine = await echo();
    const gateway = await startGateway({ clusters: [clusterAt('a', engine.url)], settings: { maxBodySize: 1000 } });
    for (const path of ['/v1/info', '/v1/statement']) {
      for (const headers of [[], ['Transfer-Encoding', 'chunked']]) {
        const method = path === '/v1/info' ? 'PUT' : 'POST';
        const answer = await send(gateway.url, path, { method, body: Buffer.alloc(2_000_000), headers });
        expect([path, answer.status]).toEqual([path, 413]);
      }
    }
    expect(engine.seen).toEqual([]);
  });

  test('a slow client holds the cluster back', async () => {
    const total = 200 * 65_536;
    const engine = await startFloodingServer(total);
    const gateway = await startGateway({ clusters: [clusterAt('a', engine.url)] });
    const response = await new Promise<import('node:http').IncomingMessage>((resolve) => {
      httpRequest(`${gateway.url}/v1/info`, { agent: false }, resolve).end();
    });
    // Not read: what is on the way is what sockets and buffers hold, far less than the whole.
    await engine.heldBack();
    expect(engine.written()).toBeLessThan(total);
    expect((await buffer(response)).length).toBe(total);
  });

  test('trailers of an answer arrive', async () => {
    const engine = await startServer((_request, response) => {
      response.writeHead(200, { trailer: 'x-sum' });
      response.write('abc');
      response.addTrailers({ 'x-sum': '42' });
      response.end();
    });
    const gateway = await startGateway({ clusters: [clusterAt('a', engine.url)] });
    const answer = await send(gateway.url, '/v1/info');
    expect([answer.text, answer.trailers['x-sum']]).toEqual(['abc', '42']);
  });

  test('an answer that comes before the body was sent reaches the client', async () => {
    const engine = await startServer((request, response) => {
      response.writeHead(403).end('no');
      request.resume();
    });
    const gateway = await startGateway({ clusters: [clusterAt('a', engine.url)] });
    const answer = await send(gateway.url, '/v1/info', { method: 'PUT', body: Buffer.alloc(8_000_000) });
    expect([answer.status, answer.text]).toEqual([403, 'no']);
  });

  test('Expect: 100-continue is answered and not passed on', async () => {
    const engine = await echo();
    const gateway = await startGateway({ clusters: [clusterAt('a', engine.url)] });
    const text = await new Promise<string>((resolve, reject) => {
      const request = httpRequest(`${gateway.url}/v1/info`, {
        method: 'PUT',
        agent: false,
        headers: { expect: '100-continue', 'content-length': 3 },
      });
      request.on('error', reject);
      request.on('continue', () => request.end('abc'));
      request.on('response', (response) => void buffer(response).then((body) => resolve(body.toString())));
      request.flushHeaders();
    });
    expect(text).toBe('abc');
    expect(valuesOf(engine.seen[0]!.rawHeaders, 'expect')).toEqual([]);
  });
});

describe('failures', () => {
  test('a refused connection: 502 for a follow-up, reported to the health monitors', async () => {
    const port = await freePort();
    const gateway = await startGateway({ clusters: [clusterAt('a', `http://127.0.0.1:${port}`)] });
    const answer = await send(gateway.url, '/v1/info', { method: 'PUT', body: 'x' });
    expect([answer.status, answer.text]).toEqual([502, 'Request to remote Engine server failed']);
    expect(gateway.connectionFailures).toEqual(['a: connection refused']);
  });

  test('no answer in time: 502 that says so', async () => {
    const engine = await startServer(() => undefined);
    const gateway = await startGateway({ clusters: [clusterAt('a', engine.url)], settings: { asyncTimeout: 300 } });
    const answer = await send(gateway.url, '/v1/info');
    expect([answer.status, answer.text]).toEqual([502, 'Request to remote Engine server timed out after 300.00ms']);
  });

  test('an answer that breaks off ends the connection of the client', async () => {
    const engine = await startServer((_request, response) => {
      response.writeHead(200, { 'content-length': 100 });
      response.write('abc', () => response.destroy());
    });
    const gateway = await startGateway({ clusters: [clusterAt('a', engine.url)] });
    await expect(send(gateway.url, '/v1/info')).rejects.toThrow();
  });

  test('an answer that is not HTTP: 502', async () => {
    const engine = await startServer((_request, response) => {
      response.socket!.end('SSH-2.0-x\r\n\r\n');
    });
    const gateway = await startGateway({ clusters: [clusterAt('a', engine.url)] });
    expect((await send(gateway.url, '/v1/info')).status).toBe(502);
  });

  test('the cluster sees that the client went away', async () => {
    let closed = false;
    const engine = await startServer((_request, response) => {
      response.on('close', () => {
        closed = true;
      });
    });
    const gateway = await startGateway({ clusters: [clusterAt('a', engine.url)] });
    const request = httpRequest(`${gateway.url}/v1/info`, { agent: false });
    request.on('error', () => undefined);
    request.end();
    await until(() => gateway.server.listening && closed === false, 'the request');
    await until(async () => {
      const text = await gateway.registry.metrics();
      return text.includes('engine_gateway_cluster_requests_in_flight{cluster="a"} 1');
    }, 'the request to be on its way');
    request.destroy();
    await until(() => closed, 'the cancelled request');
    await until(async () => {
      const text = await gateway.registry.metrics();
      return text.includes('engine_gateway_cluster_requests_in_flight{cluster="a"} 0');
    }, 'nothing to be on its way');
  });

  test('more requests than may wait: 503', async () => {
    const engine = await startServer(() => undefined);
    const gateway = await startGateway({
      clusters: [clusterAt('a', engine.url)],
      upstream: { maxConnectionsPerServer: 1, maxRequestsQueuedPerDestination: 1 },
    });
    const sockets = [1, 2].map(() => {
      const socket = connect(gateway.port, '127.0.0.1', () => socket.write('GET /v1/info HTTP/1.1\r\nHost: x\r\n\r\n'));
      socket.on('error', () => undefined);
      return socket;
    });
    await until(async () => {
      const text = await gateway.registry.metrics();
      return text.includes('engine_gateway_cluster_requests_in_flight{cluster="a"} 2');
    }, 'two requests on their way');
    const answer = await send(gateway.url, '/v1/info');
    expect([answer.status, answer.headers['retry-after']]).toEqual([503, '1']);
    for (const socket of sockets) socket.destroy();
  });
});
