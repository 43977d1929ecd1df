import { LRUCache } from 'lru-cache';
import { firstHeader, headerValue, headerValues, type RawHeaders } from '../model/http.ts';
import type { ProductNames } from '../model/names.ts';
import type { SqlAnalysis } from './analyzeSql.ts';
import { bodyText } from './bodyText.ts';
import type { QueryProperties } from './queryProperties.ts';
import { RecentTexts } from './recentTexts.ts';
import { analyzeShort, analyzeTask, type StatementTask, taskCharacters } from './statementTask.ts';
import { v2Body } from './v2Body.ts';

/** Settings of the request analysis (`requestAnalyzerConfig`, docs/sql-analysis.md). */
export interface AnalysisSettings {
  readonly names: ProductNames;
  /** Bodies of this many UTF-16 units or more are not analyzed; read for each request. */
  readonly maxBodySize: number;
  /** Bodies may be JSON with `query` and `preparedStatements`. */
  readonly clientsUseV2Format: boolean;
  /** Bytes of memory for analyses of repeated texts; 0 for none. */
  readonly cacheBytes: number;
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
    const text = bodyText(body, headerValue(headers, 'content-type'), request.utf8Body);
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
