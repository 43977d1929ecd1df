import type { IncomingMessage, ServerResponse } from 'node:http';
import { isHeader } from '../../model/rawHeaders.ts';
import { endWith } from '../bodies/lastRequest.ts';

/** Reason that a request is rejected before its content is read. */
export interface FramingFault {
  readonly status: 400 | 431 | 501 | 505;
  readonly message: string;
}

const versions: FramingFault = { status: 505, message: 'HTTP/1.1 and HTTP/1.0 are spoken here.' };
const hosts: FramingFault = { status: 400, message: 'The request has more than one Host.' };
const oldCoding: FramingFault = { status: 400, message: 'HTTP/1.0 knows no Transfer-Encoding.' };
const codings: FramingFault = {
  status: 501,
  message: 'The only Transfer-Encoding that is taken is one line "chunked".',
};

/**
 * Rejects requests that Node's parser accepts although a second parser might interpret the same bytes differently: more
 * than one Host (RFC 9112 §3.2), codings other than chunked, which the gateway would drop without decoding (§6.1), any
 * coding in HTTP/1.0 (§6.1), and versions that are not of this protocol (§2.3). Null for a valid request.
 */
export function framingFault(request: IncomingMessage): FramingFault | null {
  if (request.httpVersionMajor === 2) return request.httpVersion === '2.0' && 'stream' in request ? null : versions;
  if (request.httpVersionMajor !== 1) return versions;
  const raw = request.rawHeaders;
  let hostLines = 0;
  let codingLines = 0;
  for (let index = 0; index < raw.length; index += 2) {
    const name = raw[index] as string;
    if (isHeader(name, 'host')) {
      if (++hostLines > 1) return hosts;
    } else if (isHeader(name, 'transfer-encoding')) {
      if (request.httpVersionMinor === 0) return oldCoding;
      if (++codingLines > 1 || (raw[index + 1] as string).toLowerCase() !== 'chunked') return codings;
    }
  }
  return null;
}

/**
 * Responds to a request that is rejected for its framing, and ends its connection: what follows cannot be trusted
 * either.
 */
export function rejectFraming(request: IncomingMessage, response: ServerResponse, fault: FramingFault): void {
  rejectUnread(request, response, fault.status, 'text/plain; charset=utf-8', `${fault.message}\n`);
}

/** Rejects a request, and ends its connection: what else it holds is not read. */
export function rejectUnread(
  request: IncomingMessage,
  response: ServerResponse,
  status: number,
  type: string,
  body: string,
): void {
  endWith(request, response);
  response.writeHead(status, { 'content-type': type, 'content-length': Buffer.byteLength(body) });
  response.end(body);
}
