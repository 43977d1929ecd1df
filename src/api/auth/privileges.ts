import { LRUCache } from 'lru-cache';
import type { UserGroups } from '../../gateway/user/groups/userGroups.ts';
import { byLogin, type UserEvidence } from '../../gateway/user/userExtractor.ts';
import type { Clock } from '../../model/clock.ts';
import { compileWholeMatch } from '../../model/regex/wholeMatch.ts';
import { type Role, roles } from './caller.ts';
import type { LdapServer } from './ldapServer.ts';
import type { PresetUsers } from './presetUsers.ts';

export type RoleMapping = (privileges: string) => ReadonlySet<Role>;

export interface GroupRoles {
  readonly rolesOf: (groups: readonly string[]) => readonly Role[];
  readonly groups: Pick<UserGroups, 'ofCaller'>;
}

/** Time that a response of the directory is believed, in milliseconds. */
const BELIEVED_MS = 60_000;

/**
 * Looks up what users may do (docs/authentication.md#roles): the preset users, then the LDAP server's group attribute,
 * else nothing.
 */
export class Privileges {
  readonly #rolesOf: RoleMapping;
  readonly #groupRoles: GroupRoles | null;
  readonly #presets: PresetUsers;
  readonly #directory: Pick<LdapServer, 'privilegesOf'> | null;
  readonly #privileges: LRUCache<string, Promise<string>>;

  /** @param groupRoles null: groups give no roles */
  constructor(
    rolesOf: RoleMapping,
    presets: PresetUsers,
    directory: Pick<LdapServer, 'privilegesOf'> | null,
    groupRoles: GroupRoles | null,
    clock: Clock,
  ) {
    this.#rolesOf = rolesOf;
    this.#groupRoles = groupRoles;
    this.#presets = presets;
    this.#directory = directory;
    const perf = { now: () => clock.monotonic() };
    this.#privileges = new LRUCache({ max: 10_000, ttl: BELIEVED_MS, ttlResolution: 0, perf });
  }

  /**
   * The roles that a user has by privileges and by groups.
   * @param privileges their text
   * @param mapping in place of that of `authorization`, of an issuer that has its own; null: none
   */
  async rolesOf(
    user: string,
    privileges: string,
    { evidence = byLogin, mapping = null }: { evidence?: UserEvidence; mapping?: RoleMapping | null } = {},
  ): Promise<ReadonlySet<Role>> {
    const ofPrivileges = (mapping ?? this.#rolesOf)(privileges);
    if (this.#groupRoles === null) return ofPrivileges;
    const { groups, rolesOf } = this.#groupRoles;
    return new Set([...ofPrivileges, ...rolesOf(await groups.ofCaller(user, evidence))]);
  }

  /** @throws GatewayError EG_IDENTITY_UNAVAILABLE when the directory is unavailable */
  async of(user: string): Promise<string> {
    const preset = this.#presets.privilegesOf(user);
    if (preset !== null) return preset;
    if (this.#directory === null) return '';
    const privileges = this.#privileges.get(user);
    if (privileges !== undefined) return privileges;
    const response = this.#directory.privilegesOf(user).then((text) => text ?? '');
    this.#privileges.set(user, response);
    response.catch(() => this.#privileges.delete(user));
    return response;
  }
}

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
