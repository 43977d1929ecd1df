import type { Logger } from 'pino';
import { within } from '../model/timeLimit.ts';
import type { QueryObject, RawConnection } from './knexClients.ts';

export interface DatabaseHost {
  readonly host: string;
  readonly port: number;
}

/** Connects to the first host that can be used. @throws the driver's error for the last host if none can be used */
export type ConnectToFirst = (
  connectTo: (host: DatabaseHost) => Promise<RawConnection>,
  run: (connection: RawConnection, query: QueryObject) => Promise<QueryObject>,
  cut: (connection: RawConnection) => void,
) => Promise<RawConnection>;

/**
 * Tries the hosts of a database server in their order, for each connection.
 * @param isPrimary true if only a server that takes writes is used
 */
export function firstOf(
  hosts: readonly DatabaseHost[],
  isPrimary: boolean,
  timeoutMs: number,
  logger: Logger,
): ConnectToFirst {
  const unavailable = new Set<DatabaseHost>();
  const takesWrites = async (run: (query: QueryObject) => Promise<QueryObject>): Promise<boolean> => {
    const result = await within(run({ sql: 'show transaction_read_only' }), timeoutMs, null);
    const response = result?.response as { readonly rows?: readonly { transaction_read_only: string }[] } | undefined;
    return response?.rows?.[0]?.transaction_read_only === 'off';
  };
  return async (connectTo, run, cut) => {
    let failure: unknown;
    for (const host of hosts) {
      try {
        const connection = await connectTo(host);
        if (!isPrimary || (await takesWrites((query) => run(connection, query)))) {
          if (unavailable.delete(host)) logger.info({ ...host }, 'database host available again');
          return connection;
        }
        cut(connection);
        failure = Object.assign(new Error('no host of dataStore.jdbcUrl takes writes'), { code: '25006' });
      } catch (error) {
        failure = error;
      }
      const reason = failure instanceof Error ? failure.message : String(failure);
      if (!unavailable.has(host)) logger.warn({ ...host, reason }, 'database host unavailable');
      unavailable.add(host);
    }
    throw failure;
  };
}
