import { isDeepStrictEqual } from 'node:util';
import type { Logger } from 'pino';
import type { AdmissionCount, AdmissionCounts } from '../../routing/admissionCounts.ts';
import type { RoutingTable } from '../../routing/routingTable.ts';
import type { LimitCountRepository } from '../../store/limitCountRepository.ts';
import type { CounterUse } from '../../store/store.ts';
import { clusterCounter, groupCounter, groupQueueCounter, limitCounter, nameOfKey } from './limitDemands.ts';

export interface SharedCountsDependencies {
  readonly table: { readonly current: RoutingTable };
  readonly repository: Pick<LimitCountRepository, 'inUse' | 'rejections' | 'addRejections'>;
  readonly logger: Logger;
}

/** Polling interval of the database. */
const REFRESH_MS = 10_000;

interface Counts {
  /** Slots in use by group or limit: `group:etl`, `limit:team/analysts`. */
  readonly running: ReadonlyMap<string, number>;
  /** For a limit the largest sum of its counters: one submission may wait for several. */
  readonly waiting: ReadonlyMap<string, number>;
  readonly rejected: ReadonlyMap<string, number>;
}

/** Usage of groups and limits on all replicas, from the database, at most ten seconds old (docs/limits.md). */
export class SharedCounts implements AdmissionCounts {
  readonly #dependencies: SharedCountsDependencies;
  readonly #listeners = new Set<() => void>();
  /** Local rejections that are not in the database yet. */
  #rejected = new Map<string, number>();
  /** Null: unknown. */
  #counts: Counts | null = null;
  #timer: NodeJS.Timeout | null = null;
  #refreshing: Promise<void> | null = null;

  constructor(dependencies: SharedCountsDependencies) {
    this.#dependencies = dependencies;
  }

  start(): void {
    this.#timer = setInterval(() => void this.refresh(), REFRESH_MS).unref();
  }

  /** Writes local rejections to the database, and stops. */
  async stop(): Promise<void> {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
    await this.#refreshing;
    await this.refresh();
  }

  group(name: string): AdmissionCount | null {
    const policy = this.#dependencies.table.current.admission.groups.get(name);
    return this.#count(groupCounter(name), policy?.maxRunning != null, [groupQueueCounter(name)]);
  }

  cluster(name: string): number | null {
    const limit = this.#dependencies.table.current.clusters.get(name)?.maxRunningQueries;
    return limit === undefined ? null : (this.#counts?.running.get(clusterCounter(name)) ?? null);
  }

  limit(key: string): AdmissionCount | null {
    const policy = this.#dependencies.table.current.admission.limits.find((limit) => limit.key === key);
    const name = limitCounter(key);
    return this.#count(name, policy?.maxRunning != null, [name, limitCounter(key, 'rate'), limitCounter(key, 'queue')]);
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * Counts a submission that was rejected, or would have been. @param keys of its group and limits, each counted once
   */
  noteRejected(keys: Iterable<string>): void {
    for (const key of new Set(keys)) this.#rejected.set(key, (this.#rejected.get(key) ?? 0) + 1);
  }

  /** Reads the database now. Never rejects. */
  refresh(): Promise<void> {
    this.#refreshing ??= this.#read()
      .catch((error: unknown) => {
        this.#dependencies.logger.debug({ err: error }, 'failed to read counts of limits');
      })
      .finally(() => {
        this.#refreshing = null;
      });
    return this.#refreshing;
  }

  #count(key: string, isCounted: boolean, waiting: readonly string[]): AdmissionCount | null {
    const counts = this.#counts;
    if (counts === null) return null;
    return {
      running: isCounted ? (counts.running.get(key) ?? 0) : null,
      waiting: Math.max(...waiting.map((each) => counts.waiting.get(each) ?? 0)),
      refused: counts.rejected.get(key) ?? 0,
    };
  }

  async #read(): Promise<void> {
    const { table, repository } = this.#dependencies;
    const { admission, clusters } = table.current;
    const isCounted = clusters.values().some(({ maxRunningQueries }) => maxRunningQueries !== undefined);
    if (admission.groups.size + admission.limits.length + this.#rejected.size === 0 && !isCounted) return;
    const rejected = this.#rejected;
    this.#rejected = new Map();
    try {
      if (rejected.size > 0) await repository.addRejections(rejected);
    } catch (error) {
      for (const [key, count] of rejected) this.#rejected.set(key, (this.#rejected.get(key) ?? 0) + count);
      throw error;
    }
    const counts = { ...sums(await repository.inUse()), rejected: await repository.rejections() };
    if (isDeepStrictEqual(counts, this.#counts)) return;
    this.#counts = counts;
    for (const listener of this.#listeners) listener();
  }
}

function sums(counters: readonly CounterUse[]): Pick<Counts, 'running' | 'waiting'> {
  const running = new Map<string, number>();
  const waiting = new Map<string, number>();
  for (const { key, inUse } of counters) {
    const counts = key.startsWith('queue:') ? waiting : running;
    counts.set(nameOfKey(key), (counts.get(nameOfKey(key)) ?? 0) + inUse);
  }
  return { running, waiting };
}
