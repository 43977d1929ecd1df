/**
 * Names of users of several issuers, kept apart by what stands before them: an issuer cannot name the users of another
 * (docs/authentication.md#several-issuers).
 */
export class UserNamespace {
  readonly prefix: string;
  readonly #others: readonly string[];

  /**
   * @param prefix of the issuer; empty: its users are those of the same name elsewhere
   * @param all prefixes of all issuers, its own among them or not
   */
  constructor(prefix: string, all: readonly string[]) {
    this.prefix = prefix;
    this.#others = all.filter((other) => other !== '' && other !== prefix);
  }

  /** The whole name of a user whom the issuer's token names; null for one that would be a user of another issuer. */
  nameOf(user: string): string | null {
    const name = this.prefix + user;
    return this.#others.some((other) => name.startsWith(other)) ? null : name;
  }
}

/** What stands before the users of an issuer: what is configured, else its name and a slash. */
export function userPrefixOf(name: string, configured: string | null): string {
  return configured ?? `${name}/`;
}
