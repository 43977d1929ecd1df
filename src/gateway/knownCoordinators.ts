import type { QueryOwner } from './stickiness.ts';

/** A coordinator from its start to its end: all its query ids end in the same suffix. */
export interface Coordinator {
  readonly suffix: string;
  readonly owner: QueryOwner;
  /** Order of learning, to tell a restarted coordinator from its predecessor. */
  readonly order: number;
  /** Settles when the row is stored (or cannot be now); null when it is. */
  stored: Promise<void> | null;
  /** Another cluster's ids end in the same characters: full ids decide. */
  clashing: boolean;
  seen: boolean;
}

/** Suffixes are one a coordinator's life; far beyond what 7 days bring. */
const MAX_COORDINATORS = 50_000;

/** The coordinators that this replica knows, by suffix. */
export class KnownCoordinators {
  readonly #bySuffix = new Map<string, Coordinator>();
  /** By base URL: the one that was learned last. */
  readonly #newestAt = new Map<string, Coordinator>();
  #order = 0;

  has(suffix: string): boolean {
    return this.#bySuffix.has(suffix);
  }

  get(suffix: string): Coordinator | undefined {
    return this.#bySuffix.get(suffix);
  }

  /** Takes a coordinator in, in place of one of the same suffix; the oldest is forgotten when there are too many. */
  remember(suffix: string, { cluster, baseUrl }: QueryOwner): Coordinator {
    const coordinator: Coordinator = {
      suffix,
      owner: { cluster, baseUrl },
      order: ++this.#order,
      stored: null,
      clashing: false,
      seen: true,
    };
    if (this.#bySuffix.size >= MAX_COORDINATORS) {
      const oldest = this.#bySuffix.keys().next();
      if (oldest.done !== true) this.#bySuffix.delete(oldest.value);
    }
    this.#bySuffix.set(suffix, coordinator);
    this.#newestAt.set(baseUrl, coordinator);
    return coordinator;
  }

  /** The owner that was learned last among those that fulfil a condition. */
  newestOwner(condition: (owner: QueryOwner) => boolean): QueryOwner | null {
    let newest: Coordinator | null = null;
    for (const known of this.#bySuffix.values()) {
      if ((newest === null || known.order > newest.order) && condition(known.owner)) newest = known;
    }
    return newest === null ? null : newest.owner;
  }

  /** Whether the cluster of a coordinator is back under a new suffix. */
  isSuperseded(suffix: string): boolean {
    const known = this.#bySuffix.get(suffix);
    if (known === undefined) return false;
    const newest = this.#newestAt.get(known.owner.baseUrl);
    return newest !== undefined && newest !== known && newest.order > known.order;
  }

  /** Suffixes of those that were seen since this was asked last. */
  takeSeen(): readonly string[] {
    const seen: string[] = [];
    for (const coordinator of this.#bySuffix.values()) {
      if (!coordinator.seen) continue;
      coordinator.seen = false;
      seen.push(coordinator.suffix);
    }
    return seen;
  }
}
