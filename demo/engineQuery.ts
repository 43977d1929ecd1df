import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Column, Rows } from './engineDatabase.ts';
import { errorCodes, QueryError } from './queryError.ts';
import type { StatementResult } from './statements.ts';

/** Longest time that one GET of a running query waits for news, in milliseconds (the engine's default). */
const MAX_WAIT_MILLIS = 1000;
/** A query that no client has asked for in this time has ended, in milliseconds (the engine's `query.client.timeout`). */
const CLIENT_TIMEOUT_MILLIS = 300_000;

export interface EngineQueryOptions {
  readonly id: string;
  readonly text: string;
  readonly user: string;
  readonly source: string;
  readonly pageRows: number;
  /** GETs that are answered QUEUED before the statement is run. */
  readonly queuedPolls: number;
  /** Whether the engine has room to run it now; asked at each GET while it is queued. */
  readonly mayStart: () => boolean;
  /** Runs the statement. Throws QueryError. */
  readonly run: () => StatementResult | Promise<StatementResult>;
}

/** One page of a result, before it is put into the protocol's JSON. */
interface Page {
  readonly token: number;
  readonly data?: Rows['rows'];
}

export type QueryState = 'QUEUED' | 'RUNNING' | 'FINISHED' | 'FAILED';

/** A statement in the engine: queued, running, giving pages, then finished, failed or cancelled. */
export class EngineQuery {
  readonly id: string;
  readonly text: string;
  readonly user: string;
  readonly source: string;
  readonly slug = `x${randomBytes(16).toString('hex')}`;
  readonly created = Date.now();
  readonly #options: EngineQueryOptions;
  #state: QueryState = 'QUEUED';
  #error: QueryError | undefined;
  #result: StatementResult | undefined;
  /** The next page, once it is asked for; resolved in `#rows`. */
  #reading: Promise<void> | undefined;
  #rows: Rows | undefined;
  #page: Page = { token: -1 };
  #ended: number | undefined;
  #lastRequest = Date.now();
  #processed = 0;
  readonly #end = new AbortController();

  constructor(options: EngineQueryOptions) {
    this.#options = options;
    this.id = options.id;
    this.text = options.text;
    this.user = options.user;
    this.source = options.source;
  }

  get state(): QueryState {
    return this.#state;
  }

  get headers(): Readonly<Record<string, string>> {
    return this.#result?.headers ?? {};
  }

  /** Whether a client has asked for it since it was submitted; before, the engine does not list it. */
  get dispatched(): boolean {
    return this.#state !== 'QUEUED';
  }

  /** Ends the query with an error, unless it has ended. */
  fail(error: QueryError): void {
    if (this.#ended !== undefined) return;
    this.#error = error;
    this.#finish('FAILED');
  }

  cancel(): void {
    this.fail(new QueryError('USER_CANCELED', 'Query was canceled'));
  }

  /** Ends the query if its client has stopped to ask for it. */
  endIfAbandoned(): void {
    if (Date.now() - this.#lastRequest < CLIENT_TIMEOUT_MILLIS) return;
    this.fail(
      new QueryError(
        'ABANDONED_QUERY',
        'Query was abandoned by the client, as it may have exited or stopped checking for query results',
      ),
    );
  }

  #finish(state: QueryState): void {
    this.#state = state;
    this.#ended = Date.now();
    this.#end.abort();
    this.#result?.close?.();
  }

  /**
   * QueryResults of the submission itself (token 0) and of each GET of a queued URI.
   * @param base scheme and authority of the URIs, as the client sees them
   */
  queued(base: string, token: number): object {
    this.#lastRequest = Date.now();
    if (this.isDue(token) && this.#options.mayStart()) this.#start();
    if (this.#state === 'FAILED') return this.#results(base, undefined);
    const next =
      this.#state === 'QUEUED'
        ? `/v1/statement/queued/${this.id}/${this.slug}/${token + 1}`
        : `/v1/statement/executing/${this.id}/${this.slug}/0`;
    return this.#results(base, next);
  }

  /** Whether it would run at this GET of a queued URI, if there were room. */
  isDue(token: number): boolean {
    return token > this.#options.queuedPolls && this.#state === 'QUEUED';
  }

  #start(): void {
    this.#state = 'RUNNING';
    this.#reading = this.#read(async () => {
      const result = await this.#options.run();
      if (this.#ended !== undefined) result.close?.();
      else this.#result = result;
      await sleep(result.runMillis ?? 0, undefined, { signal: this.#end.signal });
    });
  }

  /** Reads the next page. */
  async #read(before: () => Promise<void> = async () => {}): Promise<void> {
    try {
      await before();
      this.#rows = (await this.#result?.read?.(this.#options.pageRows)) ?? { rows: [], isLast: true };
    } catch (error) {
      if (this.#ended !== undefined) return;
      const isKnown = error instanceof QueryError;
      this.fail(isKnown ? error : new QueryError('NOT_SUPPORTED', `The demo's simulated engine failed: ${error}`));
    }
  }

  /**
   * QueryResults of a GET of an executing URI. The same token gives the same page again; undefined for a token that
   * is over or not yet due.
   */
  async executing(base: string, token: number): Promise<object | undefined> {
    this.#lastRequest = Date.now();
    await this.#settle();
    if (this.#state !== 'FAILED') {
      if (token !== this.#page.token && token !== this.#page.token + 1) return undefined;
      if (token !== this.#page.token) this.#advance(token);
    }
    const done = this.#state !== 'RUNNING';
    const next = done ? undefined : `/v1/statement/executing/${this.id}/${this.slug}/${token + 1}`;
    return this.#results(base, next);
  }

  /** Waits until there are rows, the query has ended, or the longest wait of a GET is over. */
  async #settle(): Promise<void> {
    if (this.#ended !== undefined || this.#rows !== undefined) return;
    const signal = AbortSignal.any([this.#end.signal, AbortSignal.timeout(MAX_WAIT_MILLIS)]);
    const waited = new Promise((resolve) => signal.addEventListener('abort', resolve));
    await Promise.race([this.#reading, waited]);
  }

  #advance(token: number): void {
    const page = this.#ended === undefined ? this.#rows : undefined;
    if (page === undefined) {
      this.#page = { token };
      return;
    }
    this.#rows = undefined;
    this.#processed += page.rows.length;
    const isEmpty = page.rows.length === 0 || this.#result?.columns === undefined;
    this.#page = isEmpty ? { token } : { token, data: page.rows };
    if (page.isLast) this.#finish('FINISHED');
    else this.#reading = this.#read();
  }

  #results(base: string, next: string | undefined): object {
    const result = this.#result;
    const started = this.#state !== 'QUEUED' && this.#error === undefined;
    return {
      id: this.id,
      infoUri: `${base}/ui/query.html?${this.id}`,
      ...(next === undefined ? {} : { nextUri: `${base}${next}` }),
      ...(started && result?.columns !== undefined && this.#page.token >= 0
        ? { columns: result.columns.map(protocolColumn), ...(this.#page.data ? { data: this.#page.data } : {}) }
        : {}),
      stats: this.stats(),
      ...(this.#error === undefined ? {} : { error: protocolError(this.#error) }),
      warnings: [],
      ...(started && result?.updateType !== undefined ? { updateType: result.updateType } : {}),
      ...(started && result?.updateCount !== undefined ? { updateCount: result.updateCount } : {}),
    };
  }

  /** `stats` of the protocol's answers. */
  stats(): Readonly<Record<string, string | number | boolean>> {
    const elapsed = (this.#ended ?? Date.now()) - this.created;
    const queued = this.#state === 'QUEUED';
    return {
      state: this.#state,
      queued,
      scheduled: !queued,
      progressPercentage: this.#state === 'FINISHED' ? 100 : 0,
      runningPercentage: 0,
      nodes: queued ? 0 : 1,
      totalSplits: queued ? 0 : 1,
      queuedSplits: 0,
      runningSplits: this.#state === 'RUNNING' ? 1 : 0,
      completedSplits: this.#state === 'FINISHED' ? 1 : 0,
      cpuTimeMillis: queued ? 0 : 1,
      wallTimeMillis: elapsed,
      queuedTimeMillis: queued ? elapsed : 0,
      elapsedTimeMillis: elapsed,
      processedRows: this.#processed,
      processedBytes: this.#processed * 8,
      physicalInputBytes: 0,
      peakMemoryBytes: 0,
      spilledBytes: 0,
    };
  }

  /** The answer of `GET /v1/query/{id}`: the fields that clients and people look at. */
  info(self: string): object {
    return {
      queryId: this.id,
      session: { user: this.user, source: this.source },
      state: this.#state,
      self,
      query: this.text,
      queryStats: {
        createTime: new Date(this.created).toISOString(),
        elapsedTime: `${((this.#ended ?? Date.now()) - this.created).toFixed(2)}ms`,
      },
      ...(this.#error === undefined
        ? {}
        : { errorType: errorCodes[this.#error.errorName].type, errorCode: protocolErrorCode(this.#error) }),
    };
  }
}

function protocolColumn(column: Column): object {
  const [, rawType = column.type, args] = /^([^(]+)\(([^)]*)\)(?!\s*with)/.exec(column.type) ?? [];
  const numbers = args === undefined ? [] : args.split(',').map(Number);
  if (rawType === 'varchar' && numbers.length === 0) numbers.push(2_147_483_647);
  return {
    name: column.name,
    type: column.type,
    typeSignature: { rawType, arguments: numbers.map((value) => ({ kind: 'LONG', value })) },
  };
}

function protocolErrorCode(error: QueryError): object {
  const { code, type } = errorCodes[error.errorName];
  return { code, name: error.errorName, type };
}

/** `error` of the protocol's answers. */
function protocolError(error: QueryError): object {
  const { code, type } = errorCodes[error.errorName];
  return {
    message: error.message,
    errorCode: code,
    errorName: error.errorName,
    errorType: type,
    ...(error.location === undefined ? {} : { errorLocation: error.location }),
    failureInfo: { type: 'simulated.QueryError', message: error.message, suppressed: [], stack: [] },
  };
}
