import { LRUCache } from 'lru-cache';
import type { ProductNames } from '../model/names.ts';
import { headerValue, headerValues, type RawHeaders } from '../model/rawHeaders.ts';
import { analyzeSql, type SqlVerdict } from './analyzeSql.ts';
import { bodyText } from './bodyText.ts';
import { preparedStatements } from './preparedStatements.ts';
import type { QueryProperties } from './queryProperties.ts';
import { SeenTexts } from './seenTexts.ts';
import { v2Body } from './v2Body.ts';

/** How requests are analysed (spec.md: Configuration keys, `requestAnalyzerConfig`). */
export interface AnalysisSettings {
  readonly names: ProductNames;
  /** Bodies of this many UTF-16 units and more are not analysed; asked for each request. */
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

/** Memory for verdicts by default. */
export const DEFAULT_CACHE_BYTES = 16 * 1024 * 1024;
/** Longer texts are not kept. */
const LONGEST_KEPT = 64 * 1024;

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
export function requestAnalysis(settings: AnalysisSettings): AnalyzeRequest {
  const catalogKey = settings.names.headerKey('Catalog');
  const schemaKey = settings.names.headerKey('Schema');
  const preparedKey = settings.names.headerKey('Prepared-Statement');
  const cache = verdictCache(settings.cacheBytes);
  const texts = new SeenTexts();

  // Characters are at most four bytes of UTF-8.
  const maxPreparedBytes = (): number => Math.min(Math.max(settings.maxBodySize() * 4, 1), 2 ** 30);

  function statementVerdict(
    text: string,
    catalog: string | null,
    schema: string | null,
    preparedLines: readonly string[],
  ): SqlVerdict {
    const prepared = preparedStatements(preparedLines, maxPreparedBytes());
    if (prepared.errorMessage !== null) return { ...nothing, errorMessage: prepared.errorMessage, body: text };
    return analyzeSql(text, { catalog, schema, prepared: prepared.statements });
  }

  function cachedVerdict(
    text: string,
    catalog: string | null,
    schema: string | null,
    preparedLines: readonly string[],
  ): SqlVerdict {
    // A verdict that is kept costs more than a short analysis: only texts that come again are worth it.
    if (cache === null || text.length > LONGEST_KEPT || !texts.seen(text)) {
      return statementVerdict(text, catalog, schema, preparedLines);
    }
    const key = cacheKey(text, catalog, schema, preparedLines);
    if (key.length > LONGEST_KEPT) return statementVerdict(text, catalog, schema, preparedLines);
    const known = cache.get(key);
    if (known !== undefined) return known;
    const verdict = statementVerdict(text, catalog, schema, preparedLines);
    cache.set(key, verdict);
    return verdict;
  }

  function bodyVerdict(request: AnalyzableRequest, catalog: string | null, schema: string | null): SqlVerdict {
    const { body, headers } = request;
    if (body === null || request.method !== 'POST' || body.length === 0) return nothing;
    const maxBodySize = settings.maxBodySize();
    // No character takes more than three bytes a UTF-16 unit.
    if (typeof body !== 'string' && body.length >= maxBodySize * 3) return nothing;
    const text = bodyText(body, headerValue(headers, 'content-type'), request.utf8Body);
    if (text === null || text.length === 0 || text.length >= maxBodySize) return nothing;
    const v2 = settings.clientsUseV2Format ? v2Body(text) : null;
    if (v2 !== null) return analyzeSql(v2.query, { catalog, schema, prepared: v2.preparedStatements });
    return cachedVerdict(text, catalog, schema, headerValues(headers, preparedKey));
  }

  return (request) => {
    const defaultCatalog = headerValue(request.headers, catalogKey);
    const defaultSchema = headerValue(request.headers, schemaKey);
    const verdict = bodyVerdict(request, defaultCatalog, defaultSchema);
    return {
      errorMessage: verdict.errorMessage,
      isNewQuerySubmission: request.isSubmission,
      queryType: verdict.queryType,
      resourceGroupQueryType: verdict.resourceGroupQueryType,
      defaultCatalog,
      defaultSchema,
      tables: verdict.tables,
      catalogs: verdict.catalogs,
      schemas: verdict.schemas,
      catalogSchemas: verdict.catalogSchemas,
      body: verdict.body,
      queryId: verdict.queryId,
    };
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
