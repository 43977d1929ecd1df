import type { LimitCounter } from '../store/store.ts';

/** A token bucket: queries per period, with a maximum `burst`. */
export interface RateLimit {
  readonly queries: number;
  readonly periodMs: number;
  readonly burst: number;
}

/**
 * A counter that a query needs a slot of: `cluster:NAME`, `group:NAME`, `limit:NAMESPACE/NAME:VALUE`; a token:
 * `rate:NAMESPACE/NAME:VALUE`; or a place in the queue: `queue:…`, `bytes:…`.
 */
export interface Demand {
  readonly key: string;
  /** Maximum on all replicas; of a rate limit its burst. */
  readonly limit: number;
  /** Null or absent: the counter has slots. Otherwise it has tokens, which are not released. */
  readonly rate?: RateLimit | null;
  /** Default: 1. */
  readonly amount?: number;
}

/** Slots of a query: all of them or none. */
export interface Acquisition {
  readonly demands: readonly Demand[];
  /** One of these in addition, the first one with capacity; null stands for clusters without limits. None if empty. */
  readonly clusters: readonly (Demand | null)[];
  /** Counted in any case. */
  readonly observed: readonly Demand[];
  /** Acquired instead if something is full; null for no place in the queue. */
  readonly place: readonly Demand[] | null;
  /** `forced` counts regardless of limits; `blocked` only takes the place. */
  readonly mode: 'normal' | 'forced' | 'blocked';
}

export interface Decision {
  /** `waiting`: it has the place; `full`: it has nothing. */
  readonly kind: 'acquired' | 'waiting' | 'full';
  /** Counters that it uses, without tokens. */
  readonly taken: readonly Demand[];
  /** The chosen one of `clusters`, or null. */
  readonly cluster: Demand | null;
  /** Counters without capacity. */
  readonly full: readonly string[];
  /** The full counter of the place, or null. */
  readonly fullPlace: string | null;
  /** Observed counters that exceed their limits. */
  readonly exceeded: readonly string[];
}

/** Thousandths of a token. */
const TOKEN = 1_000;

/**
 * Decides acquisitions in order, and changes the counters (docs/architecture.md#limits).
 * @param counters of all demands; a missing one is unused
 * @param now milliseconds by the clock that filled the buckets
 */
export function decideAcquisitions(
  acquisitions: readonly Acquisition[],
  counters: Map<string, LimitCounter>,
  now: number,
): readonly Decision[] {
  const counterOf = (key: string): LimitCounter => {
    const counter = counters.get(key) ?? { inUse: 0, tokens: null, refilled: 0, expires: 0 };
    counters.set(key, counter);
    return counter;
  };
  const fits = ({ key, limit, rate, amount = 1 }: Demand): boolean => {
    const counter = counterOf(key);
    if (rate == null) return counter.inUse + amount <= limit;
    refill(counter, rate, now);
    return (counter.tokens ?? 0) >= TOKEN;
  };
  const take = (demands: readonly Demand[]): readonly Demand[] => {
    for (const { key, rate, amount = 1 } of demands) {
      const counter = counterOf(key);
      if (rate == null) counter.inUse += amount;
      else spend(counter, rate, now);
    }
    return demands.filter(({ rate }) => rate == null);
  };
  return acquisitions.map(({ demands, clusters, observed, place, mode }): Decision => {
    const full = demands.filter((demand) => !fits(demand)).map(({ key }) => key);
    const open = clusters.find((one) => one === null || fits(one));
    if (clusters.length > 0 && open === undefined) full.push(...clusters.flatMap((one) => one?.key ?? []));
    const cluster = (open === undefined && mode === 'forced' ? clusters[0] : open) ?? null;
    const nothing = { taken: [], cluster: null, full, fullPlace: null, exceeded: [] };
    if (mode === 'forced' || (mode === 'normal' && full.length === 0)) {
      const exceeded = observed.filter((demand) => !fits(demand)).map(({ key }) => key);
      const taken = take([...demands, ...(cluster === null ? [] : [cluster]), ...observed]);
      return { kind: 'acquired', taken, cluster, full, fullPlace: null, exceeded };
    }
    if (place === null) return { ...nothing, kind: 'full' };
    const fullPlace = place.find((demand) => !fits(demand))?.key ?? null;
    if (fullPlace !== null) return { ...nothing, kind: 'full', fullPlace };
    return { ...nothing, kind: 'waiting', taken: take(place) };
  });
}

/** Counters of which an acquisition has the first that all have capacity: its slots by cluster, then its place in the queue. */
export function optionsOf({ demands, clusters, place, mode }: Acquisition): readonly (readonly Demand[])[] {
  if (mode === 'blocked') return place === null ? [] : [place];
  const slots = clusters.length === 0 ? [demands] : clusters.map((one) => (one === null ? demands : [...demands, one]));
  return place === null ? slots : [...slots, place];
}

/** True if `optionsOf` and `decisionOf` suffice: without rates, observed limits, and slots forced on a cluster. */
export function isPlain({ demands, clusters, observed, mode }: Acquisition): boolean {
  const isForced = mode === 'forced' && clusters.length > 0;
  return !isForced && observed.length === 0 && demands.every(({ rate }) => rate == null);
}

/**
 * The decision of a plain acquisition that has one of its options, or none (-1).
 * @param counters as last known
 */
export function decisionOf(
  acquisition: Acquisition,
  chosen: number,
  counters: ReadonlyMap<string, LimitCounter>,
): Decision {
  const { demands, clusters, place } = acquisition;
  const options = optionsOf(acquisition);
  const isFull = ({ key, limit, amount = 1 }: Demand) => (counters.get(key)?.inUse ?? 0) + amount > limit;
  const isWaiting = chosen >= 0 && options[chosen] === place;
  const taken = options[chosen] ?? [];
  const decision = { taken, cluster: null, full: [], fullPlace: null, exceeded: [] };
  if (chosen >= 0 && !isWaiting) return { ...decision, kind: 'acquired', cluster: clusters[chosen] ?? null };
  const areClustersFull = clusters.every((one) => one !== null && isFull(one));
  const full = [...demands.filter(isFull), ...(areClustersFull ? clusters : [])].flatMap((one) => one?.key ?? []);
  if (isWaiting) return { ...decision, full, kind: 'waiting' };
  return { ...decision, full, kind: 'full', fullPlace: place?.find(isFull)?.key ?? null };
}

/** Fills a bucket for the time since the last call. A new one is full. */
function refill(counter: LimitCounter, { queries, periodMs, burst }: RateLimit, now: number): void {
  const most = burst * TOKEN;
  if (counter.tokens === null) {
    counter.tokens = most;
    counter.refilled = now;
    return;
  }
  const more = Math.floor((Math.max(0, now - counter.refilled) * queries * TOKEN) / periodMs);
  if (more === 0 && counter.refilled <= now) counter.tokens = Math.min(most, counter.tokens);
  else {
    counter.tokens = Math.min(most, counter.tokens + more);
    counter.refilled = now;
  }
}

/** Takes a token, if there is one; a full bucket needs no row, so that the row expires when it is full. */
function spend(counter: LimitCounter, { queries, periodMs, burst }: RateLimit, now: number): void {
  counter.tokens = Math.max(0, (counter.tokens ?? burst * TOKEN) - TOKEN);
  counter.expires = now + Math.ceil(((burst * TOKEN - counter.tokens) * periodMs) / (queries * TOKEN));
}
