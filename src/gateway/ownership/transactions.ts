import { LRUCache } from 'lru-cache';
import type { Logger } from 'pino';
import type { IncomingHttpHeaders } from 'undici/types/header.js';
import type { Clock } from '../../model/clock.ts';
import { growingTo } from '../../model/growingCache.ts';
import type { ProductNames } from '../../model/names.ts';
import { within } from '../../model/timeLimit.ts';
import { transactionIdOf } from '../../routing/statementProtocol.ts';
import type { Store } from '../../store/store.ts';
import type { QueryOwner } from './queryOwner.ts';
import type { StickinessOptions } from './stickiness.ts';

/** Transactions, statements and writes in memory, of each at most; beyond that the database knows. */
const MAX_REMEMBERED = 20_000;
/** Milliseconds for which an id is remembered as unknown; another replica may be storing it at the moment. */
const MISS_TTL = 1_000;
/** Milliseconds between two attempts to store what the database could not take. */
const RETRY_INTERVAL = 1_000;
const RETRIED_AT_ONCE = 100;

/**
 * Knows which cluster began a transaction, in memory and in the database, on every replica (docs/routing.md:
 * Transactions). Engines name a new transaction on the last response of `START TRANSACTION`, and say on the last
 * response of `COMMIT` or `ROLLBACK` that it has ended.
 */
export class Transactions {
  readonly #store: Store['transactions'];
  readonly #logger: Logger;
  readonly #clock: Clock;
  readonly #options: StickinessOptions;
  readonly #onChange: (queryId: string, transactionId: string | null) => void;
  readonly #startedKeys: readonly string[];
  readonly #clearKeys: readonly string[];
  /** Headers of responses that begin or end a transaction. */
  readonly responseKeys: readonly string[];
  readonly #owners = new LRUCache<string, QueryOwner>(growingTo(MAX_REMEMBERED));
  /** Transactions of statements by query id: follow-ups do not name them. */
  readonly #ofStatements = new LRUCache<string, string>(growingTo(MAX_REMEMBERED));
  readonly #misses: LRUCache<string, true>;
  readonly #unwritten = new Map<string, () => Promise<unknown>>();
  #timer: NodeJS.Timeout | null = null;
  /** Until then the database may lack what other replicas know. */
  #undecidedUntil = 0;

  /** @param onChange called with the query that began a transaction, or ended its own (null) */
  constructor(
    names: ProductNames,
    store: Store['transactions'],
    logger: Logger,
    clock: Clock,
    options: StickinessOptions,
    onChange: (queryId: string, transactionId: string | null) => void,
  ) {
    this.#store = store;
    this.#logger = logger;
    this.#clock = clock;
    this.#options = options;
    this.#onChange = onChange;
    this.#startedKeys = names.responseKeys('Started-Transaction-Id');
    this.#clearKeys = names.responseKeys('Clear-Transaction-Id');
    this.responseKeys = [...this.#startedKeys, ...this.#clearKeys];
    this.#misses = new LRUCache({ max: MAX_REMEMBERED, ttl: MISS_TTL, perf: { now: () => clock.monotonic() } });
  }

  /** The cluster of a transaction as far as memory knows. */
  ownerNow(id: string): QueryOwner | null {
    return this.#owners.get(id) ?? null;
  }

  /**
   * Looks a transaction up in the database. Never rejects.
   * @returns `undecided` where the database cannot be read, or could not be until a moment ago
   */
  async find(id: string): Promise<QueryOwner | 'unknown' | 'undecided'> {
    if (this.#misses.has(id)) return 'unknown';
    try {
      const row = await within(this.#store.get(id), this.#options.lookupTimeout, 'late' as const);
      if (row !== null && row !== 'late') {
        const owner = { cluster: row.cluster, proxyTo: row.proxyTo };
        this.#owners.set(id, owner);
        return owner;
      }
      if (row === null && this.#clock.monotonic() >= this.#undecidedUntil) {
        this.#misses.set(id, true);
        return 'unknown';
      }
      if (row === 'late') this.#noteAway();
    } catch (error) {
      this.#noteAway();
      this.#logger.warn({ err: error, transactionId: id }, 'failed to look up cluster of transaction');
    }
    return 'undecided';
  }

  /** Notes which transaction a statement belongs to, so that its end is recognized. */
  noteStatement(queryId: string, transactionId: string): void {
    this.#ofStatements.set(queryId, transactionId);
  }

  /**
   * Takes note of a response of a cluster to a request of a query: whether it begins or ends a transaction.
   * @returns null if the response can go to the client at once; else a promise that resolves once the transaction is
   *   stored, or after the learn timeout (it is then stored later). Never rejects.
   */
  noteResponse(queryId: string, headers: IncomingHttpHeaders, owner: QueryOwner): Promise<void> | null {
    if (firstOf(headers, this.#clearKeys) === 'true') {
      this.#onChange(queryId, null);
      this.#noteEnd(queryId, owner);
    }
    const started = firstOf(headers, this.#startedKeys);
    if (started === undefined) return null;
    const id = transactionIdOf(started);
    if (id === null) return null;
    this.#onChange(queryId, id);
    return this.#began(id, owner);
  }

  stop(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
  }

  #began(id: string, owner: QueryOwner): Promise<void> | null {
    const first = this.#owners.get(id);
    if (first !== undefined) {
      if (first.proxyTo !== owner.proxyTo) this.#warnOfClash(id, first, owner);
      return null;
    }
    this.#owners.set(id, owner);
    this.#misses.delete(id);
    const { cluster, proxyTo } = owner;
    const row = { transactionId: id, cluster, proxyTo, created: this.#clock.now() };
    return this.#write(id, async () => {
      const stored = await this.#store.begin(row);
      if (stored.proxyTo === owner.proxyTo) return;
      // The first one keeps it: a cluster cannot take over the transactions of another one.
      this.#owners.set(id, { cluster: stored.cluster, proxyTo: stored.proxyTo });
      this.#warnOfClash(id, stored, owner);
    });
  }

  #noteEnd(queryId: string, owner: QueryOwner): void {
    const id = this.#ofStatements.get(queryId);
    if (id === undefined) return;
    this.#ofStatements.delete(queryId);
    const first = this.#owners.get(id);
    if (first !== undefined && first.proxyTo !== owner.proxyTo) return;
    this.#owners.delete(id);
    void this.#write(id, () => this.#store.end(id, owner.proxyTo));
  }

  /** Writes now, waiting no longer than the learn timeout; a write that fails is repeated until it succeeds. */
  #write(id: string, write: () => Promise<unknown>): Promise<void> {
    // A later write of the same transaction takes the place of an earlier one.
    this.#unwritten.delete(id);
    const writing = write().then(
      () => undefined,
      (error: unknown) => {
        this.#noteAway();
        this.#keep(id, write);
        this.#logger.warn({ err: error, transactionId: id }, 'failed to store transaction; kept in memory');
      },
    );
    return within(writing, this.#options.learnTimeout, undefined);
  }

  #keep(id: string, write: () => Promise<unknown>): void {
    if (this.#unwritten.size >= MAX_REMEMBERED || this.#unwritten.has(id)) return;
    this.#unwritten.set(id, write);
    this.#timer ??= setInterval(() => this.#retry(), RETRY_INTERVAL).unref();
  }

  #retry(): void {
    for (const [id, write] of [...this.#unwritten].slice(0, RETRIED_AT_ONCE)) {
      this.#unwritten.delete(id);
      void write().catch(() => {
        this.#noteAway();
        this.#keep(id, write);
      });
    }
    if (this.#unwritten.size === 0) this.stop();
  }

  #noteAway(): void {
    this.#undecidedUntil = this.#clock.monotonic() + this.#options.catchUpTime;
  }

  #warnOfClash(id: string, first: QueryOwner, second: QueryOwner): void {
    const clusters = [first.cluster, second.cluster];
    this.#logger.warn({ transactionId: id, clusters }, 'transaction claimed by two clusters; the first one keeps it');
  }
}

function firstOf(headers: IncomingHttpHeaders, keys: readonly string[]): string | string[] | undefined {
  for (const key of keys) if (headers[key] !== undefined) return headers[key];
  return undefined;
}
