import type { IncomingMessage } from 'node:http';
import { firstHeader, isHeader } from '../../model/rawHeaders.ts';

/** True if a request has a body (RFC 9112 §6.3). */
export function hasBody(request: IncomingMessage): boolean {
  const raw = request.rawHeaders;
  for (let index = 0; index < raw.length; index += 2) {
    const name = raw[index] as string;
    if (isHeader(name, 'content-length')) return Number(raw[index + 1]) > 0;
    if (isHeader(name, 'transfer-encoding')) return true;
  }
  return false;
}

/** Bytes that the client announced; null when it did not say. */
export function announcedLength(request: IncomingMessage): number | null {
  const value = firstHeader(request.rawHeaders, 'content-length');
  return value === undefined ? null : Number(value);
}

export interface BodyStart {
  readonly bytes: Buffer;
  /** False: more follows, and the request is paused. */
  readonly complete: boolean;
  /** The bytes as UTF-8. */
  readonly text: string;
}

const nothing = Buffer.alloc(0);

export const emptyBody: BodyStart = { bytes: nothing, complete: true, text: '' };
