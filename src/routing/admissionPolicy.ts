import type { StrategyName } from '../model/strategies.ts';

/** What a key of a request is taken from: for affinity to a cluster, and for fairness between those that wait. */
export type RequestKey =
  | { readonly by: 'user' | 'source' | 'session' }
  /** @property header lower-case name of a request header */
  | { readonly by: 'header'; readonly header: string };

/** How submissions to a routing group wait when they cannot be sent on. */
export interface QueuePolicy {
  /** Submissions that may wait for the group at a time, on all replicas. */
  readonly maxQueued: number;
  /** Longest wait, milliseconds. */
  readonly maxWaitMs: number;
  /** Whose submissions take turns. */
  readonly fairBy: 'user' | 'source';
  /** How long the client's request itself waits before it is answered as queued, milliseconds. */
  readonly holdMs: number;
  /** What happens while no cluster of the group, nor of its fallbacks, can take queries. */
  readonly whenUnavailable: 'wait' | 'refuse';
}

/** The queue of a group that says nothing of it. */
export const DEFAULT_QUEUE: QueuePolicy = {
  maxQueued: 1_000,
  maxWaitMs: 600_000,
  fairBy: 'user',
  holdMs: 500,
  whenUnavailable: 'refuse',
};

/** What a `RoutingGroup` declares of a routing group. */
export interface GroupPolicy {
  /** Name of the routing group. */
  readonly name: string;
  /** Null: as the configuration says. */
  readonly strategy: StrategyName | null;
  /** What the strategy `affinity` keeps together. */
  readonly affinity: RequestKey;
  /** Routing groups that serve in its place, in this order. */
  readonly fallbacks: readonly string[];
  /** `full`: they serve as well while no cluster of the group has room. */
  readonly fallbackWhen: 'unavailable' | 'full';
  /** Whether an unhealthy cluster is tried rather than none. */
  readonly bestEffort: boolean;
  /** Queries that may run at a time on all its clusters; null for no limit. */
  readonly maxRunning: number | null;
  readonly queue: QueuePolicy;
}

/** Whom a limit is about: every field that is present must match, by one of its values. */
export interface LimitMatch {
  /** Null: any user. */
  readonly users: ((user: string) => boolean) | null;
  /** Groups of users; null: any. */
  readonly groups: ((group: string) => boolean) | null;
  readonly sources: ((source: string) => boolean) | null;
  readonly routingGroups: ((group: string) => boolean) | null;
}

/** What a `QueryLimit` declares. */
export interface LimitPolicy {
  /** Namespace and name of the resource: `analytics/per-user`. */
  readonly key: string;
  readonly match: LimitMatch;
  /** One counter for each user, for each source, or for all requests that match. */
  readonly per: 'user' | 'source' | 'all';
  /** Queries that may run at a time by one counter; null for no limit. */
  readonly maxRunning: number | null;
  /** Submissions that may wait by one counter; null for no limit beside the group's. */
  readonly maxQueued: number | null;
  /** Token bucket of one counter: so many queries in a period (milliseconds), and at most `burst` at once; null for none. */
  readonly rate: { readonly queries: number; readonly periodMs: number; readonly burst: number } | null;
  /** Share in a fair queue; 1 by default. */
  readonly weight: number;
  /** `observe`: what it would refuse or let wait is counted, and admitted. */
  readonly mode: 'enforce' | 'observe';
  /** Text for people in its refusals; null for none. */
  readonly message: string | null;
}

/**
 * All that resources declare of limits and queues: a part of the routing table, immutable. What clusters allow is
 * `maxRunningQueries` of `RoutableCluster`.
 */
export interface AdmissionPolicy {
  /** By name of the routing group; those without a `RoutingGroup` are left out. */
  readonly groups: ReadonlyMap<string, GroupPolicy>;
  /** In order of their keys. */
  readonly limits: readonly LimitPolicy[];
}

/** No group and no limit is declared. */
export const noPolicy: AdmissionPolicy = { groups: new Map(), limits: [] };
