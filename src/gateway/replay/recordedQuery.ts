import { type Membership, membershipOf } from '../../model/membership.ts';
import type { ProductNames } from '../../model/names.ts';
import type { RequestUser } from '../../model/requestUser.ts';
import type { EstimateTable } from '../../model/sizeEstimates.ts';
import { STATEMENT_PATH } from '../../routing/statementProtocol.ts';
import type { StoredDecision } from '../../routing/storedDecision.ts';
import { headerName, isFromBody } from '../../rules/decide/conditionIndex.ts';
import { readTrace } from '../../rules/decide/trace.ts';
import type { RuleTrace } from '../../rules/decision.ts';
import type { EditedRules, RecordedRequest } from '../../rules/replay/recordedRequest.ts';
import { UnknownRead } from '../../rules/replay/unknownRead.ts';
import type { AnalyzeRequest } from '../../sql/analyzeRequest.ts';
import type { QueryProperties } from '../../sql/queryProperties.ts';
import type { ReplayedRow, ReplayRange } from '../../store/historyReplay.ts';
import type { JdbcSettings } from '../../store/jdbcUrl.ts';
import { recordedHeaders } from '../exchanges/queryRecorder.ts';

export interface RecordedQueryContext {
  readonly names: ProductNames;
  readonly settings: ReplaySettings;
  readonly analyze: AnalyzeRequest;
}

/** Sources and users of this length may have been truncated by their column. */
const COLUMN_WIDTH = 256;

/** Parts of a request of which nothing is recorded. */
const notRecorded = [
  ['headers', 'all header lines'],
  ['scheme', 'the scheme of the URL'],
  ['serverName', 'the host of the URL'],
  ['serverPort', 'the port of the URL'],
  ['remoteAddr', "the client's address"],
] as const;

/** A query of the history as rules saw its request, as far as it is recorded (docs/rules.md#impact). */
export class RecordedQuery implements RecordedRequest {
  readonly method = 'POST';
  readonly remoteUser = null;
  readonly isSubmission = true;
  readonly row: ReplayedRow;
  /** Null if another gateway wrote the row, or if it cannot be read. */
  readonly decision: StoredDecision | null;
  readonly user: RequestUser | null;
  readonly sender: RequestUser;
  declare readonly query: null;
  declare readonly formBody: null;
  declare readonly headers: never;
  declare readonly scheme: never;
  declare readonly serverName: never;
  declare readonly serverPort: never;
  declare readonly remoteAddr: never;
  readonly #context: RecordedQueryContext;
  #properties: RecordedProperties | null = null;
  #trace: readonly RuleTrace[] | null = null;

  static {
    defineRead(RecordedQuery.prototype, 'query', (query) => query.#absent('query string'));
    defineRead(RecordedQuery.prototype, 'formBody', (query) => query.#absent('form'));
    for (const [name, what] of notRecorded)
      defineRead(RecordedQuery.prototype, name, () => {
        throw new UnknownRead(what);
      });
  }

  constructor(row: ReplayedRow, context: RecordedQueryContext) {
    this.row = row;
    this.#context = context;
    this.decision = decisionOf(row.decision);
    this.sender = new RecordedUser(row.user, this.decision);
    this.user = context.settings.analyzeRequest ? this.sender : null;
  }

  get queryProperties(): QueryProperties | null {
    return this.#context.settings.analyzeRequest ? this.#recorded() : null;
  }

  get time(): number {
    const { decision, row } = this;
    const hasWaited = decision?.admission !== undefined || decision?.queuedAs !== undefined;
    if (hasWaited) throw new UnknownRead('the time of the decision, as the query waited after it');
    return row.created;
  }

  get path(): string {
    const { statementPaths } = this.#context.settings;
    if (this.decision?.request !== undefined) return this.decision.request.path ?? STATEMENT_PATH;
    if (statementPaths.length === 1) return STATEMENT_PATH;
    throw new UnknownRead('the path');
  }

  header(name: string): string | null {
    const value = this.#headerOf(name);
    if (value === undefined) throw new UnknownRead(`header ${name}`);
    return value;
  }

  lacks(source: string): boolean {
    const header = headerName(source);
    if (header !== null) return this.#headerOf(header) === undefined;
    if (source === 'group') return this.user instanceof RecordedUser && this.user.lacksGroups;
    if (source === 'path')
      return this.decision?.request === undefined && this.#context.settings.statementPaths.length > 1;
    return isFromBody(source) && this.#context.settings.analyzeRequest && this.#recorded().lacks(source);
  }

  get recordedTrace(): RecordedRequest['recordedTrace'] {
    const version = this.decision?.request?.rules;
    if (version === undefined) return null;
    this.#trace ??= readTrace(this.decision?.rules ?? []);
    return { version, rules: this.#trace };
  }

  #recorded(): RecordedProperties {
    this.#properties ??= new RecordedProperties(this, this.#context);
    return this.#properties;
  }

  /** First value of a header; null: missing; undefined: unknown. */
  #headerOf(name: string): string | null | undefined {
    const { names } = this.#context;
    const { row, decision } = this;
    if (name === names.headerKey('Source')) {
      return (row.source?.length ?? 0) < COLUMN_WIDTH ? row.source : undefined;
    }
    const facts = decision?.request;
    if (facts !== undefined) {
      const value = Object.hasOwn(facts.headers, name) ? facts.headers[name] : undefined;
      if (value !== undefined) return value;
      return recordedHeaders(names).includes(name) && facts.unkept?.includes(name) !== true ? null : undefined;
    }
    // Queries of earlier versions: the header follows from the router that decided.
    if (name !== names.headerKey('Routing-Group')) return undefined;
    if (decision?.decidedBy === 'header') return decision.group;
    return decision?.decidedBy === 'default' && decision.rules === undefined ? null : undefined;
  }

  #absent(what: 'query string' | 'form'): null {
    const facts = this.decision?.request;
    if (facts === undefined || facts.unkept?.includes(what) === true) throw new UnknownRead(`the request's ${what}`);
    return null;
  }
}

/** Its claims are not recorded; its groups are, as far as decisions contain them. */
class RecordedUser implements RequestUser {
  readonly user: string | null;
  readonly #groups: StoredDecision['userGroups'];

  constructor(user: string | null, decision: StoredDecision | null) {
    this.user = user;
    this.#groups = decision?.userGroups;
  }

  get lacksGroups(): boolean {
    return this.#groups === undefined || this.#groups.some(({ more }) => more !== undefined);
  }

  get membership(): Membership {
    if (this.lacksGroups) throw new UnknownRead("the user's groups");
    return membershipOf((this.#groups ?? []).map(({ groups }) => ({ source: 'described', groups })));
  }

  get userInfo(): never {
    throw new UnknownRead("claims of the user's token");
  }
}

function decisionOf(text: string | null): StoredDecision | null {
  if (text === null) return null;
  try {
    return JSON.parse(text) as StoredDecision;
  } catch {
    // Longer than the limit, or written by another program.
    return null;
  }
}

/** Placeholder for an unknown default catalog or schema: no name contains this character. */
const UNKNOWN_NAME = '\u0001';

/** Defines a property that is computed when it is read. */
function defineRead<T>(prototype: T, name: string, read: (of: T) => unknown): void {
  Object.defineProperty(prototype, name, {
    get(this: T) {
      return read(this);
    },
  });
}

/** Sources that depend on default catalog and schema if names are incomplete. */
const ofNames = new Set(['table', 'catalog', 'schema', 'catalogSchema']);

interface Analysis {
  readonly properties: QueryProperties;
  /** Reason that values from table names are unknown, or null. */
  readonly namesUnknown: string | null;
}

/** Query properties of a recorded query: analyzed at the first read. */
class RecordedProperties implements QueryProperties {
  readonly isNewQuerySubmission = true;
  readonly #query: RecordedQuery;
  readonly #context: RecordedQueryContext;
  declare readonly errorMessage: QueryProperties['errorMessage'];
  declare readonly tables: QueryProperties['tables'];
  declare readonly catalogs: readonly string[];
  declare readonly schemas: readonly string[];
  declare readonly catalogSchemas: readonly string[];
  declare readonly queryType: string;
  declare readonly resourceGroupQueryType: string;
  declare readonly body: string;
  declare readonly queryId: string | null;
  declare readonly unreadable?: string | undefined;
  declare readonly estimates?: QueryProperties['estimates'];
  /** A text: reason that values of the statement are unknown. */
  #analysis: Analysis | string | null = null;

  static {
    for (const name of ['errorMessage', 'tables', 'catalogs', 'schemas', 'catalogSchemas'] as const)
      defineRead(RecordedProperties.prototype, name, (properties) => properties.#ofNames()[name]);
    for (const name of ['queryType', 'resourceGroupQueryType', 'body', 'queryId', 'unreadable', 'estimates'] as const)
      defineRead(RecordedProperties.prototype, name, (properties) => properties.#certain().properties[name]);
  }

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

/** A replay of the history with active and edited rules, in a form that can be sent to another thread. */
export interface ReplayJob {
  readonly database: JdbcSettings;
  readonly range: ReplayRange;
  readonly rules: EditedRules;
  readonly settings: ReplaySettings;
  readonly bounds: ReplayBounds;
  /** Estimates of the time of the call; null if no rule reads one. */
  readonly estimates: EstimateTable | null;
}

/** Gateway settings that affect decisions in addition to rules. */
export interface ReplaySettings {
  /** `protocol.productName`. */
  readonly productName: string;
  readonly defaultGroup: string;
  readonly statementPaths: readonly string[];
  /** `requestAnalyzerConfig.analyzeRequest`. */
  readonly analyzeRequest: boolean;
  /** Bodies of this many characters or more are not analyzed. */
  readonly maxAnalyzed: number;
  readonly clientsUseV2Format: boolean;
  /** `queryHistory.maxTextSize`, bytes. */
  readonly maxTextSize: number;
  /** True if parts of texts are redacted (`queryHistory.redact`). */
  readonly redacts: boolean;
}

export interface ReplayBounds {
  readonly queries: number;
  /** Milliseconds. */
  readonly time: number;
  readonly top: number;
  readonly examples: number;
}

/** Destination or rejection of a query. */
export interface ReplayTarget {
  /**
   * `group`, `cluster` (a rule pins it), `denied`, `refused` (a rule failed, `onRuleError: reject`), `bound` (to the
   * cluster of its transaction, or of the query that it kills), or `uncertain`: one of several, as a rule could not be
   * replayed.
   */
  readonly kind: 'group' | 'cluster' | 'denied' | 'refused' | 'bound' | 'uncertain';
  /** Name of the group or the cluster, or null. */
  readonly name: string | null;
}
