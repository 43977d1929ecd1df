import type { Logger } from 'pino';
import { productNames } from '../../model/names.ts';
import { rightsOfVersion } from '../../rules/boundRights.ts';
import type { RuleDecision } from '../../rules/decision.ts';
import { RuleReplay } from '../../rules/replay/ruleReplay.ts';
import { UnknownRead } from '../../rules/replay/unknownRead.ts';
import { DEFAULT_CACHE_BYTES, requestAnalysis } from '../../sql/analyzeRequest.ts';
import type { ReplayedRow } from '../../store/historyReplay.ts';
import { readHistory } from '../../store/openStore.ts';
import { RecordedQuery, type RecordedQueryContext } from './recordedQuery.ts';
import type { ReplayJob, ReplayReport, ReplayTarget } from './replayJob.ts';
import { type MovedQuery, type QueryImpact, ReplayTally } from './replayTally.ts';

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
