import type { Logger } from 'pino';
import type { ProductNames } from '../../model/names.ts';
import type { Refusal, RefusalReason } from '../../routing/refusal.ts';
import { type ProxiedPaths, STATEMENT_PATH, targetText } from '../../routing/statementProtocol.ts';
import type { QueuedQueryRepository } from '../../store/queuedQueryRepository.ts';
import type { QueuedQueryRow } from '../../store/store.ts';
import type { DataPlaneSettings } from '../dataPlane.ts';
import { waitLine } from '../exchanges/responses.ts';
import type { RequestHeaders } from '../headers/requestHeaders.ts';
import type { ProxiedRequest } from '../proxiedRequest.ts';
import { abandonedText, type DurableQueue } from './durableQueue.ts';
import type { QueuedOwners } from './queuedOwners.ts';
import { type QueuedPage, queuedPage } from './queuedPage.ts';
import type { PollResponses, QueuedState } from './queuedPolls.ts';
import { finishedCall, maxWaitOf, queuedResponse, queuedTarget } from './queuedResponse.ts';
import type { QueueKey } from './queueKey.ts';
import type { RemotePolls } from './remotePolls.ts';
import { nextTargetOf, type StoredOutcome } from './storedOutcome.ts';

/** Maximum wait of a request for a queued query, as in engines. */
const POLL_MS = 1_000;

export interface OwnResponse {
  reject(proxied: ProxiedRequest, refusal: Refusal): void;
  send(proxied: ProxiedRequest, status: number, headers: readonly string[], body: string): void;
}

export interface QueueResponsesDependencies {
  readonly names: ProductNames;
  readonly key: QueueKey;
  readonly paths: ProxiedPaths;
  readonly clients: Pick<RequestHeaders, 'clientOf' | 'prefixOf'>;
  readonly responses: OwnResponse;
  readonly settings: Pick<DataPlaneSettings, 'explainHeader'>;
}

const plainText = ['content-type', 'text/plain; charset=utf-8', 'cache-control', 'no-store'];
const defaultPorts = { http: 80, https: 443 } as const;

export class QueueResponses implements PollResponses {
  readonly #dependencies: QueueResponsesDependencies;

  constructor(dependencies: QueueResponsesDependencies) {
    this.#dependencies = dependencies;
  }

  waiting(proxied: ProxiedRequest, id: string, token: number, waitedMs: number, state: QueuedState): void {
    const { names, key, paths, responses, settings } = this.#dependencies;
    const { place: waits, ...decided } = state;
    const lines = settings.explainHeader
      ? waitLine(names, { ...decided, position: waits?.position() ?? null, why: waits?.why() ?? null })
      : [];
    const place = {
      base: this.#base(proxied),
      statementPath: paths.statementPathOf(proxied.target.path) ?? STATEMENT_PATH,
      id,
      slug: key.slugOf(id),
    };
    const { status, headers, body } = queuedResponse(place, { token: token + 1, waitedMs, lines });
    responses.send(proxied, status, headers, body);
  }

  outcome(proxied: ProxiedRequest, id: string, outcome: StoredOutcome): void {
    const { responses } = this.#dependencies;
    if (outcome.kind === 'refusal') responses.reject(proxied, { ...outcome.refusal, queryId: id });
    else {
      // Node writes strings as Latin-1: every byte stays.
      const { status, headers, body } = outcome;
      responses.send(proxied, status, headers, body.toString('utf8'));
    }
  }

  killed(proxied: ProxiedRequest, id: string): void {
    const { status, headers, body } = finishedCall(`${id.slice(0, -'queue'.length)}calls`, this.#base(proxied));
    this.#dependencies.responses.send(proxied, status, headers, body);
  }

  unknown(proxied: ProxiedRequest, id: string): void {
    const message = `Query ${id} does not wait here: it was cancelled, was not asked for in ${abandonedText}, or its first answer was taken long ago.`;
    this.reject(proxied, id, 'unknown_query', message);
  }

  /** The gateway's address as the client named it. */
  #base(proxied: ProxiedRequest): string {
    const { clients } = this.#dependencies;
    const { scheme, host, port } = clients.clientOf(proxied.request);
    const authority = port === defaultPorts[scheme] ? host : `${host}:${port}`;
    return `${scheme}://${authority}${clients.prefixOf(proxied.request)}`;
  }

  reject(proxied: ProxiedRequest, id: string, reason: RefusalReason, message: string): void {
    this.#dependencies.responses.reject(proxied, { reason, message, queryId: id });
  }
}

export interface QueuedRequestsDependencies {
  readonly key: QueueKey;
  readonly paths: ProxiedPaths;
  readonly repository: QueuedQueryRepository;
  readonly queue: DurableQueue;
  readonly remotePolls: RemotePolls;
  readonly polls: PollResponses;
  readonly responses: OwnResponse;
  readonly followUp: (proxied: ProxiedRequest, id: string) => void;
  /** Checks that a caller is the client that sent a query. */
  readonly owners: Pick<QueuedOwners, 'areSameClient'>;
  /** True if pages of clusters are served, here or by a redirect. */
  readonly hasEnginePages: boolean;
  readonly logger: Logger;
}

/** Requests with a query id of the gateway: of a query that is or was queued. */
export class QueuedRequests {
  readonly #dependencies: QueuedRequestsDependencies;

  constructor(dependencies: QueuedRequestsDependencies) {
    this.#dependencies = dependencies;
  }

  serve(proxied: ProxiedRequest, id: string): void {
    const { key, paths, queue, remotePolls, responses } = this.#dependencies;
    const { method, target, statementPath } = proxied;
    const base = statementPath ? paths.statementPathOf(target.path) : null;
    if (base === null) {
      this.#later(proxied, id, (row) =>
        proxied.pathKind === 'ui' ? this.#show(proxied, id, row) : this.#about(proxied, id, row),
      );
      return;
    }
    const parts = queuedTarget(target.path, base);
    if (parts === null || !key.isSlugOf(id, parts.slug)) {
      responses.send(proxied, 404, plainText, 'Query not found\n');
      return;
    }
    switch (method) {
      case 'GET':
      case 'HEAD': {
        const holdMs = maxWaitOf(target.query, POLL_MS);
        if (!queue.poll(proxied, id, parts.token, holdMs)) remotePolls.hold(proxied, id, parts.token, holdMs);
        return;
      }
      case 'DELETE':
        if (queue.drop(id)) responses.send(proxied, 204, [], '');
        else this.#later(proxied, id, (row) => this.#cancel(proxied, row));
        return;
      default: {
        const message = `Method ${method} is not taken for a query that waits; take GET or DELETE.`;
        responses.reject(proxied, { reason: 'method', message, queryId: id, allow: 'GET, HEAD, DELETE' });
      }
    }
  }

  async #cancel(proxied: ProxiedRequest, row: QueuedQueryRow | null): Promise<void> {
    const { queue, responses, followUp } = this.#dependencies;
    if (row?.state === 'waiting') await queue.dropAnywhere(row);
    else if (row?.state === 'submitted' && row.engineId !== null) {
      const next = nextTargetOf(queue.outcomeOf(row));
      if (next !== null) {
        followUp({ ...proxied, target: next, rawTarget: targetText(next) }, row.engineId);
        return;
      }
    }
    responses.send(proxied, 204, [], '');
  }

  /** A call with a query id only (`/v1/query/{id}`): forwarded once a cluster has the query. */
  async #about(proxied: ProxiedRequest, id: string, row: QueuedQueryRow | null): Promise<void> {
    const { responses, polls, followUp, owners } = this.#dependencies;
    if (row === null) {
      polls.unknown(proxied, id);
      return;
    }
    const { engineId, state } = row;
    if (engineId !== null) {
      const { path, query } = proxied.target;
      const named = (text: string) => text.replaceAll(id, engineId);
      const target = { path: named(path), query: query === null ? null : named(query) };
      followUp({ ...proxied, target, rawTarget: named(proxied.rawTarget) }, engineId);
    } else if (state !== 'waiting' || proxied.method !== 'DELETE') {
      const what =
        state === 'failed' ? 'ended before a cluster had it' : `waits for its turn in routing group ${row.group}`;
      responses.send(proxied, 404, plainText, `Query ${id} ${what}.\n`);
    } else if (await owners.areSameClient(proxied.request.rawHeaders, row)) {
      await this.#dependencies.queue.dropAnywhere(row);
      responses.send(proxied, 204, [], '');
    } else {
      const message = `Query ${id} waits, and was sent by another user or with other credentials; an administrator can take it out (DELETE /api/queue/${id}).`;
      polls.reject(proxied, id, 'denied', message);
    }
  }

  /** The page of a query: the cluster's own, once it has the query. */
  #show(proxied: ProxiedRequest, id: string, row: QueuedQueryRow | null): void {
    const { responses, hasEnginePages } = this.#dependencies;
    if (proxied.method !== 'GET' && proxied.method !== 'HEAD') {
      const message = `Method ${proxied.method} is not taken for the page of a query that waits; take GET.`;
      responses.reject(proxied, { reason: 'method', message, queryId: id, allow: 'GET, HEAD' });
      return;
    }
    if (row !== null && row.engineId !== null && hasEnginePages) {
      const location = proxied.rawTarget.replaceAll(id, row.engineId);
      responses.send(proxied, 307, ['location', location, ...plainText], `${row.engineId}\n`);
      return;
    }
    const { status, headers, body } = queuedPage(id, this.#pageOf(row));
    responses.send(proxied, status, headers, body);
  }

  #pageOf(row: QueuedQueryRow | null): QueuedPage {
    if (row === null) return { state: 'unknown' };
    const { id, engineId, group, waitingMs } = row;
    if (engineId !== null) return { state: 'submitted', engineId };
    if (row.state === 'failed') return { state: 'failed' };
    const position = this.#dependencies.queue.placeOf(id)?.position() ?? null;
    return { state: 'waiting', group, waitedMs: waitingMs, position };
  }

  /** Continues when the row is read; responds with an error if the database is unavailable. */
  #later(proxied: ProxiedRequest, id: string, next: (row: QueuedQueryRow | null) => void | Promise<void>): void {
    const { repository, polls, logger } = this.#dependencies;
    const go = async () => {
      const row = await repository.get(id);
      if (!proxied.response.destroyed) await next(row);
    };
    go().catch((error: unknown) => {
      logger.warn({ err: error, queryId: id }, 'failed to look up queued query');
      if (proxied.response.headersSent || proxied.response.destroyed) return;
      const message = `Query ${id} cannot be looked up at the moment; ask again in a second.`;
      polls.reject(proxied, id, 'undecided_query', message);
    });
  }
}
