import type { Logger } from 'pino';
import { productNames } from '../../model/names.ts';
import { SizeEstimates } from '../../model/sizeEstimates.ts';
import type { RuleDecision, RuleTrace } from '../../rules/decision.ts';
import { RuleReplay, type UnreplayedRule } from '../../rules/replay/ruleReplay.ts';
import { UnknownRead } from '../../rules/replay/unknownRead.ts';
import { rightsOfVersion } from '../../rules/tenancy.ts';
import { DEFAULT_CACHE_BYTES, requestAnalysis } from '../../sql/analyzeRequest.ts';
import type { ReplayedRow } from '../../store/historyReplay.ts';
import { readHistory } from '../../store/openStore.ts';
import {
  RecordedQuery,
  type RecordedQueryContext,
  type ReplayBounds,
  type ReplayJob,
  type ReplayTarget,
} from './recordedQuery.ts';

const uncertain: ReplayTarget = { kind: 'uncertain', name: null };

/**
 * Replays the history of a range with active and edited rules. CPU-intensive: runs in a thread (`replayThread.ts`).
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
        if (tally.total.queries >= bounds.queries) return tally.report('queries', elapsed());
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

  constructor({ rules, settings, bounds, estimates }: ReplayJob) {
    const names = productNames(settings.productName);
    const { rights, isExternal } = rules.settings;
    const { analyzeRequest, clientsUseV2Format, maxAnalyzed } = settings;
    this.#isExternal = isExternal;
    this.#replay = new RuleReplay(rules, { names, analyzeRequest }, rights === null ? null : rightsOfVersion(rights));
    const analyze = requestAnalysis({
      ...{ names, clientsUseV2Format, cacheBytes: DEFAULT_CACHE_BYTES },
      maxBodySize: maxAnalyzed,
      ...(estimates !== null && { estimates: new SizeEstimates(estimates) }),
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
    // The service's response does not depend on rules. If they denied the query, it was not called.
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

/** Maximum number of counted users, sources, moves and rules: clients may invent names. */
const MAX_COUNTED = 10_000;
/** Maximum number of examples per move, so that others are shown too. */
const EXAMPLES_OF_A_MOVE = 5;
const EXAMPLE_TEXT = 500;
const MAX_TRACED = 50;

const noQueries = { queries: 0, moved: 0, unknown: 0 };

/**
 * Counts one more query of a key, in bounded memory: keys beyond the maximum are not counted. Returns the count of the key.
 */
function count<Key, Count extends { queries: number }>(counts: Map<Key, Count>, key: Key, first: Count): Count | null {
  const present = counts.get(key) ?? (counts.size < MAX_COUNTED ? first : null);
  if (present === null) return null;
  counts.set(key, present);
  present.queries += 1;
  return present;
}

/** Counts of the queries of a user or source; null: unknown. */
const shareOf = (name: string | null) => ({ name, ...noQueries });
const moveOf = ({ from, to }: MovedQuery) => ({ from, to, queries: 0, examples: 0 });
const unreplayedOf = (rule: string) => ({ rule, reads: [] as string[], queries: 0, unknown: 0 });

/** Results of queries: their counts, and examples. */
class ReplayTally {
  readonly #bounds: ReplayBounds;
  /** Names of edited rules: traces always show them. */
  readonly #edited: ReadonlySet<string>;
  readonly #users = new Map<string | null, ReturnType<typeof shareOf>>();
  readonly #sources = new Map<string | null, ReturnType<typeof shareOf>>();
  readonly #moves = new Map<string, ReturnType<typeof moveOf>>();
  readonly #unreplayed = new Map<string, ReturnType<typeof unreplayedOf>>();
  readonly #examples: ReturnType<typeof this.exampleOf>[] = [];
  readonly #unknownExamples: string[] = [];
  readonly total = { ...noQueries };
  #oldest: number | null = null;

  constructor(bounds: ReplayBounds, edited: ReadonlySet<string>) {
    this.#bounds = bounds;
    this.#edited = edited;
  }

  add(impact: QueryImpact): void {
    const { row, moved, unreplayed } = impact;
    const { examples, top } = this.#bounds;
    this.#oldest = row.created;
    this.total.queries += 1;
    const shares = [
      count(this.#users, row.user, shareOf(row.user)),
      count(this.#sources, row.source, shareOf(row.source)),
    ];
    for (const share of [this.total, ...shares]) {
      if (share !== null && moved !== null) share[moved === 'unknown' ? 'unknown' : 'moved'] += 1;
    }
    for (const rule of new Set(unreplayed.map((each) => each.rule))) {
      const counted = count(this.#unreplayed, rule, unreplayedOf(rule));
      if (counted === null) continue;
      const facts = unreplayed.filter((each) => each.rule === rule).map(({ fact }) => fact);
      counted.reads = [...new Set([...counted.reads, ...facts])].slice(0, top);
      if (moved === 'unknown') counted.unknown += 1;
    }
    if (moved === 'unknown') {
      if (this.#unknownExamples.length < examples) this.#unknownExamples.push(row.queryId);
    } else if (moved !== null) {
      const counted = count(this.#moves, JSON.stringify([moved.from, moved.to]), moveOf(moved));
      if (counted === null || this.#examples.length >= examples || counted.examples >= EXAMPLES_OF_A_MOVE) return;
      counted.examples += 1;
      this.#examples.push(this.exampleOf(row, moved, unreplayed));
    }
  }

  /** An example; of rules in `assumed`, which could not be replayed, traces show one outcome. */
  exampleOf(row: ReplayedRow, { from, to, before, after }: MovedQuery, unreplayed: readonly UnreplayedRule[]) {
    const { queryId, user, source, created, queryText } = row;
    return {
      ...{ queryId, user, source, created, from, to },
      queryText: queryText.slice(0, EXAMPLE_TEXT),
      before: this.#traceOf(before),
      after: this.#traceOf(after),
      assumed: [...new Set(unreplayed.map(({ rule }) => rule))],
    };
  }

  /** Effects of the rules; of many rules those with an effect, and edited ones. */
  #traceOf(decision: RuleDecision | null): readonly RuleTrace[] {
    const all = decision?.trace.rules ?? [];
    if (all.length <= MAX_TRACED) return all;
    const isShown = ({ rule, outcome }: RuleTrace) =>
      this.#edited.has(rule) || (outcome !== 'not-matched' && outcome !== 'skipped');
    return all.filter(isShown).slice(0, MAX_TRACED);
  }

  /** @param cutBy limit that ended the replay early; null: all queries were examined */
  report(cutBy: 'queries' | 'time' | null, milliseconds: number) {
    const { top } = this.#bounds;
    const { queries, moved, unknown } = this.total;
    const most = (shares: readonly ReturnType<typeof shareOf>[]) =>
      shares
        .filter((share) => share.moved + share.unknown > 0)
        .sort((a, b) => b.moved - a.moved || b.unknown - a.unknown)
        .slice(0, top);
    return {
      ...{ queries, moved, unknown, unmoved: queries - moved - unknown, cutBy },
      /** Milliseconds since 1970 of the oldest examined query, or null. */
      oldest: this.#oldest,
      moves: [...this.#moves.values()]
        .map(({ examples: _, ...move }) => move)
        .sort((a, b) => b.queries - a.queries)
        .slice(0, top),
      users: most([...this.#users.values()]),
      sources: most([...this.#sources.values()]),
      unreplayed: [...this.#unreplayed.values()]
        .toSorted((a, b) => b.unknown - a.unknown || b.queries - a.queries)
        .slice(0, top),
      examples: this.#examples,
      unknownExamples: this.#unknownExamples,
      milliseconds: Math.round(milliseconds),
    };
  }
}

/** Effect of a rule change on the queries of a range. */
export type ReplayReport = ReturnType<ReplayTally['report']>;
