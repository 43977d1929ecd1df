import { createHash } from 'node:crypto';
import type { Membership, SourceGroups } from '../../model/membership.ts';
import type { RequestUser } from '../../model/requestUser.ts';
import { MAX_QUERY_GROUPS } from '../../store/queryGroups.ts';

const MAX_DIGEST_LENGTH = 200;

export function membershipOf(sources: readonly SourceGroups[]): Membership {
  const groups = [...new Set(sources.flatMap((source) => source.groups))].sort();
  const text = JSON.stringify(groups);
  const digest = text.length > MAX_DIGEST_LENGTH ? createHash('sha256').update(text).digest('base64') : text;
  return { groups, sources, digest };
}

/** Groups of a user to store with a query; absent if empty. */
export function queryGroups({ membership }: RequestUser): { readonly groups?: readonly string[] } {
  const groups = membership?.groups ?? [];
  if (groups.length === 0) return {};
  // The list itself if it is short: followed queries reference it.
  return { groups: groups.length > MAX_QUERY_GROUPS ? groups.slice(0, MAX_QUERY_GROUPS) : groups };
}
