// Adds its fields to the schemas of routes.
import type {} from '@fastify/swagger';
import type { FastifyInstance } from 'fastify';
import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import type { ExplainRequest } from '../gateway/analysis/explainRequest.ts';
import type { RequestBodies } from '../gateway/bodies/requestBodies.ts';
import type { ClusterChanges } from '../gateway/health/clusterChanges.ts';
import type { KillResult } from '../gateway/ownership/engineKills.ts';
import type { ReplaySettings } from '../gateway/replay/recordedQuery.ts';
import type { ReplayThread } from '../gateway/replay/replayThread.ts';
import type { PublishedKey } from '../gateway/user/clusterTokens.ts';
import type { Clock } from '../model/clock.ts';
import type { ProductNames } from '../model/names.ts';
import type { SizeBorders, SizeEstimates } from '../model/sizeEstimates.ts';
import type { Operator } from '../operator/operator.ts';
import type { ClusterRegistry, InventoryCluster } from '../operator/registry/clusterRegistry.ts';
import type { GroupTables } from '../operator/registry/groupWrites.ts';
import type { AppliedChange } from '../operator/registry/resourceWrites.ts';
import type { RoutingRules } from '../operator/registry/routingRules.ts';
import type { RoutingTableHolder } from '../routing/routingTable.ts';
import type { RuleCompiler } from '../rules/ruleCompiler.ts';
import type { AuditWriter } from '../store/auditWriter.ts';
import type { JdbcSettings } from '../store/jdbcUrl.ts';
import type { QueryOutcomeRecord } from '../store/queryOutcome.ts';
import type { QueryRecord, RunningQueryRow, Store } from '../store/store.ts';
import type { Authentication } from './auth/openAuthentication.ts';
import type { QueryEventParts } from './queryEvents.ts';
import type { BuiltUserInterface } from './userInterface.ts';

/** State of something the gateway uses, as `/readyz?verbose` reports it. */
export interface ComponentState {
  /** e.g. `database`, `resource source`, `history buffer`. */
  readonly name: string;
  readonly ok: boolean;
  /** Sentence for users; of a component that is unavailable: since when and why. */
  readonly message: string;
  /** Of one that is not ok: it is there, and what it holds has mistakes. Left out: it is unavailable or overloaded. */
  readonly hasMistakes?: true;
}

/**
 * True if the process takes traffic (docs/rest-api.md#probes): a snapshot is loaded and every cluster has a verdict, or
 * the grace time has passed. Never unready because of database, API server or clusters.
 */
export interface Readiness {
  /** Null when ready, otherwise what is still missing. */
  notReadyBecause(): string | null;
  /** State of each component; must not take longer than about a second and must not reject. */
  components(): Promise<readonly ComponentState[]>;
}

/** A count or a list of all replicas; `complete` is false while the database is unavailable. */
type OfAllReplicas<T> = Promise<T & { readonly complete: boolean }>;

/** Number of queries queued for a routing group on all replicas. */
export type WaitingQueriesCount = (group: string) => OfAllReplicas<{ readonly count: number }>;

/** Routing rules, and what explains and tries them. */
export interface RuleParts {
  readonly routingRules: RoutingRules;
  readonly explain: ExplainRequest;
  /** The rule set with changes that are not made, for replays of recorded queries. */
  readonly edited: RuleCompiler['edited'];
  readonly replays: Pick<ReplayThread, 'run'>;
  readonly database: JdbcSettings;
  readonly replaySettings: ReplaySettings;
  readonly estimates: Pick<SizeEstimates, 'table'>;
  readonly sizeClasses: SizeBorders & { readonly refreshInterval: number };
}

/** All that the API works with. Routes of parts that are null are not served. */
export interface ApiParts {
  readonly names: ProductNames;
  readonly version: string;
  /** `server.maxApiBodySize` in bytes. */
  readonly bodyLimit: number;
  readonly logger: Logger;
  /** All metrics of the process; the API adds its own, the clusters' and the process's. */
  readonly metrics: Registry;
  readonly clock: Clock;
  /** Milliseconds since 1970 at which the process started. */
  readonly startedAt: number;
  readonly replica: string;
  /** `routing.defaultRoutingGroup`. */
  readonly defaultGroup: string;
  /** `dataStore.queryHistoryHoursRetention`. */
  readonly keptHours: number;
  /** `uiConfiguration`. */
  readonly ui: {
    readonly enabled: boolean;
    readonly disablePages: readonly string[];
    /** True if calls of hidden pages get a response. */
    readonly hiddenPageCalls: 'refuse' | 'allow';
  };
  /** The built pages; null: not built. */
  readonly pages: BuiltUserInterface | null;
  readonly bodies: RequestBodies;
  readonly authentication: Authentication;
  /** Gives the names by which queries of callers are known; null: those that they log in with. */
  readonly queryUser: ((name: string) => string | null) | null;
  readonly readiness: Readiness;
  readonly stopping: () => boolean;
  readonly table: RoutingTableHolder;
  readonly clusterChanges: ClusterChanges;
  readonly registry: ClusterRegistry;
  readonly inventory: () => readonly InventoryCluster[];
  /** Grows whenever `inventory`, or the health of its clusters, changes; counts of queries do not matter. */
  readonly inventoryStateVersion: () => number;
  /** Gets each change that is to become an event. */
  readonly onChange: (change: AppliedChange) => void;
  readonly operator: Pick<Operator, 'source' | 'controller' | 'limits' | 'replays' | 'rollouts'> | null;
  /** Null: switched off (`resourceGroups.enabled`). */
  readonly resourceGroups: GroupTables | null;
  readonly rules: RuleParts | null;
  readonly store: Store | null;
  /** Null: changes are only in the log. */
  readonly auditWriter: AuditWriter | null;
  /** A query of the history, and the last outcome of a query, that may not be in the database yet. */
  readonly buffered: (queryId: string) => QueryRecord | null;
  readonly bufferedOutcome: (queryId: string) => QueryOutcomeRecord | null;
  /** Ends a query by the engine's own call, in the name of a user. */
  readonly kill: (queryId: string, user: string) => Promise<KillResult>;
  /** Queries that clients follow on a cluster, on all replicas. */
  readonly runningQueries: (cluster: string) => OfAllReplicas<{ readonly queries: readonly RunningQueryRow[] }>;
  /** Null: no secrets are configured. */
  readonly queryEvents: QueryEventParts | null;
  readonly waitingQueries: WaitingQueriesCount;
  /** Public keys of tokens for clusters. */
  readonly publishedKeys: (() => { readonly keys: readonly PublishedKey[] }) | null;
}

/** The instance that routes are added to, with all that they use. */
export interface ApiContext extends ApiParts {
  readonly app: FastifyInstance;
}

/** As `ApiContext`, with the gateway's database. */
export interface StoreContext extends ApiContext {
  readonly store: Store;
}
