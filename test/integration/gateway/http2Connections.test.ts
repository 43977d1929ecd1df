/** Which connections over TLS speak HTTP/2, and which are given HTTP/1.1. */
import { createServer } from 'node:http';
import { type ClientHttp2Session, connect as connectHttp2, constants } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { connect } from 'node:tls';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import { afterEach, describe, expect, test } from 'vitest';
import { Http2Connections } from '../../../src/gateway/server/http2Connections.ts';
import { hasOpenssl, localCertificate } from '../../support/certificates.ts';
import { closeAll, closing, clusterAt } from '../../support/gateway.ts';
import { http2Client } from '../../support/http2Client.ts';
import { startSecureGateway } from '../../support/secureGateway.ts';

const HOUR = 3_600_000;
const BOTH = ['h2', 'http/1.1'];

describe.skipIf(!hasOpenssl)('connections over TLS', () => {
  const { authority, certificate } = localCertificate();
  afterEach(closeAll);

  /** A gateway, before a cluster whose answers have a header of so many bytes, and which never answers `/ui/stuck`. */
  async function world({ connections = 100, responseHeader = 10 } = {}) {
    let lines: readonly string[] = [];
    let stuck = 0;
    const engine = createServer({ maxHeaderSize: 1024 ** 2 }, (request, response) => {
      if (request.url === '/ui/stuck') {
        stuck++;
        return;
      }
      lines = request.rawHeaders;
      response.setHeader('x-engine-added-prepare', 'a'.repeat(responseHeader)).end('served');
    });
    await new Promise<void>((resolve) => engine.listen(0, '127.0.0.1', resolve));
    closing({
      close: () => {
        engine.closeAllConnections();
        return new Promise((resolve) => engine.close(resolve));
      },
    });
    const clock = { time: 0, now: () => 0, monotonic: () => clock.time };
    const registry = new Registry();
    const log: Record<string, unknown>[] = [];
    const logger = pino({ base: null }, { write: (line: string) => void log.push(JSON.parse(line)) });
    const http2Connections = new Http2Connections(connections, clock, logger, registry);
    const gateway = await startSecureGateway(
      certificate,
      authority.cert,
      { clusters: [clusterAt('a', `http://127.0.0.1:${(engine.address() as AddressInfo).port}`)] },
      { http2Connections },
    );
    const { port } = gateway;
    return {
      http2Connections,
      clock,
      lines: () => lines,
      stuckRequests: () => stuck,
      log,
      metric: async (name: string) => (await registry.getSingleMetric(`engine_gateway_${name}`)?.get())?.values,
      /** A client that speaks HTTP/2 alone, or both. */
      client: async (protocols: readonly string[] = BOTH) => {
        // Node's own connections offer HTTP/2 alone.
        const createConnection = () =>
          connect({ port, host: 'localhost', ca: authority.cert, ALPNProtocols: [...protocols] });
        const client = await http2Client(gateway.url, { maxSendHeaderBlockLength: 1024 ** 2, createConnection });
        return closing({ ...client, close: async () => client.session.destroy() });
      },
      /** The protocol of a new connection of a client that speaks both; what it is answered over HTTP/1.1. */
      connection: async (header = '') => {
        const socket = connect({ port, host: 'localhost', ca: authority.cert, ALPNProtocols: BOTH });
        await new Promise((resolve, reject) => socket.once('secureConnect', resolve).once('error', reject));
        const protocol = socket.alpnProtocol;
        let answer = '';
        if (protocol === 'http/1.1') {
          socket.on('data', (chunk) => {
            answer += chunk.toString('latin1');
          });
          socket.write(`GET /v1/info HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nx-own: ${header}\r\n\r\n`);
          await new Promise((resolve) => socket.once('close', resolve));
        }
        socket.destroy();
        return { protocol, served: answer.includes('served') };
      },
      url: gateway.url,
    };
  }
  const goaway = (session: ClientHttp2Session) =>
    new Promise<number>((resolve) => session.once('goaway', (code: number) => resolve(code)));
  const closed = (session: ClientHttp2Session) =>
    session.destroyed ? null : new Promise((resolve) => session.once('close', resolve));

  test('beyond the limit they speak HTTP/1.1, until one ends; clients of HTTP/2 alone are refused', async () => {
    const { client, connection, metric, url } = await world({ connections: 2 });
    const first = await client();
    const second = await client(['h2']);
    expect(await connection()).toEqual({ protocol: 'http/1.1', served: true });
    const refused = connectHttp2(url, { ca: authority.cert });
    expect(await new Promise((resolve) => refused.once('error', resolve))).toBeInstanceOf(Error);
    expect((await second.send({ ':path': '/v1/info' })).text).toBe('served');
    expect(await metric('http2_connections')).toMatchObject([{ value: 2 }]);
    expect(await metric('http2_connections_limit')).toMatchObject([{ value: 2 }]);
    expect(await metric('http2_declined_total')).toMatchObject([{ labels: { reason: 'limit' }, value: 2 }]);
    first.session.destroy();
    await expect.poll(async () => (await connection()).protocol).toBe('h2');
  });

  test('a client whose header line is too long for HTTP/2 gets HTTP/1.1, for an hour since it last came', async () => {
    const { client, connection, lines, clock, log, metric } = await world();
    const { session, send } = await client();
    const large = '~'.repeat(100_000);
    const code = goaway(session);
    await expect(send({ ':path': '/v1/info', 'x-own': large })).rejects.toThrow();
    expect(await code).toBe(constants.NGHTTP2_COMPRESSION_ERROR);
    await closed(session);
    await expect.poll(async () => (await connection(large)).protocol).toBe('http/1.1');
    expect(await connection(large)).toEqual({ protocol: 'http/1.1', served: true });
    expect(lines()).toContain(large);
    expect(log).toMatchObject([{ client: '127.0.0.1', reason: 'error of its HTTP/2 connection' }]);
    expect(await metric('http2_declined_total')).toMatchObject([{ labels: { reason: 'client' } }]);
    clock.time += HOUR - 1;
    expect((await connection()).protocol).toBe('http/1.1');
    clock.time += HOUR - 1;
    expect((await connection()).protocol).toBe('http/1.1');
    clock.time += HOUR;
    expect((await connection()).protocol).toBe('h2');
  });

  test('a client that gets a long header line is asked to make its next connection, over HTTP/1.1', async () => {
    const { client, connection, lines, log } = await world({ responseHeader: 60_000 });
    const { session, send } = await client();
    const code = goaway(session);
    const answer = await send({ ':path': '/v1/info' });
    expect([answer.status, String(answer.headers['x-engine-added-prepare']).length]).toEqual([200, 60_000]);
    expect(await code).toBe(constants.NGHTTP2_NO_ERROR);
    const large = '~'.repeat(100_000);
    expect(await connection(large)).toEqual({ protocol: 'http/1.1', served: true });
    expect(lines()).toContain(large);
    expect(log).toMatchObject([{ client: '127.0.0.1', reason: 'long header lines in an answer' }]);
  });

  test('long header lines of several answers count together; a client of HTTP/2 alone keeps its connection', async () => {
    const { client, connection } = await world({ responseHeader: 20_000 });
    const both = await client();
    const alone = await client(['h2']);
    const asked = goaway(both.session);
    for (let n = 0; n < 2; n++) await both.send({ ':path': '/v1/info' });
    expect((await connection()).protocol).toBe('h2');
    for (let n = 0; n < 5; n++) expect((await alone.send({ ':path': '/v1/info' })).status).toBe(200);
    await both.send({ ':path': '/v1/info' });
    expect(await asked).toBe(constants.NGHTTP2_NO_ERROR);
    expect((await connection()).protocol).toBe('http/1.1');
    expect((await alone.send({ ':path': '/v1/info' })).status).toBe(200);
  });

  test('while memory is short, the connection that has the most requests ends, and others are served', async () => {
    const { client, metric, http2Connections, stuckRequests } = await world();
    const greedy = await client();
    const other = await client();
    const idle = await client();
    expect((await idle.send({ ':path': '/v1/info' })).text).toBe('served');
    const code = goaway(greedy.session);
    const stuck = Array.from({ length: 10 }, () => greedy.send({ ':path': '/ui/stuck' }).catch(() => 'ended'));
    const one = other.send({ ':path': '/ui/stuck' }).catch(() => 'ended');
    await expect.poll(stuckRequests).toBe(11);
    const isClosed = () => {
      http2Connections.closeIdle();
      return idle.session.destroyed;
    };
    await expect.poll(isClosed).toBe(true);
    http2Connections.evictBusiest();
    expect(await code).toBe(constants.NGHTTP2_ENHANCE_YOUR_CALM);
    expect(await Promise.all(stuck)).toEqual(Array(10).fill('ended'));
    expect((await other.send({ ':path': '/v1/info' })).text).toBe('served');
    expect(await metric('http2_evicted_total')).toMatchObject([{ value: 1 }]);
    other.session.destroy();
    expect(await one).toBe('ended');
  });
});
