import type { ProductNames } from '../../model/names.ts';
import type { ClusterTokens } from './clusterTokens.ts';

export interface CertificateIdentitiesOptions {
  readonly tokens: ClusterTokens;
  /** True if the user headers of the client are replaced too (`overrideTrinoUser`). */
  readonly replacesUser: boolean;
  readonly names: ProductNames;
}

/** Adds the user of a client certificate to the headers for clusters (docs/client-certificates.md). */
export class CertificateIdentities {
  readonly #options: CertificateIdentitiesOptions;
  readonly #userHeaders: readonly string[];

  constructor(options: CertificateIdentitiesOptions) {
    this.#options = options;
    const { names, replacesUser } = options;
    this.#userHeaders = replacesUser
      ? ['User', 'Original-User'].flatMap((suffix) => names.clusterNames(names.header(suffix)))
      : [];
  }

  /**
   * Returns the headers for a cluster with a user's identity: a token replaces the client's authorization, unless the
   * cluster gets none, and if configured the user's name replaces the client's.
   * @param lines names and values in turn
   */
  named(
    lines: readonly string[],
    user: string,
    cluster: { readonly name: string; readonly proxyTo: string },
  ): readonly string[] {
    const token = this.#options.tokens.tokenFor(user, cluster);
    const own = [
      ...(token === null ? [] : ['Authorization', `Bearer ${token}`]),
      ...this.#userHeaders.flatMap((name) => [name, headerText(user)]),
    ];
    if (own.length === 0) return lines;
    const replaced = new Set(own.flatMap((name, index) => (index % 2 === 0 ? [name.toLowerCase()] : [])));
    const others: string[] = [];
    for (let index = 0; index < lines.length; index += 2) {
      const name = lines[index] as string;
      if (!replaced.has(name.toLowerCase())) others.push(name, lines[index + 1] as string);
    }
    return [...others, ...own];
  }
}

/**
 * A name as header value. Headers are bytes: ISO-8859-1, as Trino Gateway sends them, and UTF-8 for names beyond it.
 */
export function headerText(user: string): string {
  return Buffer.from(user, 'latin1').toString('latin1') === user ? user : Buffer.from(user).toString('latin1');
}
