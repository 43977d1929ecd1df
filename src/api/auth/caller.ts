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
  /** Roles held, as `/userinfo` lists them. */
  roles(): Promise<ReadonlySet<Role>>;
  /** Whether a call that needs this access may go on. */
  permits(access: Access): Promise<boolean>;
}

/**
 * The caller of an installation without authentication: `user`, with all roles
 * (docs/authentication.md#without-authentication).
 */
export const openCaller: Caller = callerWithRoles('user', 'open', new Set(roles));

/** A caller whose roles are known. */
export function callerWithRoles(name: string, by: Recognition, ownRoles: ReadonlySet<Role>): Caller {
  return {
    name,
    by,
    roles: async () => ownRoles,
    permits: async ({ anyOf }) => anyOf.some((role) => ownRoles.has(role)),
  };
}
