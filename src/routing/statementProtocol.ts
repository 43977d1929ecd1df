import { createHash } from 'node:crypto';

/** Purpose of a proxied path; determines stickiness and the form of rejections. */
export type PathKind = 'statement' | 'query' | 'ui' | 'other';

export const STATEMENT_PATH = '/v1/statement';

const fixedPrefixes: readonly (readonly [prefix: string, kind: PathKind])[] = [
  ['/v1/query', 'query'],
  ['/v1/spooled', 'other'],
  ['/v1/info', 'other'],
  ['/v1/node', 'other'],
  ['/ui', 'ui'],
  ['/oauth2', 'other'],
];

export type RequestKind = 'submission' | 'follow_up' | 'query' | 'ui' | 'other';

/** A proxied request by method and URL. */
export interface ProxiedTarget {
  readonly target: RequestTarget;
  /** Key of a cluster in front of the path, or null. */
  readonly clusterKey: string | null;
  readonly pathKind: PathKind;
  readonly kind: RequestKind;
  /** Below a statement path: refusals come in the engine's protocol. */
  readonly statementPath: boolean;
  /** The query that it is about; null for none, and for a POST. */
  readonly queryId: string | null;
  readonly isOfQueue: boolean;
  readonly hasDotSegments: boolean;
}

export interface PathPattern {
  matches(path: string): boolean;
}

/** Additional proxied paths (docs/compatibility.md#proxied-paths). */
export interface ProxiedPathOptions {
  /** Additional statement paths, absolute; none is a prefix of another. */
  readonly additionalStatementPaths: readonly string[];
  readonly extraWhitelistPaths: readonly PathPattern[];
}

/**
 * Recognizes proxied paths (docs/compatibility.md#proxied-paths): by plain prefix, case-sensitive, on the path as sent.
 */
export class ProxiedPaths {
  readonly statementPaths: readonly string[];
  readonly #prefixes: readonly (readonly [string, PathKind])[];
  readonly #whitelist: readonly PathPattern[];

  constructor(options: ProxiedPathOptions) {
    this.statementPaths = [STATEMENT_PATH, ...options.additionalStatementPaths.map((path) => path.replace(/\/+$/, ''))];
    this.#prefixes = [...this.statementPaths.map((path) => [path, 'statement'] as const), ...fixedPrefixes];
    this.#whitelist = options.extraWhitelistPaths;
  }

  /** Reads a request target; null if it is not proxied. */
  read(method: string, rawUrl: string): ProxiedTarget | null {
    const target = splitTarget(rawUrl);
    if (target === null) return null;
    let { path } = target;
    const { query } = target;
    const clusterKey = keyForm.exec(path)?.[1] ?? null;
    if (clusterKey !== null) path = path.slice(clusterKey.length + 1);
    const pathKind = this.kindOf(path);
    if (pathKind === null) return null;
    const isSubmission = clusterKey === null && method === 'POST' && this.isSubmissionPath(path);
    const queryId = method === 'POST' ? null : recognizeQueryId(this, pathKind, path, query);
    return {
      target: { path, query },
      clusterKey,
      pathKind,
      kind: isSubmission ? 'submission' : pathKind === 'statement' ? 'follow_up' : pathKind,
      statementPath: isSubmission || (pathKind === 'statement' && this.statementPathOf(path) !== null),
      queryId,
      isOfQueue: queryId !== null && isQueuedId(queryId),
      hasDotSegments: hasDotSegments(path),
    };
  }

  kindOf(path: string): PathKind | null {
    for (const [prefix, kind] of this.#prefixes) {
      if (path.startsWith(prefix)) return kind;
    }
    for (const pattern of this.#whitelist) {
      if (pattern.matches(path)) return 'other';
    }
    return null;
  }

  /** The statement path that equals the path or contains it; null for others (`/v1/statementX` is not below). */
  statementPathOf(path: string): string | null {
    for (const candidate of this.statementPaths) {
      if (!path.startsWith(candidate)) continue;
      const next = path.charCodeAt(candidate.length);
      // End of the path, "/" or ";": a path parameter belongs to its segment.
      if (Number.isNaN(next) || next === 47 || next === 59) return candidate;
    }
    return null;
  }

  /**
   * True if a POST on the path submits a query: its segments, without path parameters and trailing slashes, are a
   * statement path. Engines accept `/v1/statement/` and `/v1/statement;x=1` as submissions.
   */
  isSubmissionPath(path: string): boolean {
    if (path === STATEMENT_PATH) return true;
    if (this.statementPathOf(path) === null) return false;
    const plain = path
      .split('/')
      .map((segment) => withoutParameters(segment))
      .join('/')
      .replace(/\/+$/, '');
    return this.statementPaths.includes(plain);
  }
}

export function withoutParameters(segment: string): string {
  const semicolon = segment.indexOf(';');
  return semicolon < 0 ? segment : segment.slice(0, semicolon);
}

/** A request target as path and query string, both as sent. */
export interface RequestTarget {
  readonly path: string;
  /** Without `?`; null if missing. */
  readonly query: string | null;
}

/**
 * Splits a request target in origin form (`/a?b`) or absolute form (`http://host/a?b`, RFC 9112 §3.2.2).
 * @returns null for anything else (`*`, an authority)
 */
export function splitTarget(rawUrl: string): RequestTarget | null {
  let target = rawUrl;
  if (target.charCodeAt(0) !== 47) {
    const absolute = /^https?:\/\/[^/?#]*/i.exec(target);
    if (absolute === null) return null;
    target = target.slice(absolute[0].length);
    if (target.charCodeAt(0) !== 47) target = `/${target}`;
  }
  const mark = target.indexOf('?');
  return mark < 0 ? { path: target, query: null } : { path: target.slice(0, mark), query: target.slice(mark + 1) };
}

export function targetText({ path, query }: RequestTarget): string {
  return query === null ? path : `${path}?${query}`;
}

const dotSegment = /(?:^|[/\\]|%2f|%5c)(?:\.|%2e){1,2}(?:$|[/\\;]|%2f|%5c)/i;

/**
 * True if a path contains a `.` or `..` segment, raw or percent-encoded, also with path parameters or encoded slashes:
 * the gateway and the engine could interpret such a path differently.
 */
export function hasDotSegments(path: string): boolean {
  // Nearly all paths have neither; a plain search is far cheaper than the expression.
  if (path.indexOf('.') < 0 && path.indexOf('%') < 0) return false;
  return dotSegment.test(path);
}

/** `k` and this many hexadecimal digits. */
const DIGITS = 16;
export const CLUSTER_KEY_FORM = `k[0-9a-f]{${DIGITS}}`;
const keyForm = new RegExp(`^/(${CLUSTER_KEY_FORM})/`);

/**
 * Opaque key of a cluster: in URLs of spooled results and in cookies of the OAuth2 handshake. A hash of the
 * registry name, so that every replica computes the same one. It hides the name from other users, but it is not a
 * secret.
 */
export function clusterKey(name: string): string {
  return `k${createHash('sha256').update(`cluster ${name}`).digest('hex').slice(0, DIGITS)}`;
}

/** Ids that justify a database query. */
export const PLAUSIBLE_ID = /^[A-Za-z0-9_.-]{1,256}$/;

const inQuery = /(?:%2F|query_?id=|^)(\d+_\d+_\d+_\w+)/gi;
const inUiPath = /\/(\d+_\d+_\d+_\w+)/g;

/** The last characters of ids that the gateway gives to queued queries; no cluster may own them. */
export const QUEUE_SUFFIX = 'queue';

/** True if the gateway assigned the id to a query while it was queued (docs/protocol.md#queries-that-wait). */
export function isQueuedId(id: string): boolean {
  return coordinatorSuffix(id) === QUEUE_SUFFIX;
}

/** Ids of coordinators: date, time, counter and five letters or digits. */
export const COORDINATOR_ID = /^\d{8}_\d{6}_\d{1,18}_[a-z\d]{5}$/;
export const SUFFIX_LENGTH = 5;

/** The five characters at the end of a coordinator's ids (docs/protocol.md#form); null for ids of another form. */
export function coordinatorSuffix(id: string): string | null {
  return COORDINATOR_ID.test(id) ? id.slice(-SUFFIX_LENGTH) : null;
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
