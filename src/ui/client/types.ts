/** Responses of the API (docs/rest-api.md): only types. */
import type { Static } from 'typebox';
import type { UserInfo } from '../../api/auth/loginRoutes.ts';
import type { ClusterState } from '../../api/clusters.ts';
import type { QuarantineList, QueueList, RunningQueryList } from '../../api/responses/queries.ts';
import type { RoutedQuery } from '../../api/responses/routing.ts';
import type { RuleState } from '../../api/rules.ts';
import type { ResponseWithoutNulls } from '../../api/schemas.ts';
import type * as globalProperty from '../../model/globalProperty.ts';
import type * as registryCluster from '../../model/registryCluster.ts';
import type * as resourceGroup from '../../model/resourceGroup.ts';
import type * as selector from '../../model/selector.ts';

export type { AuditedChange, AuditPage } from '../../api/audit.ts';
export type { LoginMethod, LoginMethods, UiConfiguration, UsablePages, UserInfo } from '../../api/auth/loginRoutes.ts';
export type * from '../../api/clusters.ts';
export type { Calibration } from '../../api/estimates.ts';
export type { GroupDetails, GroupState, LimitState } from '../../api/limits.ts';
export type { QueryReplayReport, ReplayState } from '../../api/replays.ts';
export type * from '../../api/responses/overview.ts';
export type * from '../../api/responses/queries.ts';
export type * from '../../api/responses/routing.ts';
export type * from '../../api/rules.ts';
export type { ErrorFacts, FieldOwner, PlacedProblem } from '../../model/errors.ts';
export type { QueryDecision } from '../../routing/storedDecision.ts';

export type UserRole = UserInfo['roles'][number];
export type HealthStatus = ClusterState['status'];
export type RunningQuery = RunningQueryList['queries'][number];
export type QuarantineEntry = QuarantineList['quarantined'][number];
export type QueuedQuery = QueueList['queries'][number];
export type ResourceCondition = NonNullable<ClusterState['resource']>['conditions'][number];

export type OutcomeView = NonNullable<RoutedQuery['outcome']>;
export type WholeQuery = RoutedQuery;

/** Fields of a rule in a request; priority null means no priority. */
export interface RuleInput
  extends Pick<
    RuleState,
    'name' | 'description' | 'condition' | 'actions' | 'routeTo' | 'deny' | 'whenUnavailable' | 'stop' | 'suspend'
  > {
  readonly priority: number | null;
}

export type ClusterInput = Static<typeof registryCluster.RegistryClusterInput>;

export type ResourceGroupView = ResponseWithoutNulls<typeof resourceGroup.ResourceGroup>;
export type SelectorView = ResponseWithoutNulls<typeof selector.Selector>;
export type PropertyView = ResponseWithoutNulls<typeof globalProperty.StoredGlobalProperty>;
