import type { ServerResponse } from 'node:http';
import type { Clock, Random } from '../../model/clock.ts';
import { durationText } from '../../model/durationText.ts';
import { type Refusal, renderRefusal, toRefusal } from '../../routing/refusal.ts';
import { endWith, isUnfinished } from '../bodies/requestBodies.ts';
import type { SharedParts } from '../dataPlane.ts';
import type { ProxiedRequest } from '../proxiedRequest.ts';
import { codeOf } from '../upstreams/upstreams.ts';

const PROCESS_DIGITS = 8;

/** Ids of rejected submissions: of the form of query ids, but never of a coordinator. */
export class RefusalIds {
  readonly #clock: Pick<Clock, 'now'>;
  readonly process: string;
  #count = 0;

  constructor(clock: Pick<Clock, 'now'>, random: Random) {
    this.#clock = clock;
    this.process = Math.floor(random() * 36 ** PROCESS_DIGITS)
      .toString(36)
      .padStart(PROCESS_DIGITS, '0');
  }

  /** Returns the next id, unique across replicas. */
  next(): string {
    const stamp = new Date(this.#clock.now()).toISOString().replace(/[-:]/g, '').slice(0, 15).replace('T', '_');
    this.#count = (this.#count + 1) % 100_000;
    return `${stamp}_${String(this.#count).padStart(5, '0')}_refused_${this.process}`;
  }
}

/** Responses that the gateway gives itself, and the note of each request's end. */
export type GatewayResponses = Pick<OwnResponses, 'reject' | 'failure' | 'noteEnd'>;

const PLAIN_TEXT = ['content-type', 'text/plain; charset=utf-8'] as const;

export class OwnResponses {
  readonly #parts: SharedParts;

  constructor(parts: SharedParts) {
    this.#parts = parts;
  }

  reject(proxied: ProxiedRequest, refusal: Refusal): void {
    const { metrics, headers, settings, logger, refusalIds } = this.#parts;
    const { reason, message } = refusal;
    metrics.countRejection(reason);
    proxied.trace?.noteFailure(reason);
    const client = headers.clientOf(proxied.request);
    const rendered = renderRefusal(refusal, {
      statementPath: proxied.statementPath,
      statementErrors: settings.statementErrors,
      baseUrl: `${client.scheme}://${client.host}:${client.port}`,
      fallbackId: refusalIds.next(),
    });
    logger.debug({ reason, path: proxied.target.path, method: proxied.method, status: rendered.status }, message);
    this.send(proxied, rendered.status, rendered.headers, rendered.body);
    // Of a long body only the start has been read. The rest is read and dropped, or the next request of the connection
    // would wait behind it for ever.
    proxied.request.resume();
  }

  /**
   * Responds 502 as text (docs/compatibility.md#proxying).
   * @param hasResponse true if the cluster began a response
   */
  failure(proxied: ProxiedRequest, error: Error, hasResponse: boolean): void {
    const { names, logger, settings } = this.#parts;
    const remote = `remote ${names.product} server`;
    const message =
      codeOf(error) === 'UND_ERR_HEADERS_TIMEOUT'
        ? `Request to ${remote} timed out after ${durationText(settings.asyncTimeout)}`
        : hasResponse
          ? `Failed reading response from ${remote}`
          : `Request to ${remote} failed`;
    logger.warn({ path: proxied.target.path, method: proxied.method, err: error }, message);
    this.send(proxied, 502, PLAIN_TEXT, message);
  }

  /** Responds, and counts a request that ends without an exchange; those with one are counted by it. */
  send(proxied: ProxiedRequest, status: number, headers: readonly string[], body: string): void {
    const { response } = proxied;
    response.once('close', () => this.noteEnd(proxied, response.statusCode, 0, null));
    respond(response, status, headers, body);
  }

  /**
   * Notes the end of a request for metrics and trace; only the first time counts.
   * @param status of the client's response; 0 when the client went away
   * @param clusterStatus of the cluster's response; 0 for none
   * @param cluster registry name of the cluster that responded; null for none
   */
  noteEnd(proxied: ProxiedRequest, status: number, clusterStatus: number, cluster: string | null): void {
    if (proxied.ended) return;
    proxied.ended = true;
    proxied.trace?.end(status, clusterStatus);
    const { clock, metrics } = this.#parts;
    const seconds = (clock.monotonic() - proxied.startedAt) / 1000;
    metrics.request(proxied.kind, proxied.method, status, seconds, cluster);
  }

  /** Serves a request; an error is a defect: logged, and responded 500. Never rejects. */
  async guard(proxied: ProxiedRequest, serve: () => void | Promise<void>): Promise<void> {
    try {
      await serve();
    } catch (error) {
      const { response, target, method } = proxied;
      this.#parts.logger.error({ err: error, path: target.path, method }, 'request failed');
      if (response.headersSent) response.destroy();
      else respond(response, 500, PLAIN_TEXT, 'The gateway failed; its log says why.\n');
    }
  }
}

/**
 * Responds to a request whole, unless that is too late. One whose body is not there yet is the last of its connection.
 */
export function respond(response: ServerResponse, status: number, headers: readonly string[], body: string): void {
  if (response.headersSent || response.destroyed) return;
  if (isUnfinished(response.req)) endWith(response.req, response);
  response.writeHead(status, [...headers, 'content-length', String(Buffer.byteLength(body))]);
  response.end(body);
}

/** Names of follow-ups may be long; messages hold their start. */
const MAX_SHOWN_ID = 256;

function clusterText(cluster: string): string {
  return cluster === '' ? '' : ` "${cluster}"`;
}

export function ownerGone(queryId: string, cluster: string, why: string): Refusal {
  const message = `Query ${queryId} was lost with its cluster${clusterText(cluster)}: ${why}. Run the query again.`;
  return toRefusal('owner_gone', message, queryId);
}

/** The refusal of a statement about a query whose cluster cannot be connected to: no other one can take it. */
export function unreachableOwner(queryId: string, cluster: string, why: string): Refusal {
  return toRefusal('owner_gone', `The cluster${clusterText(cluster)} of query ${queryId} cannot be reached: ${why}.`);
}

/** The refusal of a request that would have to wait behind too many others. */
export function overloaded(cluster: string): Refusal {
  return toRefusal('overloaded', `Too many requests are waiting for cluster "${cluster}".`);
}

export function responseHeadTooLarge(cluster: string, queryId: string | null): Refusal {
  const key = 'serverConfig."http-server.max-response-header-size"';
  const message = `The headers of the answer of cluster "${cluster}" are larger than the gateway takes (${key}).`;
  return toRefusal('answer_head_too_large', message, queryId);
}

/** The refusal of a statement of a transaction whose cluster is gone, where no other one can say so: Trino's words. */
export function unknownTransaction(id: string): Refusal {
  const message = `Unknown transaction ID: ${id}. Possibly expired? Commands ignored until end of transaction block`;
  return toRefusal('unknown_transaction', message);
}

/** The refusal of a submission whose response names a query id that its cluster may not own. */
export function conflictingQueryId(queryId: string, cluster: string, conflict: 'owned' | 'tooMany'): Refusal {
  const why =
    conflict === 'owned'
      ? 'which belongs to another cluster'
      : 'of one coordinator more than a cluster may have in a short time';
  const message = `Cluster "${cluster}" answered with query id ${queryId}, ${why}. Its answer is refused; ask the administrator of the gateway.`;
  return toRefusal('ownership_conflict', message);
}

export function unknownQuery(queryId: string): Refusal {
  const message = `Query ${queryId.slice(0, MAX_SHOWN_ID)} is not known to any cluster behind this gateway.`;
  return toRefusal('unknown_query', message, queryId);
}

/** The refusal of a request for a query of which no one can say at the moment whether a cluster knows it. */
export function undecidedQuery(queryId: string): Refusal {
  const message = `Which cluster runs query ${queryId.slice(0, MAX_SHOWN_ID)} is not known at the moment; ask again in a second.`;
  return toRefusal('undecided_query', message, queryId);
}

/** The refusal of a request for a query whose suffix two clusters claimed while the database was unavailable. */
export function disownedQuery(queryId: string): Refusal {
  const message = `Query ${queryId} was lost: two clusters gave out its id while the database was unavailable. Run the query again.`;
  return toRefusal('owner_gone', message, queryId);
}
