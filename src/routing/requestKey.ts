import type { ProductNames } from '../model/names.ts';
import { firstHeader, type RawHeaders } from '../model/rawHeaders.ts';
import type { RequestKey } from './admissionPolicy.ts';

const HEADER = 'header:';

/** Parses `user`, `source`, `session` or `header:NAME`; its schema has checked the text. */
export function requestKeyOf(text: string): RequestKey {
  if (text.startsWith(HEADER)) return { by: 'header', header: text.slice(HEADER.length).toLowerCase() };
  return { by: text === 'source' || text === 'session' ? text : 'user' };
}

export interface KeyedRequest {
  /** Null if unknown. */
  readonly user: string | null;
  readonly headers: RawHeaders;
}

/**
 * The value of a request's key (docs/routing.md#affinity), or null. A session consists of user, source, client info and
 * trace token.
 */
export function keyValue({ user, headers }: KeyedRequest, key: RequestKey, names: ProductNames): string | null {
  const header = (suffix: string) => firstHeader(headers, names.headerKey(suffix));
  switch (key.by) {
    case 'user':
      return user;
    case 'source':
      return header('Source') ?? null;
    case 'session': {
      const parts = [user, header('Source'), header('Client-Info'), header('Trace-Token')];
      return parts.every((part) => part == null) ? null : JSON.stringify(parts);
    }
    case 'header':
      return firstHeader(headers, names.ownHeader(key.header)) ?? null;
  }
}
