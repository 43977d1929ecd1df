import type { IncomingMessage } from 'node:http';

const killQuery = /kill_query/i;
const execute = /\bexecute\b/i;
/** The name in a prepared statement's header: URL-encoded, or compressed and only readable by the analysis. */
const inHeader = /kill(?:_|%5f)query|zstd/i;

/**
 * True if a submission may call `kill_query`, so that it must be analyzed even if no rule needs that: its text contains
 * the word, or it executes such a prepared statement of the request. Others cost one search of their text.
 * @param text the body
 * @param preparedKey `ProductNames.headerKey('Prepared-Statement')`
 */
export function mayKillQuery(text: string, request: IncomingMessage, preparedKey: string): boolean {
  if (killQuery.test(text)) return true;
  if (!execute.test(text)) return false;
  const raw = request.rawHeaders;
  for (let index = 0; index < raw.length; index += 2) {
    const name = raw[index] as string;
    if (name.length !== preparedKey.length || name.toLowerCase() !== preparedKey) continue;
    if (inHeader.test(raw[index + 1] as string)) return true;
  }
  return false;
}
