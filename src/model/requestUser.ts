import type { Membership } from './membership.ts';

/** The user of a request for rules, history and log (docs/request-user.md). */
export interface RequestUser {
  /** The user's name; null if extraction failed. */
  readonly user: string | null;
  /** OpenID Connect user info; only after a token was exchanged. */
  readonly userInfo: Readonly<Record<string, unknown>> | null;
  /** Groups of users (docs/identity.md); absent without a configured source of groups. */
  readonly membership?: Membership;
  /** Result of the user mapping (docs/identity.md#user-mapping); absent if the name is not mapped. */
  readonly mapping?: NameMapping;
  /** Rejection by the user mapping, a sentence; there is no user then. */
  readonly rejection?: string;
}

export interface NameMapping {
  readonly from: string;
  /** True if clusters receive the mapped name in place of the client's. */
  readonly isForwarded: boolean;
}

export const noUser: RequestUser = { user: null, userInfo: null };
