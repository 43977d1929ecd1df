import type { API_FIELD_MANAGER } from '../../model/resource.ts';
import type { ClusterState } from '../client/types.ts';

export type Managers = NonNullable<ClusterState['resource']>['managers'];

const ownManager: typeof API_FIELD_MANAGER = 'engine-gateway-api';

/** Short text for the managers of a resource; empty if unknown. */
export function managersText(managers: Managers): string {
  return [...new Set(managers.map(({ manager }) => (manager === ownManager ? 'REST' : manager)))].join(', ');
}

/** Managers other than the gateway, such as `kubectl` or a GitOps controller. */
export function otherManagers(managers: Managers): Managers {
  return managers.filter(({ manager }) => manager !== ownManager);
}
