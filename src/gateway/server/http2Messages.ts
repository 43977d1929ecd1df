import type { IncomingMessage, ServerResponse } from 'node:http';
import {
  constants,
  type Http2Session,
  type IncomingHttpHeaders,
  Http2ServerRequest as NodeRequest,
  Http2ServerResponse as NodeResponse,
  type ServerHttp2Stream,
} from 'node:http2';
import type { Socket } from 'node:net';
import type { ReadableOptions } from 'node:stream';

/** The connection of each HTTP/2 session; Node's own stand-in for it breaks when the session ends. */
export const socketOf = new WeakMap<Http2Session, Socket>();

/**
 * A request over HTTP/2 that reads like one over HTTP/1.1: no pseudo headers among its lines, `Host` for `:authority`,
 * one line of cookies, and an end only where the client ended it.
 */
export class Http2Request extends NodeRequest {
  constructor(
    stream: ServerHttp2Stream,
    headers: IncomingHttpHeaders,
    options: ReadableOptions,
    rawHeaders: readonly string[],
  ) {
    const authority = headers[':authority'] ?? headers.host;
    if (authority !== undefined) headers.host = authority;
    const chunked = !stream.endAfterHeaders && headers['content-length'] === undefined;
    if (chunked) headers['transfer-encoding'] = 'chunked';
    super(stream, headers, options, linesOf(headers, rawHeaders, chunked));
    const socket = stream.session === undefined ? undefined : socketOf.get(stream.session);
    if (socket !== undefined) Object.defineProperty(this, 'socket', { value: socket });
  }

  override _read(size: number): void {
    // Nothing more comes; Node's own would take it for a defect.
    if (!this.stream.closed) super._read(size);
  }

  override push(chunk: Buffer | null, encoding?: BufferEncoding): boolean {
    // Node ends the request also when its stream was reset: a body cut short would pass for a whole one.
    if (chunk === null && this.stream.closed && !this.stream.endAfterHeaders) return false;
    return super.push(chunk, encoding);
  }
}

/**
 * A response over HTTP/2 that is written like one over HTTP/1.1. Node drops headers of the connection by itself
 * (RFC 9113 §8.2.2).
 */
export class Http2Response extends NodeResponse {
  constructor(stream: ServerHttp2Stream) {
    super(stream);
    // Its connection is that of other requests as well: nobody may write to it.
    Object.defineProperty(this, 'socket', { value: null });
  }

  // HTTP/2 has no reason phrase (RFC 9113 §8.3.2).
  override writeHead(status: number, ...rest: readonly unknown[]): this {
    const headers = typeof rest[0] === 'string' ? rest[1] : rest[0];
    return super.writeHead(status, headers as IncomingHttpHeaders);
  }

  /** Ends the stream with an error: without one, an answer cut short would pass for a whole one. */
  override destroy(): this {
    if (!this.stream.closed) this.stream.close(constants.NGHTTP2_INTERNAL_ERROR);
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
    } else lines.push(name, raw[index + 1] as string);
  }
  if (chunked) lines.push('transfer-encoding', 'chunked');
  return lines;
}
