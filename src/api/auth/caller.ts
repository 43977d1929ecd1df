import type { Access } from './endpointAccess.ts';

/** Roles of callers (docs/authentication.md#roles): none includes another. */
export const roles = ['ADMIN', 'USER', 'API'] as const;

/** A role. */
export type Role = (typeof roles)[number];

/** How a caller was recognised; `open`: nothing is configured, so everybody is. */
export type Recognition = 'open' | 'session' | 'basic' | 'bearer' | 'certificate' | 'kubernetes';

/** Who calls, and what they may do. */
export interface Caller {
  /** Name for the audit, for override annotations and for `userId`. */
  readonly name: string;
  readonly by: Recognition;
  /** Name by which their queries are known, after the user mapping; left out where that is `name`. */
  readonly queryUser?: string;
  /** By which of the configured ways, e.g. `presetUsers`, `ldap`, `oauth` or the name of a provider; null: not known. */
  readonly method: string | null;
  /** Roles held, as `/userinfo` lists them. */
  roles(): Promise<ReadonlySet<Role>>;
  /** Whether a call that needs this access may go on. */
  permits(access: Access): Promise<boolean>;
}

/** No user has it: names with control characters are none. */
const NOBODY = '\u0001';

/**
 * A caller whose queries are known by the mapped name (docs/identity.md#user-mapping).
 * @param mapped gives the name; null for names that no rule lets pass, whose queries are nobody's
 */
export function withQueryUser(caller: Caller, mapped: (name: string) => string | null): Caller {
  return { ...caller, queryUser: mapped(caller.name) ?? NOBODY };
}

/** Name by which the queries of a caller are known. */
export function queryUserOf({ name, queryUser }: Caller): string {
  return queryUser ?? name;
}

/**
 * The caller of an installation without authentication: `user`, with all roles
 * (docs/authentication.md#without-authentication).
 */
export const openCaller: Caller = callerWithRoles('user', 'open', new Set(roles));

/** A caller whose roles are known. */
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
