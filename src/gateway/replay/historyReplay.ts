import type { Logger } from 'pino';
import { productNames } from '../../model/names.ts';
import type { RuleDecision, RuleTrace } from '../../rules/decision.ts';
import { RuleReplay, type UnreplayedRule } from '../../rules/replay/ruleReplay.ts';
import { UnknownRead } from '../../rules/replay/unknownRead.ts';
import { rightsOfVersion } from '../../rules/routeRights.ts';
import { DEFAULT_CACHE_BYTES, requestAnalysis } from '../../sql/analyzeRequest.ts';
import type { ReplayedRow } from '../../store/historyReplay.ts';
import { readHistory } from '../../store/openStore.ts';
import { RecordedQuery, type RecordedQueryContext } from './recordedQuery.ts';
import type {
  ReplayBounds,
  ReplayedExample,
  ReplayedMove,
  ReplayedShare,
  ReplayJob,
  ReplayReport,
  ReplayTarget,
  UnreplayedCount,
} from './replayJob.ts';

const uncertain: ReplayTarget = { kind: 'uncertain', name: null };

/**
 * Replays the history of a range with active and edited rules. CPU-intensive: a gateway runs it in a thread
 * (`replayThread.ts`).
 * @throws GatewayError EG_DATABASE_UNAVAILABLE, or EG_MALFORMED for a mistake in the settings of the database
 */
export async function replayHistory(job: ReplayJob, logger: Logger): Promise<ReplayReport> {
  const begun = performance.now();
  const { database, range, bounds } = job;
  const replay = new QueryReplay(job);
  const elapsed = () => performance.now() - begun;
  return await readHistory({ ...database, logger }, range, async (pages) => {
    const { tally } = replay;
    for await (const rows of pages) {
      for (const row of rows) {
        if (tally.queries >= bounds.queries) return tally.report('queries', elapsed());
        if (elapsed() > bounds.time) return tally.report('time', elapsed());
        tally.add(replay.impactOn(row));
      }
    }
    return tally.report(null, elapsed());
  });
}

class QueryReplay {
  readonly tally: ReplayTally;
  readonly #replay: RuleReplay;
  readonly #context: RecordedQueryContext;
  readonly #isExternal: boolean;

  constructor({ rules, settings, bounds }: ReplayJob) {
    const names = productNames(settings.productName);
    const { rights, isExternal } = rules.settings;
    const { analyzeRequest, clientsUseV2Format, maxAnalyzed } = settings;
    this.#isExternal = isExternal;
    this.#replay = new RuleReplay(rules, { names, analyzeRequest }, rights === null ? null : rightsOfVersion(rights));
    const analyze = requestAnalysis({
      ...{ names, clientsUseV2Format, cacheBytes: DEFAULT_CACHE_BYTES },
      maxBodySize: maxAnalyzed,
    });
    this.#context = { names, settings, analyze };
    const [before, after] = [new Set(rules.before), new Set(rules.after)];
    const edited = rules.definitions.filter((_, position) => before.has(position) !== after.has(position));
    this.tally = new ReplayTally(bounds, new Set(edited.map(({ name }) => name)));
  }

  impactOn(row: ReplayedRow): QueryImpact {
    const query = new RecordedQuery(row, this.#context);
    let moved: MovedQuery | null = null;
    let hasUnmoved = false;
    const { kind, unreplayed } = this.#replay.replay(query, ({ before, after }) => {
      const [from, to] = [this.#targetOf(before, query), this.#targetOf(after, query)];
      if (isSame(from, to)) hasUnmoved = true;
      else moved = moved === null ? { from, to, before, after } : joined(moved, from, to);
      // It moves in one case and not in another: the result is uncertain.
      return !(hasUnmoved && moved !== null);
    });
    if (kind === 'undecidable' || (hasUnmoved && moved !== null)) return { row, moved: 'unknown', unreplayed };
    return { row, moved, unreplayed };
  }

  /** Destination of the query by a decision; null: there are no rules. @throws UnknownRead */
  #targetOf(rules: RuleDecision | null, query: RecordedQuery): ReplayTarget {
    if (rules?.denied != null) return { kind: 'denied', name: null };
    if (rules?.rejected != null) return { kind: 'refused', name: null };
    const { decision, row } = query;
    if (decision?.decidedBy === 'transaction' || isKill(query)) return { kind: 'bound', name: null };
    // The user mapping and the service reject regardless of rules.
    if (decision?.refused === 'user_mapping' || decision?.refused === 'external_errors')
      return { kind: 'refused', name: null };
    // The service's response does not depend on rules; if they denied the query, it was not called.
    if (this.#isExternal) {
      const name = decision?.group || row.routingGroup;
      return name === null || name === '' ? uncertain : { kind: 'group', name };
    }
    if (rules?.cluster != null) return { kind: 'cluster', name: rules.cluster };
    const { defaultGroup } = this.#context.settings;
    if (rules?.routingGroup != null && rules.routingGroup !== '') return { kind: 'group', name: rules.routingGroup };
    const asksHeader = rules === null || rules.useHeader;
    const named = asksHeader ? query.header(this.#context.names.headerKey('Routing-Group')) : null;
    return { kind: 'group', name: named === null || named === '' ? defaultGroup : named };
  }
}

/** True if a statement calls kill_query: it goes to the cluster of the named query. */
function isKill(query: RecordedQuery): boolean {
  if (!/kill_query/i.test(query.row.queryText)) return false;
  try {
    return query.queryProperties?.queryId != null;
  } catch (error) {
    if (error instanceof UnknownRead) return false;
    throw error;
  }
}

function isSame(a: ReplayTarget, b: ReplayTarget): boolean {
  return a.kind === b.kind && a.name === b.name;
}

/** Merges several possible moves. */
function joined(moved: MovedQuery, from: ReplayTarget, to: ReplayTarget): MovedQuery {
  return {
    ...moved,
    from: isSame(moved.from, from) ? from : uncertain,
    to: isSame(moved.to, to) ? to : uncertain,
  };
}

/** A query that moves, with a possible pair of decisions. */
interface MovedQuery {
  readonly from: ReplayTarget;
  readonly to: ReplayTarget;
  readonly before: RuleDecision | null;
  readonly after: RuleDecision | null;
}

interface QueryImpact {
  readonly row: ReplayedRow;
  readonly moved: MovedQuery | 'unknown' | null;
  readonly unreplayed: readonly UnreplayedRule[];
}

/** Maximum number of separately counted users, sources, moves and rules: clients may invent names. */
const MAX_COUNTED = 10_000;
/** Maximum number of examples per move, so that others are shown too. */
const EXAMPLES_OF_A_MOVE = 5;
const EXAMPLE_TEXT = 500;
const MAX_TRACED = 50;

interface Share {
  queries: number;
  moved: number;
  unknown: number;
}

/** Counts results of queries, in bounded memory. */
class ReplayTally {
  readonly #bounds: ReplayBounds;
  /** Names of edited rules: traces always show them. */
  readonly #edited: ReadonlySet<string>;
  readonly #users = new Map<string | null, Share>();
  readonly #sources = new Map<string | null, Share>();
  readonly #moves = new Map<string, Omit<ReplayedMove, 'queries'> & { queries: number; examples: number }>();
  readonly #unreplayed = new Map<string, { readonly reads: Set<string>; queries: number; unknown: number }>();
  readonly #examples: ReplayedExample[] = [];
  readonly #unknownExamples: string[] = [];
  #queries = 0;
  #moved = 0;
  #unknown = 0;
  #oldest: number | null = null;

  constructor(bounds: ReplayBounds, edited: ReadonlySet<string>) {
    this.#bounds = bounds;
    this.#edited = edited;
  }

  get queries(): number {
    return this.#queries;
  }

  add({ row, moved, unreplayed }: QueryImpact): void {
    this.#queries += 1;
    this.#oldest = row.created;
    const isUnknown = moved === 'unknown';
    const isMoved = moved !== null && !isUnknown;
    for (const share of [countOf(this.#users, row.user, noShare), countOf(this.#sources, row.source, noShare)]) {
      if (share === null) continue;
      share.queries += 1;
      if (isMoved) share.moved += 1;
      if (isUnknown) share.unknown += 1;
    }
    for (const rule of new Set(unreplayed.map((each) => each.rule))) {
      const facts = unreplayed.filter((each) => each.rule === rule).map(({ fact }) => fact);
      this.#addUnreplayed(rule, facts, isUnknown);
    }
    if (isUnknown) {
      this.#unknown += 1;
      if (this.#unknownExamples.length < this.#bounds.examples) this.#unknownExamples.push(row.queryId);
    } else if (moved !== null) this.#addMoved(row, moved, unreplayed);
  }

  #addUnreplayed(rule: string, facts: readonly string[], isUnknown: boolean): void {
    const count = countOf(this.#unreplayed, rule, () => ({ reads: new Set(), queries: 0, unknown: 0 }));
    if (count === null) return;
    for (const fact of facts) if (count.reads.size < this.#bounds.top) count.reads.add(fact);
    count.queries += 1;
    if (isUnknown) count.unknown += 1;
  }

  #addMoved(row: ReplayedRow, { from, to, before, after }: MovedQuery, unreplayed: readonly UnreplayedRule[]): void {
    this.#moved += 1;
    const key = JSON.stringify([from, to]);
    const count = countOf(this.#moves, key, () => ({ from, to, queries: 0, examples: 0 }));
    if (count === null) return;
    count.queries += 1;
    if (this.#examples.length >= this.#bounds.examples || count.examples >= EXAMPLES_OF_A_MOVE) return;
    count.examples += 1;
    const { queryId, user, source, created, queryText } = row;
    this.#examples.push({
      ...{ queryId, user, source, created, from, to },
      queryText: queryText.slice(0, EXAMPLE_TEXT),
      before: this.#traceOf(before),
      after: this.#traceOf(after),
      assumed: [...new Set(unreplayed.map(({ rule }) => rule))],
    });
  }

  #traceOf(decision: RuleDecision | null): readonly RuleTrace[] {
    const all = decision?.trace.rules ?? [];
    if (all.length <= MAX_TRACED) return all;
    const isShown = ({ rule, outcome }: RuleTrace) =>
      this.#edited.has(rule) || (outcome !== 'not-matched' && outcome !== 'skipped');
    return all.filter(isShown).slice(0, MAX_TRACED);
  }

  report(cutBy: ReplayReport['cutBy'], milliseconds: number): ReplayReport {
    const { top } = this.#bounds;
    const moves = [...this.#moves.values()].map(({ examples: _, ...move }) => move);
    const unreplayed = [...this.#unreplayed].map(
      ([rule, { reads, queries, unknown }]): UnreplayedCount => ({ rule, reads: [...reads], queries, unknown }),
    );
    return {
      queries: this.#queries,
      unmoved: this.#queries - this.#moved - this.#unknown,
      moved: this.#moved,
      unknown: this.#unknown,
      cutBy,
      oldest: this.#oldest,
      moves: mostOf(moves, top),
      users: sharesOf(this.#users, top),
      sources: sharesOf(this.#sources, top),
      unreplayed: unreplayed.sort((a, b) => b.unknown - a.unknown || b.queries - a.queries).slice(0, top),
      examples: this.#examples,
      unknownExamples: this.#unknownExamples,
      milliseconds: Math.round(milliseconds),
    };
  }
}

/** The count of a key; null if there are too many keys. */
function countOf<Key, Count>(counts: Map<Key, Count>, key: Key, zero: () => Count): Count | null {
  const present = counts.get(key);
  if (present !== undefined) return present;
  if (counts.size >= MAX_COUNTED) return null;
  const first = zero();
  counts.set(key, first);
  return first;
}

const noShare = (): Share => ({ queries: 0, moved: 0, unknown: 0 });

/** Shares with queries that move or may move, most first. */
function sharesOf(shares: ReadonlyMap<string | null, Share>, top: number): readonly ReplayedShare[] {
  return [...shares]
    .filter(([, { moved, unknown }]) => moved + unknown > 0)
    .map(([name, share]) => ({ name, ...share }))
    .sort((a, b) => b.moved - a.moved || b.unknown - a.unknown)
    .slice(0, top);
}

function mostOf<T extends { readonly queries: number }>(all: readonly T[], top: number): readonly T[] {
  return all.toSorted((a, b) => b.queries - a.queries).slice(0, top);
}
