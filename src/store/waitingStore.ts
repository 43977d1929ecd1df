import { setTimeout as sleep } from 'node:timers/promises';
import { GatewayError } from '../model/errors.ts';
import { within } from '../model/timeLimit.ts';
import { driverMessageOf, isDatabaseAway } from './failures.ts';
import { parseJdbcUrl } from './jdbcUrl.ts';
import { type KnexStore, openStore, type StoreOptions } from './openStore.ts';
import type { Store } from './store.ts';

/** Options in addition to those of `openStore`; times in milliseconds. */
export interface WaitingStoreOptions extends StoreOptions {
  /** Time that the first response of the database is waited for: 5,000. */
  readonly waitMs?: number;
  /** Time between two tries: 1,000. */
  readonly retryMs?: number;
}

/**
 * Opens the gateway's database, also while it is unavailable: the gateway then starts without it (docs/reliability.md),
 * every use of the store is rejected as EG_DATABASE_UNAVAILABLE, and opening and migrating continue being tried.
 * @throws GatewayError as `openStore` does, for what waiting does not fix
 */
export async function openStoreWaiting(options: WaitingStoreOptions): Promise<Store> {
  const { waitMs = 5_000, retryMs = 1_000, logger } = options;
  const first = openStore(options);
  const opened = await within(first, waitMs, null).catch((error: unknown) => {
    if (isDatabaseAway(error)) return null;
    throw error;
  });
  if (opened !== null) return opened;
  logger.warn('database unavailable; starting without it and retrying');
  return new StoreToCome(options, first, retryMs).store;
}

/** Stands for a store that is not open yet, and hands everything on to it once it is. */
class StoreToCome {
  readonly store: Store;
  readonly #options: WaitingStoreOptions;
  readonly #stop = new AbortController();
  readonly #opening: Promise<void>;
  #opened: KnexStore | null = null;
  /** Of the last attempt; null until one has failed. */
  #failure: Error | null = null;

  constructor(options: WaitingStoreOptions, first: Promise<KnexStore>, retryMs: number) {
    this.#options = options;
    this.#opening = this.#open(first, retryMs);
    const parsed = parseJdbcUrl(options);
    const dialect = 'target' in parsed ? parsed.target.dialect : 'sqlite';
    const own: Pick<Store, 'dialect' | 'resourceGroups' | 'ping' | 'close'> = {
      dialect,
      resourceGroups: (rules) => {
        let stores: ReturnType<KnexStore['resourceGroups']> | null = null;
        return {
          use: async (database, work) => {
            stores ??= this.#require().resourceGroups(rules);
            return await stores.use(database, work);
          },
          close: async () => await stores?.close(),
        };
      },
      ping: async (timeoutMs) => await this.#require().ping(timeoutMs),
      close: async () => {
        this.#stop.abort();
        await this.#opening;
        await this.#opened?.close();
      },
    };
    const parts = new Map<keyof Store, unknown>(Object.entries(own) as [keyof Store, unknown][]);
    this.store = new Proxy({} as Store, {
      get: (_target, name: keyof Store) => {
        const part = parts.get(name) ?? this.#part(name);
        parts.set(name, part);
        return part;
      },
    });
  }

  #require(): KnexStore {
    if (this.#opened !== null) return this.#opened;
    const message = `The database has not been reached since the gateway started. ${this.#failure?.message ?? ''}`;
    throw new GatewayError('EG_DATABASE_UNAVAILABLE', message.trim());
  }

  /** A repository each of whose methods asks for the store first; all of them return promises. */
  #part(name: keyof Store): object {
    type Repository = Readonly<Record<string | symbol, (...args: readonly unknown[]) => unknown>>;
    return new Proxy(
      {},
      {
        get:
          (_target, method) =>
          async (...args: readonly unknown[]) =>
            await (this.#require()[name] as unknown as Repository)[method]?.(...args),
      },
    );
  }

  async #open(first: Promise<KnexStore>, retryMs: number): Promise<void> {
    const { logger } = this.#options;
    let attempt = first;
    while (this.#opened === null) {
      try {
        this.#opened = await attempt;
        logger.info('database available');
        return;
      } catch (error) {
        const failure = error instanceof Error ? error : new Error(String(error));
        const isAway = isDatabaseAway(error);
        if (!isAway || failure.message !== this.#failure?.message) {
          const fields = { reason: failure.message, detail: driverMessageOf(error) ?? undefined };
          logger[isAway ? 'warn' : 'error'](fields, 'the database cannot be used; trying again');
        }
        this.#failure = failure;
      }
      const stopped = await sleep(retryMs, false, { signal: this.#stop.signal, ref: false }).catch(() => true);
      if (stopped) return;
      attempt = openStore(this.#options);
    }
  }
}
