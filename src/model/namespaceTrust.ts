/**
 * Namespaces that may declare resources that affect every team: `resources.trustedNamespaces`
 * (docs/resources.md#trusted-namespaces).
 */
export class NamespaceTrust {
  readonly #trusted: readonly string[];

  /** @param trusted with the entry `*`: every namespace */
  constructor(trusted: readonly string[]) {
    this.#trusted = trusted;
  }

  /** Returns the reason that a namespace may not declare rules or resource groups, with the fix; null if it may. */
  rejection(namespace: string): string | null {
    if (this.#trusted.includes('*') || this.#trusted.includes(namespace)) return null;
    return `namespace ${namespace} may not declare what affects every team; declare it in ${this.#trusted.join(' or ')}, or have ${namespace} added to resources.trustedNamespaces of the gateway's configuration`;
  }

  /** Returns the reason that a cluster of a namespace may not have a name, with the fix; null if it may. */
  nameRejection(namespace: string, name: string): string | null {
    if (name.startsWith(`${namespace}-`) || this.rejection(namespace) === null) return null;
    return `${name} does not begin with ${namespace}-, as names of clusters of namespace ${namespace} do; declare it with such a name, or have ${namespace} added to resources.trustedNamespaces of the gateway's configuration`;
  }
}
