import type { API_FIELD_MANAGER } from '../../model/resource.ts';
import type { ClusterState } from '../client/types.ts';

/** Field managers of a resource, each with its fields. */
export type Managers = NonNullable<ClusterState['resource']>['managers'];

const ownManager: typeof API_FIELD_MANAGER = 'engine-gateway-api';

/** Who manages a resource, in a word or two; empty where nobody is known to. */
export function managersText(managers: Managers): string {
  return [...new Set(managers.map(({ manager }) => (manager === ownManager ? 'REST' : manager)))].join(', ');
}

/** Who else manages fields of a resource: `kubectl`, a GitOps controller. */
export function otherManagers(managers: Managers): Managers {
  return managers.filter(({ manager }) => manager !== ownManager);
}
