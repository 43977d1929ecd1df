import { API_GROUP } from '../model/resource.ts';
import type { KindRegistry } from './kindRegistry.ts';

/** A rule of a Role (rbac.authorization.k8s.io/v1, PolicyRule), and why it is there. */
export interface RoleRule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
  /** One sentence for readers of the Role. */
  readonly why: string;
}

/** What the gateway's own account must be allowed to do with its resources. */
export function roleRules(kinds: KindRegistry): readonly RoleRule[] {
  const apiGroups = [API_GROUP];
  return [
    ...kinds.all.map(({ plural, ownAccess: { verbs, why } }) => ({ apiGroups, resources: [plural], verbs, why })),
    {
      apiGroups,
      resources: kinds.all.map(({ plural }) => `${plural}/status`),
      verbs: ['patch'],
      why: 'Conditions are written to the status subresource, so that no spec is changed.',
    },
  ];
}
