import type { Membership } from '../../model/membership.ts';
import type { ProductNames } from '../../model/names.ts';
import type { RequestUser } from '../../model/requestUser.ts';
import { STATEMENT_PATH } from '../../routing/proxiedPaths.ts';
import type { StoredDecision } from '../../routing/storedDecision.ts';
import { headerName, isFromBody } from '../../rules/compile/requestValues.ts';
import type { RuleTrace } from '../../rules/decision.ts';
import type { RecordedRequest } from '../../rules/replay/recordedRequest.ts';
import { UnknownRead } from '../../rules/replay/unknownRead.ts';
import { readTrace } from '../../rules/storedTrace.ts';
import type { AnalyzeRequest } from '../../sql/analyzeRequest.ts';
import type { QueryProperties } from '../../sql/queryProperties.ts';
import type { ReplayedRow } from '../../store/historyReplay.ts';
import { membershipOf } from '../analysis/membership.ts';
import { keptHeaders } from '../exchanges/requestFacts.ts';
import { RecordedProperties } from './recordedProperties.ts';
import type { ReplaySettings } from './replayJob.ts';

export interface RecordedQueryContext {
  readonly names: ProductNames;
  readonly settings: ReplaySettings;
  readonly analyze: AnalyzeRequest;
}

/** Sources and users of this length may have been truncated by their column. */
const COLUMN_WIDTH = 256;

/** A query of the history as rules saw its request, as far as it is recorded (docs/rules.md#impact). */
export class RecordedQuery implements RecordedRequest {
  readonly method = 'POST';
  readonly remoteUser = null;
  readonly isSubmission = true;
  readonly row: ReplayedRow;
  /** Null if another gateway wrote the row, or if it cannot be read. */
  readonly decision: StoredDecision | null;
  readonly user: RequestUser | null;
  readonly #context: RecordedQueryContext;
  #properties: RecordedProperties | null = null;
  #trace: readonly RuleTrace[] | null = null;

  constructor(row: ReplayedRow, context: RecordedQueryContext) {
    this.row = row;
    this.#context = context;
    this.decision = decisionOf(row.decision);
    this.user = context.settings.analyzeRequest ? new RecordedUser(row.user, this.decision) : null;
  }

  get queryProperties(): QueryProperties | null {
    if (!this.#context.settings.analyzeRequest) return null;
    this.#properties ??= new RecordedProperties(this, this.#context);
    return this.#properties;
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

  get query(): string | null {
    return this.#absent('query string');
  }

  get formBody(): string | null {
    return this.#absent('form');
  }

  get headers(): never {
    throw new UnknownRead('all header lines');
  }

  get scheme(): never {
    throw new UnknownRead('the scheme of the URL');
  }

  get serverName(): never {
    throw new UnknownRead('the host of the URL');
  }

  get serverPort(): never {
    throw new UnknownRead('the port of the URL');
  }

  get remoteAddr(): never {
    throw new UnknownRead("the client's address");
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
      return keptHeaders(names).includes(name) && facts.unkept?.includes(name) !== true ? null : undefined;
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
