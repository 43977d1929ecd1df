import { type Kind, keyOf, keyText, type ResourceKey } from '../../model/resource.ts';
import type { StoredResource } from '../../store/store.ts';
import { resourceOfStored } from '../sources/source.ts';
import type { ControllerContext } from './controller.ts';
import { DeletionGuard, type DeletionHold } from './deletionGuard.ts';
import type { ResourceLists } from './routingState.ts';

/**
 * The resources that are routed: those of the source, or the database's copy of them until the source has been read; and
 * those that the source lost with most of their kind, until that is confirmed.
 */
export class ServedResources {
  readonly #options: ControllerContext;
  readonly #onDue: () => void;
  readonly #guards: ReadonlyMap<Kind, DeletionGuard>;
  /** The database's copy; null once the source is served. */
  #copy: ResourceLists | null = null;
  #emptySince: number | null = null;
  #emptyTimer: NodeJS.Timeout | undefined;

  /** @param onDue called when the source is to be asked again; must not throw */
  constructor(options: ControllerContext, onDue: () => void) {
    this.#options = options;
    this.#onDue = onDue;
    const { kinds, source, deletionGuard: settings, clock, logger } = options;
    const isOfAnother = (key: ResourceKey): boolean => source.isOfAnother(key);
    this.#guards = new Map(
      kinds.names.map((kind) => [kind, new DeletionGuard({ kind, settings, isOfAnother, clock, logger, onDue })]),
    );
  }

  /** True if the source is served: only then does what is missing count as gone, and is anything written. */
  get fromSource(): boolean {
    return this.#options.source.state().synced && this.#copy === null;
  }

  get loss(): readonly DeletionHold[] {
    return [...this.#guards.values()].flatMap(({ held }) => held);
  }

  /** Serves the database's copy from now on, unless the source has been read already. */
  restore(stored: readonly StoredResource[]): void {
    if (this.#options.source.state().synced) return;
    this.#copy = Map.groupBy(stored.map(resourceOfStored), ({ kind }) => kind);
    for (const [kind, guard] of this.#guards) guard.restore(this.#copy.get(kind) ?? []);
  }

  lists(): ResourceLists {
    const { kinds, source, clock } = this.#options;
    if (!source.state().synced) {
      return this.#copy ?? new Map(kinds.names.map((kind) => [kind, source.list(kind)]));
    }
    const lists: ResourceLists = new Map(
      this.#guards.entries().map(([kind, guard]) => [kind, guard.serve(source.list(kind))]),
    );
    if (this.#copy === null) return lists;
    if (countOf(lists) === 0 && this.#hasLost(this.#copy)) {
      // Everything gone while the gateway did not watch is likelier a source that is not what it should be.
      const confirmMs = this.#options.confirmEmptyMs ?? 5_000;
      this.#emptySince ??= clock.monotonic();
      const waitMs = this.#emptySince + confirmMs - clock.monotonic();
      if (waitMs > 0) {
        clearTimeout(this.#emptyTimer);
        this.#emptyTimer = setTimeout(this.#onDue, waitMs);
        return this.#copy;
      }
    }
    this.#copy = null;
    return lists;
  }

  /** True if the source lacks any of these resources, rather than has all of them for other gateways. */
  #hasLost(copy: ResourceLists): boolean {
    return copy.values().some((resources) => resources.some((each) => !this.#options.source.isOfAnother(keyOf(each))));
  }

  /** Notes that a resource is about to be deleted through the gateway; the response takes that back. */
  expectDeletion(key: ResourceKey): () => void {
    return this.#guards.get(key.kind)?.expect(keyText(key)) ?? (() => undefined);
  }

  /** True if it is still to be found out which of many missing resources were deleted through another replica. */
  get isSuspicious(): boolean {
    return this.#guards.values().some((guard) => guard.isSuspicious);
  }

  /**
   * Takes resources with these uids for deleted through the gateway, by another replica.
   * @param askedAt monotonic milliseconds at which the database was asked for them
   */
  forgive(uids: ReadonlySet<string>, askedAt: number): void {
    for (const guard of this.#guards.values()) guard.forgive(uids, askedAt);
  }

  confirmDeletions(): void {
    for (const guard of this.#guards.values()) guard.confirm();
  }

  /** Losses that resources of a kind are held for, by namespace. */
  heldOf(kind: Kind): readonly DeletionHold[] {
    return this.#guards.get(kind)?.held ?? [];
  }

  stop(): void {
    clearTimeout(this.#emptyTimer);
    for (const guard of this.#guards.values()) guard.stop();
  }
}

function countOf(lists: ResourceLists): number {
  return lists.values().reduce((count, { length }) => count + length, 0);
}
