/**
 * Names of users, or of groups, of several issuers, kept apart by what stands before them: an issuer cannot give the names of
 * another (docs/authentication.md#several-issuers). Where one prefix begins with another, a name is of the longer one.
 */
export class UserNamespace {
  readonly prefix: string;
  readonly #others: readonly string[];

  /**
   * @param prefix of the issuer; empty: its names are those of the same name elsewhere
   * @param all prefixes of all issuers, its own among them or not
   */
  constructor(prefix: string, all: readonly string[]) {
    this.prefix = prefix;
    this.#others = all.filter((other) => !prefix.startsWith(other));
  }

  /** The whole name of what the issuer's token names; null for one that would be a name of another issuer. */
  nameOf(named: string): string | null {
    const name = this.prefix + named;
    return this.#others.some((other) => name.startsWith(other)) ? null : name;
  }
}

/** What stands before the names of an issuer: what is configured, else its name and a slash. */
export function userPrefixOf(name: string, configured: string | null): string {
  return configured ?? `${name}/`;
}
