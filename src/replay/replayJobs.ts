import { isDeepStrictEqual } from 'node:util';
import type { Logger } from 'pino';
import type { Clock } from '../model/clock.ts';
import { GatewayError } from '../model/errors.ts';
import type { ReplayRange } from '../store/historyReplay.ts';
import type { ReplayRepository } from '../store/replayRepository.ts';
import { replayQuery } from './replayedQuery.ts';
import type { SelectedQuery, SelectionFilter, SelectionReport, Share } from './selection.ts';
import type { RunAccount, RunCluster, RunLimits, RunStatement, StatementRuns } from './statementRuns.ts';
import { errorOf, isUnexplained, type VerdictKind, verdictKinds } from './verdict.ts';

/** A replay as its resource declares it. */
export interface ReplayPlan {
  readonly uid: string;
  /** Digest of what is replayed: progress of another revision does not count. */
  readonly revision: string;
  /** Namespace and name of its resource. */
  readonly namespace: string;
  readonly name: string;
  /** Registry names. */
  readonly control: string;
  readonly candidate: string;
  readonly mode: 'run' | 'validate';
  readonly isSuspended: boolean;
  /** True: it repeats reads as they end; false: it replays recorded queries. */
  readonly isLive: boolean;
  /** Milliseconds before its start of which queries are chosen; of a live one, milliseconds until its end. */
  readonly last: number;
  readonly filter: SelectionFilter;
  readonly limits: RunLimits;
  /** Statements at a time, on each cluster. */
  readonly concurrency: number;
  /** Percent of the CPU time that has to be covered. */
  readonly minCoverage: number;
  /** Milliseconds from one start to the next; null: it runs once. */
  readonly every: number | null;
  /** Minutes of a UTC day between which it runs; null: always. */
  readonly window: { readonly from: number; readonly to: number } | null;
}

/** States of a replay (docs/replay.md#states). */
export const replayStates = ['waiting', 'selecting', 'held', 'running', 'done', 'failed'] as const;

/** Progress of a replay, and its result. */
export interface ReplayProgress {
  readonly revision: string;
  readonly state: (typeof replayStates)[number];
  /** A sentence for users. */
  readonly message: string;
  /** Milliseconds since 1970. */
  readonly started: number;
  /** Time until which reads were repeated, in milliseconds since 1970; of live replays. */
  readonly until: number;
  /** Queries that are replayed, and the CPU time of their records: the expected cost on each cluster. */
  readonly selected: Share;
  /** Replayed queries, and their CPU time on both clusters. */
  readonly replayed: Share;
  /** Recorded queries of the range, and those that replayed ones stand for. */
  readonly recorded: Share;
  readonly covered: Share;
  readonly excluded: SelectionReport['excluded'];
  readonly verdicts: Readonly<Record<VerdictKind, number>>;
  /** Null until it has ended. */
  readonly verified: boolean | null;
}

/** Result of one query of a replay. */
export interface ReplayResult {
  readonly queryId: string;
  readonly digest: string;
  readonly user: string | null;
  readonly standsFor: Share;
  readonly verdict: VerdictKind;
  readonly reason: string;
  /** Query ids of its runs; null: it did not run. */
  readonly controlQuery: string | null;
  readonly candidateQuery: string | null;
  readonly controlCpuMillis: number | null;
  readonly candidateCpuMillis: number | null;
  readonly controlError: string | null;
  readonly candidateError: string | null;
}

/** Targets of a replay: both clusters, and runs with its account. */
export interface ReplayTargets {
  readonly control: RunCluster;
  readonly candidate: RunCluster;
  readonly account: RunAccount;
}

/** Results of repeated reads, and all reads that they were chosen from. */
export interface ShadowReport extends Pick<SelectionReport, 'recorded' | 'excluded'> {
  readonly results: readonly ReplayResult[];
}

/** Parts of the gateway that replays use. */
export interface ReplayParts {
  readonly repository: ReplayRepository;
  /** Chooses queries of the history. @param started milliseconds since 1970, the end of the range */
  select(plan: ReplayPlan, started: number, signal: AbortSignal): Promise<SelectionReport>;
  /** Repeats reads that ended in a range at the candidate. */
  shadow(plan: ReplayPlan, targets: ReplayTargets, range: ReplayRange, signal: AbortSignal): Promise<ShadowReport>;
  /** The resource that the gateway is short of, or null: then nothing is repeated. */
  shortage(): string | null;
  /** Clusters and account of a plan, or the reason that nothing can be sent. */
  targets(plan: ReplayPlan): Promise<ReplayTargets | string>;
  runs(account: RunAccount): StatementRuns;
  isLeader(): boolean;
  /** Replays of accepted resources, in the order in which they run. */
  plans(): readonly ReplayPlan[];
  /** Uids of all resources; null: not known yet. */
  uids(): ReadonlySet<string> | null;
  /** Takes a progress that changed. */
  note(plan: ReplayPlan, progress: ReplayProgress): void;
}

/** Statement that a cluster runs before others: the first query of a server that just started can fail, and no other. */
export const warmUp: RunStatement = { text: 'SELECT 1', user: null, headers: {}, prepared: null };
const TURN_MS = 2_000;
/** Queries in a row without a response of a cluster, after which a replay fails: each may take as long as its limit. */
const MAX_LOST = 10;
/** Milliseconds after its end that a read is in the database, and bounds of the part of time that a turn covers. */
const SETTLE_MS = 2_000;
const MIN_SLICE_MS = 3_000;
const MAX_SLICE_MS = 60_000;
/** Longest time that such a read may have run. */
const MAX_RUN_MS = 120_000;
const DAY_MINUTES = 24 * 60;
const nothing: Share = { queries: 0, cpuMillis: 0 };
const noVerdicts = Object.fromEntries(verdictKinds.map((kind) => [kind, 0])) as Record<VerdictKind, number>;

/** Runs replays, one after the other, at the leader (docs/replay.md). Another leader continues where it ended. */
export class ReplayJobs {
  readonly #parts: ReplayParts;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #noted = new Map<string, ReplayProgress>();
  #timer: NodeJS.Timeout | null = null;
  #turn: Promise<void> | null = null;
  #isEmpty = false;
  /** `isHeld`: it only selects queries. */
  #running: { readonly plan: ReplayPlan; readonly end: AbortController; readonly isHeld: boolean } | null = null;

  constructor(parts: ReplayParts, clock: Clock, logger: Logger) {
    this.#parts = parts;
    this.#clock = clock;
    this.#logger = logger;
  }

  start(): void {
    this.#timer = setInterval(() => {
      const running = this.#running;
      // A replay ends with its resource or window, and begins again when the resource changes.
      const plan = running && this.#parts.plans().find((each) => isSame(each, running.plan));
      if (running !== null && (plan == null || (!running.isHeld && this.#holdOf(plan) !== null)))
        running.end.abort(new Error('the replay changed or is held'));
      this.#turn ??= this.#next()
        .catch((error: unknown) => this.#logger.warn({ err: error }, 'replay deferred'))
        .finally(() => {
          this.#turn = null;
        });
    }, TURN_MS).unref();
  }

  /** Ends the running replay; its results so far stay. */
  async stop(): Promise<void> {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#running?.end.abort(new Error('the gateway stops'));
    await this.#turn;
  }

  async #next(): Promise<void> {
    const { repository } = this.#parts;
    const plans = this.#parts.plans();
    if (this.#isEmpty && plans.length === 0) return;
    const stored = await repository.all();
    this.#isEmpty = stored.size === 0;
    for (const plan of plans) {
      const progress = progressOf(stored.get(plan.uid), plan);
      if (progress !== null) this.#note(plan, progress);
    }
    for (const plan of plans) {
      if (!this.#parts.isLeader()) return;
      const progress = progressOf(stored.get(plan.uid), plan);
      if (progress !== null && !this.#isDue(plan, progress)) continue;
      const end = new AbortController();
      this.#running = { plan, end, isHeld: this.#holdOf(plan) !== null };
      try {
        await this.#run(plan, progress, end.signal);
      } catch (error) {
        if (error instanceof GatewayError && error.code === 'EG_IMPOSSIBLE')
          await this.#put(plan, { ...newProgress(plan, this.#clock.now()), state: 'failed', message: error.message });
        else if (!end.signal.aborted) throw error;
      } finally {
        this.#running = null;
      }
    }
    const uids = this.#parts.uids();
    for (const uid of stored.keys()) if (uids?.has(uid) === false) await repository.delete(uid);
    for (const uid of this.#noted.keys()) if (uids?.has(uid) === false) this.#noted.delete(uid);
  }

  #isDue({ every }: ReplayPlan, { state, started }: ReplayProgress): boolean {
    if (state !== 'done' && state !== 'failed') return true;
    return every !== null && this.#clock.now() >= started + every;
  }

  /** The reason that a replay does not run now, or null. */
  #holdOf({ isSuspended, window }: ReplayPlan): string | null {
    if (isSuspended) return 'spec.suspend is true';
    if (window === null) return null;
    const minute = Math.floor(this.#clock.now() / 60_000) % DAY_MINUTES;
    const { from, to } = window;
    const isOpen = from <= to ? minute >= from && minute < to : minute >= from || minute < to;
    return isOpen ? null : 'its window (spec.window) is closed';
  }

  /** @param stored progress so far; null: it begins */
  async #run(plan: ReplayPlan, stored: ReplayProgress | null, signal: AbortSignal): Promise<void> {
    const { repository } = this.#parts;
    const hold = this.#holdOf(plan);
    const begins = stored === null || stored.verified !== null || stored.state === 'failed';
    if (hold !== null && stored?.state === 'held') return await this.#put(plan, { ...stored, message: hold });
    let progress = begins ? newProgress(plan, this.#clock.now()) : stored;
    if (begins) await this.#put(plan, progress, true);
    const targets = await this.#parts.targets(plan);
    if (typeof targets === 'string') return await this.#put(plan, { ...progress, state: 'waiting', message: targets });
    if (plan.isLive) return await this.#shadow(plan, progress, targets, signal);
    await this.#put(plan, { ...progress, state: 'selecting' });
    // Another leader chooses the same queries again.
    const { queries, recorded, excluded } = await this.#parts.select(plan, progress.started, signal);
    const results = (await repository.results(plan.uid)).map((text): ReplayResult => JSON.parse(text));
    progress = results.reduce(withResult, { ...selectedOf(progress, queries), recorded, excluded });
    if (hold !== null) return await this.#put(plan, { ...progress, state: 'held', message: hold });
    await this.#put(plan, { ...progress, state: 'running', message: '' });
    const earlier = new Set(results.map(({ queryId }) => queryId));
    const pending = queries.filter(({ queryId }) => !earlier.has(queryId)).values();
    const runs = this.#parts.runs(targets.account);
    for (const cluster of [targets.control, targets.candidate]) await runs.run(cluster, warmUp, plan.limits, signal);
    let lostInRow = 0;
    const replayNext = async () => {
      for (const query of pending) {
        if (signal.aborted || lostInRow >= MAX_LOST || !this.#parts.isLeader()) return;
        const { statement, error } = query;
        const replayed = await replayQuery(runs, statement, error !== null, { ...plan, ...targets }, signal);
        const { control, candidate } = replayed;
        lostInRow = control.kind === 'lost' || candidate.kind === 'lost' ? lostInRow + 1 : 0;
        const result = resultOf(query, replayed);
        await repository.putResults(plan.uid, [result]);
        progress = withResult({ ...progress, state: 'running', message: '' }, result);
        await this.#put(plan, progress);
      }
    };
    await Promise.all(Array.from({ length: plan.concurrency }, replayNext));
    if (signal.aborted || !this.#parts.isLeader()) return;
    const state = lostInRow >= MAX_LOST ? 'failed' : 'done';
    await this.#put(plan, { ...progress, state, ...conclusionOf(progress, plan) });
    this.#logger.info({ replay: `${plan.namespace}/${plan.name}`, queries: progress.replayed.queries }, 'replay ended');
  }

  /** Repeats reads that ended since the last turn. */
  async #shadow(plan: ReplayPlan, before: ReplayProgress, targets: ReplayTargets, signal: AbortSignal): Promise<void> {
    const now = this.#clock.now();
    const hold = this.#holdOf(plan);
    // Reads that ended while it was held or waited are left out.
    if (hold !== null) return await this.#put(plan, { ...before, state: 'held', message: hold });
    const running = { ...before, state: 'running', message: '' } as const;
    if (before.state !== 'running') return await this.#put(plan, { ...running, until: now });
    const to = now - SETTLE_MS;
    if (to - before.until < MIN_SLICE_MS) return;
    const shortage = this.#parts.shortage();
    const message = `the gateway is short of ${shortage}: reads are left out`;
    if (shortage !== null) return await this.#put(plan, { ...running, message, until: to });
    const endedFrom = Math.max(before.until, to - MAX_SLICE_MS);
    const max = plan.filter.max - before.replayed.queries;
    const part = { ...plan, filter: { ...plan.filter, max, perDigest: max } };
    const range = { from: endedFrom - MAX_RUN_MS, to, endedFrom };
    const { results, recorded, excluded: others } = await this.#parts.shadow(part, targets, range, signal);
    await this.#parts.repository.putResults(plan.uid, results);
    const excluded: Record<string, Share> = { ...before.excluded };
    for (const [reason, other] of Object.entries(others))
      excluded[reason] = sumOf(excluded[reason] ?? nothing, other, 1);
    const share = results.reduce((sum, { standsFor }) => sumOf(sum, standsFor, 1), nothing);
    const progress = results.reduce(withResult, {
      ...{ ...running, until: to, recorded: sumOf(before.recorded, recorded, 1), excluded },
      ...{ selected: sumOf(before.selected, share, 1), covered: sumOf(before.covered, share, 1) },
    });
    const isOver = now >= before.started + plan.last || progress.replayed.queries >= plan.filter.max;
    await this.#put(plan, isOver ? { ...progress, state: 'done', ...conclusionOf(progress, plan) } : progress);
  }

  async #put(plan: ReplayPlan, progress: ReplayProgress, begins = false): Promise<void> {
    if (!begins && isDeepStrictEqual(this.#noted.get(plan.uid), progress)) return;
    await this.#parts.repository.put(plan.uid, JSON.stringify(progress), begins);
    this.#note(plan, progress);
  }

  #note(plan: ReplayPlan, progress: ReplayProgress): void {
    if (isDeepStrictEqual(this.#noted.get(plan.uid), progress)) return;
    this.#noted.set(plan.uid, progress);
    this.#parts.note(plan, progress);
  }
}

const isSame = (one: ReplayPlan, other: ReplayPlan): boolean =>
  one.uid === other.uid && one.revision === other.revision;

/** The stored progress of a plan; null: none of its revision. */
function progressOf(stored: string | undefined, { revision }: ReplayPlan): ReplayProgress | null {
  const progress = JSON.parse(stored ?? 'null') as ReplayProgress | null;
  return progress?.revision === revision ? progress : null;
}

function newProgress({ revision }: ReplayPlan, started: number): ReplayProgress {
  return {
    ...{ revision, state: 'waiting', message: '', started, until: started, verdicts: noVerdicts, verified: null },
    ...{ selected: nothing, replayed: nothing, recorded: nothing, covered: nothing, excluded: {} },
  };
}

function selectedOf(progress: ReplayProgress, queries: readonly SelectedQuery[]): ReplayProgress {
  const cpuMillis = queries.reduce((sum, query) => sum + query.cpuMillis, 0);
  const covered = queries.reduce((sum, { standsFor }) => sumOf(sum, standsFor, 1), nothing);
  return {
    ...{ ...progress, selected: { queries: queries.length, cpuMillis }, covered },
    ...{ replayed: nothing, verdicts: noVerdicts },
  };
}

function sumOf(one: Share, other: Share, sign: 1 | -1): Share {
  return { queries: one.queries + sign * other.queries, cpuMillis: one.cpuMillis + sign * other.cpuMillis };
}

function withResult(progress: ReplayProgress, result: ReplayResult): ReplayProgress {
  const { verdict, standsFor, controlCpuMillis, candidateCpuMillis } = result;
  const cpuMillis = (controlCpuMillis ?? 0) + (candidateCpuMillis ?? 0);
  return {
    ...progress,
    replayed: sumOf(progress.replayed, { queries: 1, cpuMillis }, 1),
    verdicts: { ...progress.verdicts, [verdict]: progress.verdicts[verdict] + 1 },
    covered: verdict === 'NotComparable' ? sumOf(progress.covered, standsFor, -1) : progress.covered,
  };
}

/** Result of a query by the verdict on it. */
export function resultOf(
  { queryId, digest, standsFor, statement: { user } }: SelectedQuery,
  { kind: verdict, reason, control, candidate }: Awaited<ReturnType<typeof replayQuery>>,
): ReplayResult {
  return {
    ...{ queryId, digest, user, standsFor, verdict, reason },
    ...{ controlQuery: control.queryId, candidateQuery: candidate.queryId },
    ...{ controlCpuMillis: control.cpuMillis, candidateCpuMillis: candidate.cpuMillis },
    ...{ controlError: errorOf(control), candidateError: errorOf(candidate) },
  };
}

/** Percent of the recorded queries, and of their CPU time, that replayed queries stand for. */
export function coverageOf({ recorded, covered }: Pick<ReplayProgress, 'recorded' | 'covered'>) {
  const percent = (part: number, all: number) => Math.max(0, Math.floor((100 * part) / all + 1e-6));
  const queries = recorded.queries === 0 ? 0 : percent(covered.queries, recorded.queries);
  return { queries, cpu: recorded.cpuMillis === 0 ? queries : percent(covered.cpuMillis, recorded.cpuMillis) };
}

/** True if the candidate is verified, with the reason. */
function conclusionOf(progress: ReplayProgress, { minCoverage }: ReplayPlan) {
  const { verdicts, selected, replayed, recorded } = progress;
  const isComplete = replayed.queries >= selected.queries && recorded.queries > 0;
  const failing = verdictKinds.filter((kind) => isUnexplained(kind) && verdicts[kind] > 0);
  const { cpu } = coverageOf(progress);
  const message =
    failing.length > 0
      ? `${failing.map((kind) => `${verdicts[kind]} ${kind}`).join(', ')}: the report lists them`
      : `the compared queries stand for ${cpu} % of the CPU time; spec.minCoverage is ${minCoverage}`;
  const isVerified = isComplete && failing.length === 0 && cpu >= minCoverage;
  return { verified: isVerified, message };
}
