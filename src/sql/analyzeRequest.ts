import { LRUCache } from 'lru-cache';
import type { ProductNames } from '../model/names.ts';
import { headerValue, headerValues, type RawHeaders } from '../model/rawHeaders.ts';
import type { SqlVerdict } from './analyzeSql.ts';
import { bodyText } from './bodyText.ts';
import type { QueryProperties } from './queryProperties.ts';
import { RecentTexts } from './recentTexts.ts';
import { analyzeShort, analyzeTask, type StatementTask, taskCharacters } from './statementTask.ts';
import { v2Body } from './v2Body.ts';

/** How requests are analysed (`requestAnalyzerConfig`, docs/sql-analysis.md). */
export interface AnalysisSettings {
  readonly names: ProductNames;
  /** Bodies of this many UTF-16 units and more are not analysed; read for each request. */
  readonly maxBodySize: () => number;
  /** Bodies may be JSON with `query` and `preparedStatements`. */
  readonly clientsUseV2Format: boolean;
  /** Bytes of memory for verdicts of repeated texts; 0 for none. */
  readonly cacheBytes: number;
}

/** What of a request is analysed. */
export interface AnalyzableRequest {
  readonly method: string;
  /** True for a POST to a statement path. */
  readonly isSubmission: boolean;
  readonly headers: RawHeaders;
  /** The whole body; null when there is none or it is longer than what is buffered. */
  readonly body: string | Uint8Array | null;
  /** The body's bytes as UTF-8, where they have been decoded already. */
  readonly utf8Body?: string;
}

/** Analyses one request; never throws because of what is in it. */
export type AnalyzeRequest = (request: AnalyzableRequest) => QueryProperties;
/** The same; long statements have to be waited for. Never rejects because of what is in the request. */
export type AnalyzeLongRequest = (request: AnalyzableRequest) => QueryProperties | Promise<QueryProperties>;
/** Analyses a long statement without blocking the thread that asks. Never rejects. */
export type AnalyzeLongSql = (task: StatementTask) => Promise<SqlVerdict>;

/** Memory for verdicts by default. */
export const DEFAULT_CACHE_BYTES = 16 * 1024 * 1024;
/** Longer texts are not kept; they are long statements for `AnalyzeLongSql`. */
const LONGEST_KEPT = 64 * 1024;
/**
 * Characters of the longest body that is analysed, whatever `requestAnalyzerConfig.maxBodySize` says: reading and
 * searching a longer one blocks the event loop.
 */
export const LONGEST_ANALYZED = 4_000_000;

const nothing: SqlVerdict = {
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

/** Makes the analysis of requests; verdicts of texts that come again with equal defaults are kept. */
export function requestAnalysis(settings: AnalysisSettings): AnalyzeRequest;
/** @param analyzeLong analyses long statements; without, they are analysed at once like the others */
export function requestAnalysis(settings: AnalysisSettings, analyzeLong: AnalyzeLongSql): AnalyzeLongRequest;
export function requestAnalysis(
  settings: AnalysisSettings,
  analyzeLong: AnalyzeLongSql | null = null,
): AnalyzeLongRequest {
  const catalogKey = settings.names.headerKey('Catalog');
  const schemaKey = settings.names.headerKey('Schema');
  const preparedKey = settings.names.headerKey('Prepared-Statement');
  const cache = verdictCache(settings.cacheBytes);
  const texts = new RecentTexts();

  // Characters are at most four bytes of UTF-8.
  const maxPreparedBytes = (): number => Math.min(Math.max(settings.maxBodySize() * 4, 1), 2 ** 30);

  function analyze(task: StatementTask): SqlVerdict | Promise<SqlVerdict> {
    if (analyzeLong === null) return analyzeTask(task);
    if (taskCharacters(task) > LONGEST_KEPT) return analyzeLong(task);
    const outcome = analyzeShort(task, LONGEST_KEPT);
    return 'long' in outcome ? analyzeLong(outcome.long) : outcome;
  }

  function statementVerdict(
    text: string,
    catalog: string | null,
    schema: string | null,
    lines: readonly string[],
  ): SqlVerdict | Promise<SqlVerdict> {
    const prepared = { lines, maxBytes: maxPreparedBytes(), maxCharacters: settings.maxBodySize() };
    return analyze({ text, catalog, schema, prepared });
  }

  function cachedVerdict(
    text: string,
    catalog: string | null,
    schema: string | null,
    preparedLines: readonly string[],
  ): SqlVerdict | Promise<SqlVerdict> {
    // A verdict that is kept costs more than a short analysis: only texts that come again are worth it.
    if (cache === null || text.length > LONGEST_KEPT || !texts.seen(text)) {
      return statementVerdict(text, catalog, schema, preparedLines);
    }
    const key = cacheKey(text, catalog, schema, preparedLines);
    if (key.length > LONGEST_KEPT) return statementVerdict(text, catalog, schema, preparedLines);
    const known = cache.get(key);
    if (known !== undefined) return known;
    const verdict = statementVerdict(text, catalog, schema, preparedLines);
    if (!(verdict instanceof Promise)) cache.set(key, verdict);
    return verdict;
  }

  function bodyVerdict(
    request: AnalyzableRequest,
    catalog: string | null,
    schema: string | null,
  ): SqlVerdict | Promise<SqlVerdict> {
    const { body, headers } = request;
    if (body === null || request.method !== 'POST' || body.length === 0) return nothing;
    const maxBodySize = Math.min(settings.maxBodySize(), LONGEST_ANALYZED);
    // No character takes more than three bytes a UTF-16 unit.
    if (typeof body !== 'string' && body.length >= maxBodySize * 3) return nothing;
    const text = bodyText(body, headerValue(headers, 'content-type'), request.utf8Body);
    if (text === null || text.length === 0 || text.length >= maxBodySize) return nothing;
    const v2 = settings.clientsUseV2Format ? v2Body(text) : null;
    if (v2 !== null) return analyze({ text: v2.query, catalog, schema, prepared: v2.preparedStatements });
    return cachedVerdict(text, catalog, schema, headerValues(headers, preparedKey));
  }

  return (request) => {
    const defaultCatalog = headerValue(request.headers, catalogKey);
    const defaultSchema = headerValue(request.headers, schemaKey);
    const verdict = bodyVerdict(request, defaultCatalog, defaultSchema);
    const properties = (of: SqlVerdict): QueryProperties => ({
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
    });
    return verdict instanceof Promise ? verdict.then(properties) : properties(verdict);
  };
}

function verdictCache(bytes: number): LRUCache<string, SqlVerdict> | null {
  if (bytes <= 0) return null;
  return new LRUCache<string, SqlVerdict>({ maxSize: bytes, sizeCalculation: verdictBytes });
}

/** About what an entry takes: two bytes a character and what its objects cost. */
function verdictBytes(verdict: SqlVerdict, key: string): number {
  let bytes = 512 + 2 * key.length + (verdict.body === key ? 0 : 2 * verdict.body.length);
  for (const table of verdict.tables) bytes += 160 + 2 * table.reduce((sum, part) => sum + part.length, 0);
  for (const list of [verdict.catalogs, verdict.schemas, verdict.catalogSchemas]) {
    for (const name of list) bytes += 32 + 2 * name.length;
  }
  return bytes;
}

/** A text that differs where anything that the verdict depends on differs. */
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
