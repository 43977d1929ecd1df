/** Where groups of users can come from, in the order in which they are asked where the configuration names none. */
export const groupSourceNames = ['token', 'userInfo', 'tokenReview', 'certificate', 'header', 'ldap', 'file'] as const;

/** A source of groups, as the configuration, traces and explanations name it. */
export type GroupSourceName = (typeof groupSourceNames)[number];

/** What one source said of a user. */
export interface SourceGroups {
  /** `described`: the description of the request states its groups. */
  readonly source: GroupSourceName | 'described';
  /** In the order of the source. */
  readonly groups: readonly string[];
  /** Why the source says nothing, or not what is current; left out where there is nothing to say. */
  readonly note?: string;
}

/** The groups of users that a user belongs to, and who says so (docs/identity.md). */
export interface Membership {
  /** Sorted by code point, each once. */
  readonly groups: readonly string[];
  /** In the order in which they were asked. */
  readonly sources: readonly SourceGroups[];
  /** Equal for equal groups, and for no others. */
  readonly digest: string;
}
