import {
  type ClientHttp2Session,
  connect,
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
  type SecureClientSessionOptions,
} from 'node:http2';
import { buffer } from 'node:stream/consumers';

/** An answer over HTTP/2. */
export interface Http2Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly trailers: IncomingHttpHeaders;
  readonly body: Buffer;
  readonly text: string;
}

/** More than all bodies that a test sends at once. */
const SESSION_MEMORY_MB = 256;

/** One HTTP/2 connection, as clients keep it. */
export interface Http2Client {
  readonly session: ClientHttp2Session;
  /** Sends a request; rejects when its stream is reset. */
  send(headers: OutgoingHttpHeaders, body?: Buffer | string): Promise<Http2Answer>;
  close(): Promise<void>;
}

/** Connects; rejects when the handshake fails or the server does not speak HTTP/2. */
export async function http2Client(url: string, options: SecureClientSessionOptions): Promise<Http2Client> {
  // Bodies that wait to be sent count as memory of the session; over its limit (10 MB by default) Node resets the stream
  // whose answer begins.
  const session = connect(url, { maxSessionMemory: SESSION_MEMORY_MB, ...options });
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
