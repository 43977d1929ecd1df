import type { KindRegistry } from '../src/kinds/kindRegistry.ts';
import { roleRules } from '../src/kinds/rbac.ts';

const BEGIN = '# The rules from here to "end of derived rules" are written by "npm run generate" from src/kinds.';
const END = '# End of derived rules.';

/** Files with the gateway's rights on its resources, from the project's root. */
export const roleFiles = [
  'manifests/base/role.yaml',
  'manifests/overlays/all-namespaces/clusterrole.yaml',
  'manifests/helm/engine-gateway/templates/_names.tpl',
] as const;

/**
 * A file with the rules of a Role between two marks replaced by those of the kinds, indented as the marks are.
 * @throws Error when it has no marks
 */
export function withRoleRules(text: string, kinds: KindRegistry): string {
  const found = new RegExp(`^([ ]*)${BEGIN}\n[^]*?^[ ]*${END}\n`, 'm').exec(text);
  if (found === null) throw new Error(`the marks of derived rules are missing: ${BEGIN}`);
  const lines = roleRules(kinds).flatMap(({ apiGroups, resources, verbs, why }) => [
    `# ${why}`,
    `- apiGroups: [${apiGroups.join(', ')}]`,
    `  resources: [${resources.join(', ')}]`,
    `  verbs: [${verbs.join(', ')}]`,
  ]);
  const block = [BEGIN, ...lines, END].map((line) => `${found[1]}${line}\n`).join('');
  return text.slice(0, found.index) + block + text.slice(found.index + found[0].length);
}
