import { createHash } from 'node:crypto';
import type { Logger } from 'pino';
import { productNames } from '../model/names.ts';
import type { StoredDecision } from '../routing/storedDecision.ts';
import { Tenancy, type TenancyData } from '../rules/tenancy.ts';
import { DEFAULT_CACHE_BYTES, requestAnalysis } from '../sql/analyzeRequest.ts';
import { isRead } from '../sql/analyzeSql.ts';
import type { QueryProperties } from '../sql/queryProperties.ts';
import type { ReplayedRow, ReplayRange } from '../store/historyReplay.ts';
import type { JdbcSettings } from '../store/jdbcUrl.ts';
import { readHistory } from '../store/openStore.ts';
import type { StatementError } from './pageWorker.ts';
import { REPLAY_SOURCE, type RunStatement } from './statementRuns.ts';

/** Reasons that a recorded query is not replayed (docs/replay.md#which-queries-are-replayed). */
export type Exclusion = 'incomplete' | 'notRead' | 'catalog' | 'engine' | 'enough' | 'dropped';

/** Queries that a replay chooses from. */
export interface SelectionFilter {
  /** Routing groups and users; null: all. */
  readonly routingGroups: readonly string[] | null;
  readonly users: readonly string[] | null;
  readonly excludeCatalogs: readonly string[];
  /** Share of the queries that are considered, by a hash of their ids. */
  readonly percent: number;
  readonly perDigest: number;
  readonly max: number;
  /** Only queries that a tenant decides; null: all. */
  readonly decider: { readonly tenancy: TenancyData; readonly tenant: string } | null;
}

/** Recorded queries, and their CPU time. */
export interface Share {
  queries: number;
  cpuMillis: number;
}

/** A query that is replayed. */
export interface SelectedQuery {
  readonly queryId: string;
  readonly digest: string;
  readonly cpuMillis: number;
  readonly statement: RunStatement;
  /** Error of its user by which it failed; null: it ended well. */
  readonly error: StatementError | null;
  /** Recorded queries that it stands for: its part of those of its digest. */
  readonly standsFor: Share;
}

/** A choice of recorded queries, in a form that can be sent to another thread. */
export interface SelectionJob {
  readonly database: JdbcSettings;
  readonly range: ReplayRange;
  readonly filter: SelectionFilter;
  readonly settings: {
    readonly productName: string;
    readonly maxAnalyzed: number;
    readonly clientsUseV2Format: boolean;
  };
  /** Queries that are read, and milliseconds. */
  readonly bounds: { readonly queries: number; readonly time: number };
}

/** The chosen queries, newest first, and all that they were chosen from. */
export interface SelectionReport {
  readonly queries: readonly SelectedQuery[];
  readonly recorded: Share;
  readonly excluded: Readonly<Partial<Record<Exclusion, Share>>>;
}

interface DigestShare extends Share {
  chosen: number;
}

/** Digests in memory, and characters of statements. */
const MAX_DIGESTS = 50_000;
const MAX_CHARACTERS = 32 * 1024 * 1024;

/**
 * Chooses queries of the history that a replay runs. CPU-intensive: runs in a thread (`replayThread.ts`).
 * @throws GatewayError EG_DATABASE_UNAVAILABLE
 */
export async function selectQueries(job: SelectionJob, logger: Logger): Promise<SelectionReport> {
  const { database, range, filter, settings, bounds } = job;
  const selection = new Selection(filter, statementAnalysis(settings));
  const until = performance.now() + bounds.time;
  let read = 0;
  return await readHistory({ ...database, logger }, { ...range, withStatements: true }, async (pages) => {
    for await (const rows of pages) {
      for (const row of rows) selection.add(row);
      read += rows.length;
      if (read >= bounds.queries || performance.now() > until) break;
    }
    return selection.report();
  });
}

/** Returns the analysis of statements as the parser reads them. */
export function statementAnalysis({ productName, clientsUseV2Format, maxAnalyzed }: SelectionJob['settings']) {
  const names = productNames(productName);
  const analyze = requestAnalysis({
    ...{ names, clientsUseV2Format, cacheBytes: DEFAULT_CACHE_BYTES, maxBodySize: maxAnalyzed },
  });
  return ({ text, headers: { Catalog, Schema }, prepared }: RunStatement): QueryProperties => {
    const suffixes = {
      Catalog,
      Schema,
      'Prepared-Statement': prepared === null ? undefined : preparedHeader(prepared),
    };
    const lines = Object.entries(suffixes).flatMap(([suffix, value]) =>
      value === undefined ? [] : [names.headerKey(suffix), value],
    );
    return analyze({ method: 'POST', isSubmission: true, headers: lines, body: text });
  };
}

/** Chooses queries of the history, newest first, and counts what they stand for. */
export class Selection {
  readonly #filter: SelectionFilter;
  readonly #analyze: (statement: RunStatement) => QueryProperties;
  readonly #tenancy: Tenancy | null;
  readonly #chosen: (Omit<SelectedQuery, 'standsFor'> & { readonly of: DigestShare })[] = [];
  readonly #digests = new Map<string, DigestShare>();
  readonly #recorded: Share = { queries: 0, cpuMillis: 0 };
  readonly #excluded: Partial<Record<Exclusion, Share>> = {};
  #characters = 0;

  constructor(filter: SelectionFilter, analyze: (statement: RunStatement) => QueryProperties) {
    this.#filter = filter;
    this.#analyze = analyze;
    this.#tenancy = filter.decider === null ? null : new Tenancy(filter.decider.tenancy);
  }

  add(row: ReplayedRow): void {
    const { percent, routingGroups, users } = this.#filter;
    if (row.source === REPLAY_SOURCE) return;
    if (routingGroups !== null && !routingGroups.includes(row.routingGroup ?? '')) return;
    if (users !== null && !users.includes(row.user ?? '')) return;
    if (percent < 100 && percentOf(row.queryId) >= percent) return;
    if (!this.#isDecided(row)) return;
    const cpuMillis = row.statement?.cpuMillis ?? 0;
    addTo(this.#recorded, cpuMillis);
    const exclusion = this.#choose(row, cpuMillis);
    if (exclusion === null) return;
    this.#excluded[exclusion] ??= { queries: 0, cpuMillis: 0 };
    addTo(this.#excluded[exclusion], cpuMillis);
  }

  report(): SelectionReport {
    const queries = this.#chosen.map(({ of, ...query }) => ({
      ...query,
      standsFor: { queries: of.queries / of.chosen, cpuMillis: of.cpuMillis / of.chosen },
    }));
    return { queries, recorded: this.#recorded, excluded: this.#excluded };
  }

  /** True if the tenant of the replay decides the query; false if that is not known. */
  #isDecided({ user, source, decision }: ReplayedRow): boolean {
    if (this.#tenancy === null) return true;
    const groups = groupsOf(decision);
    if (groups === null) return false;
    return this.#tenancy.deciderOf(user ?? '', groups, source ?? '').tenant === this.#filter.decider?.tenant;
  }

  /** Chooses a query, or returns the reason that it is not replayed. */
  #choose(row: ReplayedRow, cpuMillis: number): Exclusion | null {
    const { state, errorType, errorName, errorMessage, digest: shape } = row.statement ?? {};
    const { excludeCatalogs, perDigest, max } = this.#filter;
    const hasFailed = state !== 'FINISHED';
    if (hasFailed && errorType !== 'USER_ERROR') return 'engine';
    const statement = statementOf(row);
    if (statement === null) return 'incomplete';
    const properties = this.#analyze(statement);
    if (!isRead(properties)) return 'notRead';
    // Tables depend on the default catalog and schema.
    const { Catalog = '', Schema = '' } = statement.headers;
    if ([...properties.catalogs, Catalog].some((name) => excludeCatalogs.includes(name.toLowerCase())))
      return 'catalog';
    const key = JSON.stringify([shape, Catalog, Schema]);
    const digest: DigestShare = this.#digests.get(key) ?? { queries: 0, cpuMillis: 0, chosen: 0 };
    if (this.#digests.size < MAX_DIGESTS) this.#digests.set(key, digest);
    addTo(digest, cpuMillis);
    const isFull = this.#chosen.length >= max || this.#characters >= MAX_CHARACTERS;
    if (isFull && digest.chosen === 0) return 'enough';
    if (isFull || digest.chosen >= perDigest) return null;
    digest.chosen += 1;
    this.#characters += statement.text.length + (statement.prepared?.text.length ?? 0);
    this.#chosen.push({
      ...{ queryId: row.queryId, digest: shape ?? '', cpuMillis, statement, of: digest },
      error: hasFailed ? { name: errorName ?? 'UNKNOWN', message: errorMessage ?? '' } : null,
    });
    return null;
  }
}

/** Place of a query between 0 and 100, the same on every replica. */
function percentOf(queryId: string): number {
  return (createHash('sha256').update(queryId).digest().readUInt32BE() / 2 ** 32) * 100;
}

/** Adds a query to a share. */
export function addTo(share: Share, cpuMillis: number): void {
  share.queries += 1;
  share.cpuMillis += cpuMillis;
}

/** Groups of the user of a decision; null if they are not recorded whole. */
function groupsOf(decision: string | null): readonly string[] | null {
  try {
    const { userGroups = [] } = JSON.parse(decision ?? '') as Pick<StoredDecision, 'userGroups'>;
    return userGroups.some(({ more }) => more !== undefined) ? null : userGroups.flatMap(({ groups }) => groups);
  } catch {
    return null;
  }
}

/** Content of `eg_query_decisions.replay` (docs/digests.md#replay). */
interface RecordedSession {
  readonly complete: 'yes' | 'cut' | 'redacted';
  readonly headers: Readonly<Record<string, string>>;
  /** The statement that an EXECUTE runs. */
  readonly statement?: string;
}

/** The statement of a recorded query as its client sent it; null if it is not recorded whole. */
function statementOf({ queryText: text, isCut, user, statement: recorded }: ReplayedRow): RunStatement | null {
  const { complete, headers, statement } = JSON.parse(recorded?.replay ?? '{}') as Partial<RecordedSession>;
  if (complete !== 'yes' || headers === undefined || isCut) return null;
  if (statement === undefined) return { text, user, headers, prepared: null };
  const [, name] = /^\s*execute\s+("(?:[^"]|"")+"|\w+)/i.exec(text) ?? [];
  // EXECUTE IMMEDIATE has its statement in its text; one after a comment is left out.
  if (name === undefined) return null;
  if (name.toLowerCase() === 'immediate') return { text, user, headers, prepared: null };
  const plain = name.startsWith('"') ? name.slice(1, -1).replaceAll('""', '"') : name.toLowerCase();
  return { text, user, headers, prepared: { name: plain, text: statement } };
}

/** Value of the header `Prepared-Statement`. */
export function preparedHeader({ name, text }: NonNullable<RunStatement['prepared']>): string {
  return `${encodeURIComponent(name)}=${encodeURIComponent(text)}`;
}
