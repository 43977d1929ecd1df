import { compileWholeMatch } from '../../model/regex/wholeMatch.ts';
import { type Role, roles } from './caller.ts';

/** The configured expressions; null if the configuration has no `authorization` at all. */
export type RoleExpressions = {
  readonly admin: string | null;
  readonly user: string | null;
  readonly api: string | null;
};

/**
 * Maps the text of a user's privileges to roles (docs/authentication.md#roles): a role is held when
 * the whole text matches its expression. Without `authorization` everybody who is recognised holds all roles.
 */
export function roleMapping(expressions: RoleExpressions | null): (privileges: string) => ReadonlySet<Role> {
  if (expressions === null) {
    const all = new Set(roles);
    return () => all;
  }
  const patterns = roles.flatMap((role) => {
    const text = expressions[role.toLowerCase() as Lowercase<Role>];
    return text === null ? [] : [[role, compileWholeMatch(text)] as const];
  });
  return (privileges) => new Set(patterns.filter(([, pattern]) => pattern.matches(privileges)).map(([role]) => role));
}

/** Makes the mapping from a user's groups to roles (`authorization.groupRoles`); null if no group gives one. */
export function groupRoleMapping(
  groupRoles: Readonly<Record<Lowercase<Role>, readonly string[]>> | null,
): ((groups: readonly string[]) => readonly Role[]) | null {
  if (groupRoles === null) return null;
  const byRole = roles.map((role) => [role, new Set(groupRoles[role.toLowerCase() as Lowercase<Role>])] as const);
  if (byRole.every(([, groups]) => groups.size === 0)) return null;
  return (groups) => byRole.filter(([, giving]) => groups.some((group) => giving.has(group))).map(([role]) => role);
}

/**
 * Pages that a user sees (`pagePermissions`): empty means all, which any role held without an entry gives; otherwise
 * the union of the entries, split at `_`. Keys of the map are roles in any letter case.
 */
export function pagesOf(
  ownRoles: ReadonlySet<Role>,
  pagePermissions: Readonly<Record<string, string | null>>,
): readonly string[] {
  const byRole = new Map(Object.entries(pagePermissions).map(([role, pages]) => [role.toUpperCase(), pages]));
  const pages = new Set<string>();
  for (const role of ownRoles) {
    const entry = byRole.get(role);
    if (entry === undefined || entry === null || entry === '') return [];
    for (const page of entry.split('_')) if (page !== '') pages.add(page);
  }
  return [...pages];
}
