/**
 * Responses of the gateway, as its API declares them (docs/rest-api.md): only types, which add nothing to the build.
 */
import type { Static } from 'typebox';
import type { ClusterState } from '../../api/answers/clusters.ts';
import type { QueueList, RunningQueryList } from '../../api/answers/queries.ts';
import type { ResponseWithoutNulls } from '../../api/answers/response.ts';
import type { RoutedQuery } from '../../api/answers/routing.ts';
import type { RuleState } from '../../api/answers/rules.ts';
import type { UserInfo } from '../../api/answers/session.ts';
import type * as globalProperty from '../../model/globalProperty.ts';
import type * as registryCluster from '../../model/registryCluster.ts';
import type * as resourceGroup from '../../model/resourceGroup.ts';
import type * as selector from '../../model/selector.ts';

export type * from '../../api/answers/audit.ts';
export type * from '../../api/answers/clusters.ts';
export type * from '../../api/answers/limits.ts';
export type * from '../../api/answers/overview.ts';
export type * from '../../api/answers/queries.ts';
export type * from '../../api/answers/routing.ts';
export type * from '../../api/answers/rules.ts';
export type * from '../../api/answers/session.ts';
export type { ErrorFacts, FieldOwner, PlacedProblem } from '../../model/errors.ts';
export type { QueryDecision } from '../../routing/storedDecision.ts';

export type UserRole = UserInfo['roles'][number];
export type HealthStatus = ClusterState['status'];
export type RunningQuery = RunningQueryList['queries'][number];
export type QueuedQuery = QueueList['queries'][number];
export type ResourceCondition = NonNullable<ClusterState['resource']>['conditions'][number];

export type OutcomeView = NonNullable<RoutedQuery['outcome']>;
export type WholeQuery = RoutedQuery;

/** Fields of a rule in a request; priority null means no priority. */
export interface RuleInput
  extends Pick<
    RuleState,
    'name' | 'description' | 'condition' | 'actions' | 'routeTo' | 'deny' | 'onUnavailable' | 'stop' | 'suspended'
  > {
  readonly priority: number | null;
}

export type ClusterInput = Static<typeof registryCluster.RegistryClusterInput>;

export type ResourceGroupView = ResponseWithoutNulls<typeof resourceGroup.ResourceGroup>;
export type SelectorView = ResponseWithoutNulls<typeof selector.Selector>;
export type PropertyView = ResponseWithoutNulls<typeof globalProperty.StoredGlobalProperty>;
