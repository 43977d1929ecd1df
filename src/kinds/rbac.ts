import { API_GROUP } from '../model/resource.ts';
import type { KindRegistry } from './resourceKind.ts';

/** A rule of a Role (rbac.authorization.k8s.io/v1, PolicyRule), and why it is there. */
export interface RoleRule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
  /** One sentence for readers of the Role. */
  readonly why: string;
}

/** Kinds of namespaces: rights to others need a ClusterRole, which is not derived. */
const namespaced = (kinds: KindRegistry) => kinds.all.filter(({ isClusterScoped }) => !isClusterScoped);

/** Required rights of the gateway's account on its resources. */
export function roleRules(kinds: KindRegistry): readonly RoleRule[] {
  const apiGroups = [API_GROUP];
  return [
    ...namespaced(kinds).map(({ plural, ownAccess: { verbs, why } }) => ({
      apiGroups,
      resources: [plural],
      verbs,
      why,
    })),
    {
      apiGroups,
      resources: namespaced(kinds).map(({ plural }) => `${plural}/status`),
      verbs: ['patch'],
      why: 'Conditions are written to the status subresource, so that no spec is changed.',
    },
  ];
}

/** Rights of the aggregated roles `view` and `edit` of users (Kubernetes: aggregated ClusterRoles). */
export function userRules(kinds: KindRegistry, role: 'view' | 'edit'): readonly RoleRule[] {
  const resources = namespaced(kinds).map(({ plural }) => plural);
  const verbs = {
    view: ['get', 'list', 'watch'],
    edit: ['create', 'update', 'patch', 'delete', 'deletecollection'],
  } as const;
  const why = {
    view: 'Resources of the gateway with their status.',
    edit: 'Resources of the gateway; their status is written by the gateway alone.',
  } as const;
  return [{ apiGroups: [API_GROUP], resources, verbs: verbs[role], why: why[role] }];
}
