/** Answers of the gateway, as its API declares them (docs/rest-api.md): types alone, of which nothing is sent to browsers. */
import type { Static } from 'typebox';
import type { AnswerWithoutNulls } from '../../api/answers/answer.ts';
import type { ClusterState } from '../../api/answers/clusters.ts';
import type { QueueList } from '../../api/answers/queue.ts';
import type { UserInfo } from '../../api/answers/session.ts';
import type * as globalProperty from '../../model/globalProperty.ts';
import type * as registryCluster from '../../model/registryCluster.ts';
import type * as resourceGroup from '../../model/resourceGroup.ts';
import type * as selector from '../../model/selector.ts';

export type { ClusterState } from '../../api/answers/clusters.ts';
export type { Drain } from '../../api/answers/drain.ts';
export type { HistoryRow } from '../../api/answers/history.ts';
export type { GroupState, LimitState } from '../../api/answers/limits.ts';
export type { Overview, QuerySeries } from '../../api/answers/overview.ts';
export type { QueueList } from '../../api/answers/queue.ts';
export type { Explanation, RoutedQuery, RuleEffect } from '../../api/answers/routing.ts';
export type { RuleInventory, RuleState } from '../../api/answers/rules.ts';
export type { LoginType, UiConfiguration, UserInfo } from '../../api/answers/session.ts';
export type { ErrorFacts, FieldOwner, PlacedProblem } from '../../model/errors.ts';
export type { QueryDecision } from '../../routing/storedDecision.ts';

export type Role = UserInfo['roles'][number];
export type HealthStatus = ClusterState['status'];
/** A query that waits. */
export type QueuedQuery = QueueList['queries'][number];
/** A condition of a resource's status. */
export type Condition = NonNullable<ClusterState['resource']>['conditions'][number];

/** A cluster as the registry's calls take it. */
export type RegistryClusterInput = Static<typeof registryCluster.RegistryClusterInput>;

export type ResourceGroup = AnswerWithoutNulls<typeof resourceGroup.ResourceGroup>;
export type Selector = AnswerWithoutNulls<typeof selector.Selector>;
export type GlobalProperty = AnswerWithoutNulls<typeof globalProperty.StoredGlobalProperty>;
