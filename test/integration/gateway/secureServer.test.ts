import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import type { RequestListener } from 'node:http';
import { constants } from 'node:http2';
import { request as httpsRequest } from 'node:https';
import { buffer } from 'node:stream/consumers';
import { connect } from 'node:tls';
import { Agent, request } from 'undici';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { startSimulatedEngine } from '../../../demo/simulatedEngine.ts';
import type { GatewayServerOptions } from '../../../src/gateway/server/gatewayServer.ts';
import { certificateFolder, hasOpenssl, type TestAuthority, type TestCertificate } from '../../support/certificates.ts';
import { startFloodingServer } from '../../support/floodingServer.ts';
import { closeAll, closing, clusterAt, startServer, type TestGatewayOptions, until } from '../../support/gateway.ts';
import { http2Client } from '../../support/http2Client.ts';
import { valuesOf } from '../../support/rawHttp.ts';
import { rawHttp2 } from '../../support/rawHttp2.ts';
import { startSecureGateway } from '../../support/secureGateway.ts';

describe.skipIf(!hasOpenssl)('clients over TLS', () => {
  let folder: ReturnType<typeof certificateFolder>;
  let authority: TestAuthority;
  let certificate: TestCertificate;

  beforeAll(() => {
    folder = certificateFolder();
    authority = folder.authority('clients');
    certificate = authority.issue(['DNS:localhost', 'IP:127.0.0.1']);
  });
  afterAll(() => folder.dispose());
  afterEach(closeAll);

  async function secureGateway(
    options: TestGatewayOptions,
    limits: Partial<GatewayServerOptions> = {},
    clientCertificates: 'ignore' | 'require' = 'ignore',
  ) {
    const gateway = await startSecureGateway(certificate, authority.cert, options, limits, clientCertificates);
    return { ...gateway, client: async () => closing(await http2Client(gateway.url, { ca: authority.cert })) };
  }

  /** A cluster that answers with what it got. */
  async function echo() {
    const seen: { method: string; url: string; rawHeaders: string[]; body: Buffer }[] = [];
    const handler: RequestListener = (request, response) => {
      void buffer(request).then((body) => {
        seen.push({ method: request.method!, url: request.url!, rawHeaders: request.rawHeaders, body });
        response.writeHead(200, 'Fine', ['Content-Type', 'text/x', 'Set-Cookie', 'a=1', 'Set-Cookie', 'b=2']).end(body);
      });
    };
    const server = await startServer(handler, { maxHeaderSize: 1024 ** 2 });
    return { ...server, seen };
  }

  function overHttp1(url: string, path: string, headers: Record<string, string>, body?: string) {
    return new Promise<{ status: number; rawHeaders: string[]; text: string }>((resolve, reject) => {
      const outgoing = httpsRequest(`${url}${path}`, {
        ca: authority.cert,
        agent: false,
        headers,
        method: body === undefined ? 'GET' : 'POST',
      });
      outgoing.once('error', reject);
      outgoing.once('response', (response) => {
        void buffer(response).then((bytes) =>
          resolve({ status: response.statusCode!, rawHeaders: response.rawHeaders, text: bytes.toString() }),
        );
      });
      outgoing.end(body);
    });
  }

  test('a cluster receives the same by HTTP/1.1 and HTTP/2', async () => {
    const engine = await echo();
    const gateway = await secureGateway({ clusters: [clusterAt('a', engine.url)] });
    const own = { 'x-engine-user': 'u', cookie: 'one=1; two=2', 'content-type': 'text/plain' };
    const first = await overHttp1(gateway.url, '/v1/info?x=%20', own, 'body');
    const client = await gateway.client();
    const second = await client.send(
      { ':path': '/v1/info?x=%20', ':method': 'POST', ...own, 'content-length': 4 },
      'body',
    );
    expect([first.status, first.text, second.status, second.text]).toEqual([200, 'body', 200, 'body']);
    expect(second.headers['set-cookie']).toEqual(['a=1', 'b=2']);
    const received = engine.seen.map(({ method, url, rawHeaders, body }) => ({
      line: `${method} ${url}`,
      body: body.toString(),
      headers: Object.fromEntries(
        rawHeaders.flatMap((name, index) => (index % 2 === 0 ? [[name.toLowerCase(), rawHeaders[index + 1]]] : [])),
      ),
    }));
    expect(received[0]!.headers).toMatchObject({
      'x-forwarded-proto': 'https',
      'x-forwarded-host': 'localhost',
      cookie: own.cookie,
    });
    expect(received[0]!.headers.via).toMatch(/^HTTP\/1\.1 /);
    expect(received[1]!.headers.via).toMatch(/^HTTP\/2\.0 /);
    const same = ({ headers: { via, connection, ...headers }, ...rest }: (typeof received)[0]) => ({
      ...rest,
      headers,
    });
    expect(same(received[1]!)).toEqual(same(received[0]!));
  });

  test('cookies in many lines become one; a body without a length passes', async () => {
    const engine = await echo();
    const gateway = await secureGateway({ clusters: [clusterAt('a', engine.url)] });
    const client = await gateway.client();
    const answer = await client.send(
      { ':path': '/v1/info', ':method': 'PUT', cookie: ['one=1', 'two=2'] as never },
      'text',
    );
    expect(answer.text).toBe('text');
    expect(valuesOf(engine.seen[0]!.rawHeaders, 'cookie')).toEqual(['one=1; two=2']);
    expect(valuesOf(engine.seen[0]!.rawHeaders, 'transfer-encoding')).toEqual(['chunked']);
  });

  test('a client of the statement protocol follows its query', async () => {
    const engine = closing(await startSimulatedEngine({ name: 'a', record: true }));
    const gateway = await secureGateway({ clusters: [clusterAt('a', engine.url)] });
    const dispatcher = closing(new Agent({ allowH2: true, connect: { ca: authority.cert } }));
    const ask = async (url: string, body?: string) => {
      const method = body === undefined ? 'GET' : 'POST';
      const answer = await request(url, { dispatcher, method, headers: { 'X-Engine-User': 'u' }, body: body ?? null });
      return (await answer.body.json()) as { nextUri?: string; data?: unknown[]; id: string };
    };
    let answer = await ask(`${gateway.url}/v1/statement`, 'SELECT 1');
    const rows = [...(answer.data ?? [])];
    for (let turn = 0; answer.nextUri !== undefined && turn < 50; turn++) {
      expect(answer.nextUri.startsWith(`${gateway.url}/v1/statement/`)).toBe(true);
      answer = await ask(answer.nextUri);
      rows.push(...(answer.data ?? []));
    }
    expect(rows).toEqual([[1]]);
    expect(gateway.records.map((record) => record.queryId)).toEqual([answer.id]);
    expect(engine.requests.every(({ rawHeaders }) => valuesOf(rawHeaders, 'via')[0]?.startsWith('HTTP/2.0 '))).toBe(
      true,
    );
  });

  test('large bodies both ways, many at once on one connection', async () => {
    const engine = await echo();
    const gateway = await secureGateway({ clusters: [clusterAt('a', engine.url)] });
    const client = await gateway.client();
    const bodies = Array.from({ length: 8 }, () => randomBytes(3_000_000));
    const responses = await Promise.all(
      bodies.map((body) => client.send({ ':path': '/v1/info', ':method': 'PUT' }, body)),
    );
    expect(responses.map(({ body }, index) => body.equals(bodies[index]!))).toEqual(bodies.map(() => true));
  });

  test.each([
    ['/v1/statement', constants.NGHTTP2_CANCEL],
    ['/v1/statement', constants.NGHTTP2_NO_ERROR],
    ['/v1/info', constants.NGHTTP2_CANCEL],
    ['/v1/info', constants.NGHTTP2_NO_ERROR],
  ])('an upload to %s that the client resets (%i) never reaches a cluster as a whole', async (path, code) => {
    let ended = 0;
    let began = 0;
    const engine = await startServer((request, response) => {
      began++;
      request.on('error', () => undefined).on('end', () => ended++);
      request.resume();
      void response;
    });
    const gateway = await secureGateway({ clusters: [clusterAt('a', engine.url)] });
    const upload = closing(await rawHttp2(gateway.port, authority.cert));
    upload.headers(1, 'POST', path);
    upload.data(1, Buffer.from('SELECT 1'), false);
    const received = () => gateway.openRequests.count === 1 && (path !== '/v1/info' || began === 1);
    await until(received, 'the start of the upload');
    upload.reset(1, code);
    await until(() => gateway.openRequests.count === 0, 'the end of the request');
    const client = await gateway.client();
    expect((await client.send({ ':path': '/v1/statement', ':method': 'OPTIONS' })).status).toBe(200);
    expect(ended).toBe(0);
    if (path === '/v1/statement') expect(began).toBe(0);
  });

  test('a client that goes away cancels its request at the cluster', async () => {
    let gone = false;
    const engine = await startServer((_request, response) => {
      response.on('close', () => {
        gone = true;
      });
      response.write('begin');
    });
    const gateway = await secureGateway({ clusters: [clusterAt('a', engine.url)] });
    const client = await gateway.client();
    const stream = client.session.request({ ':path': '/v1/info' });
    await new Promise((resolve) => stream.once('data', resolve));
    stream.close(constants.NGHTTP2_CANCEL);
    await until(() => gone, 'the cancelled request');
  });

  test('a client that does not read holds the cluster back', async () => {
    const total = 400 * 65_536;
    const engine = await startFloodingServer(total);
    const gateway = await secureGateway({ clusters: [clusterAt('a', engine.url)] });
    const client = await gateway.client();
    const stream = client.session.request({ ':path': '/v1/info' });
    await engine.heldBack();
    // What is on the way is what windows, sockets and buffers hold.
    expect(engine.written()).toBeLessThan(total / 2);
    expect((await buffer(stream)).length).toBe(total);
  });

  test('an idle connection is closed', async () => {
    const gateway = await secureGateway({ clusters: [] }, { idleTimeout: 200 });
    const client = await gateway.client();
    await client.send({ ':path': '/v1/statement', ':method': 'OPTIONS' });
    await until(() => client.session.closed || client.session.destroyed, 'the end of the connection');
  });

  test('what is not TLS is cut off; other clients are served', async () => {
    const gateway = await secureGateway({ clusters: [] });
    const port = Number(new URL(gateway.url).port);
    const plain = await fetch(`http://127.0.0.1:${port}/`).then(
      () => 'answered',
      () => 'refused',
    );
    expect(plain).toBe('refused');
    const old = connect({ port, host: '127.0.0.1', ca: authority.cert, maxVersion: 'TLSv1.1', minVersion: 'TLSv1.1' });
    await new Promise((resolve) => old.once('error', resolve));
    const client = await gateway.client();
    expect((await client.send({ ':path': '/nowhere' })).status).toBe(404);
  });

  test.each([
    [true, 'h2'],
    [false, 'http/1.1'],
  ])('server.http2: %s: a client that knows both speaks %s', async (http2, protocol) => {
    const gateway = await secureGateway({ clusters: [] }, { http2 });
    const ALPNProtocols = ['h2', 'http/1.1'];
    const socket = connect({ port: gateway.port, host: '127.0.0.1', ca: authority.cert, ALPNProtocols });
    closing({ close: async () => void socket.destroy() });
    await once(socket, 'secureConnect', { signal: AbortSignal.timeout(10_000) });
    expect(socket.alpnProtocol).toBe(protocol);
  });

  test('over HTTP/1.1 alone a header line may have more than 64 kB, and clients that show a certificate are served', async () => {
    const engine = await echo();
    const gateway = await secureGateway({ clusters: [clusterAt('a', engine.url)] }, { http2: false });
    const statement = `big=${'x'.repeat(100_000)}`;
    const headers = { 'x-engine-user': 'u', 'x-engine-prepared-statement': statement, 'content-type': 'text/plain' };
    const answer = await overHttp1(gateway.url, '/v1/info', headers, 'body');
    expect([answer.status, answer.text]).toEqual([200, 'body']);
    expect(valuesOf(engine.seen[0]!.rawHeaders, 'x-engine-prepared-statement')).toEqual([statement]);
    const own = authority.issue(['DNS:client']);
    const guarded = await secureGateway({ clusters: [] }, { http2: false }, 'require');
    const status = (shown: object) =>
      new Promise<number | undefined>((resolve, reject) => {
        const outgoing = httpsRequest(`${guarded.url}/nowhere`, { ca: authority.cert, agent: false, ...shown });
        outgoing.once('response', (response) => resolve(response.resume().statusCode)).once('error', reject);
        outgoing.end();
      });
    expect(await status({ cert: own.cert, key: own.key })).toBe(404);
    await expect(status({})).rejects.toThrow();
  });
});
