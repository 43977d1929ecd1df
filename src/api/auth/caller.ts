import type { Access } from './endpointAccess.ts';

/** Roles of callers (docs/authentication.md#roles): none includes another. */
export const roles = ['ADMIN', 'USER', 'API'] as const;

export type Role = (typeof roles)[number];

/** Authentication method of a caller; `open`: nothing is configured, so every call passes. */
export type Recognition = 'open' | 'session' | 'basic' | 'bearer' | 'certificate' | 'kubernetes';

export interface Caller {
  /** Name for the audit, for override annotations and for `userId`. */
  readonly name: string;
  readonly by: Recognition;
  /** Name by which their queries are known, after the user mapping; left out if that is `name`. */
  readonly queryUser?: string;
  /** By which of the configured ways, e.g. `presetUsers`, `ldap`, `oauth` or the name of a provider; null: not known. */
  readonly method: string | null;
  /** Roles held, as `/userinfo` lists them. */
  roles(): Promise<ReadonlySet<Role>>;
  permits(access: Access): Promise<boolean>;
}

/** No user has it: names with control characters are none. */
const NOBODY = '\u0001';

/**
 * A caller whose queries are known by the mapped name (docs/identity.md#user-mapping).
 * @param mapped gives the name; null for names that no rule lets pass, whose queries are no one's
 */
export function withQueryUser(caller: Caller, mapped: (name: string) => string | null): Caller {
  return { ...caller, queryUser: mapped(caller.name) ?? NOBODY };
}

export function queryUserOf({ name, queryUser }: Caller): string {
  return queryUser ?? name;
}

/**
 * The caller of an installation without authentication: `user`, with all roles
 * (docs/authentication.md#without-authentication).
 */
export const openCaller: Caller = callerWithRoles('user', 'open', new Set(roles));

export function callerWithRoles(
  name: string,
  by: Recognition,
  ownRoles: ReadonlySet<Role>,
  method: string | null = null,
): Caller {
  return {
    name,
    by,
    method,
    roles: async () => ownRoles,
    permits: async ({ anyOf }) => anyOf.some((role) => ownRoles.has(role)),
  };
}
