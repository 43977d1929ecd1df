import { type ClientHttp2Session, connect, type IncomingHttpHeaders, type OutgoingHttpHeaders } from 'node:http2';
import { buffer } from 'node:stream/consumers';
import { connect as connectTls } from 'node:tls';

/** An answer over HTTP/2. */
export interface Http2Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly trailers: IncomingHttpHeaders;
  readonly body: Buffer;
  readonly text: string;
}

/** One HTTP/2 connection, as clients keep it. */
export interface Http2Client {
  readonly session: ClientHttp2Session;
  /** Sends a request; rejects when its stream is reset. */
  send(headers: OutgoingHttpHeaders, body?: Buffer | string): Promise<Http2Answer>;
  close(): Promise<void>;
}

/** Connects; rejects when the handshake fails or the server does not speak HTTP/2. */
export async function http2Client(
  url: string,
  options: { ca: string; cert?: string; key?: string },
): Promise<Http2Client> {
  const session = connect(url, options);
  await new Promise((resolve, reject) => session.once('connect', resolve).once('error', reject));
  session.on('error', () => undefined);
  return {
    session,
    async send(headers, body) {
      const stream = session.request(headers, { endStream: body === undefined });
      const head = new Promise<IncomingHttpHeaders>((resolve, reject) =>
        stream
          .once('response', resolve)
          .once('error', reject)
          .once('close', () => reject(new Error('the stream was closed without an answer'))),
      );
      let trailers: IncomingHttpHeaders = {};
      stream.once('trailers', (lines) => {
        trailers = lines;
      });
      if (body !== undefined) stream.end(body);
      const [received, bytes] = await Promise.all([head, buffer(stream)]);
      return {
        status: Number(received[':status']),
        headers: received,
        trailers,
        body: bytes,
        text: bytes.toString('utf8'),
      };
    },
    close: () => new Promise((resolve) => (session.destroyed ? resolve() : session.close(resolve))),
  };
}

/** A request with a body that never ends; sent frame by frame, as Node's own client ends what it resets. */
export interface RawUpload {
  /** Sends RST_STREAM. */
  reset(code: number): void;
  close(): Promise<void>;
}

/** Begins an upload over a connection of its own and sends the start of its body. */
export async function rawUpload(port: number, ca: string, path: string, start: string): Promise<RawUpload> {
  const socket = connectTls({ port, host: 'localhost', ca, ALPNProtocols: ['h2'] });
  await new Promise((resolve, reject) => socket.once('secureConnect', resolve).once('error', reject));
  socket.resume();
  const head = [':method', 'POST', ':scheme', 'https', ':authority', 'localhost', ':path', path, 'x-engine-user', 'u'];
  socket.write(
    Buffer.concat([
      Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'),
      frame(4, 0, 0, Buffer.alloc(0)),
      frame(1, 4, 1, Buffer.concat(head.map((text, index) => literal(text, index % 2 === 0)))),
      frame(0, 0, 1, Buffer.from(start)),
    ]),
  );
  return {
    reset(code) {
      const payload = Buffer.alloc(4);
      payload.writeUInt32BE(code);
      socket.write(frame(3, 0, 1, payload));
    },
    close: async () => void socket.destroy(),
  };
}

/** A frame (RFC 9113 §4.1). */
function frame(type: number, flags: number, stream: number, payload: Buffer): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head.writeUInt8(type, 3);
  head.writeUInt8(flags, 4);
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

/** Half of a literal field without indexing, name or value shorter than 127 bytes (RFC 7541 §6.2.2). */
function literal(text: string, isName: boolean): Buffer {
  return Buffer.concat([Buffer.from(isName ? [0, text.length] : [text.length]), Buffer.from(text)]);
}
