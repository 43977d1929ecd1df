import type { KindRegistry } from '../src/kinds/resourceKind.ts';
import { API_GROUP } from '../src/model/resource.ts';

/** First and last line of a block of derived rules. */
type Marks = readonly [begin: string, end: string];

const own: Marks = [
  '# The rules from here to "end of derived rules" are written by "npm run generate" from src/kinds.',
  '# End of derived rules.',
];
const ofUsers = (role: 'view' | 'edit'): Marks => [
  `# The rules from here to "end of rules to ${role}" are written by "npm run generate" from src/kinds.`,
  `# End of rules to ${role}.`,
];

/** Files with the gateway's rights on its resources, from the project's root. */
export const roleFiles = [
  'manifests/base/role.yaml',
  'manifests/overlays/all-namespaces/clusterrole.yaml',
  'manifests/helm/engine-gateway/templates/_names.tpl',
] as const;

/** Files with the rights of users, from the project's root. */
export const userRoleFiles = [
  'manifests/base/user-roles.yaml',
  'manifests/helm/engine-gateway/templates/_names.tpl',
] as const;

/**
 * A file with the rules of a Role between two marks replaced by those of the kinds, indented as the marks are.
 * @throws Error when it has no marks
 */
export function withRoleRules(text: string, kinds: KindRegistry): string {
  return withRules(text, own, roleRules(kinds));
}

/** The same for what roles of users include. */
export function withUserRules(text: string, kinds: KindRegistry): string {
  const roles = ['view', 'edit'] as const;
  return roles.reduce((result, role) => withRules(result, ofUsers(role), userRules(kinds, role)), text);
}

function withRules(text: string, [begin, end]: Marks, rules: readonly RoleRule[]): string {
  const found = new RegExp(`^([ ]*)${begin}\n[^]*?^[ ]*${end}\n`, 'm').exec(text);
  if (found === null) throw new Error(`the marks of derived rules are missing: ${begin}`);
  const lines = rules.flatMap(({ apiGroups, resources, verbs, why }) => [
    `# ${why}`,
    `- apiGroups: [${apiGroups.join(', ')}]`,
    `  resources: [${resources.join(', ')}]`,
    `  verbs: [${verbs.join(', ')}]`,
  ]);
  const block = [begin, ...lines, end].map((line) => `${found[1]}${line}\n`).join('');
  return text.slice(0, found.index) + block + text.slice(found.index + found[0].length);
}

/** A rule of a Role (rbac.authorization.k8s.io/v1, PolicyRule), and why it is there. */
interface RoleRule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
  /** One sentence for readers of the Role. */
  readonly why: string;
}

/** Kinds of namespaces: rights to others need a ClusterRole, which is not derived. */
const namespaced = (kinds: KindRegistry) => kinds.all.filter(({ isClusterScoped }) => !isClusterScoped);

/** Required rights of the gateway's account on its resources. */
function roleRules(kinds: KindRegistry): readonly RoleRule[] {
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
function userRules(kinds: KindRegistry, role: 'view' | 'edit'): readonly RoleRule[] {
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
