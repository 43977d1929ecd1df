/**
 * Clients of large answers, in a process of their own: they count bytes and drop them. Does what its parent says
 * (`bulkClient.ts`), and says when it is done.
 */
import { connect as connectHttp2 } from 'node:http2';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import type { BulkLoad, Done } from './bulkClient.ts';

const CHUNKED_END = Buffer.from('\r\n0\r\n\r\n');
const READ_BYTES = 262_144;

process.on('message', (load: BulkLoad) => {
  void run(load).then(
    (done) => process.send?.(done),
    (error: Error) => process.send?.({ bytes: 0, failed: 1, error: error.message } satisfies Done),
  );
});

async function run(load: BulkLoad): Promise<Done> {
  const ask = load.protocol === 'h2' ? askHttp2 : load.slow === null ? askHttp1 : askSlowly;
  const each = Math.ceil(load.requests / load.connections);
  const received = await Promise.all(Array.from({ length: load.connections }, () => ask(load, each)));
  const bytes = received.reduce((sum, count) => sum + count, 0);
  const expected = load.slow === null ? each * load.connections * load.shape.size : 0;
  return { bytes, failed: bytes < expected ? 1 : 0 };
}

function headOf({ url, shape }: BulkLoad): string {
  return `GET ${shape.path} HTTP/1.1\r\nHost: ${new URL(url).host}\r\nX-Engine-User: bench\r\nAccept-Encoding: gzip\r\n\r\n`;
}

/** Asks one after the other on one connection; answers with the bytes of all bodies, chunk sizes among them. */
function askHttp1(load: BulkLoad, requests: number): Promise<number> {
  const { hostname, port } = new URL(load.url);
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  let left = requests;
  let total = 0;
  /** Bytes of the body so far; -1 before the end of the head. */
  let received = -1;
  let last: Buffer = Buffer.alloc(0);
  const onData = (count: number, buffer: Uint8Array): boolean => {
    const data = Buffer.from(buffer.buffer, buffer.byteOffset, count);
    let from = 0;
    if (received < 0) {
      from = data.indexOf('\r\n\r\n') + 4;
      if (!data.subarray(0, 15).equals(Buffer.from('HTTP/1.1 200 OK')) || from < 4) {
        reject(new Error(`no answer of a known form: ${data.toString('latin1', 0, 200)}`));
        return false;
      }
      received = 0;
    }
    received += count - from;
    if (received < load.shape.size) return true;
    if (!isWhole(data)) return true;
    total += received;
    received = -1;
    if (--left > 0) socket.write(headOf(load));
    else {
      socket.destroy();
      resolve(total);
    }
    return true;
  };
  const isWhole = (data: Buffer): boolean => {
    if (load.shape.chunk === null) return received === load.shape.size;
    // The end may come apart.
    last = data.length >= CHUNKED_END.length ? data : Buffer.concat([last, data]);
    const isEnd = last.subarray(-CHUNKED_END.length).equals(CHUNKED_END);
    last = Buffer.from(last.subarray(-CHUNKED_END.length));
    return isEnd;
  };
  const options = {
    host: hostname,
    port: Number(port),
    noDelay: true,
    onread: { buffer: Buffer.allocUnsafeSlow(READ_BYTES), callback: onData },
  };
  const socket: Socket =
    load.protocol === 'tls'
      ? connectTls({ ...options, rejectUnauthorized: false, ALPNProtocols: ['http/1.1'] })
      : connect(options);
  socket.once(load.protocol === 'tls' ? 'secureConnect' : 'connect', () => socket.write(headOf(load)));
  socket.on('error', reject).on('close', () => reject(new Error('the connection was closed within an answer')));
  return promise;
}

/** Asks one after the other in one HTTP/2 session. */
async function askHttp2(load: BulkLoad, requests: number): Promise<number> {
  const session = connectHttp2(load.url, { rejectUnauthorized: false, settings: { initialWindowSize: 1_048_576 } });
  session.on('connect', () => session.setLocalWindowSize(4_194_304));
  let total = 0;
  for (let count = 0; count < requests; count++) {
    const stream = session.request({ ':path': load.shape.path, 'x-engine-user': 'bench', 'accept-encoding': 'gzip' });
    stream.on('data', (data: Buffer) => {
      total += data.length;
    });
    await new Promise((resolve, reject) => stream.once('end', resolve).once('error', reject));
  }
  session.close();
  return total;
}

/** Asks once, and reads as slowly as is said until the time is over. */
async function askSlowly(load: BulkLoad): Promise<number> {
  const { hostname, port } = new URL(load.url);
  const socket = connect({ host: hostname, port: Number(port), noDelay: true });
  socket.on('error', () => undefined);
  await new Promise((resolve) => socket.once('connect', resolve));
  socket.write(headOf(load));
  const { seconds, bytesPerSecond } = load.slow ?? { seconds: 0, bytesPerSecond: 0 };
  const until = Date.now() + seconds * 1_000;
  let total = 0;
  socket.on('readable', () => undefined);
  while (Date.now() < until) {
    const portion = bytesPerSecond / 10;
    for (let left = portion; left > 0; ) {
      const data = socket.read(Math.min(left, socket.readableLength)) as Buffer | null;
      if (data === null) break;
      left -= data.length;
      total += data.length;
    }
    await sleep(100);
  }
  socket.destroy();
  return total;
}
