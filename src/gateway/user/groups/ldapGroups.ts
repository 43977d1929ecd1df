import { type Asker, type GroupSource, type SourceAnswer, unbelieved } from './groupSource.ts';
import { RememberedGroups, type RememberedGroupsDependencies } from './rememberedGroups.ts';

/** A directory that knows the groups of users. */
export interface GroupDirectory {
  /**
   * Names of the groups of a user, with a note where these are not all of them; empty for an unknown one.
   * @throws where the directory is unavailable, with a sentence for people
   */
  groupsOf(user: string): Promise<SourceAnswer>;
}

/** Groups that an LDAP server knows. */
export class LdapGroups implements GroupSource {
  readonly name = 'ldap';
  readonly #directory: GroupDirectory;
  readonly #remembered: RememberedGroups;

  constructor(directory: GroupDirectory, dependencies: Omit<RememberedGroupsDependencies, 'source'>) {
    this.#directory = directory;
    this.#remembered = new RememberedGroups({ ...dependencies, source: this.name });
  }

  groupsOf(asker: Asker): SourceAnswer | Promise<SourceAnswer> {
    const answer = unbelieved(asker);
    if (answer !== null) return answer;
    const user = asker.user ?? '';
    return this.#remembered.of(user, () => this.#directory.groupsOf(user));
  }

  describedGroupsOf(asker: Asker): SourceAnswer {
    return unbelieved(asker) ?? this.#remembered.remembered(asker.user ?? '');
  }
}
