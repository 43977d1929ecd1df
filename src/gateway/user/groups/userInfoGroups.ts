import { claimedGroups, type GroupClaimSettings } from './groupClaim.ts';
import type { Asker, GroupSource, SourceAnswer } from './groupSource.ts';

/** A claim of the provider's answer about the token that names the user (OpenID Connect UserInfo). */
export class UserInfoGroups implements GroupSource {
  readonly name = 'userInfo';
  readonly #settings: GroupClaimSettings;

  constructor(settings: GroupClaimSettings) {
    this.#settings = settings;
  }

  groupsOf({ evidence: { source, userInfo } }: Asker): SourceAnswer {
    if (userInfo === undefined) return { groups: [], note: `the user does not come from a token exchange (${source})` };
    return claimedGroups(userInfo, this.#settings);
  }

  describedGroupsOf(asker: Asker): SourceAnswer {
    return this.groupsOf(asker);
  }
}
