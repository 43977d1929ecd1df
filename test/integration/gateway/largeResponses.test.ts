/**
 * Large answers arrive byte for byte, whatever pieces the cluster sends them in and however slowly clients read: they are
 * passed on from the buffer that they were read into.
 */
import { Agent, get, type IncomingMessage } from 'node:http';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { setImmediate as turn } from 'node:timers/promises';
import { afterEach, describe, expect, test } from 'vitest';
import { hasOpenssl, localCertificate } from '../../support/certificates.ts';
import { closeAll, closing, clusterAt, startGateway, type TestGatewayOptions, until } from '../../support/gateway.ts';
import { http2Client } from '../../support/http2Client.ts';
import { startSecureGateway } from '../../support/secureGateway.ts';

afterEach(closeAll);

/** Bytes that are different at every place and for every seed, so that none can stand for another. */
function bytesOf(seed: number, size: number): Buffer<ArrayBuffer> {
  const words = new Uint32Array(Math.ceil(size / 4));
  let state = (seed + 1) * 2_654_435_761;
  for (let index = 0; index < words.length; index++) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    words[index] = state;
  }
  return Buffer.from(words.buffer, 0, size);
}

/** The form of an answer. */
interface Form {
  readonly seed: number;
  readonly size: number;
  /** Bytes of each chunk (RFC 9112 §7.1); 0: the length is announced. */
  readonly chunk: number;
  /** Bytes of each write of the cluster. */
  readonly write: number;
}

const pathOf = ({ seed, size, chunk, write }: Form) => `/ui/${seed}/${size}/${chunk}/${write}`;

function responseOf({ seed, size, chunk }: Form): Buffer {
  const body = bytesOf(seed, size);
  if (chunk === 0) return Buffer.concat([Buffer.from(`HTTP/1.1 200 OK\r\nContent-Length: ${size}\r\n\r\n`), body]);
  const parts = [Buffer.from('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n')];
  for (let from = 0; from < size; from += chunk) {
    const piece = body.subarray(from, from + chunk);
    parts.push(Buffer.from(`${piece.length.toString(16)}\r\n`), piece, Buffer.from('\r\n'));
  }
  return Buffer.concat([...parts, Buffer.from('0\r\n\r\n')]);
}

/** A cluster that answers in the form that the path asks for; `connections` counts those made to it. */
async function startCluster(answer: (socket: Socket, path: string) => Promise<void> = responseInForm) {
  const cluster = { url: '', connections: 0 };
  const sockets = new Set<Socket>();
  const server = createServer({ noDelay: true }, (socket) => {
    cluster.connections++;
    sockets.add(socket);
    let text = '';
    socket.on('error', () => undefined).on('close', () => sockets.delete(socket));
    socket.on('data', (data) => {
      text += data.toString('latin1');
      if (!text.endsWith('\r\n\r\n')) return;
      const [, path = ''] = text.split(' ', 2);
      text = '';
      void answer(socket, path);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  cluster.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  closing({
    close: () => {
      for (const socket of sockets) socket.destroy();
      return new Promise((resolve) => server.close(resolve));
    },
  });
  return cluster;
}

async function responseInForm(socket: Socket, path: string): Promise<void> {
  const [seed = 0, size = 0, chunk = 0, write = 0] = path.split('/').slice(2).map(Number);
  const answer = responseOf({ seed, size, chunk, write });
  for (let from = 0; from < answer.length && !socket.destroyed; from += write) {
    await new Promise((resolve) => socket.write(answer.subarray(from, from + write), resolve));
    if (from % (write * 16) === 0) await turn();
  }
}

/** Asks by HTTP/1.1; a slow client starts to read on a signal, and then yields to the event loop after each piece. */
async function ask(url: string, path: string, agent: Agent, slow: Promise<void> | null = null): Promise<Buffer> {
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    get(url + path, { agent, headers: { 'X-Engine-User': 'test' } }, resolve).on('error', reject);
  });
  await slow;
  const chunks: Buffer[] = [];
  for await (const chunk of response) {
    chunks.push(chunk as Buffer);
    if (slow !== null) await turn();
  }
  return Buffer.concat(chunks);
}

const forms: readonly (readonly [name: string, form: Omit<Form, 'seed'>])[] = [
  ['announced, at once', { size: 3_000_000, chunk: 0, write: 3_000_000 }],
  ['announced, in small writes', { size: 200_000, chunk: 0, write: 1_000 }],
  ['announced, in odd writes', { size: 1_500_001, chunk: 0, write: 33_331 }],
  ['one chunk', { size: 2_000_000, chunk: 2_000_000, write: 2_000_000 }],
  ['chunks of 8 KB, at once', { size: 3_000_000, chunk: 8_192, write: 4_000_000 }],
  ['chunks of 8 KB, each a write', { size: 1_000_000, chunk: 8_192, write: 8_200 }],
  ['chunks of 64 KB in odd writes', { size: 3_000_000, chunk: 65_536, write: 10_007 }],
  ['chunks of 7 bytes', { size: 150_000, chunk: 7, write: 65_536 }],
  ['chunks of 1 byte', { size: 30_000, chunk: 1, write: 4_099 }],
  ['writes that end within the size of a chunk', { size: 1_000_000, chunk: 1_000, write: 1_007 }],
  ['less than is lent for', { size: 12_000, chunk: 4_000, write: 20_000 }],
  ['a little more than is lent for', { size: 16_500, chunk: 0, write: 70_000 }],
];

describe('large answers arrive byte for byte', () => {
  test.each(forms)('%s', async (_, form) => {
    const cluster = await startCluster();
    const gateway = await startGateway({ clusters: [clusterAt('a', cluster.url)] });
    const agent = new Agent({ keepAlive: true });
    closing({ close: async () => agent.destroy() });
    for (let seed = 0; seed < 3; seed++) {
      const body = await ask(gateway.url, pathOf({ ...form, seed }), agent);
      expect(body.equals(bytesOf(seed, form.size)), `answer ${seed}`).toBe(true);
    }
    // The answers were whole for the gateway as well: it kept its connection.
    expect(cluster.connections).toBe(1);
  });

  test('to slow and fast clients at once, on connections to the cluster that are used again', async () => {
    const cluster = await startCluster();
    const gateway = await startGateway({
      clusters: [clusterAt('a', cluster.url)],
      upstream: { maxConnectionsPerServer: 4 },
    });
    const agent = new Agent({ keepAlive: true });
    closing({ close: async () => agent.destroy() });
    const { promise: read, resolve: beginToRead } = Promise.withResolvers<void>();
    const asked = Array.from({ length: 48 }, async (_, seed) => {
      const [, form] = forms[seed % 6] as (typeof forms)[number];
      // Three of four connections at most are held by clients that do not read yet.
      const isSlow = seed < 3;
      const body = await ask(gateway.url, pathOf({ ...form, seed }), agent, isSlow ? read : null);
      return { isSlow, isRight: body.equals(bytesOf(seed, form.size)) };
    });
    const fast = await Promise.all(asked.slice(3));
    beginToRead();
    const all = [...fast, ...(await Promise.all(asked.slice(0, 3)))];
    expect(all.filter(({ isRight }) => !isRight)).toEqual([]);
    expect(all.filter(({ isSlow }) => isSlow)).toHaveLength(3);
    expect(cluster.connections).toBeLessThanOrEqual(4);
  });

  test('when a client goes away in the middle, those after it get theirs', async () => {
    const cluster = await startCluster();
    const gateway = await startGateway({
      clusters: [clusterAt('a', cluster.url)],
      upstream: { maxConnectionsPerServer: 2 },
    });
    const agent = new Agent({ keepAlive: true });
    closing({ close: async () => agent.destroy() });
    for (let seed = 0; seed < 6; seed++) {
      const form = { seed, size: 2_000_000, chunk: 8_192, write: 50_000 };
      const leaving = await new Promise<IncomingMessage>((resolve, reject) => {
        get(gateway.url + pathOf(form), { agent }, resolve).on('error', reject);
      });
      await new Promise((resolve) => leaving.once('data', resolve));
      leaving.on('error', () => undefined).destroy();
      const body = await ask(gateway.url, pathOf({ ...form, seed: seed + 100 }), agent);
      expect(body.equals(bytesOf(seed + 100, form.size)), `answer ${seed}`).toBe(true);
    }
  });

  test('with trailers that come in two reads', async () => {
    let received = 0;
    const body = bytesOf(1, 40_000);
    const cluster = await startCluster(async (socket, path) => {
      if (path === '/v1/info') {
        socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}');
        return;
      }
      const chunk = (from: number, to: number) => [
        Buffer.from(`${(to - from).toString(16)}\r\n`),
        body.subarray(from, to),
        Buffer.from('\r\n'),
      ];
      socket.write(
        Buffer.concat([
          Buffer.from('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n'),
          ...chunk(0, 20_000),
        ]),
      );
      await until(() => received >= 20_000, 'the first half');
      socket.write(Buffer.concat(chunk(20_000, 40_000)));
      await until(() => received >= 40_000, 'the second half');
      socket.write('0\r\nX-Sum: begins');
      // Another answer on the way: by the time it is there, the gateway has read the first part of the trailer.
      await ask(gateway.url, '/v1/info', new Agent());
      socket.write('-and-ends-in-another-read\r\n\r\n');
    });
    const gateway = await startGateway({ clusters: [clusterAt('a', cluster.url)] });
    const response = await new Promise<IncomingMessage>((resolve) => get(`${gateway.url}/ui/`, resolve));
    const chunks: Buffer[] = [];
    for await (const chunk of response) {
      chunks.push(chunk as Buffer);
      received += (chunk as Buffer).length;
    }
    expect(Buffer.concat(chunks).equals(body)).toBe(true);
    expect(response.trailers).toEqual({ 'x-sum': 'begins-and-ends-in-another-read' });
  });
});

describe.skipIf(!hasOpenssl)('over TLS', () => {
  const { authority, certificate } = localCertificate();

  const start = async (options: Partial<TestGatewayOptions> = {}) => {
    const cluster = await startCluster();
    return startSecureGateway(certificate, authority.cert, { clusters: [clusterAt('a', cluster.url)], ...options });
  };

  test('large answers arrive byte for byte by HTTP/2, several at once on one connection', async () => {
    const gateway = await start({ upstream: { maxConnectionsPerServer: 4 } });
    const client = closing(await http2Client(gateway.url, { ca: authority.cert }));
    const asked = forms.map(async ([name, form], seed) => {
      const { status, body } = await client.send({ ':path': pathOf({ ...form, seed }) });
      return { name, status, isRight: body.equals(bytesOf(seed, form.size)) };
    });
    expect((await Promise.all(asked)).filter(({ status, isRight }) => status !== 200 || !isRight)).toEqual([]);
  });
});
