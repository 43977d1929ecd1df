import { hash } from 'node:crypto';
import { inTime } from '../../model/timeLimit.ts';
import { type SurvivalPolicy, survivalOf } from '../../routing/admissionPolicy.ts';
import { routable } from '../../routing/clusterChooser.ts';
import type { GroupDecision } from '../../routing/groupRouter.ts';
import { refusalError } from '../../routing/refusal.ts';
import { isQueuedId } from '../../routing/statementProtocol.ts';
import type { FailedAttempt } from '../../routing/storedDecision.ts';
import { isRead } from '../../sql/analyzeSql.ts';
import type { QueryProperties } from '../../sql/queryProperties.ts';
import type { QueuedQueryRow } from '../../store/store.ts';
import type { DataPlaneParts, QueueOptions } from '../dataPlane.ts';
import type { BufferedResponse } from '../exchanges/exchange.ts';
import type { LostAttempt, Submission, SurvivalRecord } from '../exchanges/queryRecorder.ts';
import { ownerGone, undecidedQuery } from '../exchanges/responses.ts';
import type { PageError } from '../outcomes/finalPage.ts';
import type { ProxiedRequest, SurvivalMark } from '../proxiedRequest.ts';
import type { DurableQueue } from './durableQueue.ts';
import { QuarantineCheck } from './quarantineCheck.ts';
import { encodeSubmission, isStorable, type StoredOutcome } from './storedSubmission.ts';

/** Query parameter of the URIs of a query without rows: id, slug, and digest of the columns that its client has. */
const MARK = 'eg_survival=';
/** Maximum size of a page that is read; a longer one is forwarded as it is. */
const MAX_PAGE_BYTES = 1_048_576;
const DATA = ',"data":';
const EMPTY_DATA = /^,"data":\s*\[\s*\]/;
/** Maximum number of reads of a row that other replicas change meanwhile. */
const MAX_TRIES = 3;
/** Timeout for storing a retry, after which the client asks again. */
const STORE_TIMEOUT_MS = 5_000;
/** Maximum wait of a request for the next attempt. */
const POLL_MS = 1_000;
const DIGEST_DIGITS = 16;
const JSON_HEADERS = ['content-type', 'application/json'];
/** Maximum size of an error page that is stored for the client. */
const MAX_STORED_PAGE = 65_536;
const MAX_REASON_LENGTH = 512;

/** Errors of a cluster that has too little memory or disk for a query, or no workers. Limits of time, CPU and scans are none. */
const insufficientResources: ReadonlySet<string> = new Set([
  ...['EXCEEDED_LOCAL_MEMORY_LIMIT', 'EXCEEDED_GLOBAL_MEMORY_LIMIT', 'CLUSTER_OUT_OF_MEMORY', 'EXCEEDED_SPILL_LIMIT'],
  ...['EXCEEDED_TASK_DESCRIPTOR_STORAGE_CAPACITY', 'NO_NODES_AVAILABLE'],
]);

/** A page of a query: what decides whether another attempt is possible. */
interface Page {
  /** Null if it has rows or an error, or is the last one. */
  readonly nextUri: string | null;
  /** Digest of names and types; null without columns. */
  readonly columns: string | null;
  readonly hasWarnings: boolean;
  /** Null if it has no error, or one that another cluster would not avoid. */
  readonly failure: FailedPage | null;
}

/** True if the body of a cluster's response has the mark. */
export function isMarked(body: Buffer): boolean {
  return body.includes(MARK, 0, 'latin1');
}

/** The response for the client of a query that cannot continue: the first error; null before a retry. */
export function firstError({ lost: [first] }: SurvivalRecord): StoredOutcome | null {
  if (first === undefined) return null;
  const { queryId, cluster, reason, page } = first;
  if (page === undefined) return { kind: 'refusal', refusal: ownerGone(queryId, cluster, reason) };
  return { kind: 'answer', status: 200, headers: JSON_HEADERS, body: Buffer.from(page, 'latin1') };
}

/** An attempt that its cluster could not finish. */
export interface UnfinishedAttempt {
  readonly error: PageError;
  /** Cancels it before the next one. Never rejects. */
  end(): Promise<void>;
}

/** A page with an error of a cluster that has too few resources for the query. */
export interface FailedPage {
  readonly reason: string;
  readonly error: PageError;
  /** The page in latin1; undefined if it is too long to be stored. */
  readonly text: string | undefined;
}

/**
 * Reads that continue on another cluster after theirs is lost (docs/survival.md). Their rows of the queue have the
 * submission, and the URIs that their clients poll have a mark until the first row: a request without it has rows.
 */
export class Survival {
  readonly #parts: DataPlaneParts;
  readonly #options: QueueOptions;
  readonly #queue: DurableQueue;
  readonly quarantine: QuarantineCheck | null;

  constructor(parts: DataPlaneParts, options: QueueOptions, queue: DurableQueue) {
    this.#parts = parts;
    this.#options = options;
    this.#queue = queue;
    this.quarantine = options.quarantine === undefined ? null : new QuarantineCheck(parts, options.quarantine);
  }

  /** The state of a submission that may run again; undefined if it may not. */
  recordOf(submission: Submission, properties: QueryProperties | null): SurvivalRecord | undefined {
    const { decision } = submission;
    const policy = survivalOf(this.#parts.table.current.admission.groups, decision);
    if (policy === null || properties === null || !isStorable(submission) || !isRead(properties)) return undefined;
    return { group: decision.group, lost: [], columns: null };
  }

  /** The decision after a cluster may have accepted a submission, and ended without a response; null: its client gets the error. */
  decisionAfter({ decision, survival }: Submission, failed: readonly FailedAttempt[]): GroupDecision | null {
    const policy = survival === undefined ? null : this.#policyOf(survival.group);
    if (survival === undefined || policy === null || !policy.reasons.includes('ClusterLost')) return null;
    if (failed.length >= policy.maxAttempts) return null;
    const lost = failed.map(({ cluster, error }) => ({ queryId: '', cluster, reason: error }));
    return this.#nextDecision(decision, policy.to, { ...survival, lost });
  }

  /**
   * Stores a query that a cluster accepted, before its client knows of it.
   * @returns the first response with the mark; null if the query ends with its cluster; `different` if its columns are
   * not those that its client has
   */
  async accept(
    proxied: ProxiedRequest,
    submission: Submission,
    engineId: string,
    response: Readonly<BufferedResponse>,
  ): Promise<Buffer | null | 'different'> {
    const { survival, queuedAs } = submission;
    const text = textOf(response);
    const page = readPage(text);
    const before = survival?.columns ?? null;
    if (isDifferent(page, before)) return 'different';
    if (page === null || !isMarkable(page, before)) return null;
    const columns = page.columns ?? before;
    const id = queuedAs ?? (await this.#queue.store(proxied, submission, engineId));
    return id === null ? null : this.#marked(text, page.nextUri, { id, columns });
  }

  /** Reads the mark of a request about a query, and takes it from its URL. */
  read(proxied: ProxiedRequest): ProxiedRequest {
    const { target } = proxied;
    const parameters = target.query?.split('&') ?? [];
    const mark = parameters.find((each) => each.startsWith(MARK));
    if (mark === undefined) return proxied;
    const query = parameters.filter((each) => each !== mark).join('&') || null;
    const [id = '', slug = '', columns = null] = mark.slice(MARK.length).split('.');
    const rawTarget = query === null ? target.path : `${target.path}?${query}`;
    const plain = { ...proxied, target: { ...target, query }, rawTarget };
    if (!isQueuedId(id) || !this.#options.key.isSlugOf(id, slug)) return plain;
    if (proxied.method === 'GET') this.#queue.noteRunning(id, false);
    return { ...plain, survival: { id, columns } };
  }

  /**
   * Reads a page for the client of a marked request.
   * @returns the page with the mark; null if the client gets it as it is, with rows or the end; `partial` if more of it
   * is needed; `different` if its columns are not those that the client has; its error if another cluster may do better
   */
  page(
    { id, columns }: SurvivalMark,
    response: Readonly<BufferedResponse>,
  ): Buffer | null | 'partial' | 'different' | FailedPage {
    const text = textOf(response);
    const isLong = response.size >= MAX_PAGE_BYTES;
    if (!response.isWhole && !isLong && !text.includes(DATA)) return 'partial';
    const page = readPage(text);
    if (isDifferent(page, columns)) return 'different';
    if (page !== null && isMarkable(page, columns)) {
      return this.#marked(text, page.nextUri, { id, columns: columns ?? page.columns });
    }
    if (page !== null && page.failure !== null) return page.failure;
    this.settle(id);
    return null;
  }

  /** Notes that a query cannot continue elsewhere any more. */
  settle(id: string): void {
    this.#queue.noteRunning(id, true);
  }

  /**
   * Queues the next attempt of a query that its cluster lost or could not finish, unless another replica has.
   * @param failure null if the cluster is lost
   * @returns false if the client gets the error instead. Rejects without the database
   */
  async retry({ id, columns }: SurvivalMark, lost: LostAttempt, failure: UnfinishedAttempt | null): Promise<boolean> {
    const { repository } = this.#options;
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const row = await inTime(repository.get(id), STORE_TIMEOUT_MS);
      if (row === null) return false;
      const isSame = row.engineId === lost.queryId;
      if (!isSame) return true;
      if (row.state !== 'running') return false;
      const applied = await this.#retryRow(row, columns, lost, failure);
      if (applied === 'retried') return true;
      // A submission that was read after the row may be that of the next attempt, which another request has begun.
      const now = applied === 'rejected' ? await inTime(repository.get(id), STORE_TIMEOUT_MS) : null;
      if (applied === 'rejected') return now !== null && now.engineId !== lost.queryId;
    }
    return false;
  }

  /** Responds to a marked request with the next attempt. */
  poll(proxied: ProxiedRequest, { id }: SurvivalMark): void {
    this.#queue.poll(proxied, id, 0, POLL_MS);
  }

  /** The first error of a query. Rejects without the database. */
  async firstErrorOf({ id }: SurvivalMark): Promise<StoredOutcome | null> {
    const stored = await inTime(this.#queue.stored(id), STORE_TIMEOUT_MS);
    return stored?.survival === undefined ? null : firstError(stored.survival);
  }

  /** Responds with the first error of a query. @param first null if it is not known now: the client asks again */
  respondFirstError(proxied: ProxiedRequest, engineId: string, first: StoredOutcome | null): void {
    const { responses } = this.#parts;
    if (first === null) responses.reject(proxied, undecidedQuery(engineId));
    else if (first.kind === 'refusal') responses.reject(proxied, first.refusal);
    else responses.send(proxied, first.status, first.headers, first.body.toString());
  }

  /**
   * Ends the attempts of a query for its client.
   * @returns the row if a later attempt than that of the request exists. Never rejects
   */
  async cancel({ id }: SurvivalMark, engineId: string): Promise<QueuedQueryRow | null> {
    const { repository } = this.#options;
    try {
      for (let tries = 0; tries < MAX_TRIES; tries++) {
        const row = await inTime(repository.get(id), STORE_TIMEOUT_MS);
        if (row === null || row.engineId !== engineId) return row;
        if (row.state !== 'running') return null;
        if ((await repository.apply('cancel', id, row.replica)) !== null) return null;
      }
    } catch (error) {
      this.#parts.logger.warn({ err: error, queryId: engineId }, 'failed to cancel stored query');
    }
    return null;
  }

  async #retryRow(
    { id, replica: holder }: QueuedQueryRow,
    columns: string | null,
    lost: LostAttempt,
    failure: UnfinishedAttempt | null,
  ): Promise<'retried' | 'changed' | 'rejected'> {
    const { repository, key, replica } = this.#options;
    const { logger, runningQueries, outcomes } = this.#parts;
    const { queryId, cluster, reason } = lost;
    const stored = await inTime(this.#queue.stored(id), STORE_TIMEOUT_MS);
    const record = stored?.survival;
    const policy = record === undefined ? null : this.#policyOf(record.group);
    const isReason = policy?.reasons.includes(failure === null ? 'ClusterLost' : 'InsufficientResources') === true;
    if (stored === null || record === undefined || policy === null || !isReason) return 'rejected';
    const next = { ...record, columns: columns ?? record.columns, lost: [...record.lost, lost] };
    if (lost.isCertain === true && (await this.quarantine?.note(lost, record.group, stored))) return 'rejected';
    const decision = this.#nextDecision(stored.decision, policy.to, next);
    if (next.lost.length >= policy.maxAttempts || decision === null) return 'rejected';
    const request = key.seal('request', id, encodeSubmission({ ...stored, decision, survival: next }));
    await failure?.end();
    const { group } = decision;
    const counted = { countedFor: record.group, perMinute: policy.retriesPerMinute };
    const change = { replica, retry: { lostId: queryId, request, group, ...counted } };
    const applied = await inTime(repository.apply('retry', id, holder, change), STORE_TIMEOUT_MS);
    if (applied === null) return 'changed';
    runningQueries.noteEnd(queryId, cluster);
    const error = failure?.error ?? refusalError('owner_gone');
    if (error !== null) outcomes.retry(queryId, cluster, { ...error, message: `${reason}; continued as ${id}` });
    logger.info({ queryId, queuedAs: id, cluster, reason, group }, 'query continues on another cluster');
    return 'retried';
  }

  #policyOf(group: string): SurvivalPolicy | null {
    return this.#parts.table.current.admission.groups.get(group)?.survival ?? null;
  }

  /** The decision of the next attempt; null if no cluster can take it. Never leaves the declared groups. */
  #nextDecision(decision: GroupDecision, to: readonly string[], { group, lost }: SurvivalRecord): GroupDecision | null {
    const { groups } = this.#parts.table.current;
    const excluded = new Map(lost.map(({ cluster, reason }) => [cluster, reason]));
    const next = (to.length === 0 ? [group] : to).find((each) => routable(groups.get(each), excluded).length > 0);
    return next === undefined ? null : { ...decision, group: next, onUnavailable: 'reject' };
  }

  /** The page with a mark at its next URI; null if that is not found. */
  #marked(text: string, nextUri: string, { id, columns }: SurvivalMark): Buffer | null {
    const mark = `${MARK}${id}.${this.#options.key.slugOf(id)}${columns === null ? '' : `.${columns}`}`;
    const uri = JSON.stringify(nextUri);
    if (!text.includes(uri)) return null;
    const marked = JSON.stringify(`${nextUri}${nextUri.includes('?') ? '&' : '?'}${mark}`);
    return Buffer.from(
      text.replace(uri, () => marked),
      'latin1',
    );
  }
}

function textOf({ chunks }: Readonly<BufferedResponse>): string {
  return Buffer.concat(chunks).toString('latin1');
}

/**
 * True if the query can continue elsewhere after a page. Lists of warnings only grow, so that clients read those of a query
 * from its first page on: another attempt has none at first.
 * @param columns that the client has already; null for none
 */
function isMarkable(page: Page, columns: string | null): page is Page & { readonly nextUri: string } {
  return page.nextUri !== null && (!page.hasWarnings || columns !== null);
}

/** True if the columns of a page are not those that the client has, or are not known. @param known null for none */
function isDifferent(page: Page | null, known: string | null): boolean {
  return known !== null && (page === null || (page.columns ?? known) !== known);
}

/** Reads a page up to its rows; null if it cannot be read. */
function readPage(text: string): Page | null {
  const at = text.indexOf(DATA);
  const hasRows = at >= 0 && !EMPTY_DATA.test(text.slice(at));
  try {
    const head = JSON.parse(hasRows ? `${text.slice(0, at)}}` : text) as Readonly<Record<string, unknown>>;
    const { nextUri, columns, error, warnings } = head;
    const continues = typeof nextUri === 'string' && !hasRows && error === undefined;
    const failure = hasRows ? null : failureOf(error, text);
    return {
      nextUri: continues ? nextUri : null,
      columns: Array.isArray(columns) ? digestOf(columns) : null,
      hasWarnings: Array.isArray(warnings) && warnings.length > 0,
      failure,
    };
  } catch {
    return null;
  }
}

/** @param error of a page; null if another cluster would not do better */
function failureOf(error: unknown, page: string): FailedPage | null {
  const { errorName: name, errorType, errorCode, message } = (error ?? {}) as Readonly<Record<string, unknown>>;
  if (typeof name !== 'string' || !insufficientResources.has(name)) return null;
  const reason = Buffer.from(`${name}: ${String(message)}`.slice(0, MAX_REASON_LENGTH), 'latin1').toString();
  const type = typeof errorType === 'string' ? errorType : null;
  const code = typeof errorCode === 'number' ? errorCode : null;
  return {
    reason,
    error: { name, type, code, message: reason },
    text: page.length > MAX_STORED_PAGE ? undefined : page,
  };
}

function digestOf(columns: readonly { readonly name?: unknown; readonly type?: unknown }[]): string {
  const named = columns.map(({ name, type }) => [name, type]);
  return hash('sha256', JSON.stringify(named)).slice(0, DIGEST_DIGITS);
}
