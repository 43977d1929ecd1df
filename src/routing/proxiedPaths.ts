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
