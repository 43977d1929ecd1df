/**
 * Names of users or groups of several issuers, separated by prefixes: an issuer cannot give the names of another
 * (docs/authentication.md#several-issuers). If one prefix begins with another, a name belongs to the longer one.
 */
export class UserNamespace {
  readonly prefix: string;
  readonly #others: readonly string[];

  /**
   * @param prefix of the issuer; empty: its names equal unprefixed names
   * @param all prefixes of all issuers, with or without its own
   */
  constructor(prefix: string, all: readonly string[]) {
    this.prefix = prefix;
    this.#others = all.filter((other) => !prefix.startsWith(other));
  }

  /** The full name of an issuer's user or group; null if it would be a name of another issuer. */
  nameOf(named: string): string | null {
    const name = this.prefix + named;
    return this.#others.some((other) => name.startsWith(other)) ? null : name;
  }
}

/** Prefix of an issuer's names: the configured one, else its name and a slash. */
export function userPrefixOf(name: string, configured: string | null): string {
  return configured ?? `${name}/`;
}
