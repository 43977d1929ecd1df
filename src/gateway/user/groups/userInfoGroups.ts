import type { UserNamespace } from '../userNamespace.ts';
import { claimedGroups, type GroupClaimSettings } from './groupClaim.ts';
import type { Asker, GroupSource, SourceAnswer } from './groupSource.ts';
import { issuerGroups } from './issuerGroups.ts';

/** Groups from a claim of the provider's UserInfo response for the user's token (OpenID Connect). */
export class UserInfoGroups implements GroupSource {
  readonly name = 'userInfo';
  readonly #settings: GroupClaimSettings;
  readonly #names: UserNamespace | null;

  /** @param names valid group names of the provider; null: any */
  constructor(settings: GroupClaimSettings, names: UserNamespace | null) {
    this.#settings = settings;
    this.#names = names;
  }

  groupsOf({ evidence: { source, userInfo } }: Asker): SourceAnswer {
    if (userInfo === undefined) return { groups: [], note: `the user does not come from a token exchange (${source})` };
    const answer = claimedGroups(userInfo, this.#settings);
    return this.#names === null ? answer : issuerGroups(answer, this.#names);
  }

  describedGroupsOf(asker: Asker): SourceAnswer {
    return this.groupsOf(asker);
  }
}
