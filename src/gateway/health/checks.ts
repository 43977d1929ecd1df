import { setTimeout as sleep } from 'node:timers/promises';
import { Agent, request } from 'undici';
import type { GatewayConfig } from '../../config/gatewayConfig.ts';
import type { ProductNames } from '../../model/names.ts';
import { isRecord, recordIn } from '../../model/record.ts';
import { userAgent } from '../../model/version.ts';
import type { ClusterTls } from '../tls/clusterTls.ts';
import { classify, limitedText } from '../upstreams/upstreams.ts';
import type { CheckCredentials, CheckResult, CheckTarget, HealthCheckKinds } from './healthCheck.ts';

export interface CheckRequest {
  readonly method: 'GET' | 'POST' | 'DELETE';
  /** Path and query string below the cluster's URL. */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  /** Maximum size of a response, in bytes. */
  readonly maxBytes: number;
  /** Number of immediate retries after 502, 503 or 504. */
  readonly retries?: number;
}

/** A response of any status, or a description of the failure. */
export type CheckResponse =
  | {
      readonly ok: true;
      /** The request for messages, without its query string: `GET http://a:8080/v1/info`. */
      readonly endpoint: string;
      readonly status: number;
      readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
      readonly text: string;
    }
  | { readonly ok: false; readonly endpoint: string; readonly reason: string };

/** A successful response, or the result of the failed check. */
type ReadResponse =
  | { readonly ok: true; readonly endpoint: string; readonly text: string }
  | { readonly ok: false; readonly result: CheckResult };

const repeatable = [502, 503, 504];

/**
 * Sends requests of health checks: over separate connections, one per cluster, so that a busy cluster does not seem
 * unhealthy; never follows redirects, so that credentials stay there.
 */
export class CheckClient {
  readonly #agent: Agent;

  /** @param connectTimeout milliseconds */
  constructor(connectTimeout: number, tls: ClusterTls) {
    this.#agent = new Agent({
      connections: 1,
      allowH2: false,
      connect: tls.connector(connectTimeout),
      keepAliveTimeout: 1_000,
    });
  }

  /** Sends a request, with retries if it requests them. Never rejects. */
  async ask(proxyTo: string, question: CheckRequest, signal: AbortSignal): Promise<CheckResponse> {
    let response = await this.#once(proxyTo, question, signal);
    for (let left = question.retries ?? 0; left > 0 && response.ok && repeatable.includes(response.status); left--) {
      response = await this.#once(proxyTo, question, signal);
    }
    return response;
  }

  /** Requires status 200; any other makes the cluster UNHEALTHY, with the fix. */
  async read(
    proxyTo: string,
    question: CheckRequest,
    credentials: CheckCredentials | null,
    signal: AbortSignal,
  ): Promise<ReadResponse> {
    const response = await this.ask(proxyTo, question, signal);
    if (response.ok && response.status === 200) return { ok: true, endpoint: response.endpoint, text: response.text };
    const why = response.ok ? statusReason(response.status, credentials) : response.reason;
    return { ok: false, result: { health: 'UNHEALTHY', reason: `${response.endpoint}: ${why}` } };
  }

  async close(): Promise<void> {
    await this.#agent.destroy();
  }

  async #once(
    proxyTo: string,
    { method, path, headers, body, maxBytes }: CheckRequest,
    signal: AbortSignal,
  ): Promise<CheckResponse> {
    const url = urlOf(proxyTo, path);
    // Without the query string, and without credentials that a row of another gateway may have in its URL.
    const named = `${method} ${url === null ? path : `${url.origin}${url.pathname}`}`;
    const failed = (reason: string): CheckResponse => ({ ok: false, endpoint: named, reason });
    if (url === null) return failed('proxyTo is not an HTTP URL');
    try {
      const response = await request(`${url.origin}${url.pathname}${url.search}`, {
        method,
        dispatcher: this.#agent,
        signal,
        headers: { accept: 'application/json', 'user-agent': userAgent, ...headers },
        ...(body === undefined ? {} : { body }),
      });
      const text = await limitedText(response.body, maxBytes);
      if (text === null) return failed(`more than ${maxBytes} bytes`);
      return { ok: true, endpoint: named, status: response.statusCode, headers: response.headers, text };
    } catch (error) {
      if (signal.aborted) return failed('no answer in time');
      return failed(error instanceof Error ? classify(error, true).reason : String(error));
    }
  }
}

/** A text of an engine that is short enough for a status. */
function knownText(value: unknown): string | undefined {
  return typeof value === 'string' && /^[\x21-\x7e]{1,64}$/.test(value) ? value : undefined;
}

function urlOf(proxyTo: string, path: string): URL | null {
  const url = URL.parse(`${proxyTo}${path}`);
  return url?.protocol === 'http:' || url?.protocol === 'https:' ? url : null;
}

/** Describes a status other than 200, with the fix. */
export function statusReason(status: number, credentials: CheckCredentials | null): string {
  if (credentials !== null && (status === 401 || status === 403)) {
    const what = status === 403 ? 'may not ask this' : 'or the way it logs in is refused';
    return `status ${status}: the user of health checks ${what}; fix ${credentials.from}`;
  }
  if (status >= 300 && status < 400) return `status ${status}, a redirect, which checks do not follow`;
  return `status ${status}`;
}

/** `Authorization` of Basic authentication (RFC 7617). */
export function basicAuthorization({ username, password }: CheckCredentials): string {
  return `Basic ${Buffer.from(`${username}:${password}`, 'utf8').toString('base64')}`;
}

/** Result of a statement: its rows, the engine's error, or an unexpected response. */
type StatementResult =
  | { readonly kind: 'rows'; readonly rows: readonly (readonly unknown[])[] }
  | { readonly kind: 'error'; readonly name: string; readonly message: string }
  | {
      readonly kind: 'failed';
      readonly response: CheckResponse;
      readonly reason: string | null;
      /** True if the query was queued by the engine in its last response. */
      readonly queued: boolean;
    };

const MAX_ROWS = 1_000;
const CANCEL_TIMEOUT_MS = 1_000;
/** Delays between immediate pages without rows; engines delay such responses by a second themselves. */
const FIRST_PAUSE_MS = 20;
const MAX_PAUSE_MS = 500;

/**
 * Runs a statement with the engine's statement protocol and follows its pages on the cluster's own address, regardless
 * of the host in links. Cancels a statement that does not end, also on a timeout.
 */
export async function runStatement(
  client: CheckClient,
  { proxyTo, headers, maxBytes }: { proxyTo: string; headers: Readonly<Record<string, string>>; maxBytes: number },
  sql: string,
  signal: AbortSignal,
): Promise<StatementResult> {
  const rows: (readonly unknown[])[] = [];
  let pause = FIRST_PAUSE_MS;
  let response = await client.ask(
    proxyTo,
    { method: 'POST', path: '/v1/statement', headers, body: sql, maxBytes },
    signal,
  );
  let next: string | null = null;
  let queued = false;
  const failed = async (reason: string | null): Promise<StatementResult> => {
    const outcome = { kind: 'failed' as const, response, reason, queued };
    if (next !== null) {
      const cancel = { method: 'DELETE' as const, path: next, headers, maxBytes };
      await client.ask(proxyTo, cancel, AbortSignal.timeout(CANCEL_TIMEOUT_MS));
    }
    return outcome;
  };
  for (;;) {
    if (!response.ok || response.status !== 200) return await failed(null);
    const page = recordIn(response.text);
    if (page === null) return await failed('the answer is not a query result');
    const { error, data, nextUri, stats } = page;
    const state = isRecord(stats) ? stats.state : null;
    queued = state === 'QUEUED';
    if (isRecord(error)) {
      const { errorName, message } = error;
      return { kind: 'error', name: String(errorName ?? ''), message: String(message ?? 'no message') };
    }
    const added = Array.isArray(data) ? (data as readonly unknown[]).filter((row) => Array.isArray(row)) : [];
    rows.push(...added);
    if (nextUri === undefined || nextUri === null) {
      return state === 'FINISHED' ? { kind: 'rows', rows } : await failed('the answer is not a query result');
    }
    next = typeof nextUri === 'string' ? pathOf(nextUri, proxyTo) : null;
    if (next === null) return await failed('nextUri is not a URL');
    if (rows.length > MAX_ROWS) return await failed(`more than ${MAX_ROWS} rows`);
    if (added.length === 0) {
      await sleep(pause, undefined, { signal }).catch(() => undefined);
      pause = Math.min(pause * 2, MAX_PAUSE_MS);
    }
    response = await client.ask(proxyTo, { method: 'GET', path: next, headers, maxBytes }, signal);
  }
}

/** Path and query of a follow-up URL below the cluster's URL; null for invalid URLs. */
function pathOf(nextUri: string, proxyTo: string): string | null {
  const next = URL.parse(nextUri, proxyTo);
  if (next === null) return null;
  const { pathname, search } = next;
  const base = new URL(proxyTo).pathname.replace(/\/+$/, '');
  return `${base !== '' && pathname.startsWith(`${base}/`) ? pathname.slice(base.length) : pathname}${search}`;
}

/** Settings of the checks; times in milliseconds, sizes in bytes. */
export type CheckSettings = GatewayConfig['monitor'] & {
  /** `backendState.xForwardedProtoHeader` */
  readonly forwardedProto: boolean;
  /** `monitor.http-client.max-response-content-length` */
  readonly maxResponse: number;
};

const MAX_INFO_BYTES = 65_536;
/** Source of the check's queries, for resource groups and users who inspect queries. */
const CHECK_SOURCE = 'engine-gateway-health';
/** Maximum length of an engine's message in a reason. */
const MAX_MESSAGE = 300;

/** Creates all kinds of health checks (docs/health.md#types-of-checks) over one set of connections. */
export function healthChecks(client: CheckClient, names: ProductNames, settings: CheckSettings): HealthCheckKinds {
  const { retries, maxResponse: maxBytes } = settings;
  // For engines that only accept a login behind TLS.
  const forwarded: Record<string, string> = settings.forwardedProto ? { 'x-forwarded-proto': 'https' } : {};
  const identity = (credentials: CheckCredentials, withPassword: boolean): Readonly<Record<string, string>> =>
    withPassword && credentials.password !== ''
      ? { authorization: basicAuthorization(credentials) }
      : names.clusterHeaders('User', credentials.username);
  // Engines reject a password in clear text, and the JDBC driver does not send it.
  const secureIdentity = ({ proxyTo }: CheckTarget, credentials: CheckCredentials) =>
    identity(credentials, proxyTo.startsWith('https:'));

  const info = async ({ proxyTo, path }: CheckTarget, signal: AbortSignal): Promise<CheckResult> => {
    const request = { method: 'GET', path: path ?? '/v1/info', maxBytes: MAX_INFO_BYTES, retries } as const;
    const response = await client.read(proxyTo, request, null, signal);
    if (!response.ok) return response.result;
    let info: unknown;
    try {
      info = JSON.parse(response.text);
    } catch {
      return unhealthy(`${response.endpoint}: the answer is not JSON`);
    }
    const { starting, nodeVersion, coordinatorId } = isRecord(info) ? info : {};
    if (starting === true) return { health: 'PENDING', reason: 'the cluster is starting' };
    const engine = {
      version: knownText(isRecord(nodeVersion) ? nodeVersion.version : undefined),
      coordinatorId: knownText(coordinatorId),
    };
    if (starting === false) return { health: 'HEALTHY', reason: `${response.endpoint}: started`, ...engine };
    return unhealthy(`${response.endpoint}: the answer has no field "starting"`);
  };

  const metrics = async (target: CheckTarget, credentials: CheckCredentials, signal: AbortSignal) => {
    const needed = metricsOf(settings);
    const query = needed.map((name) => `name%5B%5D=${encodeURIComponent(name)}`).join('&');
    const accept = 'application/openmetrics-text, text/plain;q=0.5';
    const path = `${target.path ?? settings.metricsEndpoint}?${query}`;
    const headers = { accept, ...identity(credentials, true), ...forwarded };
    const request = { method: 'GET', path, headers, maxBytes, retries } as const;
    const reply = await client.read(target.proxyTo, request, credentials, signal);
    return reply.ok ? judgeMetrics(reply.endpoint, parseMetrics(reply.text), needed, settings) : reply.result;
  };

  const jdbc = async (target: CheckTarget, credentials: CheckCredentials, signal: AbortSignal) => {
    const { proxyTo } = target;
    const headers = {
      ...secureIdentity(target, credentials),
      'content-type': 'text/plain; charset=utf-8',
      ...names.clusterHeaders('Catalog', 'system'),
      ...names.clusterHeaders('Source', CHECK_SOURCE),
    };
    const sql = countQueries(credentials.username);
    const outcome = await runStatement(client, { proxyTo, headers, maxBytes }, sql, signal);
    switch (outcome.kind) {
      case 'rows': {
        const counts = new Map(outcome.rows.map(([state, count]) => [state, Number(count)]));
        const [queued, running] = [counts.get('QUEUED') ?? 0, counts.get('RUNNING') ?? 0];
        return { health: 'HEALTHY', reason: 'the query on system.runtime.queries succeeded', queued, running } as const;
      }
      case 'error':
        return judgeError(outcome.name, outcome.message);
      default: {
        const { response, queued } = outcome;
        const why = response.ok ? (outcome.reason ?? statusReason(response.status, credentials)) : response.reason;
        // It responds, but is overloaded: not a reason for UNHEALTHY.
        if (queued && !response.ok && signal.aborted) {
          const fix = `give queries with source ${CHECK_SOURCE} a resource group of their own`;
          return {
            health: 'inconclusive',
            reason: `the check's query waits in the cluster's queue; ${fix}`,
          } as const;
        }
        return unhealthy(`${response.endpoint}: ${why}`);
      }
    }
  };

  /** The numeric attributes of an MBean. */
  const bean = async (target: CheckTarget, name: string, credentials: CheckCredentials, signal: AbortSignal) => {
    const headers = { ...secureIdentity(target, credentials), ...forwarded };
    const request = { method: 'GET', path: `/v1/jmx/mbean/${name}`, headers, maxBytes } as const;
    const response = await client.read(target.proxyTo, request, credentials, signal);
    if (!response.ok) return response;
    const attributes = recordIn(response.text)?.attributes;
    if (!Array.isArray(attributes)) {
      return { ok: false as const, result: unhealthy(`${response.endpoint}: the answer is not an MBean`) };
    }
    const numbers = new Map<string, number>();
    for (const attribute of attributes as readonly unknown[]) {
      if (!isRecord(attribute)) continue;
      const { name: key, value } = attribute;
      if (typeof key === 'string' && typeof value === 'number') numbers.set(key, value);
    }
    return { ok: true as const, endpoint: response.endpoint, attributes: numbers };
  };

  const jmx = async (target: CheckTarget, credentials: CheckCredentials, signal: AbortSignal): Promise<CheckResult> => {
    const product = names.clusterProduct.toLowerCase();
    const nodes = await bean(target, `${product}.metadata:name=DiscoveryNodeManager`, credentials, signal);
    if (!nodes.ok) return nodes.result;
    const queries = await bean(target, `${product}.execution:name=QueryManager`, credentials, signal);
    if (!queries.ok) return queries.result;
    const workers = nodes.attributes.get('ActiveNodeCount');
    const queued = queries.attributes.get('QueuedQueries');
    const running = queries.attributes.get('RunningQueries');
    if (workers === undefined) return unhealthy(`${nodes.endpoint} has no ActiveNodeCount`);
    if (queued === undefined || running === undefined) return unhealthy(`${queries.endpoint} has no counts`);
    const health = workers > 0 ? 'HEALTHY' : 'UNHEALTHY';
    return { health, reason: `${nodes.endpoint}: ${workers} active nodes`, workers, queued, running };
  };

  /** Logs in with the form; the session is in cookies. Does not follow the redirect. */
  const login = async ({ proxyTo }: CheckTarget, credentials: CheckCredentials, signal: AbortSignal) => {
    const { username, password, from } = credentials;
    const headers = { 'content-type': 'application/x-www-form-urlencoded', ...forwarded };
    const body = new URLSearchParams({ username, password, redirectPath: '' }).toString();
    const request = { method: 'POST', path: '/ui/login', headers, body, maxBytes } as const;
    const reply = await client.ask(proxyTo, request, signal);
    const cookie = reply.ok ? cookiesOf(reply) : '';
    if (reply.ok && reply.status < 400 && cookie !== '') return { ok: true as const, cookie };
    const noUser = `the login form refuses the user; fix ${from}, or choose another type of check where the engine has no form login`;
    const why = !reply.ok ? reply.reason : reply.status >= 400 ? statusReason(reply.status, credentials) : noUser;
    return { ok: false as const, result: unhealthy(`${reply.endpoint}: ${why}`) };
  };

  const uiApi = async (
    target: CheckTarget,
    credentials: CheckCredentials,
    signal: AbortSignal,
  ): Promise<CheckResult> => {
    const session = await login(target, credentials, signal);
    if (!session.ok) return session.result;
    const headers = { cookie: session.cookie, ...forwarded };
    const read = (path: string) =>
      client.read(target.proxyTo, { method: 'GET', path, headers, maxBytes }, credentials, signal);
    const stats = await read('/ui/api/stats');
    if (!stats.ok) return stats.result;
    const { activeWorkers: workers, queuedQueries: queued, runningQueries: running } = recordIn(stats.text) ?? {};
    if (typeof workers !== 'number' || typeof queued !== 'number' || typeof running !== 'number') {
      return unhealthy(`${stats.endpoint}: the answer holds no statistics`);
    }
    const counts = { queued, running, workers };
    if (workers <= 0) return { ...unhealthy(`${stats.endpoint}: no active worker`), ...counts };
    const healthy = { health: 'HEALTHY', reason: `${stats.endpoint}: ${workers} active workers`, ...counts } as const;
    if (queued === 0) return { ...healthy, queuedByUser: new Map() };
    const waiting = await read('/ui/api/query?state=QUEUED');
    return waiting.ok
      ? { ...healthy, queuedByUser: countUsers(waiting.text) }
      : { ...healthy, reason: `${healthy.reason}, users of queued queries unknown` };
  };

  return {
    INFO_API: { needsUser: false, check: info },
    METRICS: { needsUser: true, check: metrics },
    JDBC: { needsUser: true, timeout: settings.queryTimeout, check: jdbc },
    JMX: { needsUser: true, check: jmx },
    UI_API: { needsUser: true, check: uiApi },
    NOOP: { needsUser: false, check: async () => ({ health: 'HEALTHY', reason: 'not checked (NOOP)' }) },
  };
}

function unhealthy(reason: string): CheckResult {
  return { health: 'UNHEALTHY', reason };
}

function metricsOf(settings: CheckSettings): readonly string[] {
  const { queuedQueriesMetricName, runningQueriesMetricName, metricMinimumValues, metricMaximumValues } = settings;
  const bounded = [...Object.keys(metricMinimumValues), ...Object.keys(metricMaximumValues)];
  return [...new Set([runningQueriesMetricName, queuedQueriesMetricName, ...bounded])];
}

/**
 * Parses values of a text in OpenMetrics or Prometheus format: by name the sample without labels, else the first one.
 * Ignores timestamps, exemplars and lines that are not samples.
 */
function parseMetrics(text: string): ReadonlyMap<string, number> {
  const values = new Map<string, number>();
  for (const line of text.split('\n')) {
    const [, name = '', labels, written = ''] = /^([A-Za-z_:][A-Za-z0-9_:]*)(\{.*\})?[ \t]+(\S+)/.exec(line) ?? [];
    const value = Number(written.replace(/^([+-]?)inf(?:inity)?$/i, '$1Infinity'));
    if (name !== '' && !Number.isNaN(value) && (labels === undefined || !values.has(name))) values.set(name, value);
  }
  return values;
}

function judgeMetrics(
  endpoint: string,
  values: ReadonlyMap<string, number>,
  needed: readonly string[],
  settings: CheckSettings,
): CheckResult {
  const { queuedQueriesMetricName, runningQueriesMetricName, metricMinimumValues, metricMaximumValues } = settings;
  const missing = needed.filter((name) => !values.has(name));
  if (missing.length > 0) {
    const keys = 'monitor.…MetricName, metricMinimumValues and metricMaximumValues say which are asked for';
    return unhealthy(`${endpoint}: the answer has no metric ${missing.join(', ')} (${keys})`);
  }
  const outside = needed.flatMap((name) => {
    const value = values.get(name) ?? 0;
    const [least, greatest] = [metricMinimumValues[name], metricMaximumValues[name]];
    if (least !== undefined && value < least) return [`${name} is ${value}, at least ${least} is healthy`];
    if (greatest !== undefined && value > greatest) return [`${name} is ${value}, at most ${greatest} is healthy`];
    return [];
  });
  const counts = {
    queued: values.get(queuedQueriesMetricName) ?? 0,
    running: values.get(runningQueriesMetricName) ?? 0,
  };
  if (outside.length > 0) return { ...unhealthy(`${endpoint}: ${outside.join('; ')}`), ...counts };
  return { health: 'HEALTHY', reason: `${endpoint}: ${needed.length} metrics are there and within bounds`, ...counts };
}

function countQueries(user: string): string {
  return `SELECT state, count(*) FROM system.runtime.queries WHERE "user" <> '${user.replaceAll("'", "''")}' AND date_diff('hour', created, now()) <= 1 GROUP BY state`;
}

function judgeError(name: string, message: string): CheckResult {
  if (name === 'SERVER_STARTING_UP') return { health: 'PENDING', reason: 'the cluster is starting' };
  const reason = `the query on system.runtime.queries failed: ${name}: ${message.slice(0, MAX_MESSAGE)}`;
  return { health: name === 'QUERY_QUEUE_FULL' ? 'inconclusive' : 'UNHEALTHY', reason };
}

/** The cookies set by a response, as a `Cookie` header, without deleted ones. */
function cookiesOf({ headers }: CheckResponse & { ok: true }): string {
  const lines = [headers['set-cookie'] ?? []].flat();
  const pairs = lines.map((line) => line.split(';', 1)[0]?.trim() ?? '');
  return pairs.filter((pair) => /^[^=]+=./.test(pair)).join('; ');
}

function countUsers(text: string): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  let queries: unknown;
  try {
    queries = JSON.parse(text);
  } catch {
    return counts;
  }
  for (const query of Array.isArray(queries) ? (queries as readonly unknown[]) : []) {
    const user = isRecord(query) ? query.sessionUser : null;
    if (typeof user === 'string') counts.set(user, (counts.get(user) ?? 0) + 1);
  }
  return counts;
}
