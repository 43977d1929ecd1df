import type { Logger } from 'pino';
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import { type Dispatcher, Pool } from 'undici';
import type { GatewayConfig } from '../../config/gatewayConfig.ts';
import type { HttpClientSettings } from '../../config/httpClient.ts';
import type { Clock } from '../../model/clock.ts';
import { durationText } from '../../model/durationText.ts';
import { exceededBound } from '../../model/jsonShape.ts';
import type { ProductNames } from '../../model/names.ts';
import { isRecord } from '../../model/record.ts';
import type { RequestUser } from '../../model/requestUser.ts';
import { withTimeLimit } from '../../model/timeLimit.ts';
import type { ExternalResponse, ExternalRules } from '../../routing/groupRouter.ts';
import type { RuleRequest } from '../../rules/decision.ts';
import { parametersOf } from '../../rules/requestParameters.ts';
import type { QueryProperties } from '../../sql/queryProperties.ts';
import { withoutCookies } from '../headers/cookies.ts';
import { hopByHop } from '../headers/requestHeaders.ts';
import type { ClusterTls } from '../tls/clusterTls.ts';

/**
 * Maximum size of a response in bytes, regardless of the configuration: a group, errors and headers are far shorter,
 * and parsing more would delay all requests.
 */
const MAX_REPLY_BYTES = 1_048_576;

/** Limits of a reply's JSON. */
const BOUNDS = { values: 5_000, depth: 100 };

/** Maximum total length of names and values of headers: clusters reject requests with longer headers. */
const MAX_HEADERS_LENGTH = 65_536;

/** Headers of the connection to the cluster, or written by the gateway. */
const neverSet = new Set([...hopByHop, 'content-length', 'forwarded', 'host', 'proxy-authenticate', 'via']);

/** RFC 9110 §5.6.2 and §5.5: valid names of headers. */
const token = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const fieldValue = /^[\t\x20-\x7e\x80-\xff]*$/;

/**
 * Parses a response (docs/rules.md#an-external-rules-service): JSON, exactly one group, errors, headers. Ignores
 * headers that rules never set (hop-by-hop, Host, Content-Length, forwarded ones) and those in `excludeHeaders`.
 * @param excluded `excludeHeaders`, lower-case, under the names of the configured product
 */
function parseReply(text: string, excluded: ReadonlySet<string>, names: ProductNames) {
  const exceeded = exceededBound(text, BOUNDS);
  if (exceeded === 'values') throw new CallFailed(`its answer has more than ${BOUNDS.values} values`);
  if (exceeded === 'depth') throw new CallFailed(`its answer is nested more than ${BOUNDS.depth} levels deep`);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new CallFailed('its answer is not JSON');
  }
  if (!isRecord(value)) throw new CallFailed('its answer is not a JSON object');
  const { routingGroup, externalHeaders } = value;
  const errors = errorsOf(value.errors);
  const headers = headersOf(externalHeaders, excluded, names);
  if (typeof routingGroup === 'string' && routingGroup.trim() !== '') return { routingGroup, errors, headers };
  if (errors !== null && (routingGroup ?? null) === null) return { routingGroup: null, errors, headers };
  throw new CallFailed(NOT_ONE_GROUP);
}

const NOT_ONE_GROUP = 'routingGroup does not name exactly one group';

function errorsOf(errors: unknown): readonly string[] | null {
  if (errors === undefined || errors === null) return null;
  if (Array.isArray(errors) && errors.every((error) => typeof error === 'string')) return errors;
  throw new CallFailed('errors is neither null nor an array of texts');
}

function headersOf(
  value: unknown,
  excluded: ReadonlySet<string>,
  { ownHeader }: ProductNames,
): Readonly<Record<string, string>> {
  if (value === undefined || value === null) return {};
  if (!isRecord(value)) throw new CallFailed('externalHeaders is not an object');
  const byKey = new Map<string, readonly [string, string]>();
  let length = 0;
  for (const [name, line] of Object.entries(value)) {
    const field = `externalHeaders.${name.slice(0, 64)}`;
    if (typeof line !== 'string') throw new CallFailed(`${field} is not a text`);
    if (!token.test(name)) throw new CallFailed('externalHeaders holds a name that cannot be a header name');
    if (!fieldValue.test(line)) throw new CallFailed(`${field} holds characters that no header can`);
    length += name.length + line.length;
    if (length > MAX_HEADERS_LENGTH) {
      throw new CallFailed(`externalHeaders is longer than ${MAX_HEADERS_LENGTH} characters`);
    }
    const own = ownHeader(name);
    const key = own.toLowerCase();
    if (neverSet.has(key) || key.startsWith('x-forwarded-') || excluded.has(key)) continue;
    byKey.set(key, [own, line]);
  }
  return Object.fromEntries(byKey.values());
}

/** Headers of this connection or this body, never the client's (RFC 9110 §7.6.1, §8). */
const ours = new Set([
  ...hopByHop,
  'accept',
  'accept-encoding',
  'content-encoding',
  'content-length',
  'content-type',
  'host',
]);

/**
 * Builds a request to the external rules service (docs/rules.md#an-external-rules-service). Values that a servlet
 * returns as null are null.
 * @param excluded `excludeHeaders`, lower-case, under the names of the configured product
 * @param ownCookies the gateway's cookies, which are never forwarded
 * @param sendHttpHeaders true if the client's headers are also sent as HTTP headers, for services that read them there
 */
function externalRequest(
  request: RuleRequest,
  names: ProductNames,
  excluded: ReadonlySet<string>,
  ownCookies: ReadonlySet<string>,
  sendHttpHeaders: boolean,
) {
  const headers = new Map<string, { readonly name: string; value: string }>();
  const lines: string[] = ['Content-Type', 'application/json', 'Accept', 'application/json'];
  for (let index = 0; index < request.headers.length; index += 2) {
    const name = request.headers[index] as string;
    const line = request.headers[index + 1] as string;
    const key = name.toLowerCase();
    if (excluded.has(key)) continue;
    const value = key === 'cookie' ? withoutCookies(line, ownCookies) : line;
    if (key === 'cookie' && value === '') continue;
    for (const clusterName of names.isProtocolHeader(key) ? names.clusterNames(name) : [name]) {
      const header = headers.get(clusterName.toLowerCase());
      if (header === undefined) headers.set(clusterName.toLowerCase(), { name: clusterName, value });
      else header.value = `${header.value}, ${value}`;
      if (sendHttpHeaders && !ours.has(key)) lines.push(clusterName, value);
    }
  }
  const user = request.user === null ? null : userOf(request.user);
  const { isReference } = names;
  const query = request.queryProperties === null ? null : properties(request.queryProperties, isReference);
  // Trino Gateway has read the body before it reads parameters: form parameters are not included.
  const parameters = Object.fromEntries(parametersOf(isReference ? { ...request, formBody: null } : request));
  const body = {
    headers: Object.fromEntries([...headers.values()].map(({ name, value }) => [name, value])),
    remoteUser: request.remoteUser,
    method: request.method,
    requestURI: request.path,
    queryString: request.query,
    session: null,
    remoteAddr: request.remoteAddr,
    // No DNS lookup: a hanging resolver would delay queries.
    remoteHost: request.remoteAddr,
    parameterMap: parameters,
    ...(user === null ? {} : { [capital(names.requestUserObject)]: user }),
    ...(query === null ? {} : { [capital(names.queryPropertiesObject)]: query }),
    // The fields under the names of Trino Gateway (docs/compatibility.md#external-rules-service).
    ...(isReference ? { contentType: 'application/json', parameters } : {}),
    ...(isReference && user !== null ? { [names.requestUserObject]: user } : {}),
    ...(isReference && query !== null ? { [names.queryPropertiesObject]: query } : {}),
  };
  return { body: JSON.stringify(body), headers: lines };
}

function userOf({ user, userInfo }: RequestUser): object {
  return { user, userInfo: userInfo === null ? null : JSON.stringify(userInfo) };
}

/**
 * The query in the form of Trino Gateway (docs/compatibility.md#external-rules-service).
 * @param isReference true omits missing values, as Trino Gateway does, instead of null
 */
function properties(query: QueryProperties, isReference: boolean): object {
  const { body, queryType, resourceGroupQueryType, defaultCatalog, defaultSchema, errorMessage } = query;
  const { catalogs, schemas, catalogSchemas, isNewQuerySubmission } = query;
  const all = {
    ...{ body, queryType, resourceGroupQueryType, tables: query.tables.map((parts) => parts.join('.')) },
    ...{ defaultCatalog, defaultSchema, catalogs, schemas, catalogSchemas, isNewQuerySubmission },
    isQueryParsingSuccessful: errorMessage === null,
    errorMessage,
  };
  return isReference ? Object.fromEntries(Object.entries(all).filter(([, value]) => value !== null)) : all;
}

function capital(name: string): string {
  return name.charAt(0).toUpperCase() + name.slice(1);
}

/** Settings of calls (`routingRules.rulesExternalConfiguration`). */
export type ExternalRulesSettings = Omit<
  GatewayConfig['routingRules']['rulesExternalConfiguration'],
  'urlPath' | 'propagateErrors'
>;

/** The service and its connections (`serverConfig`: `router.http-client.…`); times in milliseconds. */
export type ExternalRulesOptions = HttpClientSettings & {
  readonly url: string;
  readonly requestTimeout: number;
  /** `requestAnalyzerConfig.analyzeRequest`: true sends user and query. */
  readonly needsAnalysis: boolean;
  readonly ownCookies: readonly string[];
  readonly settings: ExternalRulesSettings;
  /** TLS with the service; Node's own trust where absent. */
  readonly tls: ClusterTls;
};

/** A failed call; the message is for log and trace, and contains no data of the request. */
class CallFailed extends Error {}

/**
 * Client of the external rules service (docs/rules.md#an-external-rules-service). Does not follow redirects; a circuit
 * breaker prevents a dead service from delaying every query.
 */
export class ExternalRulesClient implements ExternalRules {
  readonly needsAnalysis: boolean;
  readonly #options: ExternalRulesOptions;
  readonly #names: ProductNames;
  readonly #logger: Logger;
  readonly #clock: Clock;
  readonly #pool: Pool;
  readonly #path: string;
  readonly #ownCookies: ReadonlySet<string>;
  readonly #calls: Counter<'outcome'>;
  readonly #duration: Histogram;
  /** Keys of headers that are not sent. */
  readonly #excluded: ReadonlySet<string>;
  #running = 0;
  /** Consecutive failures. */
  #failures = 0;
  /** Monotonic time of the next trial call; null while calls are not skipped. */
  #retryAt: number | null = null;
  #isTrying = false;
  #lastFailure: string | null = null;

  constructor(names: ProductNames, clock: Clock, logger: Logger, registry: Registry, options: ExternalRulesOptions) {
    const url = new URL(options.url);
    this.#options = options;
    this.needsAnalysis = options.needsAnalysis;
    this.#names = names;
    this.#logger = logger;
    this.#clock = clock;
    this.#path = `${url.pathname}${url.search}`;
    this.#ownCookies = new Set(options.ownCookies);
    const { excludeHeaders } = options.settings;
    this.#excluded = new Set(excludeHeaders.map((name) => this.#names.ownHeader(name).toLowerCase()));
    this.#pool = new Pool(url.origin, {
      connections: options.maxConnectionsPerServer,
      pipelining: 1,
      allowH2: false,
      connect: options.tls.connector(options.connectTimeout),
      headersTimeout: options.idleTimeout,
      bodyTimeout: options.idleTimeout,
      maxResponseSize: this.#maxReplyBytes,
    });
    this.#calls = new Counter({
      name: 'engine_gateway_external_rules_requests_total',
      help: 'Requests for which the external rules service was to be asked, by outcome: answered, errors, failed, or skipped while it is left alone after failures.',
      labelNames: ['outcome'],
      registers: [registry],
    });
    this.#duration = new Histogram({
      name: 'engine_gateway_external_rules_duration_seconds',
      help: 'Time until the external rules service had answered or failed, in seconds.',
      buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
      registers: [registry],
    });
    const open: Gauge = new Gauge({
      name: 'engine_gateway_external_rules_circuit_open',
      help: '1 while the external rules service is left alone after failures.',
      registers: [registry],
      collect: () => open.set(this.#retryAt === null ? 0 : 1),
    });
  }

  /** Reason that the circuit breaker is open, or null. */
  get openReason(): string | null {
    return this.#retryAt === null ? null : this.#lastFailure;
  }

  async request(request: RuleRequest): Promise<ExternalResponse> {
    if (!this.#mayCall()) return this.#count({ outcome: 'skipped', reason: this.#lastFailure ?? 'it failed' });
    const before = this.#clock.monotonic();
    try {
      const response = await this.#call(request);
      if (this.#retryAt !== null) this.#logger.info('external rules service available again');
      this.#failures = 0;
      this.#retryAt = null;
      this.#isTrying = false;
      return this.#count(response);
    } catch (error) {
      const reason = this.#failure(error);
      const wasOpen = this.#retryAt !== null;
      this.#lastFailure = reason;
      this.#noteFailure();
      const next = this.#retryAt !== null && !wasOpen ? '; it is left alone for a while' : '';
      this.#logger.warn({ reason }, `the external rules service failed${next}`);
      return this.#count({ outcome: 'failed', reason });
    } finally {
      this.#duration.observe((this.#clock.monotonic() - before) / 1000);
    }
  }

  /** True if the service may be called: after consecutive failures only one trial call at intervals. */
  #mayCall(): boolean {
    if (this.#retryAt === null) return true;
    if (this.#isTrying || this.#clock.monotonic() < this.#retryAt) return false;
    this.#isTrying = true;
    return true;
  }

  #noteFailure(): void {
    const { failureThreshold, retryAfter } = this.#options.settings;
    this.#failures += 1;
    // Calls in flight when the threshold was reached do not extend the time.
    if (this.#retryAt !== null && !this.#isTrying) return;
    if (this.#failures < failureThreshold) return;
    this.#isTrying = false;
    this.#retryAt = this.#clock.monotonic() + retryAfter;
  }

  get #maxReplyBytes(): number {
    return Math.min(this.#options.maxResponseContentLength, MAX_REPLY_BYTES);
  }

  /** Aborts running calls and closes the connections. */
  async close(): Promise<void> {
    await this.#pool.destroy();
  }

  async #call(request: RuleRequest): Promise<ExternalResponse> {
    const { maxConnectionsPerServer, maxRequestsQueuedPerDestination, requestTimeout, settings } = this.#options;
    if (this.#running >= maxConnectionsPerServer + maxRequestsQueuedPerDestination)
      throw new CallFailed('too many calls wait for a connection');
    const emptyErrors = settings.emptyErrors ?? (this.#names.isReference ? 'ignore' : 'defaultGroup');
    const { body, headers } = externalRequest(
      request,
      this.#names,
      this.#excluded,
      this.#ownCookies,
      settings.sendHttpHeaders,
    );
    this.#running += 1;
    let text: string;
    const late = () => new CallFailed(`it did not answer within ${durationText(requestTimeout)}`);
    try {
      text = await withTimeLimit(requestTimeout, late, async (signal) =>
        textOf(await this.#pool.request({ method: 'POST', path: this.#path, headers, body, signal })),
      );
    } finally {
      this.#running -= 1;
    }
    const { routingGroup, errors, headers: set } = parseReply(text, this.#excluded, this.#names);
    const isError = errors !== null && (errors.length > 0 || emptyErrors === 'defaultGroup');
    if (isError) return { outcome: 'errors', errors, headers: set };
    if (routingGroup === null) throw new CallFailed(NOT_ONE_GROUP);
    return { outcome: 'answered', routingGroup, headers: set };
  }

  #count(response: ExternalResponse): ExternalResponse {
    this.#calls.inc({ outcome: response.outcome });
    return response;
  }

  #failure(error: unknown): string {
    if (error instanceof CallFailed) return error.message;
    const { code, name } = error as { readonly code?: unknown; readonly name?: unknown };
    if (code === 'UND_ERR_RES_EXCEEDED_MAX_SIZE') {
      return `its answer is longer than ${this.#maxReplyBytes} bytes`;
    }
    return `it could not be asked: ${typeof code === 'string' ? code : String(name)}`;
  }
}

/** The body of a successful response. @throws CallFailed for any status other than 200 */
async function textOf(response: Dispatcher.ResponseData): Promise<string> {
  const { statusCode, body } = response;
  if (statusCode === 200) return await body.text();
  // The content is irrelevant, but the connection can be reused after it was read.
  await body.dump({ limit: 65_536 }).catch(() => undefined);
  const isRedirect = statusCode >= 300 && statusCode < 400;
  throw new CallFailed(`it answered status ${statusCode}${isRedirect ? '; redirects are not followed' : ''}`);
}
