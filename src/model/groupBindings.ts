/** Namespaces that may use a routing group; null: every namespace. `*` stands for every namespace. */
export interface GroupRights {
  /** Namespaces with clusters that may belong to the group. */
  readonly join: readonly string[] | null;
  readonly route: readonly string[] | null;
  /** Namespaces with deny rules that may reject queries to it; default: every namespace. */
  readonly deny?: readonly string[] | null;
}

/** The default entry for groups. */
const OTHERS = '*';

/**
 * Rights of namespaces to join, route to, or deny queries to routing groups: `resources.groups` (docs/resources.md). A
 * group without an entry follows the entry `*`; without that one it is open to all.
 */
export class GroupBindings {
  readonly #rights: ReadonlyMap<string, GroupRights>;
  /** By namespace; bounded by the number of namespaces with rules. */
  readonly #deniable = new Map<string, 'all' | 'some' | 'none'>();
  /** Equal for equal rights. */
  readonly key: string;

  /** @param rights by name of the group, or `*` */
  constructor(rights: Readonly<Record<string, GroupRights>>) {
    this.#rights = new Map(Object.entries(rights));
    this.key = JSON.stringify([...this.#rights]);
  }

  get areOpen(): boolean {
    return this.#rights.size === 0;
  }

  /** Returns the reason that a namespace's cluster may not belong to a group, with the fix; null if it may. */
  joinRejection(namespace: string, group: string): string | null {
    return this.#rejection(namespace, group, 'join', 'have clusters in');
  }

  /** Returns the reason that a namespace's rule may not route to a group, with the fix; null if it may. */
  routeRejection(namespace: string, group: string): string | null {
    return this.#rejection(namespace, group, 'route', 'route to');
  }

  /**
   * Returns the reason that a namespace's deny rule may not reject queries to a group, with the fix; null if it may.
   */
  denyRejection(namespace: string, group: string): string | null {
    return this.#rejection(namespace, group, 'deny', 'deny queries to');
  }

  /** Scope of queries that a namespace's deny rules may reject, by group. */
  deniable(namespace: string): 'all' | 'some' | 'none' {
    const entry = this.#deniable.get(namespace) ?? this.#denied(namespace);
    this.#deniable.set(namespace, entry);
    return entry;
  }

  #denied(namespace: string): 'all' | 'some' | 'none' {
    // Stands for groups without an entry: no group has this name.
    const groups = [...this.#rights.keys().filter((group) => group !== OTHERS), ''];
    const allowed = groups.filter((group) => this.denyRejection(namespace, group) === null).length;
    return allowed === groups.length ? 'all' : allowed === 0 ? 'none' : 'some';
  }

  #rejection(namespace: string, group: string, right: keyof GroupRights, words: string): string | null {
    const hasOwnEntry = this.#rights.has(group);
    const allowed = (this.#rights.get(group) ?? this.#rights.get(OTHERS))?.[right] ?? null;
    if (allowed === null || allowed.includes(namespace) || allowed.includes('*')) return null;
    const entry = hasOwnEntry ? group : OTHERS;
    return `namespace ${namespace} may not ${words} the routing group ${group}; choose another group, or have ${namespace} added to resources.groups["${entry}"].${right} of the gateway's configuration`;
  }
}
