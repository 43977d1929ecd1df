import type { GroupSourceName, SourceGroups } from '../../../model/membership.ts';
import type { RawHeaders } from '../../../model/rawHeaders.ts';
import type { UserEvidence } from '../userEvidence.ts';
import { userName } from '../userName.ts';

export interface Asker {
  /** Null: no user was recognized. */
  readonly user: string | null;
  /**
   * Reason that the name is unverified, a sentence for users; null if it was verified, or if the configuration lists
   * its source in `userGroups.claimedUsers`.
   */
  readonly doubt: string | null;
  readonly evidence: UserEvidence;
  readonly headers: RawHeaders;
  readonly address: string | undefined;
}

/** Groups from a source, with a note if they are missing or stale. */
export type SourceAnswer = Pick<SourceGroups, 'groups' | 'note'>;

/** A source of user groups (docs/identity.md#sources); one file of this folder each. */
export interface GroupSource {
  readonly name: GroupSourceName;
  /** Returns the groups of a user; synchronously if possible. Neither throws nor rejects. */
  groupsOf(asker: Asker): SourceAnswer | Promise<SourceAnswer>;
  /** Returns the groups without network access, for described requests. */
  describedGroupsOf(asker: Asker): SourceAnswer;
}

/** Maximum number of groups of a user from one source; further ones are dropped. */
export const MAX_GROUPS = 1_000;

export const MAX_GROUP_LENGTH = 512;

/** The text if it is a valid group name: as for users, up to `MAX_GROUP_LENGTH`; null otherwise. */
export function groupName(value: unknown): string | null {
  const name = userName(typeof value === 'string' ? value.trim() : value);
  return name === null || name.length > MAX_GROUP_LENGTH ? null : name;
}

/** Valid group names, without duplicates, at most `MAX_GROUPS`. */
export function groupNames(values: readonly unknown[]): readonly string[] {
  const names = new Set<string>();
  for (const value of values) {
    const name = groupName(value);
    if (name !== null && names.size < MAX_GROUPS) names.add(name);
  }
  return [...names];
}

/** Result of a lookup for an unverified name; null for a verified one. */
export function unbelieved({ user, doubt }: Asker): SourceAnswer | null {
  if (user === null) return { groups: [], note: 'no user was recognised' };
  return doubt === null ? null : { groups: [], note: doubt };
}
