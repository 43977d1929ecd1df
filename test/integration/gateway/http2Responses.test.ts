/**
 * What clients over HTTP/2 get of answers of every form, frame by frame: clients take an answer for complete when its
 * announced bytes are there, and must then find its end as well.
 */
import { constants } from 'node:http2';
import { createServer } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import type { GatewayServerOptions } from '../../../src/gateway/server/gatewayServer.ts';
import { hasOpenssl, localCertificate } from '../../support/certificates.ts';
import { closeAll, closing, clusterAt, startServer, type TestGatewayOptions, until } from '../../support/gateway.ts';
import { http2Client } from '../../support/http2Client.ts';
import { type Http2Frame, rawHttp2 } from '../../support/rawHttp2.ts';
import { startSecureGateway } from '../../support/secureGateway.ts';

describe.skipIf(!hasOpenssl)('answers over HTTP/2', () => {
  const { authority, certificate } = localCertificate();
  afterEach(closeAll);

  /** A cluster that answers every request with the same pieces of text, one write each. */
  async function clusterOf(pieces: readonly string[]) {
    const server = createServer((socket) => {
      socket.on('error', () => undefined);
      socket.on('data', () => {
        const write = (left: readonly string[]) => {
          const [piece, ...rest] = left;
          if (piece !== undefined) socket.write(piece, 'latin1', () => setImmediate(write, rest));
        };
        write(pieces);
      });
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    closing({ close: () => new Promise((resolve) => server.close(resolve)) });
    const { port } = server.address() as { port: number };
    return clusterAt('a', `http://127.0.0.1:${port}`);
  }

  async function secure(options: TestGatewayOptions, limits: Partial<GatewayServerOptions> = {}) {
    const gateway = await startSecureGateway(certificate, authority.cert, options, limits);
    return { ...gateway, raw: closing(await rawHttp2(gateway.port, authority.cert)) };
  }

  const head = (status: string, ...lines: string[]) =>
    `HTTP/1.1 ${status}\r\n${lines.map((l) => `${l}\r\n`).join('')}\r\n`;
  const ofStream = (frames: readonly Http2Frame[], stream = 1) => frames.filter((frame) => frame.stream === stream);
  const bytesOf = (frames: readonly Http2Frame[]) =>
    frames.reduce((sum, { type, payload }) => sum + (type === 'DATA' ? payload.length : 0), 0);
  /** Frames of a stream as text: `DATA 5 END_STREAM`. */
  const textOf = (frames: readonly Http2Frame[]) =>
    frames.map(
      ({ type, payload, endStream }) =>
        `${type}${type === 'DATA' ? ` ${payload.length}` : ''}${endStream ? ' END_STREAM' : ''}`,
    );

  const json = '{"id":"20261121_000000_00000_abcde"}';
  const table: readonly (readonly [string, string, string, readonly string[], readonly string[]])[] = [
    ['a length', 'GET', '/v1/info', [head('200 OK', 'content-length: 5'), 'hello'], ['HEADERS', 'DATA 5 END_STREAM']],
    [
      'a length, head and body at once',
      'GET',
      '/v1/info',
      [`${head('200 OK', 'content-length: 5')}hello`],
      ['HEADERS', 'DATA 5 END_STREAM'],
    ],
    [
      'a length, in parts',
      'GET',
      '/v1/info',
      [head('200 OK', 'content-length: 5'), 'he', 'llo'],
      ['HEADERS', 'DATA 2', 'DATA 3 END_STREAM'],
    ],
    ['the length 0', 'GET', '/v1/info', [head('200 OK', 'content-length: 0')], ['HEADERS END_STREAM']],
    [
      'a submission',
      'POST',
      '/v1/statement',
      [head('200 OK', `content-length: ${json.length}`), json],
      ['HEADERS', `DATA ${json.length} END_STREAM`],
    ],
    ['HEAD', 'HEAD', '/v1/info', [head('200 OK', 'content-length: 5')], ['HEADERS END_STREAM']],
    ['204', 'DELETE', '/v1/info', [head('204 No Content')], ['HEADERS END_STREAM']],
    ['204 with a length', 'DELETE', '/v1/info', [head('204 No Content', 'content-length: 0')], ['HEADERS END_STREAM']],
    [
      '205 with a body',
      'GET',
      '/v1/info',
      [head('205 Reset Content', 'content-length: 5'), 'hello'],
      ['HEADERS END_STREAM'],
    ],
    ['304 with a length', 'GET', '/v1/info', [head('304 Not Modified', 'content-length: 5')], ['HEADERS END_STREAM']],
    [
      '103 before it',
      'GET',
      '/v1/info',
      [head('103 Early Hints', 'link: </x>'), head('200 OK', 'content-length: 5'), 'hello'],
      ['HEADERS', 'DATA 5 END_STREAM'],
    ],
    [
      'chunks',
      'GET',
      '/v1/info',
      [head('200 OK', 'transfer-encoding: chunked'), '5\r\nhello\r\n0\r\n\r\n'],
      ['HEADERS', 'DATA 5', 'DATA 0 END_STREAM'],
    ],
    [
      'trailers',
      'GET',
      '/v1/info',
      [head('200 OK', 'transfer-encoding: chunked'), '5\r\nhello\r\n0\r\nx-sum: 5\r\n\r\n'],
      ['HEADERS', 'DATA 5', 'HEADERS END_STREAM'],
    ],
  ];

  test.each(table)('%s: no frame after the last byte', async (_name, method, path, pieces, expected) => {
    const gateway = await secure({ clusters: [await clusterOf(pieces)] });
    gateway.raw.headers(1, method, path, { endStream: true });
    const frames = () => ofStream(gateway.raw.frames);
    await until(
      () => frames().some(({ endStream, type }) => endStream || type === 'RST_STREAM'),
      'the end of the answer',
    );
    await until(() => gateway.openRequests.count === 0, 'the end of the request');
    expect(textOf(frames())).toEqual(expected);
  });

  test('an answer longer than the window of the client ends with its last byte', async () => {
    const [window, rest] = [65_535, 10_000];
    const body = 'x'.repeat(window + rest);
    const gateway = await secure({
      clusters: [await clusterOf([head('200 OK', `content-length: ${body.length}`), body])],
    });
    gateway.raw.headers(1, 'GET', '/v1/info', { endStream: true });
    const frames = () => ofStream(gateway.raw.frames);
    await until(() => bytesOf(frames()) === window, 'the window to be used up');
    expect(frames().some(({ endStream }) => endStream)).toBe(false);
    gateway.raw.windowUpdate(0, rest);
    gateway.raw.windowUpdate(1, rest);
    await until(() => bytesOf(frames()) === body.length, 'the rest of the answer');
    expect(frames().map(({ endStream }) => endStream)).toEqual([
      ...frames()
        .slice(1)
        .map(() => false),
      true,
    ]);
  });

  test.each(['with a length', 'chunked'])('an answer %s that breaks off is reset without END_STREAM', async (form) => {
    const engine = await startServer((_request, response) => {
      response.writeHead(200, form === 'chunked' ? {} : { 'content-length': 1000 });
      response.write('begin', () => setImmediate(() => response.destroy()));
    });
    const gateway = await secure({ clusters: [clusterAt('a', engine.url)] });
    gateway.raw.headers(1, 'GET', '/v1/info', { endStream: true });
    const frames = () => ofStream(gateway.raw.frames);
    await until(() => frames().some(({ type }) => type === 'RST_STREAM'), 'the reset');
    expect(frames().some(({ endStream }) => endStream)).toBe(false);
    expect(frames().at(-1)?.payload.readUInt32BE(0)).toBe(constants.NGHTTP2_INTERNAL_ERROR);
  });

  test.each([
    ['before the body is read', { maxBodySize: 100 }, 413, { 'content-length': '200' }],
    ['in the middle of the body', { maxBodySize: 100 }, 413, {}],
    ['from the cluster', {}, 200, {}],
    ['for a body that does not come', {}, 408, {}],
  ])('an answer %s is sent in full; then the upload is stopped', async (when, settings, status, headers) => {
    const engine = await startServer((request, response) => {
      if (when === 'from the cluster') request.once('data', () => response.end('enough'));
      else request.resume();
    });
    const limits = status === 408 ? { requestTimeout: 200, headersTimeout: 200 } : {};
    const gateway = await secure({ clusters: [clusterAt('a', engine.url)], settings }, limits);
    gateway.raw.headers(1, 'POST', '/v1/info', { headers });
    gateway.raw.data(1, Buffer.alloc(150), false);
    const frames = () => ofStream(gateway.raw.frames);
    await until(() => frames().some(({ type }) => type === 'RST_STREAM'), 'the reset');
    await until(() => gateway.openRequests.count === 0, 'the end of the request');
    const types = frames().map(({ type, endStream }) => (endStream ? `${type} END_STREAM` : type));
    expect(types.filter((type) => type !== 'WINDOW_UPDATE').slice(-2)).toEqual([
      status === 408 ? 'HEADERS END_STREAM' : 'DATA END_STREAM',
      'RST_STREAM',
    ]);
    expect(frames().at(-1)?.payload.readUInt32BE(0)).toBe(constants.NGHTTP2_NO_ERROR);
    // The connection serves others.
    gateway.raw.headers(3, 'OPTIONS', '/v1/info', { endStream: true });
    await until(() => ofStream(gateway.raw.frames, 3).some(({ endStream }) => endStream), 'the next answer');
  });

  test('a stop lets running answers end, and asks the client to go', async () => {
    let release: () => void = () => undefined;
    const engine = await startServer((_request, response) => {
      response.writeHead(200, { 'content-length': 5 });
      response.write('he');
      release = () => response.end('llo');
    });
    const gateway = await secure({ clusters: [clusterAt('a', engine.url)] });
    gateway.raw.headers(1, 'GET', '/v1/info', { endStream: true });
    await until(() => bytesOf(ofStream(gateway.raw.frames)) === 2, 'the start of the answer');
    gateway.drain();
    await until(() => gateway.raw.frames.some(({ type }) => type === 'GOAWAY'), 'GOAWAY');
    const goAway = gateway.raw.frames.find(({ type }) => type === 'GOAWAY')!.payload;
    expect([goAway.readUInt32BE(0), goAway.readUInt32BE(4)]).toEqual([1, constants.NGHTTP2_NO_ERROR]);
    release();
    await until(() => gateway.raw.ended, 'the end of the connection');
    expect(textOf(ofStream(gateway.raw.frames))).toEqual(['HEADERS', 'DATA 2', 'DATA 3 END_STREAM']);
  });

  test.each([
    [
      'two lines of a header that has one value',
      head('200 OK', 'content-type: a/b', 'content-type: c/d', 'content-length: 2'),
      200,
    ],
    ['an unknown status', head('599 Odd', 'content-length: 2'), 599],
    ['a status beyond those of HTTP', head('700 Odd', 'content-length: 2'), 502],
  ])('%s is no defect', async (_name, first, status) => {
    const gateway = await secure({ clusters: [await clusterOf([first, 'ok'])] });
    const client = closing(await http2Client(gateway.url, { ca: authority.cert }));
    expect((await client.send({ ':path': '/v1/info' })).status).toBe(status);
    expect(gateway.log.filter((line) => line.level === 50)).toEqual([]);
  });
});
