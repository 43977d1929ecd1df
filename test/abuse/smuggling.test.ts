import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { headerValues } from '../../src/model/http.ts';
import { RawConnection, startTarget, type Target } from './target.ts';

/** What a smuggler wants to reach the cluster as a request of its own. */
const SECOND = 'GET /v1/query/smuggled HTTP/1.1\r\nHost: x\r\nX-Engine-User: x\r\n\r\n';
const post = (...lines: readonly string[]) => `POST /v1/statement HTTP/1.1\r\nHost: x\r\n${lines.join('\r\n')}\r\n\r\n`;
const chunked = (body: string) => `${post('Transfer-Encoding: chunked')}${body}`;

/** Requests that two parsers might read differently (RFC 9112 §3.2, §5.1, §5.2, §6, §7.1): none may reach a cluster. */
const refused: readonly (readonly [string, string, number])[] = [
  ['both lengths', `${post('Content-Length: 4', 'Transfer-Encoding: chunked')}0\r\n\r\n`, 400],
  ['both lengths, the other way round', `${post('Transfer-Encoding: chunked', 'Content-Length: 4')}0\r\n\r\n`, 400],
  ['two lengths that differ', post('Content-Length: 0', `Content-Length: ${SECOND.length}`), 400],
  ['two equal lengths', post('Content-Length: 0', 'Content-Length: 0'), 400],
  ['a list of lengths', post('Content-Length: 0, 0'), 400],
  ['a length with a sign', post('Content-Length: +0'), 400],
  ['a negative length', post('Content-Length: -1'), 400],
  ['a length in hexadecimal', post('Content-Length: 0x0'), 400],
  ['a length beyond 64 bits', post('Content-Length: 18446744073709551616'), 400],
  ['an empty length', post('Content-Length: '), 400],
  ['a folded line before the length', post('X-A: b', ` Content-Length: ${SECOND.length}`, 'Content-Length: 0'), 400],
  ['a folded coding', `${post('Transfer-Encoding:', ' chunked')}0\r\n\r\n`, 400],
  ['a space before the colon', post(`Content-Length : ${SECOND.length}`), 400],
  ['a folded first line', `POST /v1/statement HTTP/1.1\r\n Host: x\r\nContent-Length: 0\r\n\r\n`, 400],
  ['an unknown coding', `${post('Transfer-Encoding: xchunked')}0\r\n\r\n`, 501],
  ['the coding identity', post('Transfer-Encoding: identity'), 501],
  ['chunked, but not last', `${post('Transfer-Encoding: chunked, identity')}0\r\n\r\n`, 400],
  ['a coding that nobody undoes', `${post('Transfer-Encoding: gzip, chunked')}0\r\n\r\n`, 501],
  ['two lines of codings', `${post('Transfer-Encoding: identity', 'Transfer-Encoding: chunked')}0\r\n\r\n`, 501],
  ['chunked twice', `${post('Transfer-Encoding: chunked', 'Transfer-Encoding: chunked')}0\r\n\r\n`, 400],
  ['a control character before the coding', `${post('Transfer-Encoding: \x0bchunked')}0\r\n\r\n`, 400],
  ['a quoted coding', `${post('Transfer-Encoding: "chunked"')}0\r\n\r\n`, 501],
  [
    'a coding in HTTP/1.0',
    'POST /v1/statement HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n0\r\n\r\n',
    400,
  ],
  ['a chunk size with a prefix', chunked('0x0\r\n\r\n'), 400],
  ['a negative chunk size', chunked('-1\r\n\r\n'), 400],
  ['a chunk size beyond 64 bits', chunked('10000000000000000\r\n\r\n'), 400],
  ['a space after a chunk size', chunked('0 \r\n\r\n'), 400],
  ['a space before a chunk size', chunked(' 0\r\n\r\n'), 400],
  ['an empty chunk size', chunked('\r\n\r\n'), 400],
  ['a chunk longer than its size', chunked('2\r\nabXX0\r\n\r\n'), 400],
  ['chunks ended by bare line feeds', chunked('0\n\n'), 400],
  ['a chunk extension ended by a bare line feed', chunked('2;\nxx\r\nab\r\n0\r\n\r\n'), 400],
  ['lengths among the trailers', chunked('0\r\nContent-Length: 36\r\nTransfer-Encoding: x\r\n\r\n'), 400],
  ['lines ended by bare line feeds', 'POST /v1/statement HTTP/1.1\nHost: x\nContent-Length: 0\n\n', 400],
  ['a bare carriage return', post(`X-A: b\rContent-Length: ${SECOND.length}`), 400],
  ['a NUL in a value', post('X-A: b\0c', 'Content-Length: 0'), 400],
  ['a NUL in a name', post(`Content\0-Length: ${SECOND.length}`), 400],
  ['no host', 'POST /v1/statement HTTP/1.1\r\nContent-Length: 0\r\n\r\n', 400],
  ['two hosts', post('Host: y', 'Content-Length: 0'), 400],
  ['a space in the target', 'GET /v1/query/a b HTTP/1.1\r\nHost: x\r\n\r\n', 400],
  ['HTTP/0.9', 'GET /v1/query/a\r\n\r\n', 505],
  ['HTTP/2.0 without its preface', 'GET /v1/query/a HTTP/2.0\r\nHost: x\r\n\r\n', 505],
  ['the preface of HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 400],
];

describe('requests that two parsers might read differently', () => {
  let target: Target;
  beforeAll(async () => {
    target = await startTarget();
  });
  afterAll(() => target?.close());

  test.for(refused)('%s: refused, connection closed, nothing reaches the cluster', async ([_name, bytes, status]) => {
    const before = target.reached.length;
    const connection = await new RawConnection(target.port).open();
    connection.send(bytes + SECOND);
    await expect.poll(() => connection.closed).toBe(true);
    expect(connection.statuses).toEqual([status]);
    expect(target.reached.slice(before)).toEqual([]);
  });

  /** Refused before their body is read: what comes on the connection after that is dropped. */
  const unread: readonly (readonly [string, string, number])[] = [
    ['a body over the limit', post('Content-Length: 200000000'), 413],
    ['a body over the limit of the API', `POST /login HTTP/1.1\r\nHost: x\r\nContent-Length: 2000000\r\n\r\n`, 413],
    ['a method that is not proxied', 'PATCH /v1/statement HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n', 405],
    ['dot segments', 'POST /ui/../v1/statement HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n', 400],
    ['an unknown path', 'POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n', 404],
  ];
  test.for(unread)(
    '%s: refused, and what follows is never run, in the same packet or later',
    async ([_name, bytes, status]) => {
      for (const isTogether of [true, false]) {
        const before = target.reached.length;
        const connection = await new RawConnection(target.port).open();
        connection.send(isTogether ? `${bytes}abc${SECOND}` : bytes);
        await expect.poll(() => connection.statuses).toEqual([status]);
        connection.send(isTogether ? SECOND : `abc${SECOND}${SECOND}`);
        await expect.poll(() => connection.closed, { timeout: 15_000 }).toBe(true);
        expect(connection.statuses).toEqual([status]);
        expect(connection.received).toMatch(/\r\nconnection: close\r\n/i);
        expect(target.reached.slice(before)).toEqual([]);
      }
    },
  );

  test('requests that were pipelined before a refused one are answered', async () => {
    const before = target.reached.length;
    const connection = await new RawConnection(target.port).open();
    connection.send(`${post('Content-Length: 8')}SELECT 1${post('Content-Length: 200000000')}${SECOND}`);
    await expect.poll(() => connection.closed, { timeout: 15_000 }).toBe(true);
    expect(connection.statuses).toEqual([200, 413]);
    expect(target.reached.slice(before).map(({ body }) => body)).toEqual(['SELECT 1']);
  });

  test('CONNECT and upgrades open no way past the gateway', async () => {
    const before = target.reached.length;
    const tunnel = await new RawConnection(target.port).open();
    tunnel.send(`CONNECT 127.0.0.1:1 HTTP/1.1\r\nHost: x\r\n\r\n${SECOND}`);
    await expect.poll(() => tunnel.closed).toBe(true);
    expect(target.reached.slice(before)).toEqual([]);
    const upgrade = await new RawConnection(target.port).open();
    upgrade.send(
      'GET /v1/node HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n\r\n',
    );
    await expect.poll(() => upgrade.statuses).toEqual([200]);
    upgrade.socket.destroy();
  });

  /** Headers that the gateway reads. */
  const read = [
    ...['User', 'Original-User', 'Routing-Group', 'Transaction-Id', 'Source', 'Catalog', 'Schema', 'Client-Tags'],
    ...['Prepared-Statement', 'Session', 'Resource-Estimate', 'Extra-Credential'],
  ].flatMap((suffix) => [`X-Engine-${suffix}`, `X-Trino-${suffix}`]);
  test.each([...read, 'Cookie', 'Authorization'])(
    'Connection that names %s: the cluster gets the value that the gateway decided by',
    async (name) => {
      const before = target.reached.length;
      const connection = await new RawConnection(target.port).open();
      const lines = [`${name}: a=b`, `Connection: keep-alive, ${name.toLowerCase()}, X-Other`, 'X-Other: c'];
      connection.send(`${post(...lines, 'Content-Length: 8')}SELECT 1`);
      await expect.poll(() => connection.statuses).toEqual([200]);
      connection.socket.destroy();
      const [request] = target.reached.slice(before);
      expect(headerValues(request?.headers ?? [], name.toLowerCase())).toEqual(['a=b']);
      expect(headerValues(request?.headers ?? [], 'x-other')).toEqual([]);
    },
  );

  test('what is right passes: pipelined requests one by one, chunks and their extensions, 100-continue', async () => {
    const before = target.reached.length;
    const connection = await new RawConnection(target.port).open();
    connection.send(
      `${chunked('2;a="b"\r\nSE\r\n6\r\nLECT 1\r\n0\r\nX-T: t\r\n\r\n')}${post('Content-Length: 8')}SELECT 2`,
    );
    await expect.poll(() => connection.statuses).toEqual([200, 200]);
    connection.send(`${post('Content-Length: 8', 'Expect: 100-continue')}SELECT 3`);
    await expect.poll(() => connection.statuses).toEqual([200, 200, 100, 200]);
    connection.socket.destroy();
    expect(target.reached.slice(before).map((each) => each.body)).toEqual(['SELECT 1', 'SELECT 2', 'SELECT 3']);
  });
});
