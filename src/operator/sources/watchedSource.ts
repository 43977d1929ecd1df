import type { Kind, Resource, ResourceKey } from '../../model/resource.ts';
import type { ChangeListener, FieldWriter, SourceState, WrittenResource } from './source.ts';

/** Listeners of a source, and that all its resources are the gateway's own: the part that every source has alike. */
export class WatchedSource {
  readonly #changeListeners = new Set<ChangeListener>();
  readonly #stateListeners = new Set<() => void>();
  readonly #changes = new Map<Kind, number>();
  #changesOfAll = 0;

  watch(listener: ChangeListener): () => void {
    this.#changeListeners.add(listener);
    return () => this.#changeListeners.delete(listener);
  }

  onState(listener: () => void): () => void {
    this.#stateListeners.add(listener);
    return () => this.#stateListeners.delete(listener);
  }

  changeCount(kind: Kind): number {
    return this.#changesOfAll + (this.#changes.get(kind) ?? 0);
  }

  selects(_resource: Resource): boolean {
    return true;
  }

  isOfAnother(_key: ResourceKey): boolean {
    return false;
  }

  writers(_key: ResourceKey): readonly FieldWriter[] {
    return [];
  }

  lastWrite(_key: ResourceKey): WrittenResource | null {
    return null;
  }

  /** Counts a change that listeners need not know of, e.g. of where a resource is written. @param kind left out, of any kind */
  protected countChange(kind?: Kind): void {
    if (kind === undefined) this.#changesOfAll += 1;
    else this.#changes.set(kind, (this.#changes.get(kind) ?? 0) + 1);
  }

  /** Reports that a resource was added, changed or deleted; `status`: only its status changed. */
  protected tellChange(key: ResourceKey, part: 'resource' | 'status' = 'resource'): void {
    this.countChange(key.kind);
    for (const listener of this.#changeListeners) listener(key, part);
  }

  /** Reports that state or problems changed. */
  protected tellState(): void {
    for (const listener of this.#stateListeners) listener();
  }
}

/** A source that looks again and again, and keeps what its last look said. */
export class PolledSource extends WatchedSource {
  #state: SourceState = { synced: false, available: false, reason: 'not read yet', lastEventAt: null };
  readonly #onSynced: (() => void)[] = [];

  state(): SourceState {
    return this.#state;
  }

  /** Takes over what a look found; true when it is unavailable from now on. */
  protected setState(change: Partial<SourceState>): boolean {
    const before = this.#state;
    this.#state = { ...before, ...change };
    if (this.#state.synced) for (const resolve of this.#onSynced.splice(0)) resolve();
    const { available, synced, reason } = this.#state;
    if (before.available === available && before.synced === synced && before.reason === reason) return false;
    this.tellState();
    return !this.#state.available;
  }

  /** Resolves when everything has been read once, or when the time is over. */
  protected async whenSynced(timeoutMs: number): Promise<void> {
    if (this.#state.synced) return;
    await new Promise<void>((resolve) => {
      const timeout = setTimeout(resolve, timeoutMs);
      this.#onSynced.push(() => {
        clearTimeout(timeout);
        resolve();
      });
    });
  }
}
