/** Accepted submissions are counted in slices of this many milliseconds. */
const SLICE_MS = 100;
/** Most slices of a cluster; older ones are counted together then. */
const MAX_SLICES = 1_200;
/** Most users counted by name on one cluster between two statistics: clients choose these names. */
const MAX_USERS = 10_000;

/** A submission that was sent to a cluster and counts as its load until statistics show it. */
export interface CountedSubmission {
  /** The cluster has the query now: the next statistics that are requested show it. */
  confirm(): void;
  /** The cluster did not take it. Without effect once it was accepted. */
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

interface ClusterLoad {
  /** All of `pending` and `slices`. */
  readonly total: Count;
  readonly slices: Slice[];
}

/**
 * Queries that this process sent to each cluster since the cluster's own statistics were requested: they are added to
 * those, and dropped when newer statistics arrive, so that nothing is counted twice
 * (docs/compatibility.md#the-query-count-router). A submission that is still unanswered stays whatever statistics come.
 */
export class LocalLoad {
  readonly #monotonic: () => number;
  readonly #clusters = new Map<string, ClusterLoad>();

  /** @param monotonic milliseconds that never go back */
  constructor(monotonic: () => number) {
    this.#monotonic = monotonic;
  }

  /** Counts a submission from now on. */
  countSubmission(cluster: string, user: string | null): CountedSubmission {
    const load = this.#loadOf(cluster);
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

  /** Queries of one user and of all on a cluster that its statistics do not show. */
  since(cluster: string, statisticsAsOf: number | null, user: string | null): { own: number; all: number } {
    const load = this.#clusters.get(cluster);
    if (load === undefined) return { own: 0, all: 0 };
    if (statisticsAsOf !== null) drop(load, statisticsAsOf);
    return { own: user === null ? 0 : (load.total.byUser.get(user) ?? 0), all: load.total.all };
  }

  /** Forgets clusters that are not registered any more. */
  retain(registered: { has(cluster: string): boolean }): void {
    for (const name of this.#clusters.keys()) if (!registered.has(name)) this.#clusters.delete(name);
  }

  #loadOf(cluster: string): ClusterLoad {
    let load = this.#clusters.get(cluster);
    if (load === undefined) {
      load = { total: { all: 0, byUser: new Map() }, slices: [] };
      this.#clusters.set(cluster, load);
    }
    return load;
  }

  /** The current slice. */
  #slice({ slices }: ClusterLoad): Slice {
    const now = this.#monotonic();
    const last = slices.at(-1);
    if (last !== undefined && now < last.end) return last;
    const slice: Slice = { end: now + SLICE_MS, all: 0, byUser: new Map() };
    slices.push(slice);
    if (slices.length > MAX_SLICES) joinOldest(slices);
    return slice;
  }
}

/** Drops what was accepted before the statistics were requested. */
function drop(load: ClusterLoad, asOf: number): void {
  const { slices, total } = load;
  const firstKept = slices.findIndex((slice) => slice.end > asOf);
  for (const slice of slices.splice(0, firstKept < 0 ? slices.length : firstKept)) {
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
