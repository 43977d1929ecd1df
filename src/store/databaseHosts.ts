import type { Logger } from 'pino';
import { within } from '../model/timeLimit.ts';
import type { QueryObject, RawConnection } from './knexClients.ts';

export interface DatabaseHost {
  readonly host: string;
  readonly port: number;
}

/** Hosts of a database server, in the order in which connections try them. */
export class DatabaseHosts {
  readonly #hosts: readonly DatabaseHost[];
  readonly #isPrimary: boolean;
  readonly #timeoutMs: number;
  readonly #logger: Logger;
  /** Hosts that the last attempt could not use. */
  readonly #unavailable = new Set<DatabaseHost>();

  /** @param isPrimary true if only a server that takes writes is used */
  constructor(hosts: readonly DatabaseHost[], isPrimary: boolean, timeoutMs: number, logger: Logger) {
    this.#hosts = hosts;
    this.#isPrimary = isPrimary;
    this.#timeoutMs = timeoutMs;
    this.#logger = logger;
  }

  /**
   * Connects to the first host that can be used.
   * @throws the driver's error for the last host if none can be used
   */
  async connect(
    connectTo: (host: DatabaseHost) => Promise<RawConnection>,
    run: (connection: RawConnection, query: QueryObject) => Promise<QueryObject>,
    cut: (connection: RawConnection) => void,
  ): Promise<RawConnection> {
    let failure: unknown;
    for (const host of this.#hosts) {
      try {
        const connection = await connectTo(host);
        if (!this.#isPrimary || (await this.#takesWrites((query) => run(connection, query)))) {
          if (this.#unavailable.delete(host)) this.#logger.info({ ...host }, 'database host available again');
          return connection;
        }
        cut(connection);
        failure = Object.assign(new Error('no host of dataStore.jdbcUrl takes writes'), { code: '25006' });
      } catch (error) {
        failure = error;
      }
      const reason = failure instanceof Error ? failure.message : String(failure);
      if (!this.#unavailable.has(host)) this.#logger.warn({ ...host, reason }, 'database host unavailable');
      this.#unavailable.add(host);
    }
    throw failure;
  }

  async #takesWrites(run: (query: QueryObject) => Promise<QueryObject>): Promise<boolean> {
    const response = await within(run({ sql: 'show transaction_read_only' }), this.#timeoutMs, null);
    const rows = (response?.response as { readonly rows?: readonly { transaction_read_only: string }[] } | undefined)
      ?.rows;
    return rows?.[0]?.transaction_read_only === 'off';
  }
}
