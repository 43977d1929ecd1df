import { UnknownRead } from '../../rules/replay/unknownRead.ts';
import type { QueryProperties } from '../../sql/queryProperties.ts';
import type { RecordedQuery, RecordedQueryContext } from './recordedQuery.ts';

/** Placeholder for an unknown default catalog or schema: no name contains this character. */
const UNKNOWN_NAME = '\u0001';

/** Sources that depend on default catalog and schema if names are incomplete. */
const ofNames = new Set(['table', 'catalog', 'schema', 'catalogSchema']);

interface Analysis {
  readonly properties: QueryProperties;
  /** Reason that values from table names are unknown, or null. */
  readonly namesUnknown: string | null;
}

/** Query properties of a recorded query: analyzed at the first read. */
export class RecordedProperties implements QueryProperties {
  readonly isNewQuerySubmission = true;
  readonly #query: RecordedQuery;
  readonly #context: RecordedQueryContext;
  /** A text: reason that values of the statement are unknown. */
  #analysis: Analysis | string | null = null;

  constructor(query: RecordedQuery, context: RecordedQueryContext) {
    this.#query = query;
    this.#context = context;
  }

  get defaultCatalog(): string | null {
    return this.#query.header(this.#context.names.headerKey('Catalog'));
  }

  get defaultSchema(): string | null {
    return this.#query.header(this.#context.names.headerKey('Schema'));
  }

  get errorMessage(): string | null {
    return this.#ofNames().errorMessage;
  }

  get queryType(): string {
    return this.#certain().properties.queryType;
  }

  get resourceGroupQueryType(): string {
    return this.#certain().properties.resourceGroupQueryType;
  }

  get tables(): QueryProperties['tables'] {
    return this.#ofNames().tables;
  }

  get catalogs(): readonly string[] {
    return this.#ofNames().catalogs;
  }

  get schemas(): readonly string[] {
    return this.#ofNames().schemas;
  }

  get catalogSchemas(): readonly string[] {
    return this.#ofNames().catalogSchemas;
  }

  get body(): string {
    return this.#certain().properties.body;
  }

  get queryId(): string | null {
    return this.#certain().properties.queryId;
  }

  get unreadable(): string | undefined {
    return this.#certain().properties.unreadable;
  }

  /** True if reading a source from the body would throw. */
  lacks(source: string): boolean {
    const { names } = this.#context;
    if (source === 'defaultCatalog') return this.#query.lacks(`header:${names.headerKey('Catalog')}`);
    if (source === 'defaultSchema') return this.#query.lacks(`header:${names.headerKey('Schema')}`);
    const analysis = this.#analysed();
    return typeof analysis === 'string' || (ofNames.has(source) && analysis.namesUnknown !== null);
  }

  #certain(): Analysis {
    const analysis = this.#analysed();
    if (typeof analysis === 'string') throw new UnknownRead(analysis);
    return analysis;
  }

  #ofNames(): QueryProperties {
    const { properties, namesUnknown } = this.#certain();
    if (namesUnknown !== null) throw new UnknownRead(namesUnknown);
    return properties;
  }

  #analysed(): Analysis | string {
    this.#analysis ??= this.#analyse();
    return this.#analysis;
  }

  #analyse(): Analysis | string {
    const { names, settings, analyze } = this.#context;
    const { row, decision } = this.#query;
    const body = this.#textOfRules();
    if (body === undefined) return 'the statement, which the history holds cut or redacted';
    const facts = decision?.request;
    const isPreparedKnown =
      facts !== undefined && facts.unkept?.includes(names.headerKey('Prepared-Statement')) !== true;
    if (body !== null && !isPreparedKnown && /\b(?:execute|describe)\b/i.test(row.queryText))
      return 'prepared statements of header lines';
    const headers: string[] = [];
    const unknown: string[] = [];
    for (const name of ['Catalog', 'Schema'] as const) {
      const key = names.headerKey(name);
      const isLacking = this.#query.lacks(`header:${key}`);
      const value = isLacking ? UNKNOWN_NAME : this.#query.header(key);
      if (isLacking) unknown.push(`header ${key}`);
      if (value !== null) headers.push(key, value);
    }
    const isLong = body !== null && body.length >= settings.maxAnalyzed;
    const properties = analyze({ method: 'POST', isSubmission: true, headers, body: isLong ? null : body });
    const { errorMessage, tables, catalogs, schemas } = properties;
    const all = [errorMessage ?? '', ...tables.flat(), ...catalogs, ...schemas];
    const dependsOnUnknown = unknown.length > 0 && all.some((text) => text.includes(UNKNOWN_NAME));
    return { properties, namesUnknown: dependsOnUnknown ? unknown.join(', ') : null };
  }

  /** The body that rules saw; null: none was read before the decision; undefined: not recorded. */
  #textOfRules(): string | null | undefined {
    const { settings } = this.#context;
    const { row, decision } = this.#query;
    const facts = decision?.request;
    if (facts !== undefined && (facts.text === null || facts.text >= settings.maxAnalyzed)) return null;
    if (row.isCut || (settings.redacts && row.queryText.includes('***'))) return undefined;
    if (facts === undefined) {
      const bytes = Buffer.byteLength(row.queryText);
      // A character of four bytes may have been truncated.
      return bytes > settings.maxTextSize - 4 ? undefined : row.queryText;
    }
    const isWhole = row.queryText.length === facts.text && facts.unkept?.includes('text') !== true;
    return isWhole ? row.queryText : undefined;
  }
}
