/** The user of a request as rules, history and log see it (docs/request-user.md). */
export interface RequestUser {
  /** The user's name; null when extraction failed. */
  readonly user: string | null;
  /** OpenID Connect user info; only after a token was exchanged. */
  readonly userInfo: Readonly<Record<string, unknown>> | null;
}

/** The user of a request without a recognised user. */
export const noUser: RequestUser = { user: null, userInfo: null };
