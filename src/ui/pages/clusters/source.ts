import type { ClusterState } from '../../client/types.ts';
import { managersText } from '../../components/managers.ts';

/** Short text for the source of a cluster: manager of its resource, file, REST, or an unmanaged row. */
export function sourceOf({
  origin,
  resource,
  discovery,
}: Pick<ClusterState, 'origin' | 'resource' | 'discovery'>): string {
  if (discovery !== null) return `discovered by ${discovery.name}`;
  switch (origin) {
    case 'row':
      return 'row without a resource';
    case 'directory':
      return 'file';
    case 'database':
      return 'REST';
    case 'kubernetes':
      return managersText(resource?.managers ?? []) || 'Kubernetes';
  }
}
