import type { UserNamespace } from '../userNamespace.ts';
import { claimedGroups, type GroupClaimSettings } from './groupClaim.ts';
import type { Asker, GroupSource, SourceAnswer } from './groupSource.ts';
import { issuerGroups } from './issuerGroups.ts';

/** A claim of the provider's answer about the token that names the user (OpenID Connect UserInfo). */
export class UserInfoGroups implements GroupSource {
  readonly name = 'userInfo';
  readonly #settings: GroupClaimSettings;
  readonly #names: UserNamespace | null;

  /** @param names of groups that the provider can give; null: any */
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
