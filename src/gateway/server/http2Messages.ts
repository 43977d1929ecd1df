import type { IncomingMessage, ServerResponse } from 'node:http';
import {
  constants,
  type IncomingHttpHeaders,
  Http2ServerRequest as NodeRequest,
  Http2ServerResponse as NodeResponse,
  type OutgoingHttpHeaders,
  type ServerHttp2Stream,
} from 'node:http2';
import type { ReadableOptions } from 'node:stream';
import { UnreadChunks } from '../bodies/unreadChunks.ts';
import { clientSessionOf } from './http2Connections.ts';

/**
 * A request over HTTP/2 that reads like one over HTTP/1.1: no pseudo headers among its lines, `Host` for `:authority`,
 * one line of cookies, and an end only where the client ended it.
 */
export class Http2Request extends NodeRequest {
  readonly #unread = new UnreadChunks(this, (chunk) => super.push(chunk));

  constructor(
    stream: ServerHttp2Stream,
    headers: IncomingHttpHeaders,
    options: ReadableOptions,
    rawHeaders: readonly string[],
  ) {
    for (const name in headers) {
      const value = headers[name];
      if (typeof value === 'string' && value.length > LONG_VALUE) headers[name] = onHeap(value);
    }
    const authority = headers[':authority'] ?? headers.host;
    if (authority !== undefined) headers.host = authority;
    const chunked = !stream.endAfterHeaders && headers['content-length'] === undefined;
    if (chunked) headers['transfer-encoding'] = 'chunked';
    super(stream, headers, options, linesOf(headers, rawHeaders, chunked));
    const socket = clientSessionOf(stream.session)?.socket;
    if (socket !== undefined) Object.defineProperty(this, 'socket', { value: socket });
    if (!stream.endAfterHeaders) copySmallChunks(stream);
  }

  override _read(size: number): void {
    // Nothing more comes; Node's own would take it for a defect.
    if (!this.stream.closed) super._read(size);
  }

  override push(chunk: Buffer | null, encoding?: BufferEncoding): boolean {
    // Node ends the request also when its stream was reset: a body cut short would pass for a whole one.
    if (chunk === null && this.stream.closed && !this.stream.endAfterHeaders) return false;
    return encoding === undefined ? this.#unread.push(chunk) : super.push(chunk, encoding);
  }

  override read(size?: number): Buffer | string | null {
    this.#unread.flush();
    return super.read(size);
  }
}

/** Length from which on the text of a header line is copied. */
const LONG_VALUE = 1_024;

/**
 * Copies a long text to V8's heap. The HTTP/2 library has it in memory that V8 does not count, and that is free only when V8
 * collects the string that stands for it: rejected requests alone would fill the memory of the process before that.
 */
function onHeap(text: string): string {
  return text.length > LONG_VALUE ? Buffer.from(text, 'latin1').toString('latin1') : text;
}

/** A stream takes what the client may send by its window, whether or not its request is read. */
function copySmallChunks(stream: ServerHttp2Stream): void {
  const { push, read } = stream;
  const unread = new UnreadChunks(stream, (chunk) => push.call(stream, chunk));
  stream.push = (chunk: Buffer | null) => unread.push(chunk);
  stream.read = (size?: number) => {
    unread.flush();
    return read.call(stream, size);
  };
}

/**
 * A response over HTTP/2 that is written like one over HTTP/1.1. Node drops headers of the connection by itself
 * (RFC 9113 §8.2.2).
 */
export class Http2Response extends NodeResponse {
  constructor(stream: ServerHttp2Stream) {
    super(stream);
    // Its connection is that of other requests as well: no one may write to it.
    Object.defineProperty(this, 'socket', { value: null });
    endWithLastByte(stream);
  }

  // HTTP/2 has no reason phrase (RFC 9113 §8.3.2).
  override writeHead(status: number, ...rest: readonly unknown[]): this {
    const headers = typeof rest[0] === 'string' ? rest[1] : rest[0];
    return super.writeHead(status, headers as IncomingHttpHeaders);
  }

  /** Ends the stream with an error: without one, a response cut short would pass for a whole one. */
  override destroy(): this {
    if (!this.stream.closed) resetStream(this.stream, constants.NGHTTP2_INTERNAL_ERROR);
    return this;
  }
}

// Properties of the type, so that they cannot be overridden as what they are.
Object.defineProperties(Http2Response.prototype, {
  // Node's class has none.
  destroyed: {
    get(this: Http2Response) {
      return this.stream.closed || this.stream.destroyed;
    },
  },
  // Node ends the stream itself when the client resets it.
  writableFinished: {
    get(this: Http2Response) {
      return this.stream.writableFinished && !this.stream.aborted;
    },
  },
});

/**
 * Resets a stream. Node ends the response first when it closes a stream, which would send END_STREAM before the reset.
 */
export function resetStream(stream: ServerHttp2Stream, code: number): void {
  if (!stream.writableEnded) stream._final = () => undefined;
  stream.close(code);
}

/**
 * Headers of responses that have one value: Node rejects to send two over HTTP/2. Of two lines, which a proxy in front
 * of a cluster may cause, the first counts, as it does for clients over HTTP/1.1.
 */
const SINGLE_VALUED = [
  ...['access-control-allow-credentials', 'access-control-max-age', 'age', 'content-encoding', 'content-language'],
  ...['content-location', 'content-md5', 'content-range', 'content-type', 'date', 'etag', 'expires', 'last-modified'],
  ...['location', 'retry-after', 'tk', 'x-content-type-options'],
];

/**
 * Ends a response of a known length with END_STREAM on the frame that completes it. Node's response always waits for
 * trailers, and so ends every response with a DATA frame of its own. Clients that count the bytes take the response for
 * complete before that frame: OkHttp, which the JDBC driver uses, then closes the connection while it reads on.
 *
 * Once such a response is complete, a client that still sends its request is asked to stop (RFC 9113 §8.1): many read
 * the response only then.
 */
function endWithLastByte(stream: ServerHttp2Stream): void {
  const { respond } = stream;
  stream.respond = (headers, options) => {
    const fields = (headers ?? {}) as OutgoingHttpHeaders;
    for (const name of SINGLE_VALUED) {
      const value = fields[name];
      if (Array.isArray(value)) fields[name] = value[0];
    }
    clientSessionOf(stream.session)?.noteResponse(fields);
    const length = fields['content-length'];
    if (length === undefined) {
      respond.call(stream, headers, options);
      return;
    }
    if (!stream.endAfterHeaders) {
      stream.once('finish', () => {
        if (!stream.readableEnded) stream.close(constants.NGHTTP2_NO_ERROR);
      });
    }
    // Trailers come only after a response of unknown length (RFC 9112 §7.1.2).
    const atOnce = String(length) === '0' ? { endStream: true } : {};
    respond.call(stream, headers, { ...options, ...atOnce, waitForTrailers: false });
  };
}

/** The same request and response under the types of HTTP/1.1, whose members they have as far as the gateway uses them. */
export function asHttp1(
  request: NodeRequest,
  response: NodeResponse,
): { request: IncomingMessage; response: ServerResponse } {
  return {
    request: request as unknown as IncomingMessage,
    response: response as unknown as ServerResponse,
  };
}

/** Header lines as an HTTP/1.1 client would have sent them. */
function linesOf(headers: IncomingHttpHeaders, raw: readonly string[], chunked: boolean): string[] {
  const lines: string[] = headers.host === undefined ? [] : ['host', headers.host];
  let cookies = false;
  for (let index = 0; index < raw.length; index += 2) {
    const name = raw[index] as string;
    if (name.startsWith(':') || name === 'host') continue;
    if (name === 'cookie') {
      // Clients may split them into many lines (RFC 9113 §8.2.3).
      if (!cookies) lines.push(name, headers.cookie as string);
      cookies = true;
    } else lines.push(name, onHeap(raw[index + 1] as string));
  }
  if (chunked) lines.push('transfer-encoding', 'chunked');
  return lines;
}
