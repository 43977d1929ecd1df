import { setTimeout as sleep } from 'node:timers/promises';
import { type Dispatcher, request } from 'undici';
import type { ProductNames } from '../model/names.ts';
import { userAgent } from '../model/version.ts';
import type { PageThread } from './pageThread.ts';
import type { StatementError } from './pageWorker.ts';
import type { ResultColumn, ResultDigest } from './resultFold.ts';

/** Source and client tag of replayed statements: they are in no digest, no statistics and no limit of a user. */
export const REPLAY_SOURCE = 'engine-gateway-replay';
export const REPLAY_TAG = 'replay';

/** A cluster that statements are sent to. */
export interface RunCluster {
  readonly name: string;
  /** URL without a trailing slash. */
  readonly proxyTo: string;
}

/** The account of replayed statements. */
export interface RunAccount {
  readonly username: string;
  readonly password: string;
  /** True: statements run as their user, under this account. */
  readonly impersonates: boolean;
}

/** A statement with the session that it was recorded with. */
export interface RunStatement {
  readonly text: string;
  readonly user: string | null;
  /** Protocol headers by suffix, such as `Catalog`. */
  readonly headers: Readonly<Record<string, string>>;
  /** The prepared statement that an EXECUTE names; null for none. */
  readonly prepared: { readonly name: string; readonly text: string } | null;
}

/** Bounds of a statement at one cluster. */
export interface RunLimits {
  /** Milliseconds, with the wait in the engine's queue. */
  readonly time: number;
  /** CPU milliseconds. */
  readonly cpu: number;
}

/** End of a statement at a cluster. */
export type StatementRun = {
  readonly queryId: string | null;
  readonly cpuMillis: number | null;
} & (
  | { readonly kind: 'done'; readonly digest: ResultDigest }
  | { readonly kind: 'failed'; readonly error: StatementError }
  | { readonly kind: 'tooLarge'; readonly columns: readonly ResultColumn[] }
  /** The cluster, or the way to it, is at fault. */
  | { readonly kind: 'lost'; readonly reason: string }
);

/** Largest result that is compared row by row. */
export const MAX_ROWS = 100_000;
export const MAX_BYTES = 16 * 1024 * 1024;
const FIRST_PAUSE_MS = 20;
const MAX_PAUSE_MS = 500;
/** Milliseconds for a cancellation and the end of the transaction. */
const END_MS = 10_000;
const emptyDigest: ResultDigest = { columns: [], rows: 0, sums: [], numbers: [], rowSum: '', sequence: '' };

/** Returns the end of a statement of which nothing is known. */
export const lost = (reason: string): StatementRun => ({ kind: 'lost', reason, queryId: null, cpuMillis: null });

/**
 * Runs recorded statements at clusters, each in a read-only transaction that is rolled back: the engine rejects writes
 * (READ_ONLY_VIOLATION), whatever the parser made of them.
 */
export class StatementRuns {
  readonly #names: ProductNames;
  readonly #account: RunAccount;
  readonly #dispatcher: Dispatcher;
  readonly #pages: PageThread;

  /** @param dispatcher connections of replays, with the certificates and allowed addresses of clusters; bounds responses */
  constructor(names: ProductNames, account: RunAccount, dispatcher: Dispatcher, pages: PageThread) {
    this.#names = names;
    this.#account = account;
    this.#dispatcher = dispatcher;
    this.#pages = pages;
  }

  /** Runs a statement, and ends what it leaves behind at the cluster. @throws the reason of the signal */
  async run(
    cluster: RunCluster,
    statement: RunStatement,
    limits: RunLimits,
    signal: AbortSignal,
  ): Promise<StatementRun> {
    signal.throwIfAborted();
    const late = AbortSignal.timeout(limits.time);
    const either = AbortSignal.any([signal, late]);
    const headers = this.#headers(cluster, statement, limits);
    const session = new ClusterSession(this.#names, headers, cluster, this.#dispatcher);
    try {
      await session.begin(either);
      return await this.#follow(session, statement.text, either);
    } catch (error) {
      signal.throwIfAborted();
      if (late.aborted) return lost(`it did not end within ${Math.round(limits.time / 1000)} s`);
      return lost(error instanceof Error ? error.message : String(error));
    } finally {
      await session.end();
    }
  }

  async #follow(session: ClusterSession, text: string, signal: AbortSignal): Promise<StatementRun> {
    const read = this.#pages.begin();
    let columns: readonly ResultColumn[] = [];
    let size = 0;
    let pause = FIRST_PAUSE_MS;
    for (let { body } = await session.post(text, signal); ; { body } = await session.get(signal)) {
      size += body.length;
      const page = await read(body);
      if ('mistake' in page) throw new Error(`the response is no page of a result: ${page.mistake}`);
      const { queryId, cpuMillis, error, nextUri, rows } = page;
      session.next = nextUri;
      columns = page.columns ?? columns;
      if (error !== null) return { kind: 'failed', error, queryId, cpuMillis };
      if (rows > MAX_ROWS || size > MAX_BYTES) return { kind: 'tooLarge', columns, queryId, cpuMillis };
      if (nextUri === null) return { kind: 'done', digest: page.digest ?? emptyDigest, queryId, cpuMillis };
      pause = rows > 0 ? 0 : Math.min(pause * 2, MAX_PAUSE_MS);
      if (pause > 0) await sleep(pause, undefined, { signal });
    }
  }

  #headers({ proxyTo }: RunCluster, { user, headers, prepared }: RunStatement, { time, cpu }: RunLimits) {
    const { username, password, impersonates } = this.#account;
    const suffixes: Record<string, string> = {
      ...headers,
      User: impersonates && user !== null ? user : username,
      Source: REPLAY_SOURCE,
      'Client-Tags': REPLAY_TAG,
      Session: sessionWith(headers.Session ?? '', {
        query_max_run_time: `${Math.ceil(time / 1000)}s`,
        query_max_cpu_time: `${Math.ceil(cpu / 1000)}s`,
      }),
      ...(prepared !== null && {
        'Prepared-Statement': `${encodeURIComponent(prepared.name)}=${encodeURIComponent(prepared.text)}`,
      }),
    };
    const all: Record<string, string> = { 'user-agent': userAgent, accept: 'application/json' };
    for (const [suffix, value] of Object.entries(suffixes))
      Object.assign(all, this.#names.clusterHeaders(suffix, value));
    // A password never travels in clear text.
    if (password !== '' && proxyTo.startsWith('https:')) {
      all.authorization = `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`;
    }
    return all;
  }
}

interface ClusterResponse {
  readonly headers: Dispatcher.ResponseData['headers'];
  readonly body: Uint8Array;
}

/** Requests of one statement, in its transaction. Methods reject if the cluster does not respond as it must. */
class ClusterSession {
  readonly #names: ProductNames;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #cluster: RunCluster;
  readonly #dispatcher: Dispatcher;
  #transaction: Readonly<Record<string, string>>;
  #hasTransaction = false;
  /** URL of the next page; null: the query has ended. */
  next: string | null = null;

  constructor(
    names: ProductNames,
    headers: Readonly<Record<string, string>>,
    cluster: RunCluster,
    dispatcher: Dispatcher,
  ) {
    this.#names = names;
    this.#headers = headers;
    this.#cluster = cluster;
    this.#dispatcher = dispatcher;
    this.#transaction = names.clusterHeaders('Transaction-Id', 'NONE');
  }

  /** Starts the read-only transaction. */
  async begin(signal: AbortSignal): Promise<void> {
    const keys = this.#names.responseKeys('Started-Transaction-Id');
    await this.#drain('START TRANSACTION READ ONLY', signal, (headers) => {
      const id = keys.map((key) => headers[key]).find((value) => typeof value === 'string');
      if (typeof id !== 'string') return;
      this.#transaction = this.#names.clusterHeaders('Transaction-Id', id);
      this.#hasTransaction = true;
    });
    if (!this.#hasTransaction) throw new Error(`${this.#cluster.name} started no transaction`);
  }

  async post(text: string, signal: AbortSignal): Promise<ClusterResponse> {
    return await this.#send('POST', '/v1/statement', signal, text);
  }

  /** Reads the next page. */
  async get(signal: AbortSignal): Promise<ClusterResponse> {
    return await this.#send('GET', this.#nextPath(), signal);
  }

  /** Cancels the query if it runs, and rolls the transaction back. Never rejects. */
  async end(): Promise<void> {
    const signal = AbortSignal.timeout(END_MS);
    try {
      if (this.next !== null) await this.#send('DELETE', this.#nextPath(), signal);
      if (this.#hasTransaction) await this.#drain('ROLLBACK', signal, () => undefined);
    } catch {
      // The engine ends idle transactions itself (transaction.idle-timeout).
    }
  }

  /** Runs a statement that begins or ends a transaction. */
  async #drain(text: string, signal: AbortSignal, onHeaders: (headers: ClusterResponse['headers']) => void) {
    for (let response = await this.post(text, signal); ; response = await this.get(signal)) {
      onHeaders(response.headers);
      const page: { nextUri?: unknown; error?: { message?: unknown } } = JSON.parse(
        Buffer.from(response.body).toString(),
      );
      if (page.error !== undefined) throw new Error(`${text} failed: ${String(page.error.message).slice(0, 300)}`);
      this.next = typeof page.nextUri === 'string' ? page.nextUri : null;
      if (this.next === null) return;
    }
  }

  async #send(method: 'GET' | 'POST' | 'DELETE', path: string, signal: AbortSignal, body: string | null = null) {
    const { name, proxyTo } = this.#cluster;
    const headers = { ...this.#headers, ...this.#transaction };
    for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(pause * 2, MAX_PAUSE_MS)) {
      const response = await request(`${proxyTo}${path}`, {
        ...{ method, signal, dispatcher: this.#dispatcher, headers, body },
      });
      const { statusCode } = response;
      const bytes = await response.body.bytes();
      if (statusCode === 200 || statusCode === 204) return { headers: response.headers, body: bytes };
      // The statement protocol asks clients to repeat these.
      if (![429, 502, 503, 504].includes(statusCode)) throw new Error(`${name} responded with status ${statusCode}`);
      await sleep(pause, undefined, { signal });
    }
  }

  /** Path of the next page at the cluster, whatever host its URL names. */
  #nextPath(): string {
    const { pathname, search } = new URL(this.next ?? '', this.#cluster.proxyTo);
    const base = new URL(this.#cluster.proxyTo).pathname.replace(/\/+$/, '');
    return `${base !== '' && pathname.startsWith(`${base}/`) ? pathname.slice(base.length) : pathname}${search}`;
  }
}

/** A header `Session` with other values of some properties. */
function sessionWith(header: string, properties: Readonly<Record<string, string>>): string {
  const pairs = header.split(',').map((pair) => pair.trim());
  const others = pairs.filter((pair) => pair !== '' && !(pair.slice(0, pair.indexOf('=')).trim() in properties));
  return [...others, ...Object.entries(properties).map(([name, value]) => `${name}=${value}`)].join(',');
}
