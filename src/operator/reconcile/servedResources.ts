import type { KindRegistry } from '../../kinds/kindRegistry.ts';
import type { Clock } from '../../model/clock.ts';
import type { StoredResource } from '../../store/store.ts';
import type { ResourceSource } from '../sources/source.ts';
import { resourceOfStored } from '../sources/storedResource.ts';
import type { ResourceLists } from './routingState.ts';

/** Options of served resources. Times in milliseconds. */
export interface ServedResourcesOptions {
  readonly kinds: KindRegistry;
  readonly source: Pick<ResourceSource, 'state' | 'list'>;
  readonly clock: Clock;
  /** A source that turns out empty although the database remembers resources is believed after this time: 5,000. */
  readonly confirmEmptyMs?: number;
  /** Called when such a source is to be asked again. Must not throw. */
  readonly onDue: () => void;
}

/** The resources that are routed: those of the source, or the database's copy of them until the source has been read. */
export class ServedResources {
  readonly #options: ServedResourcesOptions;
  /** The database's copy; null once the source is served. */
  #copy: ResourceLists | null = null;
  #emptySince: number | null = null;
  #emptyTimer: NodeJS.Timeout | undefined;

  constructor(options: ServedResourcesOptions) {
    this.#options = options;
  }

  /** Whether the source is served: only then does what is missing count as gone, and is anything written. */
  get fromSource(): boolean {
    return this.#options.source.state().synced && this.#copy === null;
  }

  /** Serves the database's copy from now on, unless the source has been read already. */
  restore(stored: readonly StoredResource[]): void {
    if (this.#options.source.state().synced) return;
    this.#copy = Map.groupBy(stored.map(resourceOfStored), ({ kind }) => kind);
  }

  /** What is served now. */
  lists(): ResourceLists {
    const { kinds, source, clock } = this.#options;
    const lists: ResourceLists = new Map(kinds.names.map((kind) => [kind, source.list(kind)]));
    if (this.#copy === null) return lists;
    if (!source.state().synced) return this.#copy;
    if (countOf(lists) === 0 && countOf(this.#copy) > 0) {
      // Everything gone while the gateway did not watch is likelier a source that is not what it should be.
      const confirmMs = this.#options.confirmEmptyMs ?? 5_000;
      this.#emptySince ??= clock.monotonic();
      const waitMs = this.#emptySince + confirmMs - clock.monotonic();
      if (waitMs > 0) {
        clearTimeout(this.#emptyTimer);
        this.#emptyTimer = setTimeout(this.#options.onDue, waitMs);
        return this.#copy;
      }
    }
    this.#copy = null;
    return lists;
  }

  stop(): void {
    clearTimeout(this.#emptyTimer);
  }
}

function countOf(lists: ResourceLists): number {
  return lists.values().reduce((count, { length }) => count + length, 0);
}
