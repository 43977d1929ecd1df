import { createHash } from 'node:crypto';
/** Sources of user groups, in the default order. */
export const groupSourceNames = ['token', 'userInfo', 'tokenReview', 'certificate', 'header', 'ldap', 'file'] as const;

/** A source of groups in the configuration, traces and explanations. */
export type GroupSourceName = (typeof groupSourceNames)[number];

export interface SourceGroups {
  /** `described`: the description of the request states its groups. */
  readonly source: GroupSourceName | 'described';
  /** In the order of the source. */
  readonly groups: readonly string[];
  /** Reason for missing or stale groups, if any. */
  readonly note?: string;
}

/** The groups of a user, and their sources (docs/identity.md). */
export interface Membership {
  /** Sorted by code point, each once. */
  readonly groups: readonly string[];
  /** In the order of the requests. */
  readonly sources: readonly SourceGroups[];
  /** Equal exactly for equal groups. */
  readonly digest: string;
}

const MAX_DIGEST_LENGTH = 200;

export function membershipOf(sources: readonly SourceGroups[]): Membership {
  const groups = [...new Set(sources.flatMap((source) => source.groups))].sort();
  const text = JSON.stringify(groups);
  const digest = text.length > MAX_DIGEST_LENGTH ? createHash('sha256').update(text).digest('base64') : text;
  return { groups, sources, digest };
}
