/**
 * Responses of the gateway, as its API declares them (docs/rest-api.md): only types, which add nothing to the build.
 */
import type { Static } from 'typebox';
import type { AnswerWithoutNulls } from '../../api/answers/answer.ts';
import type { ClusterState } from '../../api/answers/clusters.ts';
import type { QueueList } from '../../api/answers/queue.ts';
import type { RoutedQuery } from '../../api/answers/routing.ts';
import type { RunningQueryList } from '../../api/answers/runningQueries.ts';
import type { UserInfo } from '../../api/answers/session.ts';
import type * as globalProperty from '../../model/globalProperty.ts';
import type * as registryCluster from '../../model/registryCluster.ts';
import type * as resourceGroup from '../../model/resourceGroup.ts';
import type * as selector from '../../model/selector.ts';

export type { AuditedChange, AuditPage } from '../../api/answers/audit.ts';
export type { ClusterDetails, ClusterState, NewQueries, SwitchedCluster } from '../../api/answers/clusters.ts';
export type { DeclaredGroups } from '../../api/answers/declaredGroups.ts';
export type { Drain } from '../../api/answers/drain.ts';
export type { GroupExplanation } from '../../api/answers/groupExplanation.ts';
export type { SearchRow } from '../../api/answers/history.ts';
export type { RuleImpact } from '../../api/answers/impact.ts';
export type { GroupDetails, GroupState, LimitState } from '../../api/answers/limits.ts';
export type { Overview, OverviewProblem, ProblemList, QuerySeries, RateSeries } from '../../api/answers/overview.ts';
export type { ListedQuery, QueryPage } from '../../api/answers/queryList.ts';
export type { QueueList } from '../../api/answers/queue.ts';
export type { Explanation, RoutedQuery, RuleEffect } from '../../api/answers/routing.ts';
export type { RuleHitList, RuleInventory, RuleState } from '../../api/answers/rules.ts';
export type { RunningQueryList } from '../../api/answers/runningQueries.ts';
export type { LoginMethod, LoginMethods, UiConfiguration, UsablePages, UserInfo } from '../../api/answers/session.ts';
export type { Statistics } from '../../api/answers/statistics.ts';
export type { ErrorFacts, FieldOwner, PlacedProblem } from '../../model/errors.ts';
export type { QueryDecision } from '../../routing/storedDecision.ts';

export type UserRole = UserInfo['roles'][number];
export type HealthStatus = ClusterState['status'];
export type RunningQuery = RunningQueryList['queries'][number];
export type QueuedQuery = QueueList['queries'][number];
export type ResourceCondition = NonNullable<ClusterState['resource']>['conditions'][number];

/** Outcome of a query; absent values are unknown. */
export interface OutcomeView {
  readonly state: 'FINISHED' | 'FAILED' | 'CANCELLED' | 'ABANDONED' | 'REFUSED' | 'DENIED' | 'LOST';
  readonly errorName?: string | null;
  readonly errorType?: string | null;
  readonly errorCode?: number | null;
  readonly errorMessage?: string | null;
  readonly elapsedMillis?: number | null;
  readonly queuedMillis?: number | null;
  readonly gatewayQueuedMillis?: number | null;
  readonly cpuMillis?: number | null;
  readonly processedRows?: number | null;
  readonly processedBytes?: number | null;
  readonly peakMemoryBytes?: number | null;
  readonly resultBytes?: number | null;
  /** Responses sent to the client by the replica that saw the end. */
  readonly pages?: number | null;
  /** Time from its start to the first row sent to the client; null if there was none. */
  readonly firstRowMillis?: number | null;
  /** Time of its last response, RFC 3339. */
  readonly lastSeen?: string | null;
}

/** A query with its outcome; null if unknown. */
export type WholeQuery = Omit<RoutedQuery, 'outcome'> & { readonly outcome?: OutcomeView | null };

export type ClusterInput = Static<typeof registryCluster.RegistryClusterInput>;

export type ResourceGroupView = AnswerWithoutNulls<typeof resourceGroup.ResourceGroup>;
export type SelectorView = AnswerWithoutNulls<typeof selector.Selector>;
export type PropertyView = AnswerWithoutNulls<typeof globalProperty.StoredGlobalProperty>;
