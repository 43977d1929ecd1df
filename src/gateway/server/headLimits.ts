import { type Server, STATUS_CODES } from 'node:http';
import type { Http2SecureServer } from 'node:http2';
import type { Socket } from 'node:net';

/** Why a request is refused for the size of its head. */
export interface HeadFault {
  /** RFC 9110 §15.5.15, RFC 6585 §5 */
  readonly status: 414 | 431;
  readonly message: string;
}

const KEY = 'serverConfig."http-server.max-request-header-size"';

/** A URL that alone is over the limit of the head, in bytes. */
export function urlTooLong(limit: number): HeadFault {
  return { status: 414, message: `The URL is longer than ${limit} bytes (${KEY}).` };
}

/** A head over the limit, in bytes. */
export function headTooLarge(limit: number): HeadFault {
  return { status: 431, message: `Request line and headers are larger than ${limit} bytes (${KEY}).` };
}

/** Most header lines of a request; more are refused by that name. */
const MAX_HEADER_LINES = 10_000;
/** Lines at which Node's parser gives up; it does not say that it was for their number. */
export const MAX_PARSED_LINES = 5 * MAX_HEADER_LINES;

/** What is wrong with a request of too many header lines; null for all others. */
export function headerLinesFault({
  rawHeaders,
}: {
  readonly rawHeaders: readonly string[];
}): (HeadFault & { readonly status: 431 }) | null {
  if (rawHeaders.length <= 2 * MAX_HEADER_LINES) return null;
  return { status: 431, message: `The request has more than ${MAX_HEADER_LINES} header lines.` };
}

/** How a request line ends; a header that ends like it is answered 414 as well. */
const requestLineEnd = / HTTP\/\d\.\d\r?$/;
const REQUEST_LINE_END_LENGTH = ' HTTP/1.1\r'.length;
/** Most bytes that are read, and dropped, in search of the end of a line; the largest limit that can be set. */
const MAX_LINE = 16 * 1024 ** 2;

/** Most time, in milliseconds, in which what a client still sends after its answer is dropped. */
const LINGER_MS = 5_000;

/** What Node tells of a connection that its parser, or a time limit, gave up on. */
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
 * Answers what the parser of HTTP/1.1 gives up on: as Node does by itself, but for URLs over the limit of the head. Of
 * those the parser says the same as of long headers. The end of the line in which it gave up tells them apart; until it
 * comes, Node hands on each packet as one more error, and the time limit of heads goes on.
 *
 * A connection that is closed while its client still sends is reset, which can take the answer away from the client. So
 * only our side is ended, and what comes is dropped until the client ends its own (RFC 9112 §9.6).
 */
export function answerParserErrors(server: Server | Http2SecureServer, { maxHeaderSize }: { maxHeaderSize: number }) {
  const lines = new WeakMap<Socket, OpenLine>();
  const answered = new WeakSet<Socket>();
  const answer = (socket: Socket, error: Error, status: number, message: string) => {
    // In the middle of another answer it would be taken for a part of that.
    if (!socket.writable || hasAnswerBegun(socket)) {
      socket.destroy(error);
      return;
    }
    answered.add(socket);
    const timer = setTimeout(() => socket.destroy(), LINGER_MS);
    socket.once('close', () => clearTimeout(timer));
    socket.end(answerText(status, message));
  };
  (server as Server).on('clientError', (error: ConnectionError, duplex) => {
    const socket = duplex as Socket;
    if (answered.has(socket)) {
      // The parser tells of each packet that is dropped, and of the end of the client's side.
      if (error.code === 'HPE_INVALID_EOF_STATE' || error.code?.startsWith('HPE_') !== true) socket.destroy(error);
      return;
    }
    switch (error.code) {
      case 'HPE_HEADER_OVERFLOW': {
        const line = endOfLine(error, lines.get(socket));
        if (typeof line === 'object' && line.length < MAX_LINE) lines.set(socket, line);
        else {
          const fault = line === 'request line' ? urlTooLong(maxHeaderSize) : headTooLarge(maxHeaderSize);
          answer(socket, error, fault.status, `${fault.message}\n`);
        }
        break;
      }
      case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
        answer(socket, error, 413, '');
        break;
      case 'ERR_HTTP_REQUEST_TIMEOUT':
        answer(socket, error, 408, '');
        break;
      default:
        // Others are of TLS or of the connection itself: there is nobody to answer.
        if (error.code?.startsWith('HPE_')) answer(socket, error, 400, '');
        else socket.destroy(error);
    }
  });
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

function hasAnswerBegun(socket: Socket): boolean {
  const { _httpMessage: message } = socket as { _httpMessage?: { readonly headersSent: boolean } | null };
  return message?.headersSent === true;
}

function answerText(status: number, message: string): string {
  const body =
    message === ''
      ? ''
      : `Content-Type: text/plain; charset=utf-8\r\nContent-Length: ${Buffer.byteLength(message)}\r\n`;
  return `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${body}Connection: close\r\n\r\n${message}`;
}
