import { LRUCache } from 'lru-cache';
import { firstHeader, headerValues, type RawHeaders } from '../model/http.ts';
import type { ProductNames } from '../model/names.ts';
import type { SizeEstimates } from '../model/sizeEstimates.ts';
import { analyzeShort, analyzeTask, type SqlAnalysis, type StatementTask, taskCharacters } from './analyzeSql.ts';
import type { QueryProperties } from './queryProperties.ts';

/** Character encodings of bodies by IANA name or alias, in lower case. */
const encodings: ReadonlyMap<string, 'utf8' | 'latin1' | 'ascii'> = new Map([
  ['utf-8', 'utf8'],
  ['utf8', 'utf8'],
  ['csutf8', 'utf8'],
  ['iso-8859-1', 'latin1'],
  ['iso8859-1', 'latin1'],
  ['iso_8859-1', 'latin1'],
  ['iso-ir-100', 'latin1'],
  ['latin1', 'latin1'],
  ['l1', 'latin1'],
  ['ibm819', 'latin1'],
  ['cp819', 'latin1'],
  ['us-ascii', 'ascii'],
  ['ascii', 'ascii'],
  ['us', 'ascii'],
  ['ansi_x3.4-1968', 'ascii'],
  ['iso646-us', 'ascii'],
  ['iso-ir-6', 'ascii'],
]);

/** Returns `charset` of a Content-Type in lower case; null if it is missing. */
function declaredCharset(contentType: string): string | null {
  if (!contentType.includes(';')) return null;
  // The engine takes the last of several; a quoted parameter can hold another one.
  if (contentType.split(/charset/i).length > 2) return 'ambiguous';
  const match = /;\s*charset\s*=\s*(?:"([^"]*)"|([^\s;]*))/i.exec(contentType);
  return match === null ? null : (match[1] ?? match[2] ?? '').trim().toLowerCase();
}

/**
 * Returns the text of a body; null if its charset is not supported. The default charset is UTF-8. Bytes that are
 * invalid in the charset become U+FFFD. A text with a known charset is returned unchanged.
 * @param contentType value of the header; null if missing
 * @param utf8 the bytes as UTF-8, if they are already decoded
 */
export function bodyText(body: string | Uint8Array, contentType: string | null, utf8?: string): string | null {
  const charset = contentType === null ? null : declaredCharset(contentType);
  const encoding = charset === null ? 'utf8' : encodings.get(charset);
  if (encoding === undefined) return null;
  if (typeof body === 'string') return body;
  if (encoding === 'utf8' && utf8 !== undefined) return utf8;
  const bytes = Buffer.isBuffer(body) ? body : Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  if (encoding === 'utf8') return bytes.toString('utf8');
  const text = bytes.toString('latin1');
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the range of ASCII.
  return encoding === 'latin1' ? text : text.replace(/[^\x00-\x7f]/g, '\ufffd');
}

/** Number of remembered texts: two per set. A power of two. */
const SLOTS = 16_384;
/** Longer texts are hashed by this many of their characters. */
const HASHED = 4_096;

/**
 * Recently added texts, by hash. Distinguishes repeated texts from texts that occur once and would fill a cache without
 * a hit. False positives are rare; the oldest text of a set is evicted.
 */
export class RecentTexts {
  readonly #hashes = new Int32Array(SLOTS);

  /** Returns true if the text was added recently, and adds it. */
  isRepeat(text: string): boolean {
    const hash = hashOf(text);
    const hashes = this.#hashes;
    const slot = hash & (SLOTS - 2);
    if (hashes[slot] === hash) return true;
    const newest = hashes[slot] as number;
    hashes[slot] = hash;
    const isSecond = hashes[slot + 1] === hash;
    hashes[slot + 1] = newest;
    return isSecond;
  }
}

/** FNV-1a over UTF-16 units, mixed so that each bit affects the low bits. Never 0, which marks an empty slot. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5 ^ text.length;
  const step = text.length <= HASHED ? 1 : Math.ceil(text.length / HASHED);
  for (let at = 0; at < text.length; at += step) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  hash ^= hash >>> 15;
  return hash === 0 ? 1 : hash;
}

/** Settings of the request analysis (`requestAnalyzerConfig`, docs/sql-analysis.md). */
export interface AnalysisSettings {
  readonly names: ProductNames;
  /** Bodies of this many UTF-16 units or more are not analyzed; read for each request. */
  readonly maxBodySize: number;
  /** Bodies may be JSON with `query` and `preparedStatements`. */
  readonly clientsUseV2Format: boolean;
  /** Bytes of memory for analyses of repeated texts; 0 for none. */
  readonly cacheBytes: number;
  /** For `QueryProperties.estimates`. */
  readonly estimates?: SizeEstimates;
}

export interface AnalyzableRequest {
  readonly method: string;
  /** True for a POST to a statement path. */
  readonly isSubmission: boolean;
  readonly headers: RawHeaders;
  /** The whole body; null if it is missing or longer than the buffer limit. */
  readonly body: string | Uint8Array | null;
  /** The body's bytes as UTF-8, if they are already decoded. */
  readonly utf8Body?: string;
}

/** Analyzes one request. Never throws because of its content. */
export type AnalyzeRequest = (request: AnalyzableRequest) => QueryProperties;
/** Like `AnalyzeRequest`, but asynchronous for long statements. Never rejects because of the request's content. */
export type AnalyzeLongRequest = (request: AnalyzableRequest) => QueryProperties | Promise<QueryProperties>;
/** Analyzes a long statement without blocking the calling thread. Never rejects. */
export type AnalyzeLongSql = (task: StatementTask) => Promise<SqlAnalysis>;

/** Default of `AnalysisSettings.cacheBytes`. */
export const DEFAULT_CACHE_BYTES = 16 * 1024 * 1024;
/** Longer texts are not cached; they are long statements for `AnalyzeLongSql`. */
const MAX_CACHED_LENGTH = 64 * 1024;
/** Upper bound of `requestAnalyzerConfig.maxBodySize`, in characters: a longer body would block the event loop. */
export const MAX_ANALYZED_LENGTH = 4_000_000;

const nothing: SqlAnalysis = {
  errorMessage: null,
  queryType: '',
  resourceGroupQueryType: '',
  tables: [],
  catalogs: [],
  schemas: [],
  catalogSchemas: [],
  body: '',
  queryId: null,
};

/** Returns the analysis of requests, with a cache for repeated texts with equal defaults. */
export function requestAnalysis(settings: AnalysisSettings): AnalyzeRequest;
/** @param analyzeLong analyzes long statements; if absent, they are analyzed synchronously */
export function requestAnalysis(settings: AnalysisSettings, analyzeLong: AnalyzeLongSql): AnalyzeLongRequest;
export function requestAnalysis(
  settings: AnalysisSettings,
  analyzeLong: AnalyzeLongSql | null = null,
): AnalyzeLongRequest {
  const catalogKey = settings.names.headerKey('Catalog');
  const schemaKey = settings.names.headerKey('Schema');
  const preparedKey = settings.names.headerKey('Prepared-Statement');
  const cache = analysisCache(settings.cacheBytes);
  const texts = new RecentTexts();

  // Characters are at most four bytes of UTF-8.
  const maxPreparedBytes = Math.min(Math.max(settings.maxBodySize * 4, 1), 2 ** 30);

  function analyze(task: StatementTask): SqlAnalysis | Promise<SqlAnalysis> {
    if (analyzeLong === null) return analyzeTask(task);
    if (taskCharacters(task) > MAX_CACHED_LENGTH) return analyzeLong(task);
    const outcome = analyzeShort(task, MAX_CACHED_LENGTH);
    return 'long' in outcome ? analyzeLong(outcome.long) : outcome;
  }

  function analyzeStatementText(
    text: string,
    catalog: string | null,
    schema: string | null,
    lines: readonly string[],
  ): SqlAnalysis | Promise<SqlAnalysis> {
    const prepared = { lines, maxBytes: maxPreparedBytes, maxCharacters: settings.maxBodySize };
    return analyze({ text, catalog, schema, prepared });
  }

  function cachedAnalysis(
    text: string,
    catalog: string | null,
    schema: string | null,
    preparedLines: readonly string[],
  ): SqlAnalysis | Promise<SqlAnalysis> {
    // Keeping an analysis costs more than a short one: only texts that come again are worth it.
    if (cache === null || text.length > MAX_CACHED_LENGTH || !texts.isRepeat(text)) {
      return analyzeStatementText(text, catalog, schema, preparedLines);
    }
    const key = cacheKey(text, catalog, schema, preparedLines);
    if (key.length > MAX_CACHED_LENGTH) return analyzeStatementText(text, catalog, schema, preparedLines);
    const entry = cache.get(key);
    if (entry !== undefined) return entry;
    const analysis = analyzeStatementText(text, catalog, schema, preparedLines);
    if (!(analysis instanceof Promise)) cache.set(key, analysis);
    return analysis;
  }

  function analyzeBody(
    request: AnalyzableRequest,
    catalog: string | null,
    schema: string | null,
  ): SqlAnalysis | Promise<SqlAnalysis> {
    const { body, headers } = request;
    if (body === null || request.method !== 'POST' || body.length === 0) return nothing;
    const maxBodySize = Math.min(settings.maxBodySize, MAX_ANALYZED_LENGTH);
    // No character takes more than three bytes a UTF-16 unit.
    if (typeof body !== 'string' && body.length >= maxBodySize * 3) return nothing;
    const text = bodyText(body, headerValues(headers, 'content-type').join(), request.utf8Body);
    if (text === null || text.length === 0 || text.length >= maxBodySize) return nothing;
    const v2 = settings.clientsUseV2Format ? v2Body(text) : null;
    if (v2 !== null) return analyze({ text: v2.query, catalog, schema, prepared: v2.preparedStatements });
    return cachedAnalysis(text, catalog, schema, headerValues(headers, preparedKey));
  }

  return (request) => {
    // The engine takes the first line.
    const defaultCatalog = firstHeader(request.headers, catalogKey) ?? null;
    const defaultSchema = firstHeader(request.headers, schemaKey) ?? null;
    const analysis = analyzeBody(request, defaultCatalog, defaultSchema);
    const properties = (of: SqlAnalysis): QueryProperties => ({
      errorMessage: of.errorMessage,
      isNewQuerySubmission: request.isSubmission,
      queryType: of.queryType,
      resourceGroupQueryType: of.resourceGroupQueryType,
      defaultCatalog,
      defaultSchema,
      tables: of.tables,
      catalogs: of.catalogs,
      schemas: of.schemas,
      catalogSchemas: of.catalogSchemas,
      body: of.body,
      queryId: of.queryId,
      unreadable: of.unreadable,
      estimates: settings.estimates,
    });
    return analysis instanceof Promise ? analysis.then(properties) : properties(analysis);
  };
}

function analysisCache(bytes: number): LRUCache<string, SqlAnalysis> | null {
  if (bytes <= 0) return null;
  return new LRUCache<string, SqlAnalysis>({ maxSize: bytes, sizeCalculation: analysisBytes });
}

/** Estimated size of a cache entry: two bytes per character plus the overhead of its objects. */
function analysisBytes(analysis: SqlAnalysis, key: string): number {
  let bytes = 512 + 2 * key.length + (analysis.body === key ? 0 : 2 * analysis.body.length);
  for (const table of analysis.tables) bytes += 160 + 2 * table.reduce((sum, part) => sum + part.length, 0);
  for (const list of [analysis.catalogs, analysis.schemas, analysis.catalogSchemas]) {
    for (const name of list) bytes += 32 + 2 * name.length;
  }
  return bytes;
}

/** Cache key: a text that contains every input of the analysis. */
function cacheKey(
  text: string,
  catalog: string | null,
  schema: string | null,
  preparedLines: readonly string[],
): string {
  const defaults = `${catalog === null ? '' : `c${catalog.length}:${catalog}`}/${schema === null ? '' : `s${schema.length}:${schema}`}/`;
  if (preparedLines.length === 0) return defaults + text;
  return `${defaults}p${preparedLines.map((line) => `${line.length}:${line}`).join('')}/${text}`;
}

/** A V2 body: a statement and the prepared statements that belong to it. */
export interface V2Body {
  readonly query: string;
  readonly preparedStatements: ReadonlyMap<string, string>;
}

/**
 * Reads a V2 body, `{"query": …, "preparedStatements": {name: text}}`; null for anything else, which is SQL then. Both
 * keys must be present and not null; other keys are ignored.
 */
export function v2Body(text: string): V2Body | null {
  if (!/^\s*\{/.test(text)) return null;
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    return null;
  }
  if (!isObject(parsed)) return null;
  const query = scalarText(parsed.query);
  const prepared = parsed.preparedStatements;
  if (query === null || !isObject(prepared)) return null;
  const statements = new Map<string, string>();
  for (const [name, value] of Object.entries(prepared)) {
    const statement = scalarText(value);
    if (statement === null && value !== null) return null;
    if (statement !== null) statements.set(name, statement);
  }
  return { query, preparedStatements: statements };
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Text of a scalar: numbers and booleans are taken as their text, as lenient JSON readers do. */
function scalarText(value: unknown): string | null {
  if (typeof value === 'string') return value;
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : null;
}
