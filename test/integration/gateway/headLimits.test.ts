import { once } from 'node:events';
import { type AddressInfo, connect, type Server, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import {
  createGatewayServer,
  type RequestHandler,
  type ServerLimits,
} from '../../../src/gateway/server/gatewayServer.ts';
import { createSecureGatewayServer } from '../../../src/gateway/server/secureServer.ts';
import { certificateFolder, hasOpenssl, type TestAuthority, type TestCertificate } from '../../support/certificates.ts';
import { defaultServerOptions } from '../../support/defaults.ts';
import { closeAll, closing, until } from '../../support/gateway.ts';

const LIMIT = 4_096;
const KEY = '(serverConfig."http-server.max-request-header-size")';
const headTooLarge = (lines = 10_000) =>
  `Request line and headers are larger than ${LIMIT} bytes ${KEY}, or have more than ${lines} lines (server.maxHeaderLines).\n`;
const more = 'x'.repeat(3_000);
const get = 'GET / HTTP/1.1\r\nHost: x\r\n';

afterEach(closeAll);

describe.each([
  { transport: 'clear text', secure: false },
  { transport: 'TLS', secure: true },
])('heads over the limit, over $transport', ({ secure }) => {
  const missing = secure && !hasOpenssl;
  let folder: ReturnType<typeof certificateFolder>;
  let authority: TestAuthority;
  let certificate: TestCertificate;
  beforeAll(() => {
    if (!secure || missing) return;
    folder = certificateFolder();
    authority = folder.authority('clients');
    certificate = authority.issue(['IP:127.0.0.1']);
  });
  afterAll(() => folder?.dispose());

  /** A connection to a server that answers every request 200, and what the server has read of it. */
  async function open(limits: Partial<ServerLimits> = {}) {
    const options = {
      ...defaultServerOptions(),
      maxHeaderSize: LIMIT,
      ...limits,
      dataPlane: null,
      api: ((request, response) => {
        if (request.method === 'GET') response.end('ok\n');
        else request.resume().on('end', () => response.end('ok\n'));
      }) as RequestHandler,
    };
    const server: Server = secure
      ? createSecureGatewayServer(
          options,
          { context: { cert: certificate.cert, key: certificate.key }, chain: [] },
          'ignore',
        ).server
      : createGatewayServer(options);
    let accepted: Socket | null = null;
    server.on(secure ? 'secureConnection' : 'connection', (socket: Socket) => {
      accepted = socket;
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const socket = secure
      ? connectTls({ port, host: '127.0.0.1', ca: authority.cert, ALPNProtocols: ['http/1.1'] })
      : connect(port, '127.0.0.1');
    socket.setNoDelay(true);
    socket.on('error', () => undefined);
    await once(socket, secure ? 'secureConnect' : 'connect');
    closing({
      close: async () => {
        socket.destroy();
        await new Promise((resolve) => server.close(resolve));
      },
    });
    const connection = {
      socket,
      received: '',
      closed: false,
      /** Sends bytes as a packet of their own: the next is sent once they are read. */
      async send(bytes: string) {
        await until(() => accepted !== null, 'the connection');
        const before = accepted!.bytesRead;
        socket.write(bytes, 'latin1');
        await until(() => accepted!.destroyed || accepted!.bytesRead >= before + bytes.length, 'the packet');
      },
      async end() {
        await until(() => connection.closed, 'the end');
        const answers = connection.received.split(/^(?=HTTP)/m);
        return answers.map((answer) => [Number(answer.slice(9, 12)), answer.slice(answer.indexOf('\r\n\r\n') + 4)]);
      },
    };
    socket.on('data', (chunk) => {
      connection.received += chunk.toString('latin1');
    });
    socket.on('close', () => {
      connection.closed = true;
    });
    return connection;
  }

  test.skipIf(missing).each([
    ['at once', [`GET /${more}${more} HTTP/1.1\r\nHost: x\r\n\r\n`]],
    ['its end in a packet of its own', [`GET /${more}${more}`, ' HTTP/1.1\r\nHost: x\r\n\r\n']],
    ['its end cut in two', [`GET /${more}${more} HTT`, 'P/1.1\r\nHost: x\r\n\r\n']],
    ['its end cut before the line feed', [`GET /${more}`, `${more} HTTP/1.1\r`, '\n']],
    ['in many packets', [`GET /${more}`, ...Array(9).fill(more), ' HTTP/1.1\r\n']],
    ['of a megabyte', [`GET /${'x'.repeat(1024 ** 2)} HTTP/1.1\r\nHost: x\r\n\r\n`]],
  ] as const)('a URL, %s: 431', async (_name, packets) => {
    const connection = await open();
    for (const packet of packets) await connection.send(packet);
    expect(await connection.end()).toEqual([[431, headTooLarge()]]);
  });

  test.skipIf(missing).each([
    ['a header at once', [`${get}x: ${more}${more}\r\n\r\n`]],
    ['a header in two packets', [`${get}x: ${more}${more}`, `${more}\r\n\r\n`]],
    ['a header in many packets', [`${get}x: `, ...Array(9).fill(more), '\r\n\r\n']],
    ['a name', [`${get}${more}${more}`, ': x\r\n\r\n']],
    ['a header after a long URL', [`GET /${more} HTTP/1.1\r\nx: ${more}`, '\r\n\r\n']],
    ['many headers', [`${get}${'x: 12345\r\n'.repeat(1_500)}`]],
  ] as const)('%s: 431', async (_name, packets) => {
    const connection = await open();
    for (const packet of packets) await connection.send(packet);
    expect(await connection.end()).toEqual([[431, headTooLarge()]]);
  });

  test.skipIf(missing).each([
    ['one too many', [100]],
    ['so many that the parser gives up', [300]],
    ['so many in packets of 100', [100, 100, 100]],
  ] as const)('header lines, %s: 431 by that name', async (_name, packets) => {
    const connection = await open({ maxHeaderLines: 100 });
    await connection.send(get);
    for (const lines of packets) await connection.send('x: y\r\n'.repeat(lines));
    await connection.send('\r\n');
    const [[status, message]] = (await connection.end()) as [[number, string]];
    expect(status).toBe(431);
    expect(message).toContain('more than 100');
  });

  test.skipIf(missing)('the second request of a connection', async () => {
    const connection = await open();
    await connection.send(`${get}\r\n`);
    await until(() => connection.received.endsWith('ok\n'), 'the first answer');
    await connection.send(`GET /${more}${more}`);
    await connection.send(' HTTP/1.1\r\n');
    expect(await connection.end()).toEqual([
      [200, 'ok\n'],
      [431, headTooLarge()],
    ]);
  });

  test.skipIf(missing)('a head that never ends: 408', async () => {
    const times = { headersTimeout: 200, requestTimeout: 400, connectionsCheckingInterval: 50 };
    const waiting = await open(times);
    await waiting.send(`GET /${more}`);
    expect((await waiting.end())[0]![0]).toBe(408);
  });

  const sendMore = (socket: Socket): Promise<void> =>
    new Promise((resolve) => socket.write('x'.repeat(65_536), () => resolve()));

  test.skipIf(missing)('a client that goes on sending gets its answer all the same', async () => {
    const connection = await open();
    const { socket } = connection;
    // It reads nothing until it has sent all, long after the answer.
    socket.pause();
    await connection.send(`${get}x: ${more}${more}\r\n\r\n`);
    for (let sent = 0; sent < 100; sent++) await sendMore(socket);
    expect(socket.destroyed).toBe(false);
    socket.resume();
    expect(await connection.end()).toEqual([[431, headTooLarge()]]);
  });

  // The same code in both; it takes seconds.
  if (!secure) {
    test('a client that sends for ever is cut off', async () => {
      const { socket, send } = await open();
      socket.pause();
      await send(`${get}x: ${more}${more}\r\n\r\n`);
      const isCutOff = () => sendMore(socket).then(() => socket.destroyed);
      await expect.poll(isCutOff, { interval: 200 }).toBe(true);
    });
  }

  test.skipIf(missing)('what else the parser does not take is answered as Node does', async () => {
    const bad = await open();
    await bad.send('GET / HTTP/1.1\r\nHost : x\r\n\r\n');
    expect(await bad.end()).toEqual([[400, '']]);
    const extended = await open();
    await extended.send(`POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1;${'x'.repeat(20_000)}`);
    expect(await extended.end()).toEqual([[413, '']]);
  });
});
