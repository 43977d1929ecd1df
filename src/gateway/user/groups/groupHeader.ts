import type { ProductNames } from '../../../model/names.ts';
import { headerValues } from '../../../model/rawHeaders.ts';
import { plainAddress, type TrustPeer } from '../../headers/trustedProxies.ts';
import { type Asker, type GroupSource, groupNames, type SourceAnswer } from './groupSource.ts';

/** Settings `userGroups.header`. */
export interface GroupHeaderSettings {
  readonly name: string;
  readonly delimiter: string;
}

/** Groups from a header that proxies in `server.trustedProxies` set; ignored from others. */
export class GroupHeader implements GroupSource {
  readonly name = 'header';
  readonly #settings: GroupHeaderSettings;
  readonly #key: string;
  readonly #isProxy: TrustPeer;

  /** @param isProxy true for configured addresses; trusting all peers would allow arbitrary groups */
  constructor(settings: GroupHeaderSettings, isProxy: TrustPeer, names: ProductNames) {
    this.#settings = settings;
    this.#key = names.ownHeader(settings.name).toLowerCase();
    this.#isProxy = isProxy;
  }

  groupsOf(asker: Asker): SourceAnswer {
    if (this.#isProxy(plainAddress(asker.address))) return this.describedGroupsOf(asker);
    return { groups: [], note: 'the connection is not of a proxy in server.trustedProxies' };
  }

  describedGroupsOf({ headers }: Asker): SourceAnswer {
    const { name, delimiter } = this.#settings;
    const lines = headerValues(headers, this.#key);
    if (lines.length === 0) return { groups: [], note: `there is no header ${name}` };
    return { groups: groupNames(lines.flatMap((line) => line.split(delimiter))) };
  }
}
