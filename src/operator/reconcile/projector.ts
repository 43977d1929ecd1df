import type { Logger } from 'pino';
import type { KindRegistry } from '../../kinds/kindRegistry.ts';
import type { ResourceOutcome } from '../../kinds/outcome.ts';
import { GatewayError } from '../../model/errors.ts';
import { keyOfText, keyText, type Resource, type ResourceKey } from '../../model/resource.ts';
import { isDatabaseAway } from '../../store/failures.ts';
import type { Fence, Store, StoredMark } from '../../store/store.ts';
import type { Leadership } from '../leadership/leadership.ts';
import type { ResourceSource } from '../sources/source.ts';
import { sameStored } from '../sources/storedResource.ts';
import { project, unproject } from './projection.ts';

export interface ProjectorOptions {
  readonly kinds: KindRegistry;
  readonly store: Pick<Store, 'resources'>;
  readonly source: Pick<ResourceSource, 'name' | 'renewVersion' | 'readCurrent'>;
  readonly leadership: Pick<Leadership, 'fence' | 'noteFenced'>;
  /** Whether a resource is routed although the source has lost it. */
  readonly holds: (key: ResourceKey) => boolean;
  readonly logger: Logger;
}

/**
 * Result of a projection as leader: `foreign` where the row has a foreign write, which was left as it is, or went with its
 * resource.
 */
export type LeaderProjection = 'done' | 'foreign';

/** Result of a requested projection. */
export type ProjectionResult = 'stored' | 'pending';

/** Projects outcomes into the database, and knows which of them it has. Keys are those of `keyText`. */
export class Projector {
  readonly #options: ProjectorOptions;
  /** Outcomes that the database has, as far as this process knows. */
  readonly #projected = new Map<string, ResourceOutcome>();
  /** The version of a resource that the database has, as far as this process knows. */
  readonly #storedVersions = new Map<string, string>();

  constructor(options: ProjectorOptions) {
    this.#options = options;
  }

  /** Whether the database has exactly this outcome: there is nothing to project. */
  has(key: string, outcome: ResourceOutcome): boolean {
    return this.#projected.get(key) === outcome;
  }

  /** Whether the database has the resource of an outcome in its version, whatever it has derived from it. */
  hasVersion(key: string, outcome: ResourceOutcome): boolean {
    return this.#storedVersions.get(key) === versionOf(outcome);
  }

  /** Notes that the database has an outcome. */
  noteStored(key: string, outcome: ResourceOutcome): void {
    this.#projected.set(key, outcome);
    this.#storedVersions.set(key, versionOf(outcome));
  }

  /** Notes that the database has something else than it should. */
  noteDrift(key: string): void {
    this.#projected.delete(key);
  }

  /** Forgets a resource that is gone. */
  forget(key: string): void {
    this.#storedVersions.delete(key);
    this.#projected.delete(key);
  }

  /**
   * Projects an outcome, or (null) the absence of a resource, as leader. Rejects with EG_DATABASE_UNAVAILABLE while the
   * database is unavailable.
   */
  async project(key: string, outcome: ResourceOutcome | null): Promise<LeaderProjection> {
    const { kinds, store, source, leadership } = this.#options;
    const { fence } = leadership;
    // A leader without a fence is one that the database has not confirmed: it is unavailable, and there is nothing to write to.
    if (fence === null)
      throw new GatewayError('EG_DATABASE_UNAVAILABLE', 'the database has not confirmed the leadership yet');
    const resourceKey = keyOfText(key);
    const result =
      outcome === null
        ? await unproject(store, resourceKey, source.name, fence)
        : await project(store, kinds, outcome, source.name, fence);
    if (result === 'fenced') leadership.noteFenced(fence);
    if (result === 'fenced') return 'done';
    if (outcome === null) return result === 'foreign' ? 'foreign' : 'done';
    if (result === 'stale') await this.#settleStale(key, outcome, fence);
    else this.#noteResult(key, outcome, result);
    return result === 'foreign' ? 'foreign' : 'done';
  }

  /** Notes what the database has after a projection: with a foreign write, the resource but not its row. */
  #noteResult(key: string, outcome: ResourceOutcome, result: 'applied' | 'unchanged' | 'foreign'): void {
    this.noteStored(key, outcome);
    if (result === 'foreign') this.noteDrift(key);
  }

  async #settleStale(key: string, outcome: ResourceOutcome, fence: Fence): Promise<void> {
    const { store, source, logger } = this.#options;
    // Another replica may have projected the same at a later version.
    const stored = await store.resources.get(outcome.key);
    if (stored !== null && sameStored(stored, outcome.resource, source.name)) {
      this.noteStored(key, outcome);
      return;
    }
    this.#storedVersions.delete(key);
    if (source.renewVersion(outcome.key)) return;
    if (await this.#replaceLost(key, outcome, fence)) return;
    logger.warn({ key }, 'the database has a newer version of the resource than its source');
  }

  /**
   * Replaces what the database has by an outcome that seems older, where the source has lost what came later, as after a
   * restore of etcd (docs/reliability.md#a-restored-etcd): read after the database was, the source still has just this.
   */
  async #replaceLost(key: string, outcome: ResourceOutcome, fence: Fence): Promise<boolean> {
    const { kinds, store, source, logger } = this.#options;
    const mark = await store.resources.mark(outcome.key);
    if (mark === null) return false;
    // What the source has lost with most of its resources stays, also where the first of them were removed already.
    const current = this.#options.holds(outcome.key) ? outcome.resource : await source.readCurrent(outcome.key);
    if (current === null || versionOfResource(current) !== versionOf(outcome)) return false;
    if (current.metadata.uid === mark.uid && !mark.removed && !isBehind(current, mark)) return false;
    const result = await project(store, kinds, outcome, source.name, fence, mark);
    if (result === 'stale' || result === 'fenced') return false;
    logger.info({ key }, 'the database had what the source has lost; replaced');
    this.#noteResult(key, outcome, result);
    return true;
  }

  /**
   * Projects an outcome, or (null) the absence of a resource, for a REST write: without a fence, on leader and follower
   * alike. `pending` when the database is unavailable or too slow.
   */
  async projectWrite(key: ResourceKey, outcome: ResourceOutcome | null, timeoutMs: number): Promise<ProjectionResult> {
    const text = keyText(key);
    const { kinds, store, source } = this.#options;
    const work =
      outcome === null ? unproject(store, key, source.name, null) : project(store, kinds, outcome, source.name, null);
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<'late'>((resolve) => {
      timer = setTimeout(() => resolve('late'), timeoutMs);
    });
    try {
      const result = await Promise.race([work, late]);
      if (result !== 'late') {
        if (outcome !== null && result !== 'stale' && result !== 'fenced') this.#noteResult(text, outcome, result);
        return 'stored';
      }
      this.#options.logger.warn({ key: text }, 'the database did not take the change in time; it follows later');
    } catch (error) {
      if (!isDatabaseAway(error)) throw error;
    } finally {
      clearTimeout(timer);
      // A loss that comes after the answer was given is the leader's to fix.
      work.catch(() => undefined);
    }
    return 'pending';
  }
}

/** Identifies a version of a resource, its status and annotations aside. */
function versionOf(outcome: ResourceOutcome): string {
  return versionOfResource(outcome.resource);
}

function versionOfResource({ metadata: { uid, generation } }: Resource): string {
  return `${uid}/${generation}`;
}

function isBehind({ metadata: { resourceVersion } }: Resource, mark: StoredMark): boolean {
  return BigInt(resourceVersion) < BigInt(mark.resourceVersion);
}
