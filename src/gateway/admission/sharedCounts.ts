import { isDeepStrictEqual } from 'node:util';
import type { Logger } from 'pino';
import type { AdmissionCount, AdmissionCounts } from '../../routing/admissionCounts.ts';
import type { RoutingTable } from '../../routing/routingTable.ts';
import type { CounterUse, LimitCountRepository } from '../../store/store.ts';
import { groupKey, groupQueueKey, limitKey, nameOfKey } from './limitDemands.ts';

/** What counts over all replicas are read with. */
export interface SharedCountsDependencies {
  readonly table: { readonly current: RoutingTable };
  readonly repository: Pick<LimitCountRepository, 'inUse' | 'refusals' | 'addRefusals'>;
  readonly logger: Logger;
}

/** Time between two looks at the database. */
const LOOK_MS = 10_000;

/** What the database had last. */
interface Counts {
  /** Slots in use by group or limit: `group:etl`, `limit:team/analysts`. */
  readonly running: ReadonlyMap<string, number>;
  /** Of a limit by each of its counters, whose largest sum counts: one submission may wait for several. */
  readonly waiting: ReadonlyMap<string, number>;
  readonly refused: ReadonlyMap<string, number>;
}

/** How much of groups and limits is used on all replicas, as the database had it at most ten seconds ago (docs/limits.md). */
export class SharedCounts implements AdmissionCounts {
  readonly #dependencies: SharedCountsDependencies;
  readonly #listeners = new Set<() => void>();
  /** Refusals here that the database does not have yet. */
  #refused = new Map<string, number>();
  /** Null: not known. */
  #counts: Counts | null = null;
  #timer: NodeJS.Timeout | null = null;
  #looking: Promise<void> | null = null;

  constructor(dependencies: SharedCountsDependencies) {
    this.#dependencies = dependencies;
  }

  start(): void {
    this.#timer = setInterval(() => void this.look(), LOOK_MS).unref();
  }

  /** Has the database count what was refused here, and ends. */
  async stop(): Promise<void> {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
    await this.#looking;
    await this.look();
  }

  group(name: string): AdmissionCount | null {
    const policy = this.#dependencies.table.current.admission.groups.get(name);
    return this.#count(groupKey(name), policy?.maxRunning != null, [groupQueueKey(name)]);
  }

  limit(key: string): AdmissionCount | null {
    const policy = this.#dependencies.table.current.admission.limits.find((limit) => limit.key === key);
    const name = limitKey(key);
    return this.#count(name, policy?.maxRunning != null, [name, limitKey(key, 'rate'), limitKey(key, 'queue')]);
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Counts a submission that was refused, or would have been. @param keys of its group and limits, each counted once */
  noteRefused(keys: Iterable<string>): void {
    for (const key of new Set(keys)) this.#refused.set(key, (this.#refused.get(key) ?? 0) + 1);
  }

  /** Looks at the database now. Never rejects. */
  look(): Promise<void> {
    this.#looking ??= this.#read()
      .catch((error: unknown) => {
        this.#dependencies.logger.debug({ err: error }, 'counts of limits could not be read');
      })
      .finally(() => {
        this.#looking = null;
      });
    return this.#looking;
  }

  #count(key: string, isCounted: boolean, waiting: readonly string[]): AdmissionCount | null {
    const counts = this.#counts;
    if (counts === null) return null;
    return {
      running: isCounted ? (counts.running.get(key) ?? 0) : null,
      waiting: Math.max(...waiting.map((each) => counts.waiting.get(each) ?? 0)),
      refused: counts.refused.get(key) ?? 0,
    };
  }

  async #read(): Promise<void> {
    const { table, repository } = this.#dependencies;
    const { groups, limits } = table.current.admission;
    if (groups.size + limits.length === 0 && this.#refused.size === 0) return;
    const refused = this.#refused;
    this.#refused = new Map();
    try {
      if (refused.size > 0) await repository.addRefusals(refused);
    } catch (error) {
      for (const [key, count] of refused) this.#refused.set(key, (this.#refused.get(key) ?? 0) + count);
      throw error;
    }
    const counts = { ...sums(await repository.inUse()), refused: await repository.refusals() };
    if (isDeepStrictEqual(counts, this.#counts)) return;
    this.#counts = counts;
    for (const listener of this.#listeners) listener();
  }
}

function sums(counters: readonly CounterUse[]): Pick<Counts, 'running' | 'waiting'> {
  const running = new Map<string, number>();
  const waiting = new Map<string, number>();
  for (const { key, inUse, waiting: count } of counters) {
    const name = nameOfKey(key);
    running.set(name, (running.get(name) ?? 0) + inUse);
    waiting.set(name, (waiting.get(name) ?? 0) + count);
  }
  return { running, waiting };
}
