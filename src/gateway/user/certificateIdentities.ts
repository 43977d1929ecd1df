import type { ProductNames } from '../../model/names.ts';
import type { ClusterTokens } from './clusterTokens.ts';

/** What makes clusters recognise users of client certificates. */
export interface CertificateIdentitiesOptions {
  readonly tokens: ClusterTokens;
  /** Whether the user headers of the client are replaced too (`overrideTrinoUser`). */
  readonly replacesUser: boolean;
  readonly names: ProductNames;
}

/** Puts the user of a client certificate into the header lines for clusters (docs/client-certificates.md). */
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
   * The lines for a cluster in the name of a user: with a token in place of what authorizes the client, unless the cluster
   * gets none, and where that is configured with the user's name in place of the client's.
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

/** A name as the value of a header. Headers are bytes: ISO-8859-1, as the reference sends them, and UTF-8 for names beyond it. */
export function headerText(user: string): string {
  return Buffer.from(user, 'latin1').toString('latin1') === user ? user : Buffer.from(user).toString('latin1');
}
