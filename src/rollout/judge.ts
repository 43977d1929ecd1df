/** Cluster of a rollout that a query ran on. */
export type RolloutSide = 'stable' | 'candidate';

/** A query that was started in the current step of a rollout. */
export interface StartedQuery {
  readonly queryId: string;
  /** Shape digest, catalog and schema: queries with the same text are compared (docs/digests.md). */
  readonly digest: string;
  readonly side: RolloutSide;
  readonly user: string;
  /** Milliseconds since 1970. */
  readonly started: number;
  /** Outcome; `RUNNING` until the end, null if none was recorded. */
  readonly state: string | null;
  readonly errorType: string | null;
  readonly errorName: string | null;
  readonly cpuMillis: number | null;
  /** Total time; of a running query its age. */
  readonly elapsedMillis: number;
}

/** Runs of a digest on stable before the step. */
export interface DigestHistory {
  readonly queries: number;
  readonly failures: number;
}

/** Input of the judge. */
export interface Evidence {
  /** In order of start. */
  readonly queries: readonly StartedQuery[];
  /** The last seven days on stable, by digest. */
  readonly history: ReadonlyMap<string, DigestHistory>;
  /** Milliseconds since 1970. */
  readonly now: number;
}

/** Rules of the judge. */
export interface AnalysisRules {
  /** Steps of the rollout, which share the probability of a false alarm. */
  readonly steps: number;
  /** Ended queries on each side before the step can pass. */
  readonly minQueries: number;
  readonly compare: 'cpu' | 'elapsed';
  /** A query is slow if it takes longer than this multiple of the median of its digest on stable. */
  readonly slowFactor: number;
}

/** Counts of one side. */
interface SideCount {
  starts: number;
  events: number;
}

/** A digest that speaks against the candidate. */
export interface DigestEvidence {
  readonly digest: string;
  readonly criterion: 'errors' | 'time';
  /** Logarithm of the likelihood ratio. */
  readonly evidence: number;
  readonly candidate: Readonly<SideCount>;
  readonly stable: Readonly<SideCount>;
  /** Error of the last example. */
  readonly error: string | null;
  /** Queries of the candidate, at most three. */
  readonly examples: readonly string[];
}

/** Result of one criterion. */
export interface CriterionResult {
  readonly evidence: number;
  /** The candidate fails if the evidence reaches it. */
  readonly threshold: number;
  readonly candidate: Readonly<SideCount>;
  readonly stable: Readonly<SideCount>;
}

/** Verdict on a step. `Inconclusive`: more queries are needed. */
export interface StepVerdict {
  readonly verdict: 'Pass' | 'Fail' | 'Inconclusive';
  readonly reason: string;
  readonly message: string;
  readonly ended: Readonly<Record<RolloutSide, number>>;
  readonly errors: CriterionResult;
  readonly time: CriterionResult;
  /** Those with the most evidence, at most five. */
  readonly digests: readonly DigestEvidence[];
}

/** Probability of a false rollback, over all looks, steps and criteria of a rollout. */
const ALPHA = 0.01;
/** Ratio of the odds that the test looks for: events that are three times as frequent on the candidate. */
const RATIO = 3;
/** Events of one user and digest that count: a client that retries is no evidence. */
const MAX_OF_USER = 3;
/** The n-th event of a user counts with this power of n, as events of one user depend on each other. */
const USER_POWER = 0.75;
/** Times have heavy tails, and depend on the literals that users ask for. */
const TIME_POWER = 0.6;
/** Successes on stable that make an error of the user an error of the candidate. */
const MIN_SUCCESSES = 3;
/** Runs on stable before times of a digest are compared. */
const MIN_TIMES = 5;
const MAX_TIMES = 200;
/** A running query is slow after this multiple of the 95th percentile of its digest on stable, and after a minimum. */
const HANG_FACTOR = 3;
const MIN_HANG_MS = 10_000;
/** The fast path: this many internal errors of two digests within a minute, of two users, if they are 30 % of the queries. */
const FAST_ERRORS = 3;
const FAST_MS = 60_000;
const FAST_QUERIES = 50;
const FAST_SHARE = 0.3;
/** Outcomes are expected this long after the start, for all but this share. */
const OUTCOME_MS = 60_000;
const MAX_MISSING = 0.2;
const MAX_DIGESTS = 5;
const MAX_EXAMPLES = 3;

type Tested = { -readonly [K in keyof DigestEvidence]: DigestEvidence[K] } & {
  readonly candidate: SideCount;
  readonly stable: SideCount;
  examples: string[];
};

/**
 * Tests if events are more frequent on the candidate, by likelihood ratios within each digest: their product is a test
 * martingale while both sides are equal, so that its maximum may be looked at any time (Ville's inequality).
 */
class EventTest {
  readonly #criterion: DigestEvidence['criterion'];
  readonly #history: Evidence['history'] | null;
  readonly #digests = new Map<string, Tested>();
  readonly #ofUsers = new Map<string, number>();
  readonly candidate: SideCount = { starts: 0, events: 0 };
  readonly stable: SideCount = { starts: 0, events: 0 };
  #evidence = 0;
  #peak = 0;

  /** @param history compares digests that do not run on stable now; null: they are not compared */
  constructor(criterion: DigestEvidence['criterion'], history: Evidence['history'] | null) {
    this.#criterion = criterion;
    this.#history = history;
  }

  add({ digest, side, user, queryId, errorName }: StartedQuery, isEvent: boolean): void {
    const tested = this.#digest(digest);
    tested[side].starts++;
    this[side].starts++;
    if (!isEvent) return;
    tested[side].events++;
    this[side].events++;
    if (side === 'candidate') {
      tested.error = errorName;
      if (tested.examples.length < MAX_EXAMPLES) tested.examples.push(queryId);
    }
    const key = `${digest}\n${user}`;
    const ofUser = (this.#ofUsers.get(key) ?? 0) + 1;
    this.#ofUsers.set(key, ofUser);
    if (ofUser > MAX_OF_USER) return;
    // A power below 1 of a likelihood ratio has an expected value of at most 1 as well.
    const ofAll = (this.#ofUsers.get(user) ?? 0) + 1;
    this.#ofUsers.set(user, ofAll);
    const power = (this.#criterion === 'time' ? TIME_POWER : 1) * ofAll ** -USER_POWER;
    const { starts } = tested.candidate;
    const share = starts / (starts + tested.stable.starts);
    let gain = Math.log((side === 'candidate' ? RATIO : 1) / (1 + (RATIO - 1) * share));
    // Without a run on stable in the step, the last days count, as much as one event at most: data may have changed since.
    if (share === 1) gain = tested.evidence > 0 ? 0 : this.#gainByHistory(digest, starts);
    tested.evidence += power * gain;
    this.#evidence += power * gain;
    this.#peak = Math.max(this.#peak, this.#evidence);
  }

  #gainByHistory(digest: string, starts: number): number {
    const { queries = 0, failures = 0 } = this.#history?.get(digest) ?? {};
    const weight = 1 + ((RATIO - 1) * starts) / (starts + queries);
    return Math.max(0, Math.log(RATIO / weight) - failures * Math.log(weight));
  }

  #digest(digest: string): Tested {
    const present = this.#digests.get(digest);
    if (present !== undefined) return present;
    const side = () => ({ starts: 0, events: 0 });
    const criterion = this.#criterion;
    const tested = { digest, criterion, evidence: 0, candidate: side(), stable: side(), error: null, examples: [] };
    this.#digests.set(digest, tested);
    return tested;
  }

  result(threshold: number): CriterionResult {
    return { evidence: this.#peak, threshold, candidate: this.candidate, stable: this.stable };
  }

  get digests(): readonly DigestEvidence[] {
    return [...this.#digests.values()].filter(({ evidence }) => evidence > 0);
  }
}

/** Sorted values, of which the newest replace the oldest. */
class Times {
  readonly #byAge: number[] = [];
  readonly #sorted: number[] = [];

  add(value: number): void {
    if (this.#byAge.length >= MAX_TIMES) this.#sorted.splice(this.#place(this.#byAge.shift() as number), 1);
    this.#byAge.push(value);
    this.#sorted.splice(this.#place(value), 0, value);
  }

  /** Null if there are too few values. */
  quantile(share: number): number | null {
    const { length } = this.#sorted;
    return length < MIN_TIMES ? null : (this.#sorted[Math.min(length - 1, Math.floor(length * share))] as number);
  }

  #place(value: number): number {
    let [low, high] = [0, this.#sorted.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#sorted[middle] as number) < value) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

interface DigestTimes {
  readonly compared: Times;
  readonly elapsed: Times;
  /** Sides that ran it: the first run of each may find cold caches. */
  readonly isWarm: Set<RolloutSide>;
}

const isEnded = ({ state }: StartedQuery) => state === 'FINISHED' || isFailure(state);
const isFailure = (state: string | null) => state === 'FAILED' || state === 'LOST' || state === 'RETRIED';

/** Tests failures. Errors of the user count for digests that succeed on stable. */
function testErrors({ queries, history }: Evidence): EventTest {
  const test = new EventTest('errors', history);
  const successes = new Map<string, number>();
  for (const query of queries) {
    if (!isEnded(query)) continue;
    const { digest, side, state, errorType } = query;
    if (side === 'stable' && state === 'FINISHED') successes.set(digest, (successes.get(digest) ?? 0) + 1);
    const { queries: earlier = 0, failures = 0 } = history.get(digest) ?? {};
    const isOfUser = errorType === 'USER_ERROR' && (successes.get(digest) ?? 0) + earlier - failures < MIN_SUCCESSES;
    test.add(query, isFailure(state) && !isOfUser);
  }
  return test;
}

/** Tests slow queries: each is compared with those of its digest that started earlier on stable. */
function testTime({ queries }: Evidence, { compare, slowFactor }: AnalysisRules): EventTest {
  const test = new EventTest('time', null);
  const digests = new Map<string, DigestTimes>();
  const all = new Times();
  for (const query of queries) {
    const { digest, side, state, elapsedMillis } = query;
    let times = digests.get(digest);
    if (times === undefined) {
      times = { compared: new Times(), elapsed: new Times(), isWarm: new Set() };
      digests.set(digest, times);
    }
    const value = compare === 'cpu' ? query.cpuMillis : elapsedMillis;
    if (state === 'RUNNING') {
      const usual = times.elapsed.quantile(0.95) ?? all.quantile(0.95);
      if (usual !== null && elapsedMillis > Math.max(MIN_HANG_MS, HANG_FACTOR * usual)) test.add(query, true);
    } else if (state === 'FINISHED' && value !== null) {
      const median = times.compared.quantile(0.5);
      if (median !== null && times.isWarm.has(side)) test.add(query, value > slowFactor * Math.max(1, median));
      times.isWarm.add(side);
      if (side === 'candidate') continue;
      times.compared.add(value);
      times.elapsed.add(elapsedMillis);
      all.add(elapsedMillis);
    }
  }
  return test;
}

/** Finds internal errors in a short time, of digests that do not fail on stable. @returns ids of queries; null: none */
function fastFailures({ queries, history }: Evidence): readonly string[] | null {
  const failing = new Set<string>();
  for (const { side, state, digest } of queries) if (side === 'stable' && isFailure(state)) failing.add(digest);
  const own = queries.filter((each) => each.side === 'candidate' && isEnded(each));
  const isInternal = ({ state, errorType, digest }: StartedQuery) =>
    state !== 'FINISHED' &&
    (errorType === 'INTERNAL_ERROR' || state !== 'FAILED') &&
    !failing.has(digest) &&
    (history.get(digest)?.failures ?? 0) === 0;
  let begin = 0;
  for (const [index, query] of own.entries()) {
    while (query.started - (own[begin] as StartedQuery).started > FAST_MS || index - begin >= FAST_QUERIES) begin++;
    if (!isInternal(query)) continue;
    const errors = own.slice(begin, index + 1).filter(isInternal);
    const distinct = (keys: readonly string[]) => new Set(keys).size;
    const pairs = distinct(errors.map(({ digest, user }) => `${digest}\n${user}`));
    const isShort = pairs < FAST_ERRORS || pairs < FAST_SHARE * (index + 1 - begin);
    const isOfOne = distinct(errors.map(({ digest }) => digest)) < 2 || distinct(errors.map(({ user }) => user)) < 2;
    if (!isShort && !isOfOne) return errors.map(({ queryId }) => queryId);
  }
  return null;
}

/** Judges a step of a rollout by the queries that started in it (docs/rollouts.md#the-judge). Pure. */
export function judge(evidence: Evidence, rules: AnalysisRules): StepVerdict {
  const { queries, now } = evidence;
  const threshold = Math.log((2 * rules.steps) / ALPHA);
  const errorTest = testErrors(evidence);
  const timeTest = testTime(evidence, rules);
  const [errors, time] = [errorTest.result(threshold), timeTest.result(threshold)];
  const endedOf = (side: RolloutSide) => queries.filter((each) => each.side === side && isEnded(each)).length;
  const ended = { stable: endedOf('stable'), candidate: endedOf('candidate') };
  const digests = [...errorTest.digests, ...timeTest.digests]
    .toSorted((a, b) => b.evidence - a.evidence)
    .slice(0, MAX_DIGESTS);
  const verdict = (kind: StepVerdict['verdict'], reason: string, message: string): StepVerdict => ({
    ...{ verdict: kind, reason, message, ended, errors, time, digests },
  });
  const counts = ({ candidate, stable }: CriterionResult, what: string) =>
    `${candidate.events} of ${candidate.starts} queries on the candidate ${what}, ${stable.events} of ${stable.starts} on stable`;
  const fast = fastFailures(evidence);
  if (fast !== null) {
    const message = `the candidate failed with internal errors: ${fast.slice(0, MAX_EXAMPLES).join(', ')}`;
    return verdict('Fail', 'InternalErrors', message);
  }
  if (errors.evidence >= threshold) return verdict('Fail', 'MoreErrors', counts(errors, 'failed'));
  if (time.evidence >= threshold) return verdict('Fail', 'Slower', counts(time, 'were slow'));
  const due = queries.filter(({ started }) => now - started > OUTCOME_MS);
  const missing = due.filter(({ state }) => state === null).length;
  if (missing > MAX_MISSING * due.length)
    return verdict('Inconclusive', 'OutcomesMissing', `${missing} of ${due.length} queries have no recorded outcome`);
  const progress = `${ended.candidate} queries ended on the candidate, ${ended.stable} on stable; ${rules.minQueries} are required on each`;
  return Math.min(ended.stable, ended.candidate) < rules.minQueries
    ? verdict('Inconclusive', 'NotEnoughQueries', progress)
    : verdict('Pass', 'NoDifference', `no difference: ${progress}`);
}
