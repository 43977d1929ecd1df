/**
 * A small query engine that speaks the statement protocol over real HTTP: for the demonstration and for tests. It
 * behaves as a coordinator does where a gateway can observe the difference: query ids with a suffix of its own, URIs built
 * from forwarded headers, slugs and tokens, long polls, errors as HTTP 200.
 */
import { randomInt } from 'node:crypto';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { DatabaseSync } from 'node:sqlite';
import { buffer } from 'node:stream/consumers';
import { productNames } from '../src/model/names.ts';
import { type PreparedTexts, preparedStatements } from '../src/sql/preparedStatements.ts';
import { engineTime, openDatabase } from './engineDatabase.ts';
import { EngineQuery } from './engineQuery.ts';
import { baseUrl, type EngineResponse, reply, send } from './engineResponse.ts';
import { type EngineCounts, Logins, managementBean, metricsText, uiStatistics } from './engineStatistics.ts';
import { QueryError } from './queryError.ts';
import { EngineTransactions, runStatement } from './statements.ts';

export interface SimulatedEngineOptions {
  /** Name of the cluster, e.g. `adhoc-1`: node id and environment. */
  readonly name: string;
  /** As `protocol.productName`; `Engine` by default. */
  readonly productName?: string;
  /** 0, the default, takes a free port. */
  readonly port?: number;
  /** 127.0.0.1 by default. */
  readonly host?: string;
  /** Five characters that end all query ids; random by default. */
  readonly suffix?: string;
  /** Rows of a page; 1000 by default. */
  readonly pageRows?: number;
  /** GETs answered QUEUED before a statement runs; 1 by default. */
  readonly queuedPolls?: number;
  /** False refuses requests with X-Forwarded headers with 406, as engines do by default; true by default here. */
  readonly processForwarded?: boolean;
  /** Users and passwords; left out, every user is taken without one. */
  readonly passwords?: Readonly<Record<string, string>>;
  /** Keeps the requests it got for `requests`; false by default. */
  readonly record?: boolean;
  readonly state?: Partial<EngineState>;
}

/** How the engine behaves; changed at run time by `setState`. */
export interface EngineState {
  /** `/v1/info` says starting; statements fail with SERVER_STARTING_UP. */
  readonly starting: boolean;
  /** HTTP status of every answer instead of the real one; 0 for none. */
  readonly failing: number;
  /** Requests are read and never answered. */
  readonly hanging: boolean;
  /** Connections are reset when a request has come. */
  readonly resetting: boolean;
  /** As `failing`, for statements only: all else is answered. */
  readonly failingStatements: number;
  /** Queries that run at once; further ones are queued. */
  readonly maxRunning: number;
  /** Active workers, as its statistics report. */
  readonly workers: number;
  /** Milliseconds before every answer. */
  readonly delayMillis: number;
}

/** A request that the engine got. */
export interface RecordedRequest {
  readonly method: string;
  readonly url: string;
  /** Names and values in turns, as sent. */
  readonly rawHeaders: readonly string[];
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly body: string;
}

export interface SimulatedEngine {
  readonly name: string;
  /** e.g. `http://127.0.0.1:43211`, without a slash at the end. */
  readonly url: string;
  readonly port: number;
  /** Last five characters of its query ids now. */
  readonly suffix: string;
  readonly state: EngineState;
  /** The last 1000 requests, oldest first; empty unless `record` is set. */
  readonly requests: readonly RecordedRequest[];
  /** Ids and states of the queries it knows, oldest first. */
  readonly queries: readonly {
    readonly id: string;
    readonly state: string;
    readonly user: string;
    readonly text: string;
  }[];
  setState(change: Partial<EngineState>): void;
  /** As a coordinator that was started again on its port: all connections cut, queries forgotten, a new suffix. */
  restart(suffix?: string): Promise<void>;
  /** Cuts all connections and frees the port. */
  close(): Promise<void>;
}

const SUFFIX_LETTERS = 'abcdefghijkmnpqrstuvwxyz23456789';
const MAX_QUERIES = 2000;
const MAX_RECORDED = 1000;
const MAX_PREPARED_BYTES = 1_000_000;
const VERSION = '476-simulated';

const initialState: EngineState = {
  starting: false,
  failing: 0,
  hanging: false,
  resetting: false,
  failingStatements: 0,
  maxRunning: Number.POSITIVE_INFINITY,
  workers: 1,
  delayMillis: 0,
};
/** How long the engine holds back its answer to a GET of a query that has to wait. */
const QUEUED_WAIT_MILLIS = 100;

function randomSuffix(): string {
  return Array.from({ length: 5 }, () => SUFFIX_LETTERS.charAt(randomInt(SUFFIX_LETTERS.length))).join('');
}

/** Starts an engine; rejects when the port is taken (EADDRINUSE). */
export async function startSimulatedEngine(options: SimulatedEngineOptions): Promise<SimulatedEngine> {
  const engine = new Engine(options);
  await engine.listen();
  return engine;
}

class Engine implements SimulatedEngine {
  readonly name: string;
  readonly #options: SimulatedEngineOptions;
  readonly #product: ReturnType<typeof productNames>;
  readonly #server: Server;
  readonly #logins: Logins;
  readonly #sockets = new Set<Socket>();
  readonly #queries = new Map<string, EngineQuery>();
  readonly #requests: RecordedRequest[] = [];
  /** Opened by the first statement. */
  #database: DatabaseSync | undefined;
  #transactions = new EngineTransactions();
  #state: EngineState;
  #suffix: string;
  #started = Date.now();
  #count = 0;

  constructor(options: SimulatedEngineOptions) {
    this.name = options.name;
    this.#options = options;
    this.#product = productNames(options.productName ?? 'Engine');
    this.#logins = new Logins(options.passwords);
    this.#state = { ...initialState, ...options.state };
    this.#suffix = options.suffix ?? randomSuffix();
    this.#server = createServer((request, response) => {
      this.#handle(request)
        .catch((error: unknown) => reply(500, String(error)))
        .then((result) => {
          if (result !== undefined) send(request, response, result);
        })
        .catch(() => response.destroy());
    });
    this.#server.on('connection', (socket) => {
      this.#sockets.add(socket);
      socket.on('close', () => this.#sockets.delete(socket));
    });
  }

  async listen(): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen(this.#options.port ?? 0, this.#options.host ?? '127.0.0.1', () => resolve());
    });
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get url(): string {
    return `http://${this.#options.host ?? '127.0.0.1'}:${this.port}`;
  }

  get suffix(): string {
    return this.#suffix;
  }

  get state(): EngineState {
    return this.#state;
  }

  get requests(): readonly RecordedRequest[] {
    return this.#requests;
  }

  get queries() {
    return [...this.#queries.values()].map(({ id, state, user, text }) => ({ id, state, user, text }));
  }

  setState(change: Partial<EngineState>): void {
    this.#state = { ...this.#state, ...change };
  }

  async restart(suffix: string = randomSuffix()): Promise<void> {
    await this.#cut();
    this.#queries.clear();
    this.#suffix = suffix;
    this.#count = 0;
    this.#started = Date.now();
    this.#database = undefined;
    this.#transactions = new EngineTransactions();
  }

  async close(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    await Promise.all([closed, this.#cut()]);
  }

  /** Ends all queries and connections; done when the connections are closed. */
  async #cut(): Promise<void> {
    for (const query of this.#queries.values()) query.cancel();
    const closed = [...this.#sockets].map((socket) => new Promise((resolve) => socket.once('close', resolve)));
    for (const socket of this.#sockets) socket.destroy();
    await Promise.all(closed);
  }

  /** The database, with the nodes and queries of now if a statement reads them. */
  #openDatabase(text: string): DatabaseSync {
    this.#database ??= openDatabase(VERSION);
    const database = this.#database;
    if (!/\b(?:nodes|queries)\b/i.test(text)) return database;
    database.exec('DELETE FROM "system.runtime.nodes"; DELETE FROM "system.runtime.queries"');
    database
      .prepare('INSERT INTO "system.runtime.nodes" VALUES (?, ?, ?, true, ?)')
      .run(this.name, this.url, VERSION, 'active');
    const insert = database.prepare('INSERT INTO "system.runtime.queries" VALUES (?, ?, ?, ?, ?, ?)');
    for (const { id, state, user, source, text: query, created } of this.#queries.values()) {
      insert.run(id, state, user, source, query, engineTime(created));
    }
    return database;
  }

  /** The answer to a request; undefined for none. */
  async #handle(request: IncomingMessage): Promise<EngineResponse | undefined> {
    const body = (await buffer(request)).toString('utf8');
    const { method = 'GET', url = '/' } = request;
    if (this.#options.record === true) {
      this.#requests.push({ method, url, rawHeaders: request.rawHeaders, headers: request.headers, body });
      if (this.#requests.length > MAX_RECORDED) this.#requests.shift();
    }
    const { failing, hanging, resetting, delayMillis } = this.#state;
    if (hanging) return undefined;
    if (resetting) {
      request.socket.resetAndDestroy();
      return undefined;
    }
    if (delayMillis > 0) await new Promise((resolve) => setTimeout(resolve, delayMillis));
    if (failing !== 0) return reply(failing, `${this.name} is set to fail`);
    const forwarded = Object.keys(request.headers).find((name) => /^(x-forwarded-|forwarded$)/.test(name));
    if (forwarded !== undefined && this.#options.processForwarded === false) {
      const text = `Server configuration does not allow processing of the ${forwarded} header`;
      return reply(406, text);
    }
    const path = url
      .replace(/\?.*$/, '')
      .replace(/;[^/]*/g, '')
      .replace(/(?<=.)\/$/, '');
    const [, ...segments] = path.split('/');
    if (path.startsWith('/v1/statement') && this.#state.failingStatements !== 0) {
      return reply(this.#state.failingStatements, `${this.name} is set to fail statements`);
    }
    if (path === '/v1/statement' && method === 'POST') return this.#submit(request, body);
    if (path.startsWith('/v1/statement/')) return this.#followUp(request, segments.slice(2));
    if (path.startsWith('/v1/query')) return this.#query(request, segments[2]);
    if (path === '/ui/login' && method === 'POST') return this.#login(request, body);
    if (method !== 'GET' && method !== 'HEAD') return reply(405, '');
    if (path === '/v1/info') return reply(200, this.#info());
    if (path === '/v1/info/state') return reply(200, this.#state.starting ? 'STARTING' : 'ACTIVE');
    if (path === '/v1/info/coordinator') return reply(200, '');
    if (path === '/v1/status') return reply(200, { nodeId: this.name, environment: this.name });
    if (path === '/v1/node') return reply(200, []);
    if (path === '/metrics' || path.startsWith('/v1/jmx/mbean/')) return this.#management(request, path, url);
    if (path === '/ui/api/stats' || path === '/ui/api/query') return this.#uiApi(request, path, url);
    if (path === '/ui' || path.startsWith('/ui/')) return reply(200, this.#page(), { type: 'text/html' });
    return reply(404, 'Not found');
  }

  #info(): object {
    return {
      nodeVersion: { version: VERSION },
      environment: this.name,
      coordinator: true,
      starting: this.#state.starting,
      uptime: `${((Date.now() - this.#started) / 1000).toFixed(2)}s`,
      coordinatorId: this.#suffix,
    };
  }

  #counts(): EngineCounts {
    for (const query of this.#queries.values()) query.endIfAbandoned();
    const count = (state: string) => this.queries.filter((query) => query.state === state).length;
    return { queued: count('QUEUED'), running: count('RUNNING'), workers: this.#state.workers };
  }

  /** `/metrics` and `/v1/jmx/mbean/{name}`: for users. */
  #management(request: IncomingMessage, path: string, url: string): EngineResponse {
    if (!this.#isUser(request)) return this.#unauthorized();
    const product = this.#product.pathSegment;
    if (path === '/metrics') {
      const metricNames = new URL(url, this.url).searchParams.getAll('name[]');
      const type = 'application/openmetrics-text; version=1.0.0';
      return reply(200, metricsText(product, this.#counts(), metricNames), { type });
    }
    const name = decodeURIComponent(path.slice('/v1/jmx/mbean/'.length));
    const bean = managementBean(product, this.#counts(), name);
    return bean === undefined ? reply(500, `javax.management.InstanceNotFoundException: ${name}`) : reply(200, bean);
  }

  /** The form of the web interface: a session, or back to the form. */
  #login(request: IncomingMessage, body: string): EngineResponse {
    const form = new URLSearchParams(body);
    const accepted = this.#logins.accepts(form.get('username') ?? '', form.get('password') ?? '');
    const cookie = `${this.#product.uiTokenCookies[0]}=${this.#logins.open()};Version=1;Path=/ui;HttpOnly`;
    return reply(303, '', {
      headers: {
        Location: `${baseUrl(request)}${accepted ? '/ui/' : '/ui/login.html'}`,
        ...(accepted ? { 'Set-Cookie': cookie } : {}),
      },
    });
  }

  #uiApi(request: IncomingMessage, path: string, url: string): EngineResponse {
    if (!this.#logins.isOpen(this.#product.uiTokenCookies[0], request.headers.cookie)) {
      const headers = { 'WWW-Authenticate': `${this.#product.product}-Form-Login` };
      return reply(401, 'Unauthorized', { headers });
    }
    if (path === '/ui/api/stats') return reply(200, uiStatistics(this.#counts()));
    const state = new URL(url, this.url).searchParams.get('state');
    const listed = this.queries.filter((query) => state === null || query.state === state);
    return reply(
      200,
      listed.map(({ id, state, user, text }) => ({ queryId: id, sessionUser: user, state, queryTextPreview: text })),
    );
  }

  #page(): string {
    const rows = [...this.#queries.values()]
      .map((query) => `<tr><td>${query.id}<td>${query.state}<td>${escapeHtml(query.user)}<td>${escapeHtml(query.text)}`)
      .join('\n');
    return `<!doctype html><title>${escapeHtml(this.name)}</title><h1>${escapeHtml(this.name)}</h1>
<p>Simulated engine, coordinator ${this.#suffix}</p><table><tr><th>Query<th>State<th>User<th>Text
${rows}</table>
`;
  }

  /** The user of a request: the product's user header, else Basic authentication. */
  #user(request: IncomingMessage): string | undefined {
    const header = request.headers[this.#product.headerKey('User')];
    if (typeof header === 'string' && header !== '') return header;
    const basic = /^Basic (.+)$/i.exec(request.headers.authorization ?? '')?.[1];
    return basic === undefined ? undefined : Buffer.from(basic, 'base64').toString('utf8').replace(/:.*$/s, '');
  }

  /** Whether the request names a user, with the right password where the engine has passwords. */
  #isUser(request: IncomingMessage): boolean {
    if (this.#logins.secured) return this.#logins.acceptsBasic(request.headers.authorization);
    return this.#user(request) !== undefined;
  }

  #unauthorized(): EngineResponse {
    const headers = { 'WWW-Authenticate': `Basic realm="${this.#product.product}"` };
    const user = this.#product.header('User');
    const text = this.#logins.secured
      ? 'The request has no valid credentials. Send Basic authentication, such as curl --user NAME:PASSWORD'
      : `The request has no user. Send the header ${user}, such as curl -H '${user}: me', or Basic authentication`;
    return reply(401, text, { headers });
  }

  #mayStart(): boolean {
    return this.#counts().running < this.#state.maxRunning;
  }

  #submit(request: IncomingMessage, text: string): EngineResponse {
    const user = this.#user(request);
    if (user === undefined || !this.#isUser(request)) return this.#unauthorized();
    if (text.trim() === '') return reply(400, 'SQL statement is empty');
    const optional = (suffix: string) => {
      const value = request.headers[this.#product.headerKey(suffix)];
      return typeof value === 'string' ? value : undefined;
    };
    const query = new EngineQuery({
      id: this.#newId(),
      text,
      user,
      source: optional('Source') ?? '',
      pageRows: this.#options.pageRows ?? 1000,
      queuedPolls: this.#options.queuedPolls ?? 1,
      mayStart: () => this.#mayStart(),
      run: () => {
        if (this.#state.starting) {
          throw new QueryError('SERVER_STARTING_UP', `${this.#product.product} server is still initializing`);
        }
        const statement = () =>
          runStatement(text, {
            database: this.#openDatabase(text),
            catalog: optional('Catalog')?.toLowerCase(),
            schema: optional('Schema')?.toLowerCase(),
            user,
            version: VERSION,
            prepared: this.#prepared(request),
            kill: (queryId, message) => this.#kill(queryId, message),
          });
        return this.#transactions.run(text, optional('Transaction-Id'), statement);
      },
    });
    this.#queries.set(query.id, query);
    for (const id of this.#queries.keys()) {
      if (this.#queries.size <= MAX_QUERIES) break;
      this.#queries.delete(id);
    }
    return reply(200, query.queued(baseUrl(request), 0));
  }

  #prepared(request: IncomingMessage): PreparedTexts {
    const lines = request.headersDistinct[this.#product.headerKey('Prepared-Statement')] ?? [];
    return preparedStatements(lines, MAX_PREPARED_BYTES).statements ?? new Map();
  }

  #kill(queryId: string, message: string): boolean {
    const query = this.#queries.get(queryId);
    query?.fail(new QueryError('ADMINISTRATIVELY_KILLED', message));
    return query !== undefined;
  }

  #newId(): string {
    const [date = '', time = ''] = new Date().toISOString().replace(/[-:]/g, '').split('T');
    const number = String(this.#count).padStart(5, '0');
    this.#count += 1;
    return `${date}_${time.slice(0, 6)}_${number}_${this.#suffix}`;
  }

  /** `queued|executing/{id}/{slug}/{token}` and `executing/partialCancel/{id}/{stage}/{slug}/{token}`. */
  async #followUp(request: IncomingMessage, segments: readonly string[]): Promise<EngineResponse> {
    const partial = segments[1] === 'partialCancel';
    const [id = '', slug, tokenText = ''] = partial ? [segments[2], segments[4], segments[5]] : segments.slice(1);
    const query = this.#queries.get(id);
    if (query === undefined || slug !== query.slug || !/^\d+$/.test(tokenText)) {
      return reply(404, 'Query not found');
    }
    if (request.method === 'DELETE') {
      if (!partial) query.cancel();
      return reply(204, '');
    }
    if (segments[0] === 'queued' && query.isDue(Number(tokenText)) && !this.#mayStart()) {
      await new Promise((resolve) => setTimeout(resolve, QUEUED_WAIT_MILLIS));
    }
    const base = baseUrl(request);
    const results =
      segments[0] === 'queued' ? query.queued(base, Number(tokenText)) : await query.executing(base, Number(tokenText));
    if (results === undefined) return reply(410, '');
    const headers = Object.fromEntries(
      Object.entries(query.headers).map(([suffix, value]) => [this.#product.header(suffix), value]),
    );
    return reply(200, results, { headers });
  }

  #query(request: IncomingMessage, id: string | undefined): EngineResponse {
    if (this.#user(request) === undefined) return reply(401, 'Unauthorized');
    const self = (query: EngineQuery) => `${baseUrl(request)}/v1/query/${query.id}`;
    if (id === undefined) {
      return reply(
        200,
        [...this.#queries.values()].map((query) => query.info(self(query))),
      );
    }
    const query = this.#queries.get(id);
    if (query === undefined || !query.dispatched) return reply(410, '');
    if (request.method === 'DELETE') {
      query.cancel();
      return reply(204, '');
    }
    return reply(200, query.info(self(query)));
  }
}

function escapeHtml(text: string): string {
  return text.replace(/[&<>"]/g, (letter) => `&#${letter.charCodeAt(0)};`);
}
