import { type Asker, type GroupSource, type SourceAnswer, unbelieved } from './groupSource.ts';
import { RememberedGroups, type RememberedGroupsDependencies } from './rememberedGroups.ts';

export interface GroupDirectory {
  /**
   * Groups of a user, with a note if they are incomplete; empty for an unknown user.
   * @throws if the directory is unavailable, with a sentence for users
   */
  groupsOf(user: string): Promise<SourceAnswer>;
}

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
