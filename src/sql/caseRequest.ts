import { productNames } from '../model/names.ts';
import { requestAnalysis } from './analyzeRequest.ts';
import type { QueryProperties } from './queryProperties.ts';
import { isStatementPath } from './statementPath.ts';

/** A case: a request as one JSON object, and analysis settings that differ from the defaults. */
export interface AnalysisCase {
  readonly id: string;
  readonly method?: string;
  readonly path?: string;
  /** Name to value, or to the values of repeated lines; names in any case. */
  readonly headers?: Readonly<Record<string, string | readonly string[]>>;
  readonly body?: string | null;
  readonly config?: { readonly maxBodySize?: number; readonly isClientsUseV2Format?: boolean };
}

/** Fields of an analysis as cases write them: tables as text, and whether there was no error. */
export interface CaseAnalysis extends Omit<QueryProperties, 'tables' | 'body' | 'unreadable'> {
  readonly tables: readonly string[];
  readonly isQueryParsingSuccessful: boolean;
}

const DEFAULT_MAX_BODY_SIZE = 1_000_000;

/**
 * Analyzes a case without a cache.
 * @param productName name in the case's headers, e.g. `Engine`
 */
export function analyzeCase(request: AnalysisCase, productName: string): CaseAnalysis {
  const analyze = requestAnalysis({
    names: productNames(productName),
    maxBodySize: request.config?.maxBodySize ?? DEFAULT_MAX_BODY_SIZE,
    clientsUseV2Format: request.config?.isClientsUseV2Format ?? false,
    cacheBytes: 0,
  });
  const method = request.method ?? 'POST';
  const headers: string[] = [];
  for (const [name, value] of Object.entries(request.headers ?? {})) {
    for (const line of typeof value === 'string' ? [value] : value) headers.push(name, line);
  }
  const properties = analyze({
    method,
    isSubmission: method === 'POST' && isStatementPath(request.path ?? '/v1/statement', ['/v1/statement']),
    headers,
    body: request.body ?? null,
  });
  return {
    errorMessage: properties.errorMessage,
    isNewQuerySubmission: properties.isNewQuerySubmission,
    queryType: properties.queryType,
    resourceGroupQueryType: properties.resourceGroupQueryType,
    defaultCatalog: properties.defaultCatalog,
    defaultSchema: properties.defaultSchema,
    catalogs: properties.catalogs,
    schemas: properties.schemas,
    catalogSchemas: properties.catalogSchemas,
    tables: properties.tables.map((table) => table.join('.')),
    queryId: properties.queryId,
    isQueryParsingSuccessful: properties.errorMessage === null,
  };
}
