import type { Membership, SourceGroups } from '../../../model/membership.ts';
import type { RawHeaders } from '../../../model/rawHeaders.ts';
import type { RequestUser } from '../../../model/requestUser.ts';
import { membershipOf } from '../../analysis/membership.ts';
import type { MappedUsers } from '../mappedUsers.ts';
import { EvidentUser, type UserEvidence } from '../userEvidence.ts';
import type { UserSource } from '../userExtractor.ts';
import type { Asker, GroupSource, SourceResponse } from './groupSources.ts';

/** Settings of `userGroups`. */
export interface UserGroupsSettings {
  /** `all`: the groups of all sources; `first`: of the first one with any. */
  readonly combine: 'all' | 'first';
  readonly claimedUsers: readonly UserSource[];
}

export interface AskingRequest {
  readonly headers: RawHeaders;
  readonly address: string | undefined;
}

/**
 * Finds the groups of users by the configured sources, in order (docs/identity.md). An unverified name is not looked
 * up, unless the configuration trusts its source.
 */
export class UserGroups {
  readonly #mapping: Pick<MappedUsers, 'ofLogin'> | null;
  readonly #sources: readonly GroupSource[];
  readonly #combine: UserGroupsSettings['combine'];
  readonly #claimed: ReadonlySet<UserSource>;

  /**
   * @param sources in order
   * @param mapping of the names of API callers; null: unchanged
   */
  constructor(
    sources: readonly GroupSource[],
    settings: UserGroupsSettings,
    mapping: Pick<MappedUsers, 'ofLogin'> | null = null,
  ) {
    this.#mapping = mapping;
    this.#sources = sources;
    this.#combine = settings.combine;
    this.#claimed = new Set(settings.claimedUsers);
  }

  /**
   * Returns the user of a request, with groups; synchronously if no source makes a request. Neither throws nor rejects.
   */
  of(user: RequestUser, request: AskingRequest): RequestUser | Promise<RequestUser> {
    const evidence = EvidentUser.evidenceOf(user);
    const asker = { user: user.user, doubt: this.#doubtOf(user, evidence), evidence, ...request };
    const responses = this.#sources.map((source) => source.groupsOf(asker));
    if (!responses.some((response) => response instanceof Promise)) {
      return withGroups(user, this.#joined(responses as readonly SourceResponse[]));
    }
    return Promise.all(responses).then((all) => withGroups(user, this.#joined(all)));
  }

  /** The groups of an API caller. Never rejects. */
  async ofCaller(name: string, evidence: UserEvidence): Promise<readonly string[]> {
    const user = this.#mapping === null ? name : this.#mapping.ofLogin(name);
    if (user === null) return [];
    const { membership } = await this.of(new EvidentUser(user, evidence), { headers: [], address: undefined });
    return membership?.groups ?? [];
  }

  /** The user of a described request, with groups. No network access; the description is trusted. */
  described(user: RequestUser, headers: RawHeaders): RequestUser {
    const evidence = EvidentUser.evidenceOf(user);
    const asker: Asker = { user: user.user, doubt: null, evidence, headers, address: undefined };
    const responses = this.#sources.map(
      (source) => (source.describedGroupsOf ?? source.groupsOf)(asker) as SourceResponse,
    );
    return withGroups(user, this.#joined(responses));
  }

  #doubtOf({ user }: RequestUser, evidence: UserEvidence): string | null {
    if (user === null || evidence.isVerified || this.#claimed.has(evidence.source as UserSource)) return null;
    return `the user is only a claim of the client (${evidence.source}); userGroups.claimedUsers does not name it`;
  }

  #joined(responses: readonly SourceResponse[]): Membership {
    const sources = responses.map(({ groups, note }, index): SourceGroups => {
      const { name } = this.#sources[index] as GroupSource;
      return note === undefined ? { source: name, groups } : { source: name, groups, note };
    });
    if (this.#combine === 'all') return membershipOf(sources);
    const deciding = sources.findIndex(({ groups }) => groups.length > 0);
    return membershipOf(deciding < 0 ? sources : sources.slice(0, deciding + 1));
  }
}

function withGroups({ user, userInfo, mapping }: RequestUser, membership: Membership): RequestUser {
  return { user, userInfo, membership, ...(mapping === undefined ? {} : { mapping }) };
}
