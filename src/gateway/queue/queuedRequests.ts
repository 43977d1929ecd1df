import { timingSafeEqual } from 'node:crypto';
import { durationText } from '../../model/durationText.ts';
import { headerValues, type RawHeaders } from '../../model/http.ts';
import type { Refusal, RefusalReason } from '../../routing/refusal.ts';
import { type ProxiedPaths, STATEMENT_PATH, targetText } from '../../routing/statementProtocol.ts';
import type { QueuedQueryRow } from '../../store/store.ts';
import type { BodyStart } from '../bodies/requestBodies.ts';
import type { DataPlaneParts, QueueOptions } from '../dataPlane.ts';
import { waitLine } from '../exchanges/responses.ts';
import type { ProxiedRequest } from '../proxiedRequest.ts';
import type { QueuedState } from './clientQuery.ts';
import { ABANDONED_AFTER_MS, type DurableQueue } from './durableQueue.ts';
import { nextTargetOf, type StoredOutcome } from './storedSubmission.ts';

/** Maximum wait of a request for a queued query, as in engines. */
const POLL_MS = 1_000;
/** Refresh interval of the page of a queued query. */
const REFRESH_SECONDS = 2;

const plainText = ['content-type', 'text/plain; charset=utf-8', 'cache-control', 'no-store'];
const json = ['Content-Type', 'application/json', 'Cache-Control', 'no-store'];
const defaultPorts = { http: 80, https: 443 } as const;

/** Statistics of a query that has not started. */
const noWork = {
  nodes: 0,
  totalSplits: 0,
  queuedSplits: 0,
  runningSplits: 0,
  completedSplits: 0,
  planningTimeMillis: 0,
  analysisTimeMillis: 0,
  cpuTimeMillis: 0,
  wallTimeMillis: 0,
  finishingTimeMillis: 0,
  physicalInputTimeMillis: 0,
  processedRows: 0,
  processedBytes: 0,
  physicalInputBytes: 0,
  physicalWrittenBytes: 0,
  internalNetworkInputBytes: 0,
  peakMemoryBytes: 0,
  spilledBytes: 0,
};

/** Responses for clients of queued queries. */
export class QueueResponses {
  readonly #parts: DataPlaneParts;
  readonly #options: QueueOptions;
  readonly #paths: ProxiedPaths;

  constructor(parts: DataPlaneParts, options: QueueOptions, paths: ProxiedPaths) {
    this.#parts = parts;
    this.#options = options;
    this.#paths = paths;
  }

  /**
   * Responds that a query is queued, as an engine does for one in its own queue, with every field of Trino's first
   * response (docs/protocol.md#queries-that-wait).
   * @param token of this request
   */
  waiting(proxied: ProxiedRequest, id: string, token: number, waitedMs: number, state: QueuedState): void {
    const { names, settings, responses } = this.#parts;
    const { place, ...decided } = state;
    const lines = settings.explainHeader
      ? waitLine(names, { ...decided, position: place?.position() ?? null, why: place?.why() ?? null })
      : [];
    const base = this.#base(proxied);
    const statementPath = this.#paths.statementPathOf(proxied.target.path) ?? STATEMENT_PATH;
    const waited = Math.max(0, Math.round(waitedMs));
    const body = {
      id,
      infoUri: `${base}/ui/query.html?${id}`,
      nextUri: `${base}${statementPath}/queued/${id}/${this.#options.key.slugOf(id)}/${token + 1}`,
      stats: {
        ...{ state: 'QUEUED', queued: true, scheduled: false },
        ...{ ...noWork, queuedTimeMillis: waited, elapsedTimeMillis: waited },
      },
      warnings: [],
    };
    responses.send(proxied, 200, [...json, ...lines], JSON.stringify(body));
  }

  outcome(proxied: ProxiedRequest, id: string, outcome: StoredOutcome): void {
    const { responses } = this.#parts;
    if (outcome.kind === 'refusal') responses.reject(proxied, { ...outcome.refusal, queryId: id });
    else responses.send(proxied, outcome.status, outcome.headers, outcome.body.toString('utf8'));
  }

  /** Responds to a kill_query call that removed a queued query. */
  killed(proxied: ProxiedRequest, id: string): void {
    const call = `${id.slice(0, -'queue'.length)}calls`;
    const body = {
      id: call,
      infoUri: `${this.#base(proxied)}/ui/query.html?${call}`,
      stats: {
        ...{ state: 'FINISHED', queued: false, scheduled: true },
        ...{ ...noWork, queuedTimeMillis: 0, elapsedTimeMillis: 0 },
      },
      updateType: 'CALL',
      warnings: [],
    };
    this.#parts.responses.send(proxied, 200, json, JSON.stringify(body));
  }

  unknown(proxied: ProxiedRequest, id: string): void {
    const message = `Query ${id} does not wait here: it was cancelled, was not asked for in ${durationText(ABANDONED_AFTER_MS)}, or its first answer was taken long ago.`;
    this.reject(proxied, id, 'unknown_query', message);
  }

  /** Rejects as the database cannot be read. */
  undecided(proxied: ProxiedRequest, id: string): void {
    const message = `Query ${id} cannot be looked up at the moment; ask again in a second.`;
    this.reject(proxied, id, 'undecided_query', message);
  }

  reject(proxied: ProxiedRequest, id: string, reason: RefusalReason, message: string): void {
    this.#parts.responses.reject(proxied, { reason, message, queryId: id });
  }

  /** The gateway's address as the client named it. */
  #base({ request }: ProxiedRequest): string {
    const { headers } = this.#parts;
    const { scheme, host, port } = headers.clientOf(request);
    const authority = port === defaultPorts[scheme] ? host : `${host}:${port}`;
    return `${scheme}://${authority}${headers.prefixOf(request)}`;
  }
}

export type KillResponse =
  /** A cluster has the query: the statement is rewritten to its id. */
  | { readonly kind: 'cluster'; readonly engineId: string; readonly body: BodyStart }
  | { readonly kind: 'killed' }
  | { readonly kind: 'rejected'; readonly refusal: Refusal };

/** Requests with a query id of the gateway: of a query that is or was queued. */
export class QueuedRequests {
  readonly #parts: DataPlaneParts;
  readonly #options: QueueOptions;
  readonly #paths: ProxiedPaths;
  readonly #queue: DurableQueue;
  readonly #responses: QueueResponses;
  readonly #followUp: (proxied: ProxiedRequest, engineId: string) => void;
  readonly #userHeader: string;

  constructor(
    parts: DataPlaneParts,
    options: QueueOptions,
    paths: ProxiedPaths,
    queue: DurableQueue,
    responses: QueueResponses,
    followUp: (proxied: ProxiedRequest, engineId: string) => void,
  ) {
    this.#parts = parts;
    this.#options = options;
    this.#paths = paths;
    this.#queue = queue;
    this.#responses = responses;
    this.#followUp = followUp;
    this.#userHeader = parts.names.headerKey('User');
  }

  serve(proxied: ProxiedRequest, id: string): void {
    const { responses } = this.#parts;
    const { method, target, statementPath, pathKind } = proxied;
    const base = statementPath ? this.#paths.statementPathOf(target.path) : null;
    if (base === null) {
      this.#later(proxied, id, (row) =>
        pathKind === 'ui' ? this.#show(proxied, id, row) : this.#about(proxied, id, row),
      );
      return;
    }
    const parts = queuedTarget(target.path, base);
    if (parts === null || !this.#options.key.isSlugOf(id, parts.slug)) {
      responses.send(proxied, 404, plainText, 'Query not found\n');
      return;
    }
    if (method === 'GET' || method === 'HEAD')
      this.#queue.poll(proxied, id, parts.token, maxWaitOf(target.query, POLL_MS));
    else if (method !== 'DELETE') {
      const message = `Method ${method} is not taken for a query that waits; take GET or DELETE.`;
      responses.reject(proxied, { reason: 'method', message, queryId: id, allow: 'GET, HEAD, DELETE' });
    } else if (this.#queue.drop(id)) responses.send(proxied, 204, [], '');
    else this.#later(proxied, id, (row) => this.cancel(proxied, row));
  }

  /**
   * Kills a queued query for a call of kill_query, if the caller submitted it. Never rejects.
   * @param user of the call; null if unknown
   * @param id in the statement
   */
  async kill({ request }: ProxiedRequest, body: BodyStart, user: string | null, id: string): Promise<KillResponse> {
    try {
      const row = await this.#options.repository.get(id);
      if (row === null)
        return rejectedKill('unknown_query', id, 'no query of this id waits, or waited in the last days.');
      if (row.engineId !== null) return killOfEngine(body, id, row.engineId);
      if (row.state !== 'waiting') return rejectedKill('undecided_query', id, 'it is on its way to a cluster.');
      const stored = await this.#queue.stored(id);
      if (user === null || user !== row.user || stored === null || !areSame(request.rawHeaders, stored.headers)) {
        const why = `it waits, and was sent by another user or with other credentials; an administrator can take it out (DELETE /api/queue/${id}).`;
        return rejectedKill('denied', id, why);
      }
      await this.#queue.dropAnywhere(row);
      return { kind: 'killed' };
    } catch {
      return rejectedKill('undecided_query', id, 'the database cannot be read; try again in a second.');
    }
  }

  /** Ends a query for its client, wherever it is. */
  async cancel(proxied: ProxiedRequest, row: QueuedQueryRow | null): Promise<void> {
    if (row?.state === 'waiting' || row?.state === 'submitting') await this.#queue.dropAnywhere(row);
    else if (row?.state === 'running') await this.#options.repository.apply('cancel', row.id, row.replica);
    const response = row === null || row.engineId === null ? null : this.#queue.outcomeOf(row);
    const target = response?.kind === 'answer' ? nextTargetOf(response.body) : null;
    if (target === null || row?.engineId == null) this.#parts.responses.send(proxied, 204, [], '');
    else this.#followUp({ ...proxied, target, rawTarget: targetText(target) }, row.engineId);
  }

  /** A call with a query id only (`/v1/query/{id}`): forwarded once a cluster has the query. */
  async #about(proxied: ProxiedRequest, id: string, row: QueuedQueryRow | null): Promise<void> {
    const { responses } = this.#parts;
    if (row === null) {
      this.#responses.unknown(proxied, id);
      return;
    }
    const { engineId, state } = row;
    if (engineId !== null) {
      const { path, query } = proxied.target;
      const named = (text: string) => text.replaceAll(id, engineId);
      const target = { path: named(path), query: query === null ? null : named(query) };
      this.#followUp({ ...proxied, target, rawTarget: named(proxied.rawTarget) }, engineId);
    } else if (state !== 'waiting' || proxied.method !== 'DELETE') {
      const what =
        state === 'failed' ? 'ended before a cluster had it' : `waits for its turn in routing group ${row.group}`;
      responses.send(proxied, 404, plainText, `Query ${id} ${what}.\n`);
    } else if (await this.#isClientOf(proxied.request.rawHeaders, row)) {
      await this.#queue.dropAnywhere(row);
      responses.send(proxied, 204, [], '');
    } else {
      const message = `Query ${id} waits, and was sent by another user or with other credentials; an administrator can take it out (DELETE /api/queue/${id}).`;
      this.#responses.reject(proxied, id, 'denied', message);
    }
  }

  /**
   * True if a call has the credentials and the user of a query; the user header is optional with a password. The gateway
   * checks no passwords: a caller with the query's credentials is its user.
   */
  async #isClientOf(headers: RawHeaders, { id }: QueuedQueryRow): Promise<boolean> {
    const stored = await this.#queue.stored(id);
    if (stored === null || !areSame(headers, stored.headers)) return false;
    if (areSame(headers, stored.headers, [this.#userHeader])) return true;
    return headerValues(headers, this.#userHeader).length === 0 && headerValues(headers, 'authorization').length > 0;
  }

  /** The page of a query: the cluster's own, once it has the query. */
  #show(proxied: ProxiedRequest, id: string, row: QueuedQueryRow | null): void {
    const { responses, enginePages } = this.#parts;
    if (proxied.method !== 'GET' && proxied.method !== 'HEAD') {
      const message = `Method ${proxied.method} is not taken for the page of a query that waits; take GET.`;
      responses.reject(proxied, { reason: 'method', message, queryId: id, allow: 'GET, HEAD' });
    } else if (row !== null && row.engineId !== null && enginePages !== 'off') {
      const location = proxied.rawTarget.replaceAll(id, row.engineId);
      responses.send(proxied, 307, ['location', location, ...plainText], `${row.engineId}\n`);
    } else responses.send(proxied, row === null ? 404 : 200, pageHeaders(row), pageOf(id, this.#linesOf(row)));
  }

  /** The page needs no login, so it contains no user names: neither the statement nor the limits of the wait. */
  #linesOf(row: QueuedQueryRow | null): readonly string[] {
    if (row === null) return ['It does not wait here: it was cancelled, or ended long ago.'];
    const { id, engineId, state, group, waitingMs } = row;
    if (engineId !== null) return [`A cluster has it, as ${engineId}. The pages of clusters are not served here.`];
    if (state === 'failed') return ['It ended before a cluster had it: its client has the reason.'];
    const seconds = Math.round(waitingMs / 1000);
    const place = this.#queue.placeOf(id)?.position() ?? null;
    return [
      `It waits for its turn in routing group ${group}, for ${seconds < 120 ? `${seconds} s` : durationText(seconds * 1000)}.`,
      ...(place === null ? [] : [`Place: ${place.position} of ${place.waiting}.`]),
      'This page follows by itself, and leads to the page of the cluster once that has the query.',
    ];
  }

  /** Continues when the row is read; responds with an error if the database is unavailable. */
  #later(proxied: ProxiedRequest, id: string, next: (row: QueuedQueryRow | null) => void | Promise<void>): void {
    const go = async () => {
      const row = await this.#options.repository.get(id);
      if (!proxied.response.destroyed) await next(row);
    };
    go().catch((error: unknown) => {
      this.#parts.logger.warn({ err: error, queryId: id }, 'failed to look up queued query');
      if (!proxied.response.headersSent && !proxied.response.destroyed) this.#responses.undecided(proxied, id);
    });
  }
}

/** The statement with the cluster's id and unchanged length: its length is announced. */
function killOfEngine(body: BodyStart, id: string, engineId: string): KillResponse {
  const spaces = ' '.repeat(Math.max(0, id.length - engineId.length));
  const text = body.text.replaceAll(`'${id}'`, `'${engineId}'${spaces}`);
  if (!body.complete || text === body.text || engineId.length > id.length) {
    return rejectedKill('unknown_query', id, `its cluster knows it as ${engineId}: kill that.`);
  }
  return { kind: 'cluster', engineId, body: { bytes: Buffer.from(text), complete: true, text } };
}

function rejectedKill(reason: Refusal['reason'], id: string, why: string): KillResponse {
  return { kind: 'rejected', refusal: { reason, message: `Query ${id} cannot be killed: ${why}`, queryId: null } };
}

/** True if header lines have equal values; constant time. */
function areSame(headers: RawHeaders, stored: RawHeaders, names = ['authorization', 'cookie']): boolean {
  return names.every((name) => {
    const [a, b] = [headers, stored].map((lines) => Buffer.from(headerValues(lines, name).join('\n')));
    return a !== undefined && b !== undefined && a.length === b.length && timingSafeEqual(a, b);
  });
}

/** The parts of `/queued/{id}/{slug}/{token}` below a statement path; null for any other path. */
function queuedTarget(path: string, statementPath: string): { slug: string; token: number } | null {
  const [empty, kind, , slug, token, ...more] = path.slice(statementPath.length).split('/');
  if (empty !== '' || kind !== 'queued' || more.length > 0 || slug === undefined || token === undefined) return null;
  return /^\d{1,9}$/.test(token) ? { slug, token: Number(token) } : null;
}

const unitMs: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

/**
 * Maximum wait of a request: the query parameter `maxWait` (`500ms`, `1.50s`), if it is less than the limit.
 * @param limit milliseconds
 */
function maxWaitOf(query: string | null, limit: number): number {
  if (query === null) return limit;
  const stated = /^(\d{1,9}(?:\.\d{1,9})?) ?(ns|us|ms|s|m|h|d)$/.exec(new URLSearchParams(query).get('maxWait') ?? '');
  return stated === null ? limit : Math.min(limit, Number(stated[1]) * (unitMs[stated[2] as string] ?? 1));
}

function pageHeaders(row: QueuedQueryRow | null): readonly string[] {
  const isWaiting = row !== null && row.engineId === null && row.state !== 'failed';
  return [
    ...['Content-Type', 'text/html; charset=utf-8', 'Cache-Control', 'no-store', 'X-Content-Type-Options', 'nosniff'],
    ...['Content-Security-Policy', "default-src 'none'; frame-ancestors 'none'", 'Referrer-Policy', 'no-referrer'],
    ...(isWaiting ? ['Refresh', String(REFRESH_SECONDS)] : []),
  ];
}

function pageOf(id: string, lines: readonly string[]): string {
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Query ${escaped(id)}</title></head>
<body><h1>Query ${escaped(id)}</h1>
${lines.map((line) => `<p>${escaped(line)}</p>\n`).join('')}</body></html>
`;
}

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

function escaped(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => entities[character] ?? '');
}
