import type { QueryRecord } from './store.ts';

/** Widths of `query_history` in characters (docs/compatibility.md#tables), and of eg_query_decisions. */
const WIDTH = 256;
const NARROW = 255;

/** A text that all three databases take: without NUL, lone surrogates replaced. */
export function storable(text: string): string {
  const clean = text.includes('\0') ? text.replaceAll('\0', '') : text;
  return clean.isWellFormed() ? clean : clean.toWellFormed();
}

/** The first `width` characters (code points, as databases count) of a storable text. */
export function cutToWidth(text: string, width: number): string {
  const clean = storable(text);
  if (clean.length <= width) return clean;
  let end = 0;
  for (let count = 0; count < width && end < clean.length; count++) {
    end += (clean.codePointAt(end) ?? 0) > 0xffff ? 2 : 1;
  }
  return clean.slice(0, end);
}

/** The longest start of the text of at most `bytes` bytes of UTF-8, no character cut in half. */
export function cutToBytes(text: string, bytes: number): string {
  if (text.length * 3 <= bytes) return text;
  if (text.length <= bytes && Buffer.byteLength(text) <= bytes) return text;
  let end = 0;
  for (let used = 0; end < text.length; ) {
    const point = text.codePointAt(end) ?? 0;
    used += point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    if (used > bytes) break;
    end += point > 0xffff ? 2 : 1;
  }
  return text.slice(0, end);
}

const optional = (text: string | null, width: number): string | null =>
  text === null ? null : cutToWidth(text, width);

export function fitRecord(record: QueryRecord): QueryRecord {
  return {
    queryId: cutToWidth(record.queryId, WIDTH),
    queryText: storable(record.queryText),
    user: optional(record.user, WIDTH),
    source: optional(record.source, WIDTH),
    backendUrl: cutToWidth(record.backendUrl, WIDTH),
    created: record.created,
    routingGroup: optional(record.routingGroup, NARROW),
    externalUrl: optional(record.externalUrl, NARROW),
    cluster: cutToWidth(record.cluster, WIDTH),
    decision: record.decision === null ? null : storable(record.decision),
  };
}

/** The text in ASCII, `?` in place of what ASCII lacks. */
export const asciiOf = (text: string): string => text.replace(/[^\t\n\r -~]/gu, '?');
