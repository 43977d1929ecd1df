import { type IncomingMessage, type Server, type ServerResponse, STATUS_CODES } from 'node:http';
import type { Http2SecureServer } from 'node:http2';
import type { Socket } from 'node:net';
import { linger } from '../bodies/lastRequest.ts';

/** Limits of the head of a request. */
export interface HeadLimits {
  /** Bytes of request line and header lines. */
  readonly maxHeaderSize: number;
  readonly maxHeaderLines: number;
}

/** The limit of heads over HTTP/2, bytes: its library takes one HEADERS and 8 CONTINUATION frames of 16 kB each. */
export const MAX_HTTP2_HEAD = 9 * 16_384;

const KEY = 'serverConfig."http-server.max-request-header-size"';

/** The message of a rejection of a request for its head (RFC 6585 §5), which the parser has not rejected; null for none. */
export function headFault(
  { rawHeaders, url = '', httpVersionMajor }: Pick<IncomingMessage, 'rawHeaders' | 'url' | 'httpVersionMajor'>,
  { maxHeaderSize, maxHeaderLines }: HeadLimits,
): string | null {
  if (rawHeaders.length > 2 * maxHeaderLines) {
    return `The request has more than ${maxHeaderLines} header lines (server.maxHeaderLines).`;
  }
  if (httpVersionMajor === 1) return null;
  const limit = Math.min(maxHeaderSize, MAX_HTTP2_HEAD);
  // As HTTP/1.1 has them: "name: value\r\n".
  const size = rawHeaders.reduce((sum, text) => sum + text.length + 2, url.length);
  if (size <= limit) return null;
  const key = limit === maxHeaderSize ? KEY : 'the most over HTTP/2; HTTP/1.1 takes more';
  return `Request line and headers are larger than ${limit} bytes (${key}).`;
}

const lastResponse = Symbol('last response');

interface RespondingSocket extends Socket {
  [lastResponse]?: ServerResponse | 'parser error';
}

/** Notes which response is the last one on a connection over HTTP/1.1. */
export function noteLastResponse({ socket }: IncomingMessage, response: ServerResponse): void {
  (socket as RespondingSocket)[lastResponse] = response;
}

/** Error of a connection that Node's parser, or a time limit, aborted. */
interface ConnectionError extends Error {
  readonly code?: string;
}

/**
 * Responds to what the parser of HTTP/1.1 rejects, as Node does by default, and names the limits of heads. A connection that
 * is closed while its client still sends is reset, which can take the response away from the client. So only the gateway's
 * side is ended, and what comes is dropped until the client ends its own (RFC 9112 §9.6).
 */
export function responseParserErrors(
  server: Server | Http2SecureServer,
  { maxHeaderSize, maxHeaderLines }: HeadLimits,
) {
  const tooLarge = `Request line and headers are larger than ${maxHeaderSize} bytes (${KEY}), or have more than ${maxHeaderLines} lines (server.maxHeaderLines).\n`;
  (server as Server).on('clientError', (error: ConnectionError, duplex) => {
    const socket = duplex as RespondingSocket;
    const last = socket[lastResponse];
    if (last === 'parser error') {
      // The end of the client's side, or of the time for the request.
      socket.destroy();
      return;
    }
    const status = statusOf(error);
    // In the middle of another response it would be taken for a part of that.
    const isResponding = last?.headersSent === true && !last.writableFinished;
    if (status === null || isResponding || !socket.writable) {
      socket.destroy(error);
      return;
    }
    socket[lastResponse] = 'parser error';
    // The parser would copy each further packet into an error.
    socket.removeAllListeners('data').on('data', () => undefined);
    linger(socket, responseText(status, status === 431 ? tooLarge : ''));
  });
}

function statusOf({ code }: ConnectionError): 400 | 408 | 413 | 431 | null {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return 431;
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return 413;
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return 408;
    default:
      // Others are of TLS or of the connection itself.
      return code?.startsWith('HPE_') === true ? 400 : null;
  }
}

function responseText(status: number, message: string): string {
  const body =
    message === ''
      ? ''
      : `Content-Type: text/plain; charset=utf-8\r\nContent-Length: ${Buffer.byteLength(message)}\r\n`;
  return `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${body}Connection: close\r\n\r\n${message}`;
}
