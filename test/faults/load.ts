import { setTimeout as pause } from 'node:timers/promises';
import { Pool } from 'undici';
import type { QueryResults } from '../support/statementClient.ts';

/** A query of the load that has ended. Times are monotonic milliseconds (`performance.now`). */
export interface EndedQuery {
  /** The last one, which is the cluster's also where the query waited in the queue; "" where none was given. */
  readonly id: string;
  readonly startedAt: number;
  readonly endedAt: number;
  /** Requests that were sent again after 502, 503, 504 or a broken connection, as clients of the protocol do. */
  readonly repeated: number;
  /** Why it failed, as its user saw it; null for a right result. */
  readonly failure: string | null;
  /** Whether the failure was reported in the protocol, as `error` of an answer 200. */
  readonly inProtocol: boolean;
}

/** What came of a load. */
export interface LoadResult {
  readonly queries: readonly EndedQuery[];
  readonly failed: readonly EndedQuery[];
  /** Requests that had to be sent again, of all queries. */
  readonly repeated: number;
}

export interface LoadOptions {
  /** Addresses of the replicas; each request goes to the next one, and past those that refuse connections. */
  readonly bases: readonly string[];
  /** Connections, each running one query after the other; 32 by default. */
  readonly connections?: number;
  /** Whether replicas that say that they are not ready get no requests, as behind a load balancer; false by default. */
  readonly balanced?: boolean;
  readonly group?: string;
  /** Share of queries that run for a while; 0.3 by default. */
  readonly slowShare?: number;
  /** Seconds that those run; 0.5 by default. */
  readonly slowSeconds?: number;
  /** Characters of a comment in each statement; none by default. */
  readonly padding?: number;
  /** Pause between two queries of a connection at most, as people and programs think: milliseconds, 1,000 by default. */
  readonly maxPause?: number;
  /** Milliseconds without an answer after which a request counts as broken; 150 s by default. */
  readonly responseTimeout?: number;
}

/** Why queries failed, each reason once. */
export function reasonsOf(queries: readonly EndedQuery[]): readonly string[] {
  return [...new Set(queries.flatMap(({ failure }) => failure ?? []))];
}

/** A running load. */
export interface Load {
  /** Queries that have ended so far. */
  readonly queries: readonly EndedQuery[];
  /** Queries that run, by id, and since when. */
  readonly running: ReadonlyMap<string, number>;
  /** Resolves when so many more queries have ended well; rejects after two minutes. */
  progress(count: number): Promise<void>;
  /** Starts no further queries and waits for the end of the running ones. */
  stop(): Promise<LoadResult>;
}

/** As long as clients of the protocol keep asking again. */
const REPEAT_FOR_MS = 120_000;
const PROGRESS_TIMEOUT_MS = 120_000;
const READINESS_INTERVAL_MS = 250;

interface Statement {
  readonly sql: string;
  readonly rows: number;
}

/** Starts a load of the statement protocol: every result is followed to its end, and its rows are counted. */
export function startLoad(options: LoadOptions): Load {
  const running = new Map<string, number>();
  const queries: EndedQuery[] = [];
  const balancer = new Balancer(options.bases, options.balanced === true);
  const clients = Array.from({ length: options.connections ?? 32 }, () => new Client(options, balancer, running));
  let stopping = false;
  const work = clients.map(async (client) => {
    while (!stopping) {
      await pause(Math.random() * (options.maxPause ?? 1_000));
      if (!stopping) queries.push(await client.query());
    }
    await client.close();
  });
  const good = () => queries.reduce((sum, query) => sum + (query.failure === null ? 1 : 0), 0);
  return {
    queries,
    running,
    async progress(count) {
      const wanted = good() + count;
      const deadline = performance.now() + PROGRESS_TIMEOUT_MS;
      while (good() < wanted) {
        if (performance.now() > deadline) {
          const last = queries.findLast((query) => query.failure !== null)?.failure;
          throw new Error(`${wanted - good()} of ${count} queries are still awaited; the last failure: ${last}`);
        }
        await pause(20);
      }
    },
    async stop() {
      stopping = true;
      await Promise.all(work);
      balancer.stop();
      return {
        queries,
        failed: queries.filter((query) => query.failure !== null),
        repeated: queries.reduce((sum, query) => sum + query.repeated, 0),
      };
    },
  };
}

/** What an answer says that is no result. */
class Refused extends Error {
  override readonly name = 'Refused';
  readonly inProtocol: boolean;
  constructor(message: string, inProtocol: boolean) {
    super(message);
    this.inProtocol = inProtocol;
  }
}

/** Which replicas get requests: all, or those that are ready. */
class Balancer {
  readonly #ready: boolean[];
  readonly #timer: NodeJS.Timeout | undefined;
  #turn = 0;

  constructor(bases: readonly string[], asks: boolean) {
    this.#ready = bases.map(() => true);
    const ask = (base: string, index: number) =>
      fetch(`${base}/readyz`, { signal: AbortSignal.timeout(2_000) }).then(
        ({ status }) => {
          this.#ready[index] = status === 200;
        },
        () => {
          this.#ready[index] = false;
        },
      );
    if (asks) this.#timer = setInterval(() => void Promise.all(bases.map(ask)), READINESS_INTERVAL_MS);
  }

  /** The replica of the next request. */
  next(): number {
    for (let tries = 0; tries < this.#ready.length; tries++) {
      const index = this.#turn++ % this.#ready.length;
      if (this.#ready[index] === true) return index;
    }
    return this.#turn++ % this.#ready.length;
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}

/** One connection to each replica, one query at a time. */
class Client {
  readonly #options: LoadOptions;
  readonly #running: Map<string, number>;
  readonly #pools: readonly Pool[];
  readonly #balancer: Balancer;
  #repeated = 0;

  constructor(options: LoadOptions, balancer: Balancer, running: Map<string, number>) {
    this.#options = options;
    this.#balancer = balancer;
    this.#running = running;
    const timeout = options.responseTimeout ?? 150_000;
    this.#pools = options.bases.map(
      (base) => new Pool(base, { connections: 1, headersTimeout: timeout, bodyTimeout: timeout }),
    );
  }

  async query(): Promise<EndedQuery> {
    const statement = this.#statement();
    const startedAt = performance.now();
    this.#repeated = 0;
    let id = '';
    let failure: string | null = null;
    let inProtocol = false;
    try {
      let page = await this.#ask('POST', '/v1/statement', statement.sql);
      id = page.id;
      this.#running.set(id, startedAt);
      let rows = page.data?.length ?? 0;
      while (page.nextUri !== undefined) {
        const { pathname, search } = new URL(page.nextUri);
        page = await this.#ask('GET', pathname + search, null);
        this.#running.delete(id);
        id = page.id;
        this.#running.set(id, startedAt);
        rows += page.data?.length ?? 0;
      }
      if (rows !== statement.rows) throw new Error(`${rows} rows instead of ${statement.rows}`);
    } catch (error) {
      failure = error instanceof Error ? error.message : String(error);
      inProtocol = error instanceof Refused && error.inProtocol;
    }
    this.#running.delete(id);
    return { id, startedAt, endedAt: performance.now(), repeated: this.#repeated, failure, inProtocol };
  }

  async close(): Promise<void> {
    await Promise.all(this.#pools.map((pool) => pool.destroy()));
  }

  #statement(): Statement {
    const { slowShare = 0.3, slowSeconds = 0.5, padding = 0 } = this.#options;
    const comment = padding === 0 ? '' : ` -- ${'x'.repeat(padding)}`;
    if (Math.random() < slowShare)
      return { sql: `SELECT * FROM TABLE(slow(seconds => ${slowSeconds}))${comment}`, rows: 1 };
    if (Math.random() < 0.2) {
      return { sql: `SELECT * FROM TABLE(sequence(start => 1, stop => 2500))${comment}`, rows: 2500 };
    }
    return { sql: `SELECT * FROM tpch.tiny.nation${comment}`, rows: 25 };
  }

  /** Sends a request until it is answered, as the drivers do: again after 502, 503, 504 and after broken connections. */
  async #ask(method: 'GET' | 'POST', path: string, body: string | null): Promise<QueryResults> {
    const deadline = performance.now() + REPEAT_FOR_MS;
    const headers = {
      'X-Engine-User': 'load',
      ...(this.#options.group === undefined ? {} : { 'X-Engine-Routing-Group': this.#options.group }),
    };
    for (let refusals = 0; ; ) {
      const pool = this.#pools[this.#balancer.next()] as Pool;
      let why: string;
      try {
        const response = await pool.request({ method, path, headers, body });
        const text = await response.body.text();
        if (response.statusCode === 200) return resultsOf(text);
        why = `HTTP ${response.statusCode}: ${text.slice(0, 200)}`;
        if (![502, 503, 504].includes(response.statusCode)) throw new Refused(why, false);
      } catch (error) {
        if (error instanceof Refused) throw error;
        why = String(error);
        // A replica that is not there: its service would have sent the request to another one.
        if ((error as NodeJS.ErrnoException).code === 'ECONNREFUSED' && ++refusals < this.#pools.length) continue;
      }
      if (performance.now() > deadline) throw new Error(why);
      refusals = 0;
      this.#repeated++;
      await pause(100);
    }
  }
}

function resultsOf(text: string): QueryResults {
  const results = JSON.parse(text) as QueryResults;
  if (results.error !== undefined) throw new Refused(results.error.message, true);
  return results;
}
