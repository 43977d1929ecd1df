import type { IncomingMessage, Server } from 'node:http';
import type { Http2SecureServer } from 'node:http2';
import type { Socket } from 'node:net';
import { headPiecesOf } from '../bodies/headPieces.ts';
import { answerConnection, isAnswered } from './connectionAnswer.ts';

/** Why a request is refused for the size of its head. */
export interface HeadFault {
  /** RFC 9110 §15.5.15, RFC 6585 §5 */
  readonly status: 414 | 431;
  readonly message: string;
}

const KEY = 'serverConfig."http-server.max-request-header-size"';

/** A URL that alone is over the limit of the head, in bytes. */
function urlTooLong(limit: number, key = KEY): HeadFault {
  return { status: 414, message: `The URL is longer than ${limit} bytes (${key}).` };
}

/** A head over the limit, in bytes. */
function headTooLarge(limit: number, key = KEY): HeadFault {
  return { status: 431, message: `Request line and headers are larger than ${limit} bytes (${key}).` };
}

/** More header lines than there may be. */
function tooManyLines(limit: number): HeadFault {
  return { status: 431, message: `The request has more than ${limit} header lines (server.maxHeaderLines).` };
}

/**
 * Largest head over HTTP/2, bytes: its library takes a HEADERS and 8 CONTINUATION frames of 16 kB each, and closes the
 * connection where more come. A client could name one long line many times in a few bytes (RFC 7541 §6.1).
 */
export const MAX_HTTP2_HEAD = 9 * 16_384;

/** Bytes of a head as HTTP/1.1 has them. */
export function headSize({ rawHeaders, url = '', method = '' }: HeadOfRequest): number {
  // "GET /url HTTP/1.1\r\n", "name: value\r\n"
  let size = url.length + method.length + 12 + 2 * rawHeaders.length;
  for (let index = 0; index < rawHeaders.length; index++) size += (rawHeaders[index] as string).length;
  return size;
}

type HeadOfRequest = Pick<IncomingMessage, 'rawHeaders' | 'url' | 'method' | 'httpVersionMajor'>;

/**
 * What is wrong with the size of a request's head, beside what the parser of HTTP/1.1 has refused; null for nothing.
 * @param size of the head, bytes
 */
export function headFault(request: HeadOfRequest, size: number, limits: HeadLimits): HeadFault | null {
  if (request.rawHeaders.length > 2 * limits.maxHeaderLines) return tooManyLines(limits.maxHeaderLines);
  if (request.httpVersionMajor === 1) return null;
  const { limit, key } = http2Limit(limits.maxHeaderSize);
  if (size <= limit) return null;
  return (request.url ?? '').length > limit ? urlTooLong(limit, key) : headTooLarge(limit, key);
}

function http2Limit(maxHeaderSize: number): { readonly limit: number; readonly key: string } {
  return maxHeaderSize <= MAX_HTTP2_HEAD
    ? { limit: maxHeaderSize, key: KEY }
    : { limit: MAX_HTTP2_HEAD, key: 'the most over HTTP/2; HTTP/1.1 takes more' };
}

/** Limits of the head of a request. */
export interface HeadLimits {
  /** Bytes. */
  readonly maxHeaderSize: number;
  readonly maxHeaderLines: number;
}

/** How a request line ends; a header that ends like it is answered 414 as well. */
const requestLineEnd = / HTTP\/\d\.\d\r?$/;
const REQUEST_LINE_END_LENGTH = ' HTTP/1.1\r'.length;
/** Most bytes that are read, and dropped, in search of the end of a line; the largest limit that can be set. */
const MAX_LINE = 16 * 1024 ** 2;

/** What Node reports of a connection that its parser, or a time limit, gave up on. */
interface ConnectionError extends Error {
  readonly code?: string;
  /** What came last, where the parser gave up. */
  readonly rawPacket?: Buffer;
  /** Bytes of it until the parser gave up for the first time. */
  readonly bytesParsed?: number;
}

/** A line whose end is not there yet. */
interface OpenLine {
  readonly length: number;
  /** Its last characters. */
  readonly tail: string;
}

/**
 * Answers what the parser of HTTP/1.1 gives up on: as Node does by itself, but for URLs over the limit of the head, and for
 * too many lines. Of these the parser says the same as of long headers. Too many lines show by what has come being less
 * than the limit; URLs by the end of the line in which it gave up: until that comes, Node hands on each packet as one more
 * error, and the time limit of heads goes on.
 */
export function answerParserErrors(server: Server | Http2SecureServer, limits: HeadLimits) {
  const lines = new WeakMap<Socket, OpenLine>();
  const answerFault = (socket: Socket, error: Error, { status, message }: HeadFault) =>
    answerConnection(socket, { status, message: `${message}\n` }, error);
  (server as Server).on('clientError', (error: ConnectionError, duplex) => {
    const socket = duplex as Socket;
    if (isAnswered(socket)) {
      // The parser reports each packet that is dropped, and the end of the client's side.
      if (error.code === 'HPE_INVALID_EOF_STATE' || error.code?.startsWith('HPE_') !== true) socket.destroy(error);
      return;
    }
    switch (error.code) {
      case 'HPE_HEADER_OVERFLOW': {
        const before = lines.get(socket);
        if (before === undefined && parsedBytes(socket, error) < limits.maxHeaderSize) {
          answerFault(socket, error, tooManyLines(limits.maxHeaderLines));
          break;
        }
        const line = endOfLine(error, before);
        if (typeof line === 'object' && line.length < MAX_LINE) lines.set(socket, line);
        else {
          const { maxHeaderSize } = limits;
          answerFault(socket, error, line === 'request line' ? urlTooLong(maxHeaderSize) : headTooLarge(maxHeaderSize));
        }
        break;
      }
      case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
        answerConnection(socket, { status: 413, message: '' }, error);
        break;
      case 'ERR_HTTP_REQUEST_TIMEOUT':
        answerConnection(socket, { status: 408, message: '' }, error);
        break;
      default:
        // Others are of TLS or of the connection itself: there is nobody to answer.
        if (error.code?.startsWith('HPE_')) answerConnection(socket, { status: 400, message: '' }, error);
        else socket.destroy(error);
    }
  });
}

/** Bytes of the head until the parser gave up; less than they were where pieces of it are not counted. */
function parsedBytes(socket: Socket, { bytesParsed, rawPacket }: ConnectionError): number {
  // Where nobody counts, nothing distinguishes too many lines.
  const before = headPiecesOf(socket)?.bytes ?? Number.POSITIVE_INFINITY;
  return before + (bytesParsed ?? rawPacket?.length ?? 0);
}

/** Which line it is that got too long, or what is known of it so far. */
function endOfLine({ rawPacket, bytesParsed }: ConnectionError, before: OpenLine | undefined): OpenLine | string {
  if (rawPacket === undefined) return 'unknown';
  const from = before === undefined ? Math.min(bytesParsed ?? 0, rawPacket.length) : 0;
  const end = rawPacket.indexOf(10, from);
  const to = end < 0 ? rawPacket.length : end;
  const start = Math.max(from, to - REQUEST_LINE_END_LENGTH);
  const tail = `${before?.tail ?? ''}${rawPacket.toString('latin1', start, to)}`.slice(-REQUEST_LINE_END_LENGTH);
  if (end < 0) return { length: (before?.length ?? 0) + to - from, tail };
  return requestLineEnd.test(tail) ? 'request line' : 'header';
}
