import { createHash } from 'node:crypto';
import type { Demand } from '../../admission/acquisitions.ts';
import type { AdmissionPolicy, GroupPolicy, LimitPolicy } from '../../routing/admissionPolicy.ts';

/** Slots that a submission needs in addition to its cluster's. */
export interface Demands {
  /** Required slots; may be empty. */
  readonly enforced: readonly Demand[];
  readonly observed: readonly Demand[];
  /** Share in a fair queue. */
  readonly weight: number;
  /** Places of limits in the queue, in addition to the group's; may be empty. */
  readonly queues: readonly Demand[];
}

/** Maximum number of users and sources with cached demands. */
const MAX_CACHED = 10_000;
const MAX_VALUE = 64;
/** Maximum length of the remaining key that is unchanged. */
const MAX_NAME = 120;

export const noDemands: Demands = { enforced: [], observed: [], weight: 1, queues: [] };

/** Maximum number of queued submissions on all replicas. */
export const MAX_QUEUED = 20_000;
/** Maximum size of queued submissions on all replicas, and of those of one user, bytes. */
export const MAX_QUEUED_BYTES = 268_435_456;
const MAX_USER_BYTES = 33_554_432;

/** Demands of a submission. */
export class LimitDemands {
  #policy: AdmissionPolicy | null = null;
  /** Digests and classes of expected size that limits name. */
  #marks: ReadonlySet<string> = new Set();
  #hasSizes = false;
  readonly #cache = new Map<string, Demands>();

  /**
   * @param membership digest of the groups of the user; undefined without a configured source of groups
   * @param marksOf computes the digests of the statement and, if a limit names one, its class of expected size; called
   * only if a limit names any
   */
  of(
    policy: AdmissionPolicy,
    query: LimitedQuery,
    membership?: string,
    marksOf: (hasSizes: boolean) => readonly string[] = () => [],
  ): Demands {
    if (policy !== this.#policy || this.#cache.size >= MAX_CACHED) {
      this.#policy = policy;
      this.#hasSizes = policy.limits.some(({ match }) => match.sizes !== null);
      this.#marks = new Set(policy.limits.flatMap(({ match }) => [...(match.digests ?? []), ...(match.sizes ?? [])]));
      this.#cache.clear();
    }
    const marks = this.#marks.size === 0 ? [] : marksOf(this.#hasSizes).filter((mark) => this.#marks.has(mark));
    const key = `${query.group}\n${query.user}\n${query.source}\n${membership ?? ''}\n${marks.join()}`;
    let demands = this.#cache.get(key);
    if (demands === undefined) {
      demands = demandsOf(policy, query, marks);
      this.#cache.set(key, demands);
    }
    return demands;
  }
}

interface LimitedQuery {
  /** Routing group. */
  readonly group: string;
  /** Empty if missing, as the source. */
  readonly user: string;
  readonly source: string;
  /** Groups of the user. */
  readonly groups: readonly string[];
}

function demandsOf(policy: AdmissionPolicy, query: LimitedQuery, marks: readonly string[]): Demands {
  const { group, user, source } = query;
  const enforced: Demand[] = [];
  const observed: Demand[] = [];
  const queues: Demand[] = [];
  let weight = 1;
  const ofGroup = groupDemand(policy.groups.get(group));
  if (ofGroup !== null) enforced.push(ofGroup);
  for (const limit of policy.limits) {
    if (!matches(limit, query, marks)) continue;
    const value = limit.per === 'all' ? '' : `:${valueText(limit.per === 'user' ? user : source)}`;
    const to = limit.mode === 'observe' ? observed : enforced;
    const { maxQueued } = limit;
    to.push(...countersOf(limit, value));
    if (maxQueued !== null && limit.mode === 'enforce') {
      queues.push({ key: `${limitCounter(limit.key, 'queue')}${value}`, limit: maxQueued });
    }
    if (limit.mode === 'enforce') weight = Math.max(weight === 1 ? 0 : weight, limit.weight);
  }
  if (enforced.length + observed.length + queues.length === 0 && weight === 1) return noDemands;
  return { enforced, observed, weight: weight > 0 ? weight : 1, queues };
}

function matches(
  { match }: LimitPolicy,
  { group, user, source, groups: ofUser }: LimitedQuery,
  marks: readonly string[],
): boolean {
  const { users, groups, sources, routingGroups, isDecided } = match;
  if (users !== null && (user === '' || !users(user))) return false;
  if (groups !== null && !ofUser.some(groups)) return false;
  if (isDecided !== null && !isDecided(user, ofUser, source)) return false;
  for (const names of [match.digests, match.sizes]) {
    if (names !== null && !names.some((name) => marks.includes(name))) return false;
  }
  return (sources === null || sources(source)) && (routingGroups === null || routingGroups(group));
}

function groupDemand(policy: GroupPolicy | undefined): Demand | null {
  if (policy === undefined || policy.maxRunning === null) return null;
  return { key: groupCounter(policy.name), limit: policy.maxRunning, rate: null };
}

/** Counters of a limit. @param value user or source after a colon; empty for a shared counter */
function countersOf({ key, maxRunning, rate }: LimitPolicy, value: string): readonly Demand[] {
  const name = nameText(key);
  return [
    ...(maxRunning === null ? [] : [{ key: `limit:${name}${value}`, limit: maxRunning, rate: null }]),
    ...(rate === null ? [] : [{ key: `rate:${name}${value}`, limit: rate.burst, rate }]),
  ];
}

/** The demand for a cluster's slot; null without a limit. */
export function clusterDemand(cluster: {
  readonly name: string;
  readonly maxRunningQueries?: number | undefined;
}): Demand | null {
  const { name, maxRunningQueries } = cluster;
  return maxRunningQueries === undefined ? null : { key: clusterCounter(name), limit: maxRunningQueries, rate: null };
}

export function clusterCounter(name: string): string {
  return `cluster:${nameText(name)}`;
}

export function groupCounter(group: string): string {
  return `group:${nameText(group)}`;
}

export function groupQueueCounter(group: string): string {
  return `queue:group:${nameText(group)}`;
}

/**
 * A counter of a limit, or the common prefix of its users' or sources' counters. @param key namespace and name of the
 * limit
 */
export function limitCounter(key: string, counter: 'limit' | 'rate' | 'queue' = 'limit'): string {
  return `${counter}:${nameText(key)}`;
}

/** A place in the queue: bounds in number and bytes, of the group, of limits, of the user and in total. */
export function placeDemands(
  { group, maxQueued, user, bytes }: { group: string; maxQueued: number; user: string; bytes: number },
  queues: readonly Demand[],
): readonly Demand[] {
  return [
    { key: groupQueueCounter(group), limit: maxQueued },
    ...queues,
    { key: 'queue:all', limit: MAX_QUEUED },
    ...(bytes === 0
      ? []
      : [
          { key: `bytes:user:${valueText(user)}`, limit: MAX_USER_BYTES, amount: bytes },
          { key: 'bytes:all', limit: MAX_QUEUED_BYTES, amount: bytes },
        ]),
  ];
}

/** A counter without the user or source: equal for all counters of a limit. */
export function nameOfKey(key: string): string {
  // Names have no colons; a group's queue has two parts.
  return key
    .split(':')
    .slice(0, key.startsWith('queue:group:') ? 3 : 2)
    .join(':');
}

/** The current limit of a counter, or null. */
export function limitOfKey(policy: AdmissionPolicy, key: string): LimitPolicy | null {
  return policy.limits.find((limit) => isOf(limit, key)) ?? null;
}

function isOf(limit: LimitPolicy, key: string): boolean {
  const name = nameText(limit.key);
  return [`limit:${name}`, `rate:${name}`, `queue:${name}`].some(
    (start) => key === start || key.startsWith(`${start}:`),
  );
}

/** Encodes names independently of the database's comparison rules: ASCII, no white space, bounded. */
function nameText(name: string): string {
  return boundedText(encodeURIComponent(name.toWellFormed()).replaceAll('%2F', '/'), MAX_NAME);
}

function valueText(value: string): string {
  return boundedText(encodeURIComponent(value.toWellFormed()), MAX_VALUE);
}

function boundedText(text: string, most: number): string {
  if (text.length <= most) return text;
  return `${text.slice(0, most - 33)}~${createHash('sha256').update(text).digest('hex').slice(0, 32)}`;
}
