import { type Claims, claimOf } from '../jwtClaims.ts';
import { type Asker, type GroupSource, groupNames, type SourceAnswer } from './groupSource.ts';
import { issuerGroups } from './issuerGroups.ts';

/** Settings `userGroups.token`. */
export interface GroupClaimSettings {
  /** Name of the claim; a dotted name without an exact match is a path. */
  readonly claim: string;
  readonly delimiter: string;
}

export class TokenClaimGroups implements GroupSource {
  readonly name = 'token';
  readonly #settings: GroupClaimSettings;

  constructor(settings: GroupClaimSettings) {
    this.#settings = settings;
  }

  groupsOf({ doubt, evidence: { source, claims, groupNamespace } }: Asker): SourceAnswer {
    if (claims === null) return { groups: [], note: `the user does not come from a JWT (${source})` };
    if (doubt !== null) return { groups: [], note: doubt };
    const answer = claimedGroups(claims, this.#settings);
    return groupNamespace === undefined ? answer : issuerGroups(answer, groupNamespace);
  }

  describedGroupsOf(asker: Asker): SourceAnswer {
    return this.groupsOf(asker);
  }
}

export function claimedGroups(claims: Claims, { claim, delimiter }: GroupClaimSettings): SourceAnswer {
  const value = claimOf(claims, claim);
  if (value === undefined || value === null) return { groups: [], note: `there is no claim ${claim}` };
  if (Array.isArray(value)) return { groups: groupNames(value) };
  if (typeof value === 'string') return { groups: groupNames(value.split(delimiter)) };
  return { groups: [], note: `the claim ${claim} is neither a list nor a text` };
}
