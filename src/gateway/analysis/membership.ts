import { createHash } from 'node:crypto';
import type { Membership, SourceGroups } from '../../model/membership.ts';
import type { RequestUser } from '../../model/requestUser.ts';
import { MOST_QUERY_GROUPS } from '../../store/queryGroups.ts';

/** Longest digest that is the groups themselves. */
const LONGEST_DIGEST = 200;

/** Joins what sources say of a user's groups. */
export function membershipOf(sources: readonly SourceGroups[]): Membership {
  const groups = [...new Set(sources.flatMap((source) => source.groups))].sort();
  const text = JSON.stringify(groups);
  const digest = text.length > LONGEST_DIGEST ? createHash('sha256').update(text).digest('base64') : text;
  return { groups, sources, digest };
}

/** Groups of a user that a query is kept under; none where there are none. */
export function queryGroups({ membership }: RequestUser): { readonly groups?: readonly string[] } {
  const groups = membership?.groups ?? [];
  if (groups.length === 0) return {};
  // The list itself where it is short: queries that are followed hold it.
  return { groups: groups.length > MOST_QUERY_GROUPS ? groups.slice(0, MOST_QUERY_GROUPS) : groups };
}
