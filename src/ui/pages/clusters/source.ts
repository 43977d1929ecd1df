import type { ClusterState } from '../../client/types.ts';
import { managersText } from '../../components/managers.ts';

/** Where a cluster comes from, in a word or two: who manages its resource, a file, REST, or a row of before. */
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
