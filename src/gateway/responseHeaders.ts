import type { IncomingHttpHeaders } from 'undici/types/header.js';

/** Lines of a cluster's answer for the client: hop-by-hop ones dropped, repeated ones kept as lines of their own. */
export function headersForClient(headers: IncomingHttpHeaders): string[] {
  const lines: string[] = [];
  const connection = headers.connection;
  const named =
    connection === undefined || connection === 'keep-alive' || connection === 'close' ? null : namesIn(connection);
  for (const name in headers) {
    switch (name) {
      case 'connection':
      case 'keep-alive':
      case 'proxy-connection':
      case 'transfer-encoding':
      case 'upgrade':
      case 'te':
        continue;
      default: {
        if (named?.has(name) === true) continue;
        const value = headers[name];
        if (typeof value === 'string') lines.push(name, value);
        else if (value !== undefined) for (const one of value) lines.push(name, one);
      }
    }
  }
  return lines;
}

function namesIn(connection: string | readonly string[]): Set<string> | null {
  const names = new Set<string>();
  for (const line of typeof connection === 'string' ? [connection] : connection) {
    for (const token of line.toLowerCase().split(',')) names.add(token.trim());
  }
  for (const kept of ['keep-alive', 'close', 'content-length', 'content-type', '']) names.delete(kept);
  return names.size === 0 ? null : names;
}
