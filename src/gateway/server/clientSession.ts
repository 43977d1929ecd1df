import { constants, type Http2Session, type OutgoingHttpHeaders, type ServerHttp2Session } from 'node:http2';
import type { TLSSocket } from 'node:tls';
import type { Http2Connections } from './http2Connections.ts';

/** Header lines of responses that are longer than this are added up. */
const LONG_LINE = 8_192;
/**
 * Length of such lines, all together, from which on a client may have to send more than HTTP/2 takes: one line of 64 kB, 144 kB
 * in all (docs/clients.md#large-headers).
 */
const LONG_LINES = 48 * 1024;

const sessions = new WeakMap<Http2Session, ClientSession>();

/** An HTTP/2 session of a client, and what is noted of it. */
export class ClientSession {
  /** The connection; Node's own stand-in for it breaks when the session ends. */
  readonly socket: TLSSocket;
  readonly #session: ServerHttp2Session;
  readonly #connections: Http2Connections;
  open = 0;
  #longLines = 0;

  constructor(session: ServerHttp2Session, socket: TLSSocket, connections: Http2Connections) {
    this.socket = socket;
    this.#session = session;
    this.#connections = connections;
    sessions.set(session, this);
    connections.add(this);
    session.once('close', () => connections.remove(this));
    session.on('stream', (stream) => {
      // It ended together with the session: nothing more comes of it.
      if (stream.destroyed) return;
      this.open++;
      stream.once('close', () => {
        this.open--;
      });
    });
    session.on('error', (error: NodeJS.ErrnoException) => {
      // The library's own errors say no more: a header line that is too long is one of them.
      if (error.code === 'ERR_HTTP2_ERROR') connections.needsHttp1(socket, 'error of its HTTP/2 connection');
    });
    session.on('goaway', (code: number) => {
      if (code === constants.NGHTTP2_COMPRESSION_ERROR) {
        connections.needsHttp1(socket, 'error of its HTTP/2 connection');
      }
    });
  }

  /**
   * Notes the headers of a response. A prepared statement and a session property come in one, and are in every request
   * after it: before a client has to send more than HTTP/2 takes, it is asked to make another connection, over
   * HTTP/1.1.
   */
  noteResponse(fields: OutgoingHttpHeaders): void {
    for (const name in fields) {
      const value = fields[name];
      if (typeof value === 'string') this.#noteLine(value);
      else if (Array.isArray(value)) for (const each of value) this.#noteLine(each);
    }
  }

  closeIdle(): void {
    if (this.open === 0) this.#session.close();
  }

  /** Ends the session and its requests: they take memory that others need. */
  evict(): void {
    this.#session.goaway(constants.NGHTTP2_ENHANCE_YOUR_CALM);
    // In the same turn of the event loop, more of its requests would be read.
    this.#session.destroy();
  }

  #noteLine(value: string): void {
    if (value.length < LONG_LINE) return;
    const before = this.#longLines;
    this.#longLines += value.length;
    if (before >= LONG_LINES || this.#longLines < LONG_LINES) return;
    // Running streams continue; further requests use another connection.
    if (this.#connections.needsHttp1(this.socket, 'long header lines in an answer')) this.#session.close();
  }
}

/** State of a session; undefined for a closed one. */
export function clientSessionOf(session: Http2Session | undefined): ClientSession | undefined {
  return session === undefined ? undefined : sessions.get(session);
}
