import type { StrategyName } from '../model/strategies.ts';

/** Source of a request's key: for affinity to a cluster, and for fairness in the queue. */
export type RequestKey =
  | { readonly by: 'user' | 'source' | 'session' }
  /** @property header lower-case name of a request header */
  | { readonly by: 'header'; readonly header: string };

const HEADER = 'header:';

/** Parses `user`, `source`, `session` or `header:NAME`; its schema has checked the text. */
export function requestKeyOf(text: string): RequestKey {
  if (text.startsWith(HEADER)) return { by: 'header', header: text.slice(HEADER.length).toLowerCase() };
  return { by: text === 'source' || text === 'session' ? text : 'user' };
}

export interface QueuePolicy {
  readonly maxQueued: number;
  /** Maximum time in the queue, milliseconds. */
  readonly maxWaitMs: number;
  readonly fairBy: 'user' | 'source';
  /** Time before a waiting client receives a "queued" response, milliseconds. */
  readonly holdMs: number;
  /** Behaviour while no cluster of the group or its fallbacks accepts queries. */
  readonly whenUnavailable: 'wait' | 'refuse';
}

/** Default settings. */
export const DEFAULT_QUEUE: QueuePolicy = {
  maxQueued: 1_000,
  maxWaitMs: 600_000,
  fairBy: 'user',
  holdMs: 500,
  whenUnavailable: 'refuse',
};

/** `InsufficientResources`: the cluster has too little memory for the query, or no workers. */
export type RetryReason = 'ClusterLost' | 'InsufficientResources';

/** Retries of a routing group's reads (docs/survival.md). */
export interface SurvivalPolicy {
  readonly reasons: readonly RetryReason[];
  readonly maxAttempts: number;
  /** Routing groups of the next attempts, in order; empty: the group itself. */
  readonly to: readonly string[];
  /** Names of rules of which queries end with their cluster. */
  readonly exceptRules: readonly string[];
  readonly retriesPerMinute: number;
}

/** The policy by which a decided read continues on another cluster; null: it ends with its cluster. */
export function survivalOf(
  groups: ReadonlyMap<string, GroupPolicy>,
  { group, rule, cluster }: { readonly group: string; readonly rule: string | null; readonly cluster: string | null },
): SurvivalPolicy | null {
  const policy = groups.get(group)?.survival ?? null;
  const isExcepted = cluster !== null || (rule !== null && policy?.exceptRules.includes(rule));
  return isExcepted ? null : policy;
}

/** Declaration of a routing group by a `RoutingGroup`. */
export interface GroupPolicy {
  readonly name: string;
  /** Null: configured default. */
  readonly strategy: StrategyName | null;
  /** Key of the strategy `affinity`. */
  readonly affinity: RequestKey;
  /** Fallback groups in order. */
  readonly fallbacks: readonly string[];
  /** `full`: they are also used while all clusters of the group are at their limit. */
  readonly fallbackWhen: 'unavailable' | 'full';
  /** True tries an unhealthy cluster rather than none. */
  readonly bestEffort: boolean;
  /** Maximum number of concurrent queries on all its clusters; null for no limit. */
  readonly maxRunning: number | null;
  readonly queue: QueuePolicy;
  /** Null: its queries end with their cluster. */
  readonly survival: SurvivalPolicy | null;
}

/** Requests that a limit applies to: every present field must match by one of its values. */
export interface LimitMatch {
  /** Null: any user. */
  readonly users: ((user: string) => boolean) | null;
  /** Groups of users; null: any. */
  readonly groups: ((group: string) => boolean) | null;
  readonly sources: ((source: string) => boolean) | null;
  readonly routingGroups: ((group: string) => boolean) | null;
  /** Digests of statements, exact ones or shapes; null: any. */
  readonly digests: readonly string[] | null;
  /** Classes of expected size, and `Unknown`; null: any. */
  readonly sizes: readonly string[] | null;
  /** True if the limit's tenant decides a query; null: the limit is the platform's. */
  readonly isDecided: ((user: string, groups: readonly string[], source: string) => boolean) | null;
}

export interface LimitPolicy {
  /** Namespace and name of the resource: `analytics/per-user`. */
  readonly key: string;
  readonly match: LimitMatch;
  /** One counter per user, per source, or for all matching requests. */
  readonly per: 'user' | 'source' | 'all';
  /** Maximum number of concurrent queries per counter; null for no limit. */
  readonly maxRunning: number | null;
  /** Maximum number of queued submissions per counter; null for no limit other than the group's. */
  readonly maxQueued: number | null;
  /** Token bucket of one counter: queries per period (milliseconds), and maximum `burst`; null for none. */
  readonly rate: { readonly queries: number; readonly periodMs: number; readonly burst: number } | null;
  /** Share in a fair queue; 1 by default. */
  readonly weight: number;
  /** `observe`: counts submissions that it would reject or queue, and admits them. */
  readonly mode: 'enforce' | 'observe';
  /** Text for users in its rejections, or null. */
  readonly message: string | null;
}

/**
 * Declared limits and queues: a part of the routing table, immutable. Limits of clusters are in `maxRunningQueries` of
 * `RoutableCluster`.
 */
export interface AdmissionPolicy {
  /** By name of the routing group; only groups with a `RoutingGroup`. */
  readonly groups: ReadonlyMap<string, GroupPolicy>;
  /** Sorted by key. */
  readonly limits: readonly LimitPolicy[];
}

export const noPolicy: AdmissionPolicy = { groups: new Map(), limits: [] };
