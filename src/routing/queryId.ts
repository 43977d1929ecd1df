import { type PathKind, type ProxiedPaths, withoutParameters } from './proxiedPaths.ts';

const plausible = /^[A-Za-z0-9_.-]{1,256}$/;

const inQuery = /(?:%2F|query_?id=|^)(\d+_\d+_\d+_\w+)/gi;
const inUiPath = /\/(\d+_\d+_\d+_\w+)/g;

/** The last characters of ids that the gateway gives to queued queries; no cluster may own them. */
export const QUEUE_SUFFIX = 'queue';

/** True if the gateway assigned the id to a query while it was queued (docs/protocol.md#queries-that-wait). */
export function isQueuedId(id: string): boolean {
  return id.endsWith(`_${QUEUE_SUFFIX}`) && coordinatorSuffix(id) === QUEUE_SUFFIX;
}

/** True if the form of an id justifies a database query. */
export function isPlausible(id: string): boolean {
  return plausible.test(id);
}

/**
 * The five characters at the end of a coordinator's ids (docs/protocol.md#form); null for ids of another form than
 * date, time, counter and five lower-case letters or digits: `20261121_015745_00000_kvhrm`. Runs for every follow-up:
 * compares characters instead of matching an expression.
 */
export function coordinatorSuffix(id: string): string | null {
  const { length } = id;
  if (length < 23 || length > 40) return null;
  for (let index = 0; index < length; index++) {
    const code = id.charCodeAt(index);
    if (index === 8 || index === 15 || index === length - 6) {
      if (code !== 95) return null;
    } else if (code < 48 || code > 57) {
      if (index < length - 5 || code < 97 || code > 122) return null;
    }
  }
  return id.slice(length - 5);
}

/** Start of a query from its id (`20261121_015745_00000_kvhrm`, UTC), milliseconds since 1970; null for other ids. */
export function queryStart(id: string): number | null {
  const parts = /^(\d{4})(\d\d)(\d\d)_(\d\d)(\d\d)(\d\d)_/.exec(id);
  if (parts === null) return null;
  const [year, month, ...rest] = parts.slice(1).map(Number) as [number, number, number, number, number, number];
  const time = Date.UTC(year, month - 1, ...rest);
  return Number.isNaN(time) ? null : time;
}

/**
 * The query id in a request other than a POST (docs/protocol.md#recognising; the first hit wins): in the query string,
 * after a statement path or `/v1/query`, or in a path below `/ui`.
 * @param query query string without `?`, or null
 */
export function recognizeQueryId(
  paths: ProxiedPaths,
  kind: PathKind,
  path: string,
  query: string | null,
): string | null {
  if (query !== null && query !== '') {
    const id = lastMatch(inQuery, query);
    if (id !== null) return id;
  }
  if (kind === 'statement') {
    const base = paths.statementPathOf(path);
    return base === null ? null : idAfter(path, base.length);
  }
  if (kind === 'query') {
    const next = path.charCodeAt(9);
    return next === 47 || next === 59 ? idAfter(path, 9) : null;
  }
  return kind === 'ui' ? lastMatch(inUiPath, path) : null;
}

/** The id among the segments after a base: `queued|scheduled|executing/{id}`, `…/partialCancel/{id}`, else the first. */
function idAfter(path: string, baseLength: number): string | null {
  let start = path.indexOf('/', baseLength);
  if (start < 0) return null;
  let segment = segmentAt(path, start + 1);
  if (segment === 'queued' || segment === 'scheduled' || segment === 'executing') {
    start += segment.length + 1;
    segment = segmentAt(path, start + 1);
  }
  if (segment === 'partialCancel') {
    start += segment.length + 1;
    segment = segmentAt(path, start + 1);
  }
  const id = withoutParameters(segment);
  return id === '' ? null : id;
}

function segmentAt(path: string, start: number): string {
  const end = path.indexOf('/', start);
  return end < 0 ? path.slice(start) : path.slice(start, end);
}

/** The match with the last start, as a greedy `.*` before the expression finds it. */
function lastMatch(expression: RegExp, text: string): string | null {
  let last: string | null = null;
  expression.lastIndex = 0;
  for (let match = expression.exec(text); match !== null; match = expression.exec(text)) {
    last = match[1] ?? null;
    // Matches may overlap, as `\w` contains the start of the next one.
    expression.lastIndex = match.index + 1;
  }
  return last;
}

/** Engines send UUIDs; other text does not identify a transaction. */
const form = /^[0-9A-Za-z-]{8,64}$/;

/**
 * The id of a transaction in a header's value, or null. Clients of the statement protocol send `NONE` outside of
 * transactions.
 */
export function transactionIdOf(value: unknown): string | null {
  return typeof value === 'string' && form.test(value) ? value : null;
}
