import type { API_FIELD_MANAGER } from '../../../model/resource.ts';
import type { ClusterState } from '../../client/types.ts';

const ownManager: typeof API_FIELD_MANAGER = 'engine-gateway-api';

/** Where a cluster comes from, in a word or two: who manages its resource, a file, REST, or a row of before. */
export function sourceOf({ origin, resource }: Pick<ClusterState, 'origin' | 'resource'>): string {
  switch (origin) {
    case 'row':
      return 'row without a resource';
    case 'directory':
      return 'file';
    case 'database':
      return 'REST';
    case 'kubernetes': {
      const managers = (resource?.managers ?? []).map(({ manager }) => (manager === ownManager ? 'REST' : manager));
      return managers.length === 0 ? 'Kubernetes' : [...new Set(managers)].join(', ');
    }
  }
}
