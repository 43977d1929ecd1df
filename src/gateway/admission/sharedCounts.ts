import { isDeepStrictEqual } from 'node:util';
import type { Logger } from 'pino';
import type { AdmissionCount, AdmissionCounts } from '../../routing/admissionCounts.ts';
import type { RoutingTable } from '../../routing/routingTable.ts';
import { startJob } from '../../store/job.ts';
import type { LimitCountRepository } from '../../store/limitCountRepository.ts';
import type { CounterUse } from '../../store/store.ts';
import { clusterCounter, groupCounter, groupQueueCounter, limitCounter, nameOfKey } from './limitDemands.ts';

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
  readonly #table: { readonly current: RoutingTable };
  readonly #repository: LimitCountRepository;
  readonly #logger: Logger;
  readonly #listeners = new Set<() => void>();
  /** Local rejections that are not in the database yet. */
  #rejected = new Map<string, number>();
  /** Null: unknown. */
  #counts: Counts | null = null;
  #stopJob = () => Promise.resolve();

  constructor(table: { readonly current: RoutingTable }, repository: LimitCountRepository, logger: Logger) {
    this.#table = table;
    this.#repository = repository;
    this.#logger = logger;
  }

  start(): void {
    this.#stopJob = startJob(REFRESH_MS, async () => {
      await this.#refresh();
      return REFRESH_MS;
    });
  }

  /** Writes local rejections to the database, and stops. */
  async stop(): Promise<void> {
    await this.#stopJob();
    await this.#refresh();
  }

  group(name: string): AdmissionCount | null {
    const policy = this.#table.current.admission.groups.get(name);
    return this.#count(groupCounter(name), policy?.maxRunning != null, [groupQueueCounter(name)]);
  }

  cluster(name: string): number | null {
    return this.#counts?.running.get(clusterCounter(name)) ?? null;
  }

  limit(key: string): AdmissionCount | null {
    const policy = this.#table.current.admission.limits.find((limit) => limit.key === key);
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

  #count(key: string, isCounted: boolean, waiting: readonly string[]): AdmissionCount | null {
    const counts = this.#counts;
    if (counts === null) return null;
    return {
      running: isCounted ? (counts.running.get(key) ?? 0) : null,
      waiting: Math.max(...waiting.map((each) => counts.waiting.get(each) ?? 0)),
      refused: counts.rejected.get(key) ?? 0,
    };
  }

  /** Reads the database. Never rejects. */
  async #refresh(): Promise<void> {
    const { admission, clusters } = this.#table.current;
    const isCounted = clusters.values().some(({ maxRunningQueries }) => maxRunningQueries !== undefined);
    if (admission.groups.size + admission.limits.length + this.#rejected.size === 0 && !isCounted) return;
    let rejected = this.#rejected;
    this.#rejected = new Map();
    try {
      if (rejected.size > 0) await this.#repository.addRejections(rejected);
      rejected = new Map();
      const counts = { ...sums(await this.#repository.inUse()), rejected: await this.#repository.rejections() };
      if (isDeepStrictEqual(counts, this.#counts)) return;
      this.#counts = counts;
      for (const listener of this.#listeners) listener();
    } catch (error) {
      this.#logger.debug({ err: error }, 'failed to read counts of limits');
      for (const [key, count] of rejected) this.#rejected.set(key, (this.#rejected.get(key) ?? 0) + count);
    }
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
