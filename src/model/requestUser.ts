import type { Membership } from './membership.ts';

/** The user of a request as rules, history and log see it (docs/request-user.md). */
export interface RequestUser {
  /** The user's name; null when extraction failed. */
  readonly user: string | null;
  /** OpenID Connect user info; only after a token was exchanged. */
  readonly userInfo: Readonly<Record<string, unknown>> | null;
  /** Groups of users (docs/identity.md); left out where no source of groups is configured. */
  readonly membership?: Membership;
  /** What the user mapping did (docs/identity.md#user-mapping); left out where the name is not mapped. */
  readonly mapping?: NameMapping;
  /** Why the user mapping refuses the user, a sentence; there is no user then. Left out where it does not. */
  readonly refusal?: string;
}

/** How a user came by its name. */
export interface NameMapping {
  /** The name before. */
  readonly from: string;
  /** Whether clusters get the mapped name, in place of what the client says. */
  readonly isForwarded: boolean;
}

/** The user of a request without a recognised user. */
export const noUser: RequestUser = { user: null, userInfo: null };
