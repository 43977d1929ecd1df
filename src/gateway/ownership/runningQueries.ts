import type { Logger } from 'pino';
import type { LimitCounters } from '../../admission/limitCounters.ts';
import type { Clock } from '../../model/clock.ts';
import { queryStart } from '../../routing/statementProtocol.ts';
import type { QueryOutcomeRepository } from '../../store/outcomeRepository.ts';
import { guessedStates, RUNNING } from '../../store/queryOutcome.ts';
import type { RunningQueryRepository } from '../../store/runningQueryRepository.ts';
import type { RunningQueryRow } from '../../store/store.ts';

export interface ClusterQueries {
  readonly queries: readonly RunningQueryRow[];
  /** False: the database is unavailable, and only this replica's own are known. */
  readonly complete: boolean;
}

/**
 * Engines give up a query whose client has not asked for this long (Trino: `query.client.timeout`, 5 minutes by
 * default); the gateway is not notified of it.
 */
const ABANDONED_AFTER_MS = 300_000;
const WRITE_INTERVAL_MS = 1_000;
/** Age at which a query gets a row. A shorter query costs no statement. */
const WRITE_AFTER_MS = 2_000;
/** A query without a request here for this long may have ended at another replica, which has written so by then. */
const CHECK_AFTER_MS = 4_000;
/** Queries that one check takes at most; the others come with the next one. */
const MAX_CHECKED = 10_000;
/** Rows that one write takes at most; the others come with the next one. */
const MAX_ROWS = 2_000;
/** Maximum age of the last request's time in the database. */
const RENEW_AFTER_MS = 60_000;
/** Beyond so many, the oldest are forgotten. */
const MAX_QUERIES = 100_000;
/**
 * Number of entries removed at a time. A Map keeps the slots of deleted entries until it is rebuilt, and finding its
 * first entry scans them all: with 100,000 queries, up to 160,000 slots for each new one.
 */
const FORGOTTEN_AT_ONCE = 1_000;

interface Running {
  readonly cluster: string;
  readonly started: number;
  lastSeen: number;
  /** `lastSeen` as the database has it; null: it has no row of ours. */
  stored: number | null;
  checkAt: number;
}

/**
 * Which queries clients are following, by what passes through the gateway: a query begins with a response that names a
 * next URI, and ends with one that names none, with its cancellation, or when no one asks for it any more. Replicas
 * share them through `eg_running_queries`.
 */
export class RunningQueries {
  readonly #repository: Omit<RunningQueryRepository, 'list'>;
  readonly #outcomes: Pick<QueryOutcomeRepository, 'ended'>;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #running = new Map<string, Running>();
  #ended = new Set<string>();
  #timer: NodeJS.Timeout | null = null;
  #writing: Promise<void> | null = null;
  #away = false;
  #slots: Pick<LimitCounters, 'isEnabled' | 'served' | 'ended'> | null = null;
  #isSame: (one: string, other: string) => boolean = (one, other) => one === other;

  constructor(
    repository: Omit<RunningQueryRepository, 'list'>,
    outcomes: Pick<QueryOutcomeRepository, 'ended'>,
    clock: Clock,
    logger: Logger,
  ) {
    this.#repository = repository;
    this.#outcomes = outcomes;
    this.#clock = clock;
    this.#logger = logger;
  }

  /**
   * @param isSame whether two names of clusters mean the same engine; until this is called, those that are equal
   * @param slots get to know which queries clients follow, and their ends
   */
  connect(
    isSame: (one: string, other: string) => boolean,
    slots: Pick<LimitCounters, 'isEnabled' | 'served' | 'ended'>,
  ): void {
    this.#isSame = isSame;
    this.#slots = slots;
  }

  /** Begins to share them with the other replicas. */
  start(): void {
    this.#timer = setInterval(() => void this.#write(false), WRITE_INTERVAL_MS).unref();
  }

  /** Shares all that is known with the other replicas, and ends. */
  async stop(): Promise<void> {
    if (this.#timer !== null) clearInterval(this.#timer);
    await this.#writing;
    await this.#write(true);
  }

  /**
   * A query got a response, and its client will ask again.
   * @param isNew whether this is the response to its submission: it began now
   */
  noteActivity(queryId: string, cluster: string, isNew = false): void {
    if (this.#slots?.isEnabled === true) this.#slots.served(queryId);
    const now = this.#clock.now();
    const query = this.#running.get(queryId);
    if (query !== undefined) {
      if (query.cluster !== cluster && !this.#isSame(query.cluster, cluster)) return;
      query.lastSeen = now;
      query.checkAt = now + CHECK_AFTER_MS;
      return;
    }
    if (this.#running.size >= MAX_QUERIES) this.#forgetOldest();
    this.#ended.delete(queryId);
    this.#running.set(queryId, {
      cluster,
      started: isNew ? now : (queryStart(queryId) ?? now),
      lastSeen: now,
      stored: null,
      checkAt: now + CHECK_AFTER_MS,
    });
  }

  /** A query is over, as the response of a cluster states; of a query on another cluster it states nothing. */
  noteEnd(queryId: string, cluster: string): void {
    this.#slots?.ended(queryId);
    const query = this.#running.get(queryId);
    if (query !== undefined && !this.#isSame(query.cluster, cluster)) return;
    this.#running.delete(queryId);
    // A query that was seen here and was too young for a row has none. Any other one may have a row of another replica.
    if (query === undefined || query.stored !== null || this.#isOld(query)) this.#ended.add(queryId);
  }

  /** The queries of a cluster, on all replicas. Never rejects. */
  async ofCluster(cluster: string): Promise<ClusterQueries> {
    const since = this.#clock.now() - ABANDONED_AFTER_MS;
    const rows = new Map<string, RunningQueryRow>();
    let over: ReadonlySet<string> = new Set();
    let complete = true;
    try {
      for (const row of await this.#repository.ofCluster(cluster, since)) {
        if (!this.#ended.has(row.queryId)) rows.set(row.queryId, row);
      }
      over = await this.#endsOf([...this.#running].filter(([, query]) => query.cluster === cluster).map(([id]) => id));
    } catch {
      complete = false;
    }
    for (const [queryId, { cluster: on, started, lastSeen }] of this.#running) {
      if (on !== cluster || lastSeen < since || over.has(queryId)) continue;
      const other = rows.get(queryId);
      rows.set(queryId, { queryId, cluster, started, lastSeen: Math.max(lastSeen, other?.lastSeen ?? 0) });
    }
    return { queries: [...rows.values()].sort((a, b) => a.started - b.started), complete };
  }

  /**
   * Forgets the oldest of the cluster with the most queries: one that responds with many new ids displaces its own.
   */
  #forgetOldest(): void {
    const counts = new Map<string, number>();
    for (const { cluster } of this.#running.values()) counts.set(cluster, (counts.get(cluster) ?? 0) + 1);
    const [largest] = [...counts].reduce((one, other) => (other[1] > one[1] ? other : one));
    let left = FORGOTTEN_AT_ONCE;
    for (const [queryId, { cluster }] of this.#running) {
      if (cluster !== largest) continue;
      this.#running.delete(queryId);
      if (--left === 0) return;
    }
  }

  #isOld({ started }: Running): boolean {
    return this.#clock.now() - started >= WRITE_AFTER_MS;
  }

  #endsOf(queryIds: readonly string[]): Promise<ReadonlySet<string>> {
    return this.#outcomes.ended(queryIds, [RUNNING, ...guessedStates]);
  }

  /** @param all also those that began just now */
  #write(all: boolean): Promise<void> {
    this.#writing ??= this.#writeNow(all).finally(() => {
      this.#writing = null;
    });
    return this.#writing;
  }

  async #writeNow(all: boolean): Promise<void> {
    const now = this.#clock.now();
    const due = new Map<string, RunningQueryRow>();
    const checked: string[] = [];
    for (const [queryId, running] of this.#running) {
      const { cluster, started, lastSeen, stored } = running;
      const isFollowed = lastSeen - started >= WRITE_AFTER_MS || lastSeen <= now - CHECK_AFTER_MS;
      const isUnwritten = stored === null ? all || isFollowed : lastSeen - stored >= RENEW_AFTER_MS;
      if (lastSeen < now - ABANDONED_AFTER_MS) {
        // Its row stays: clients may ask other replicas, and who reads it looks at its time.
        this.#running.delete(queryId);
      } else if (isUnwritten && (all || due.size < MAX_ROWS)) due.set(queryId, { queryId, cluster, started, lastSeen });
      else if (running.checkAt <= now && checked.length < MAX_CHECKED) {
        checked.push(queryId);
        running.checkAt = now + (now - lastSeen) / 4;
      }
    }
    if (due.size + checked.length + this.#ended.size === 0) return;
    let noteEnd: ReadonlySet<string> = new Set();
    try {
      for (const queryId of await this.#endsOf([...due.keys(), ...checked])) {
        if ((this.#running.get(queryId)?.stored ?? null) !== null) this.#ended.add(queryId);
        this.#running.delete(queryId);
        due.delete(queryId);
      }
      noteEnd = this.#ended;
      this.#ended = new Set();
      const rows = [...due.values()];
      if (rows.length > 0) await this.#repository.put(rows);
      for (const { queryId, lastSeen } of rows) {
        const running = this.#running.get(queryId);
        if (running === undefined) this.#ended.add(queryId);
        else running.stored = lastSeen;
      }
      if (noteEnd.size > 0) await this.#repository.remove([...noteEnd]);
      this.#away = false;
    } catch (error) {
      // Rows of the past are worth nothing later: readers look at their time.
      for (const queryId of noteEnd) if (this.#ended.size < MAX_QUERIES) this.#ended.add(queryId);
      const reason = error instanceof Error ? error.message : String(error);
      if (!this.#away) this.#logger.warn({ reason }, 'running queries not shared with other replicas');
      this.#away = true;
    }
  }
}
