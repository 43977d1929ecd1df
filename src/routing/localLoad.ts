import type { ClusterEntry, HealthVerdict } from './routingTable.ts';

/** Accepted submissions count for at most this many milliseconds, or until newer statistics. */
const MAX_AGE_MS = 60_000;
/** A cluster that was not a candidate for longer than this rejoins the others of its group. */
const REJOIN_MS = 1_000;
const NEVER = Number.NEGATIVE_INFINITY;
/** Accepted submissions are counted in slices of this many milliseconds. */
const SLICE_MS = 100;
/** Maximum number of slices of a cluster; older ones are merged. */
const MAX_SLICES = 1_200;
/** Maximum number of users counted by name on one cluster between two statistics: clients choose these names. */
const MAX_USERS = 10_000;

/** Load of a cluster that this process knows. Each query that it sent counts once. */
export interface ClusterLoad {
  /** Queued queries of the request's user. */
  readonly own: number;
  readonly queued: number;
  readonly running: number;
}

/** A submission that was sent to a cluster and counts as its load until statistics show it. */
export interface CountedSubmission {
  /** The cluster accepted the query: the next requested statistics include it. */
  confirm(): void;
  /** The cluster did not accept it. No effect after `confirm`. */
  withdraw(): void;
}

interface Count {
  all: number;
  readonly byUser: Map<string, number>;
}

interface Slice extends Count {
  /** Monotonic milliseconds at which the slice ends. */
  end: number;
}

interface SubmittedQueries {
  /** Total of `pending` and `slices`. */
  readonly total: Count;
  readonly slices: Slice[];
  /** Monotonic time since which the cluster is a candidate together with the others. */
  joined: number;
  /** Monotonic time of the last choice with it as a candidate. */
  seenAt: number;
}

/**
 * Load of clusters, for all strategies that use it (docs/routing.md#load): queries of the cluster's statistics, and
 * queries that this process sent since the statistics were requested. The latter are dropped when newer statistics
 * arrive or after a minute, so that no query counts twice or forever. A submission without a response stays.
 */
export class LocalLoad {
  readonly #monotonic: () => number;
  readonly #clusters = new Map<string, SubmittedQueries>();

  /** @param monotonic milliseconds that never go back */
  constructor(monotonic: () => number) {
    this.#monotonic = monotonic;
  }

  countSubmission(cluster: string, user: string | null): CountedSubmission {
    const load = this.#submittedTo(cluster);
    const countedUser =
      user !== null && (load.total.byUser.has(user) || load.total.byUser.size < MAX_USERS) ? user : null;
    add(load.total, countedUser, 1);
    let open = true;
    return {
      confirm: () => {
        if (!open) return;
        open = false;
        add(this.#slice(load), countedUser, 1);
      },
      withdraw: () => {
        if (!open) return;
        open = false;
        add(load.total, countedUser, -1);
      },
    };
  }

  /**
   * The load of each candidate, in order. A cluster without statistics has the mean of the others. If none has
   * statistics, the queries that were sent to each since all of them are candidates are compared.
   */
  of(candidates: readonly ClusterEntry[], user: string | null): readonly ClusterLoad[] {
    const now = this.#monotonic();
    const submissions = candidates.map(({ name }) => this.#submittedTo(name));
    const mean = meanOf(candidates);
    const joined = noteCandidates(submissions, now);
    const uncountedSince = mean?.oldest ?? joined;
    return candidates.map(({ health }, index) => {
      const one = submissions[index] as SubmittedQueries;
      drop(one, Math.max(health.countsAsOf ?? uncountedSince, now - MAX_AGE_MS));
      return loadOf(health, mean, one.total, user);
    });
  }

  retain(registered: { has(cluster: string): boolean }): void {
    for (const name of this.#clusters.keys()) if (!registered.has(name)) this.#clusters.delete(name);
  }

  #submittedTo(cluster: string): SubmittedQueries {
    let submissions = this.#clusters.get(cluster);
    if (submissions === undefined) {
      submissions = { total: { all: 0, byUser: new Map() }, slices: [], joined: NEVER, seenAt: NEVER };
      this.#clusters.set(cluster, submissions);
    }
    return submissions;
  }

  #slice({ slices }: Pick<SubmittedQueries, 'slices'>): Slice {
    const now = this.#monotonic();
    const last = slices.at(-1);
    if (last !== undefined && now < last.end) return last;
    const slice: Slice = { end: now + SLICE_MS, all: 0, byUser: new Map() };
    slices.push(slice);
    if (slices.length > MAX_SLICES) joinOldest(slices);
    return slice;
  }
}

/** Mean counts of clusters with statistics, and the time of the oldest ones. */
interface MeanCounts {
  readonly queued: number;
  readonly running: number;
  readonly oldest: number;
}

/** Null: no candidate has statistics. */
function meanOf(candidates: readonly ClusterEntry[]): MeanCounts | null {
  let counted = 0;
  let queued = 0;
  let running = 0;
  let oldest = Number.POSITIVE_INFINITY;
  for (const { health } of candidates) {
    if (health.countsAsOf === null) continue;
    counted++;
    queued += health.queued ?? 0;
    running += health.running ?? 0;
    oldest = Math.min(oldest, health.countsAsOf);
  }
  return counted === 0 ? null : { queued: queued / counted, running: running / counted, oldest };
}

/** Records that these clusters are candidates of one choice; returns the time since which all of them are. */
function noteCandidates(all: readonly SubmittedQueries[], now: number): number {
  let latest = NEVER;
  for (const { seenAt } of all) latest = Math.max(latest, seenAt);
  let joined = NEVER;
  for (const submissions of all) {
    if (submissions.seenAt === NEVER || submissions.seenAt < latest - REJOIN_MS) submissions.joined = now;
    submissions.seenAt = now;
    joined = Math.max(joined, submissions.joined);
  }
  return joined;
}

/**
 * Adds sent queries where the next statistics most likely show them: the user's queued queries if there are some, and
 * the cluster's; the running queries if none are queued.
 */
function loadOf(health: HealthVerdict, mean: MeanCounts | null, submitted: Count, user: string | null): ClusterLoad {
  const isCounted = health.countsAsOf !== null;
  const queued = (isCounted ? health.queued : mean?.queued) ?? 0;
  const running = (isCounted ? health.running : mean?.running) ?? 0;
  const own = user === null ? 0 : (health.queuedByUser?.get(user) ?? 0);
  return {
    own: own > 0 && user !== null ? own + (submitted.byUser.get(user) ?? 0) : 0,
    queued: queued > 0 ? queued + submitted.all : 0,
    running: queued > 0 ? running : running + submitted.all,
  };
}

function drop({ slices, total }: Pick<SubmittedQueries, 'slices' | 'total'>, asOf: number): void {
  const firstValid = slices.findIndex((slice) => slice.end > asOf);
  for (const slice of slices.splice(0, firstValid < 0 ? slices.length : firstValid)) {
    total.all -= slice.all;
    for (const [user, count] of slice.byUser) add({ all: 0, byUser: total.byUser }, user, -count);
  }
}

function joinOldest(slices: Slice[]): void {
  const oldest = slices.shift();
  const next = slices[0];
  if (oldest === undefined || next === undefined) return;
  next.all += oldest.all;
  for (const [user, count] of oldest.byUser) next.byUser.set(user, (next.byUser.get(user) ?? 0) + count);
}

function add(count: Count, user: string | null, by: number): void {
  count.all += by;
  if (user === null) return;
  const next = (count.byUser.get(user) ?? 0) + by;
  if (next === 0) count.byUser.delete(user);
  else count.byUser.set(user, next);
}
