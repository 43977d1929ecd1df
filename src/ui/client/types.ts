/** Answers of the gateway that the pages share (docs/rest-api.md). */

export type LoginType = 'form' | 'oauth' | 'kubernetes' | 'none';

export type Role = 'ADMIN' | 'USER' | 'API';

/** Who is logged in. */
export interface UserInfo {
  readonly roles: readonly Role[];
  /** Pages that are shown; empty: all. */
  readonly permissions: readonly string[];
  readonly userId: string;
  readonly userName: string;
}

/** What the user interface is configured to show. */
export interface UiConfiguration {
  readonly disablePages?: readonly string[];
}
