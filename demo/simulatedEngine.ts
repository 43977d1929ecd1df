/**
 * A small query engine that speaks the statement protocol over real HTTP: for the demonstration and for tests. It
 * behaves as a coordinator does where a gateway can tell the difference: query ids with a suffix of its own, URIs built
 * from forwarded headers, slugs and tokens, long polls, errors as HTTP 200.
 */
import { randomInt } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { gzipSync } from 'node:zlib';
import { productNames } from '../src/model/names.ts';
import { Catalogs, type Table } from './catalogs.ts';
import { EngineQuery } from './engineQuery.ts';
import { runStatement } from './sqlStatements.ts';
import { QueryError } from './sqlSyntax.ts';

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
const VERSION = '476-simulated';

const initialState: EngineState = { starting: false, failing: 0, hanging: false, resetting: false, delayMillis: 0 };

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
  readonly #sockets = new Set<Socket>();
  readonly #queries = new Map<string, EngineQuery>();
  readonly #requests: RecordedRequest[] = [];
  #catalogs: Catalogs;
  #state: EngineState;
  #suffix: string;
  #started = Date.now();
  #count = 0;

  constructor(options: SimulatedEngineOptions) {
    this.name = options.name;
    this.#options = options;
    this.#product = productNames(options.productName ?? 'Engine');
    this.#state = { ...initialState, ...options.state };
    this.#suffix = options.suffix ?? randomSuffix();
    this.#catalogs = this.#newCatalogs();
    this.#server = createServer((request, response) => {
      this.#handle(request)
        .catch((error: unknown) => answer(500, String(error)))
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
    this.#catalogs = this.#newCatalogs();
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

  #newCatalogs(): Catalogs {
    return new Catalogs(() => this.#systemTables());
  }

  #systemTables(): ReadonlyMap<string, Table> {
    const columns = (...names: readonly string[]) => names.map((name) => ({ name, type: 'varchar' }));
    return new Map<string, Table>([
      [
        'nodes',
        {
          columns: [
            ...columns('node_id', 'http_uri', 'node_version'),
            { name: 'coordinator', type: 'boolean' },
            { name: 'state', type: 'varchar' },
          ],
          rows: [[this.name, this.url, VERSION, true, 'active']],
        },
      ],
      [
        'queries',
        {
          columns: columns('query_id', 'state', 'user', 'source', 'query'),
          rows: [...this.#queries.values()].map(({ id, state, user, source, text }) => [id, state, user, source, text]),
        },
      ],
    ]);
  }

  /** The answer to a request; undefined for none. */
  async #handle(request: IncomingMessage): Promise<Answer | undefined> {
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
    if (failing !== 0) return answer(failing, `${this.name} is set to fail`);
    const forwarded = Object.keys(request.headers).find((name) => /^(x-forwarded-|forwarded$)/.test(name));
    if (forwarded !== undefined && this.#options.processForwarded === false) {
      const text = `Server configuration does not allow processing of the ${forwarded} header`;
      return answer(406, text);
    }
    const path = url
      .replace(/\?.*$/, '')
      .replace(/;[^/]*/g, '')
      .replace(/(?<=.)\/$/, '');
    const [, ...segments] = path.split('/');
    if (path === '/v1/statement' && method === 'POST') return this.#submit(request, body);
    if (path.startsWith('/v1/statement/')) return this.#followUp(request, segments.slice(2));
    if (path.startsWith('/v1/query')) return this.#query(request, segments[2]);
    if (method !== 'GET' && method !== 'HEAD') return answer(405, '');
    if (path === '/v1/info') return answer(200, this.#info());
    if (path === '/v1/info/state') return answer(200, this.#state.starting ? 'STARTING' : 'ACTIVE');
    if (path === '/v1/info/coordinator') return answer(200, '');
    if (path === '/v1/status') return answer(200, { nodeId: this.name, environment: this.name });
    if (path === '/v1/node') return answer(200, []);
    if (path === '/ui/api/stats') return answer(200, this.#uiStats());
    if (path === '/ui' || path.startsWith('/ui/')) return answer(200, this.#page(), { type: 'text/html' });
    return answer(404, 'Not found');
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

  #uiStats(): object {
    const count = (state: string) => this.queries.filter((query) => query.state === state).length;
    return {
      runningQueries: count('RUNNING'),
      queuedQueries: count('QUEUED'),
      blockedQueries: 0,
      activeCoordinators: 1,
      activeWorkers: 1,
      runningDrivers: 0,
    };
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

  #submit(request: IncomingMessage, text: string): Answer {
    const user = this.#user(request);
    if (user === undefined) {
      const headers = { 'WWW-Authenticate': `Basic realm="${this.#product.product}"` };
      return answer(401, `Basic authentication or ${this.#product.header('User')} must be sent`, { headers });
    }
    if (text.trim() === '') return answer(400, 'SQL statement is empty');
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
      run: () => {
        if (this.#state.starting) {
          throw new QueryError('SERVER_STARTING_UP', `${this.#product.product} server is still initializing`);
        }
        return runStatement(text, {
          catalogs: this.#catalogs,
          catalog: optional('Catalog'),
          schema: optional('Schema'),
          user,
          now: new Date(),
          version: VERSION,
          kill: (queryId, message) => this.#kill(queryId, message),
        });
      },
    });
    this.#queries.set(query.id, query);
    for (const id of this.#queries.keys()) {
      if (this.#queries.size <= MAX_QUERIES) break;
      this.#queries.delete(id);
    }
    return answer(200, query.queued(baseUrl(request), 0));
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
  async #followUp(request: IncomingMessage, segments: readonly string[]): Promise<Answer> {
    const partial = segments[1] === 'partialCancel';
    const [id = '', slug, tokenText = ''] = partial ? [segments[2], segments[4], segments[5]] : segments.slice(1);
    const query = this.#queries.get(id);
    if (query === undefined || slug !== query.slug || !/^\d+$/.test(tokenText)) {
      return answer(404, 'Query not found');
    }
    if (request.method === 'DELETE') {
      if (!partial) query.cancel();
      return answer(204, '');
    }
    const base = baseUrl(request);
    const results =
      segments[0] === 'queued' ? query.queued(base, Number(tokenText)) : await query.executing(base, Number(tokenText));
    if (results === undefined) return answer(410, '');
    const headers = Object.fromEntries(
      Object.entries(query.headers).map(([suffix, value]) => [this.#product.header(suffix), value]),
    );
    return answer(200, results, { headers });
  }

  #query(request: IncomingMessage, id: string | undefined): Answer {
    if (this.#user(request) === undefined) return answer(401, 'Unauthorized');
    const self = (query: EngineQuery) => `${baseUrl(request)}/v1/query/${query.id}`;
    if (id === undefined) {
      return answer(
        200,
        [...this.#queries.values()].map((query) => query.info(self(query))),
      );
    }
    const query = this.#queries.get(id);
    if (query === undefined || !query.dispatched) return answer(410, '');
    if (request.method === 'DELETE') {
      query.cancel();
      return answer(204, '');
    }
    return answer(200, query.info(self(query)));
  }
}

/** Scheme and authority of the URIs in answers, as the client sees them: from forwarded headers, else from `Host`. */
function baseUrl(request: IncomingMessage): string {
  const first = (name: string) => {
    const value = request.headers[name];
    return (Array.isArray(value) ? value[0] : value)?.split(',')[0]?.trim();
  };
  const scheme = first('x-forwarded-proto') ?? 'http';
  const host = first('x-forwarded-host') ?? first('host') ?? 'localhost';
  const prefix = (first('x-forwarded-prefix') ?? '').replace(/\/$/, '');
  const port = first('x-forwarded-port');
  const named = /:\d+$/.test(host);
  const standard = port === (scheme === 'https' ? '443' : '80');
  const authority = named || port === undefined || standard ? host : `${host}:${port}`;
  return `${scheme}://${authority}${prefix}`;
}

/** An answer of the engine: objects go as JSON, texts as plain text unless said otherwise. */
interface Answer {
  readonly status: number;
  readonly content: object | string;
  readonly type?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

function answer(status: number, content: object | string, rest: Pick<Answer, 'type' | 'headers'> = {}): Answer {
  return { status, content, ...rest };
}

/** Sends an answer, compressed where it is long and the client takes gzip. */
function send(request: IncomingMessage, response: ServerResponse, { status, content, type, headers }: Answer): void {
  const text = typeof content === 'string' ? content : JSON.stringify(content);
  const plain = Buffer.from(text);
  const zip = plain.length > 1024 && /\bgzip\b/.test(String(request.headers['accept-encoding'] ?? ''));
  const body = zip ? gzipSync(plain) : plain;
  const textType = `${type ?? 'text/plain'}; charset=utf-8`;
  response.writeHead(status, {
    ...headers,
    ...(status === 204
      ? {}
      : { 'Content-Type': typeof content === 'string' ? textType : 'application/json', 'Content-Length': body.length }),
    ...(zip ? { 'Content-Encoding': 'gzip', Vary: 'Accept-Encoding' } : {}),
  });
  response.end(request.method === 'HEAD' ? undefined : body);
}

function escapeHtml(text: string): string {
  return text.replace(/[&<>"]/g, (letter) => `&#${letter.charCodeAt(0)};`);
}
