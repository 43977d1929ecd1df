/** Answers of the gateway that the pages share (docs/rest-api.md). */

export type LoginType = 'form' | 'oauth' | 'kubernetes' | 'none';

export type Role = 'ADMIN' | 'USER' | 'API';

/** Who is logged in. */
export interface UserInfo {
  readonly roles: readonly Role[];
  /** Pages that are shown; empty: all. */
  readonly permissions: readonly string[];
  readonly userId: string;
  readonly userName: string;
}

/** What the user interface is configured to show. */
export interface UiConfiguration {
  readonly disablePages?: readonly string[];
}

export type HealthStatus = 'PENDING' | 'HEALTHY' | 'UNHEALTHY';

/** A condition of a resource's status. */
export interface Condition {
  readonly type: string;
  readonly status: 'True' | 'False' | 'Unknown';
  readonly reason: string;
  readonly message: string;
  readonly lastTransitionTime: string;
}

/** A cluster as `GET /api/clusters` lists it. */
export interface ClusterState {
  readonly name: string;
  /** False: its resource was never valid, or its name is another resource's. */
  readonly routed: boolean;
  readonly proxyTo: string | null;
  readonly externalUrl: string | null;
  readonly routingGroup: string | null;
  readonly active: boolean;
  readonly specActive: boolean | null;
  readonly override: { readonly active: boolean; readonly by: string; readonly at: string | null } | null;
  readonly differs: boolean;
  readonly status: HealthStatus;
  readonly reason: string;
  readonly queued: number | null;
  readonly running: number | null;
  readonly workers: number | null;
  readonly origin: 'kubernetes' | 'directory' | 'database' | 'row';
  readonly resource: {
    readonly namespace: string;
    readonly name: string;
    readonly generation: number;
    readonly place: string;
    readonly managers: readonly { readonly manager: string; readonly fields: readonly string[] }[];
    readonly paused: boolean;
    readonly conditions: readonly Condition[];
  } | null;
}

/** A cluster as the registry's calls take it. */
export interface RegistryCluster {
  readonly name: string;
  readonly proxyTo: string;
  readonly active: boolean;
  readonly routingGroup: string;
  readonly externalUrl: string | null;
}

/** A query of the history. Times in milliseconds since 1970. */
export interface HistoryRow {
  readonly queryId: string;
  readonly queryText: string;
  readonly user?: string;
  readonly source?: string;
  readonly backendUrl: string;
  readonly captureTime: number;
  readonly routingGroup?: string;
  readonly externalUrl?: string;
  /** Name of its cluster when it ran; absent for rows of a gateway that ran before. */
  readonly cluster?: string;
}

/** What became of a rule in a decision. */
export interface RuleOutcome {
  readonly rule: string;
  readonly origin: 'file' | 'resource';
  readonly priority: number;
  readonly outcome: 'fired' | 'not-matched' | 'failed' | 'denied' | 'skipped';
  readonly put?: Readonly<Record<string, string | null>>;
  readonly error?: string;
}

/** How a query was routed, as it is stored with it. */
export interface StoredDecision {
  readonly group: string;
  readonly decidedBy: string;
  readonly rule?: string;
  /** Cluster that a rule chose. */
  readonly pinned?: string;
  readonly cluster: string;
  readonly fallback?: boolean;
  /** Clusters that were tried before, and why they were not it. */
  readonly attempts?: readonly { readonly cluster: string; readonly error: string }[];
  /** Absent where there were no rules. */
  readonly rules?: readonly RuleOutcome[];
}

/** A query with its decision, as `GET /api/queries/{id}` shows it. */
export interface RoutedQuery {
  readonly queryId: string;
  readonly cluster: string;
  readonly routingGroup: string | null;
  readonly decision: StoredDecision | null;
}

type Counted<L extends string> = Readonly<Record<L, string>> & { readonly count: number };

/** The state of the gateway at a glance: `GET /api/overview`. */
export interface Overview {
  readonly version: string;
  readonly startedAt: string;
  readonly notReadyBecause: string | null;
  readonly components: readonly { readonly name: string; readonly ok: boolean; readonly message: string }[];
  readonly leader: boolean;
  readonly source: {
    readonly available: boolean;
    readonly lastEventAgeSeconds: number | null;
    readonly problems: number;
  };
  readonly clusters: {
    readonly total: number;
    readonly active: number;
    readonly inactive: number;
    readonly byStatus: Readonly<Partial<Record<HealthStatus, number>>>;
    readonly queued: number;
    readonly running: number;
    readonly inFlight: number;
  };
  readonly traffic: {
    readonly submissions: number;
    readonly requests: readonly Counted<'kind' | 'status'>[];
    readonly refusals: readonly Counted<'reason'>[];
    readonly clusterErrors: readonly Counted<'cluster' | 'type'>[];
    readonly retries: readonly Counted<'cluster'>[];
  };
  readonly history: {
    readonly memory: number;
    readonly disk: number;
    readonly written: number;
    readonly lost: number;
  };
}

/** Queries by cluster and time: `GET /api/overview/queries`. Times in milliseconds. */
export interface QuerySeries {
  readonly from: number;
  readonly to: number;
  readonly intervalMs: number;
  readonly total: number;
  readonly clusters: readonly {
    readonly cluster: string;
    readonly total: number;
    readonly counts: readonly number[];
  }[];
}
