import { LRUCache } from 'lru-cache';
import type { UserGroups } from '../../gateway/user/groups/userGroups.ts';
import { byLogin, type UserEvidence } from '../../gateway/user/userEvidence.ts';
import type { Clock } from '../../model/clock.ts';
import type { Role } from './caller.ts';
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
    const answer = this.#directory.privilegesOf(user).then((text) => text ?? '');
    this.#privileges.set(user, answer);
    answer.catch(() => this.#privileges.delete(user));
    return answer;
  }
}
