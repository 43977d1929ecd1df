/** Namespaces that may use a routing group; null: every namespace. `*` stands for every namespace. */
export interface GroupRights {
  /** Whose clusters may belong to the group. */
  readonly join: readonly string[] | null;
  /** Whose rules may route to it. */
  readonly route: readonly string[] | null;
  /** Whose deny rules may refuse queries to it; left out for every namespace. */
  readonly deny?: readonly string[] | null;
}

/** The entry for groups that have none of their own. */
const OTHERS = '*';

/**
 * Which namespaces may join, route to, or deny queries to which routing group: `resources.groups` (docs/resources.md). A group without an
 * entry follows the entry `*`; without that one it is open to all.
 */
export class GroupBindings {
  readonly #rights: ReadonlyMap<string, GroupRights>;
  /** By namespace: there are as many as have rules. */
  readonly #deniable = new Map<string, 'all' | 'some' | 'none'>();
  /** The same text for the same rights. */
  readonly key: string;

  /** @param rights by name of the group, or `*` */
  constructor(rights: Readonly<Record<string, GroupRights>>) {
    this.#rights = new Map(Object.entries(rights));
    this.key = JSON.stringify([...this.#rights]);
  }

  /** Whether every namespace may use every group. */
  get areOpen(): boolean {
    return this.#rights.size === 0;
  }

  /** Why a namespace's cluster may not belong to a group, with the fix; null when it may. */
  joinRefusal(namespace: string, group: string): string | null {
    return this.#refusal(namespace, group, 'join', 'have clusters in');
  }

  /** Why a namespace's rule may not route to a group, with the fix; null when it may. */
  routeRefusal(namespace: string, group: string): string | null {
    return this.#refusal(namespace, group, 'route', 'route to');
  }

  /** Why a namespace's deny rule may not refuse queries to a group, with the fix; null when it may. */
  denyRefusal(namespace: string, group: string): string | null {
    return this.#refusal(namespace, group, 'deny', 'deny queries to');
  }

  /** Queries to which groups a namespace's deny rules may refuse. */
  deniable(namespace: string): 'all' | 'some' | 'none' {
    const entry = this.#deniable.get(namespace) ?? this.#denied(namespace);
    this.#deniable.set(namespace, entry);
    return entry;
  }

  #denied(namespace: string): 'all' | 'some' | 'none' {
    // Stands for groups without an entry: no group has this name.
    const groups = [...this.#rights.keys().filter((group) => group !== OTHERS), ''];
    const allowed = groups.filter((group) => this.denyRefusal(namespace, group) === null).length;
    return allowed === groups.length ? 'all' : allowed === 0 ? 'none' : 'some';
  }

  #refusal(namespace: string, group: string, right: keyof GroupRights, words: string): string | null {
    const hasOwnEntry = this.#rights.has(group);
    const allowed = (this.#rights.get(group) ?? this.#rights.get(OTHERS))?.[right] ?? null;
    if (allowed === null || allowed.includes(namespace) || allowed.includes('*')) return null;
    const entry = hasOwnEntry ? group : OTHERS;
    return `namespace ${namespace} may not ${words} the routing group ${group}; choose another group, or have ${namespace} added to resources.groups["${entry}"].${right} of the gateway's configuration`;
  }
}
