import type { GroupSourceName, SourceGroups } from '../../../model/membership.ts';
import type { RawHeaders } from '../../../model/rawHeaders.ts';
import type { UserEvidence } from '../userEvidence.ts';
import { userName } from '../userName.ts';

/** Who is asked about. */
export interface Asker {
  /** Null: no user was recognised. */
  readonly user: string | null;
  /**
   * Why the name is only a claim, a sentence for people; null where it was verified, or where the configuration names its source
   * in `userGroups.claimedUsers`.
   */
  readonly doubt: string | null;
  readonly evidence: UserEvidence;
  readonly headers: RawHeaders;
  /** Of the other end of the connection; undefined where there is none. */
  readonly address: string | undefined;
}

/** What a source says: its groups, and a note where these are none, or not what is current. */
export type SourceAnswer = Pick<SourceGroups, 'groups' | 'note'>;

/** A place that groups of users come from (docs/identity.md#sources); a file of this folder each. */
export interface GroupSource {
  readonly name: GroupSourceName;
  /** The groups of who asks; at once where nobody has to be asked. Neither throws nor rejects. */
  groupsOf(asker: Asker): SourceAnswer | Promise<SourceAnswer>;
  /** The same without asking anybody outside: for requests that are only described. */
  describedGroupsOf(asker: Asker): SourceAnswer;
}

/** Most groups that one source can give a user; further ones are left out. */
export const MOST_GROUPS = 1_000;

/** Longest name of a group. */
export const LONGEST_GROUP = 512;

/** The text if it can be a group's name: as for users, and no longer than `LONGEST_GROUP`; null otherwise. */
export function groupName(value: unknown): string | null {
  const name = userName(typeof value === 'string' ? value.trim() : value);
  return name === null || name.length > LONGEST_GROUP ? null : name;
}

/** Names of groups that can be names, each once, `MOST_GROUPS` at most. */
export function groupNames(values: readonly unknown[]): readonly string[] {
  const names = new Set<string>();
  for (const value of values) {
    const name = groupName(value);
    if (name !== null && names.size < MOST_GROUPS) names.add(name);
  }
  return [...names];
}

/** The answer of a source that looks names up, where the name is not to be believed; null where it is. */
export function unbelieved({ user, doubt }: Asker): SourceAnswer | null {
  if (user === null) return { groups: [], note: 'no user was recognised' };
  return doubt === null ? null : { groups: [], note: doubt };
}
