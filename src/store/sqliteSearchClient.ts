import { Worker } from 'node:worker_threads';
import { databaseFailure } from './failures.ts';
import { type QueryObject, type RawConnection, SqliteClient, sqliteValue } from './knexClients.ts';
import type { SearchReply, SearchRequest } from './sqliteSearchWorker.ts';

/** Time for the thread to start, and for it to notice that its time is up, milliseconds. */
const START_MS = 10_000;
const MARGIN_MS = 2_000;
/** Memory of the thread beside SQLite's own, megabytes: rows of one answer. */
const MAX_HEAP_MB = 64;

/** The worker's file: of the sources, or of the program that is built from them. */
const workerFile = `./sqliteSearchWorker.${import.meta.url.endsWith('.ts') ? 'ts' : 'js'}`;

/** A thread that reads the file, as a connection of knex's pool. */
class SearchThread {
  readonly #worker: Worker;
  /** Why it has ended; null while it runs. */
  #ended: Error | null = null;
  #settle: ((reply: SearchReply | Error) => void) | null = null;

  constructor(filename: string) {
    this.#worker = new Worker(new URL(workerFile, import.meta.url), {
      workerData: { filename },
      execArgv: [],
      resourceLimits: { maxOldGenerationSizeMb: MAX_HEAP_MB },
    });
    // The thread alone never keeps the process running.
    this.#worker.unref();
    this.#worker.on('message', (reply: SearchReply) => this.#receive(reply));
    this.#worker.on('error', (error: Error) => this.#end(error));
    this.#worker.on('exit', () => this.#end(new Error('the search thread ended')));
  }

  /** Resolves when the file is open. */
  async start(): Promise<void> {
    await this.#answer(START_MS);
  }

  async run(request: SearchRequest): Promise<readonly unknown[]> {
    this.#worker.postMessage(request);
    const reply = await this.#answer(request.limitMs + MARGIN_MS);
    if ('error' in reply) throw Object.assign(new Error(reply.error.message), reply.error);
    return reply.rows;
  }

  async stop(): Promise<void> {
    await this.#worker.terminate();
  }

  /** The next message. @throws when there is none in time */
  async #answer(limitMs: number): Promise<SearchReply> {
    this.#worker.ref();
    let timer: NodeJS.Timeout | undefined;
    const reply = await new Promise<SearchReply | Error>((resolve) => {
      if (this.#ended !== null) return resolve(this.#ended);
      this.#settle = resolve;
      const late = Object.assign(new Error(`no answer within ${limitMs} ms`), { code: 'EG_QUERY_TIMEOUT' });
      timer = setTimeout(() => resolve(late), limitMs);
    });
    clearTimeout(timer);
    this.#settle = null;
    this.#worker.unref();
    if (reply instanceof Error) throw reply;
    return reply;
  }

  #receive(reply: SearchReply): void {
    this.#settle?.(reply);
  }

  #end(error: Error): void {
    this.#ended ??= Object.assign(error, { code: 'ECONNABORTED' });
    this.#settle?.(this.#ended);
  }
}

/**
 * knex's SQLite client for reading statements that may take long: they run in a thread of their own, each for
 * `queryTimeoutMs` at most. Never for a database in memory, which other threads do not see.
 */
export class SqliteSearchClient extends SqliteClient {
  override async acquireRawConnection(): Promise<RawConnection> {
    const thread = new SearchThread(this.connectionSettings.filename);
    await thread.start();
    return thread as unknown as RawConnection;
  }

  override async destroyRawConnection(connection: RawConnection): Promise<unknown> {
    return await (connection as unknown as SearchThread).stop();
  }

  override async _query(connection: RawConnection, query: QueryObject): Promise<QueryObject> {
    const values = (query.bindings ?? []).map(sqliteValue);
    const limitMs = this.config.queryTimeoutMs ?? 0;
    try {
      query.response = await (connection as unknown as SearchThread).run({ sql: query.sql, values, limitMs });
    } catch (error) {
      const failure = databaseFailure(error);
      // Whether it ended, does not answer or gave the statement up: the next search gets another thread.
      if (failure.kind === 'away') connection.__knex__disposed = failure.message;
      throw failure;
    }
    return query;
  }
}
