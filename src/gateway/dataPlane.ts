import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Clock } from '../model/clock.ts';
import { splitClusterKey } from '../routing/clusterKey.ts';
import { hasDotSegments, splitTarget, targetText } from '../routing/proxiedPaths.ts';
import { isQueuedId, recognizeQueryId } from '../routing/queryId.ts';
import { ALLOWED_METHODS, type Refusal } from '../routing/refusal.ts';
import type { RoutingTable } from '../routing/routingTable.ts';
import { announcedLength } from './bodies/body.ts';
import { bodyRefusal } from './bodies/bodyRefusal.ts';
import type { RequestBodies } from './bodies/requestBodies.ts';
import {
  composeDataPlane,
  type DataPlaneDependencies,
  type DataPlaneOptions,
  type DataPlaneSteps,
} from './dataPlaneComposition.ts';
import type { RequestKind } from './metrics/dataPlaneMetrics.ts';
import type { KillResult } from './ownership/engineKills.ts';
import type { ProxiedRequest } from './proxiedRequest.ts';
import { KEYED_METHODS } from './requests/keyedRequests.ts';
import { answer } from './requests/ownAnswers.ts';
import type { Tracing } from './tracing/requestTrace.ts';
import { isAuthenticated } from './user/authenticatedPaths.ts';
import type { CertificateUser } from './user/clientCertificates.ts';
import type { MappedUsers } from './user/mappedUsers.ts';

/** The proxying half of the gateway (docs/routing.md). */
export interface DataPlane {
  /** Loads what the database knows of running queries. Never rejects. */
  start(): Promise<void>;
  /** True if a request target is proxied; all others are the API's. */
  handles(rawUrl: string): boolean;
  handle(request: IncomingMessage, response: ServerResponse): void;
  /** Ends a running query by its cluster's own call, in the name of a user. Never rejects for what the cluster does. */
  kill(queryId: string, user: string): Promise<KillResult>;
  /** From now on submissions get a response 503 with Retry-After, which clients repeat elsewhere (a clean stop). */
  refuseSubmissions(): void;
  /** Waits until running responses are finished, at most for the time, then ends all connections to clusters. */
  close(timeoutMs: number): Promise<void>;
}

const SWEEP_INTERVAL_MS = 60_000;
const QUEUE_INTERVAL_MS = 1_000;
const COMMANDS_INTERVAL_MS = 250;

/** Makes the data plane; `start` it before its first request. */
export function createDataPlane(dependencies: DataPlaneDependencies, options: DataPlaneOptions): DataPlane {
  return new QueryDataPlane(dependencies, options);
}

class QueryDataPlane implements DataPlane {
  readonly #table: { readonly current: RoutingTable };
  readonly #clock: Clock;
  readonly #bodies: RequestBodies;
  readonly #tracing: Tracing | null;
  readonly #isLoaded: () => boolean;
  readonly #mapping: MappedUsers | null;
  readonly #certificates: DataPlaneOptions['certificates'];
  readonly #to: DataPlaneSteps;
  readonly #maxBodySize: number;
  #sweeper: NodeJS.Timeout | null = null;
  readonly #tenders: NodeJS.Timeout[] = [];
  #queueStop: Promise<void> | null = null;

  constructor(dependencies: DataPlaneDependencies, options: DataPlaneOptions) {
    this.#table = dependencies.table;
    this.#clock = dependencies.clock;
    this.#bodies = dependencies.bodies;
    this.#tracing = dependencies.tracing;
    this.#maxBodySize = options.settings.maxBodySize;
    this.#certificates = options.certificates;
    this.#mapping = dependencies.mapping?.users ?? null;
    this.#isLoaded = dependencies.isLoaded;
    this.#to = composeDataPlane(dependencies, options);
  }

  async start(): Promise<void> {
    this.#sweeper = setInterval(() => {
      const registered = new Set([...this.#table.current.clusters.values()].map((cluster) => cluster.proxyTo));
      this.#to.upstreams.sweep(registered);
      this.#to.chooser.sweep(this.#table.current);
    }, SWEEP_INTERVAL_MS).unref();
    const { queue } = this.#to;
    if (queue !== null) {
      this.#tenders.push(
        setInterval(() => void queue.room.maintain(), QUEUE_INTERVAL_MS).unref(),
        setInterval(() => void queue.room.obey(), COMMANDS_INTERVAL_MS).unref(),
      );
    }
    await this.#to.stickiness.start();
  }

  handles(rawUrl: string): boolean {
    const target = splitTarget(rawUrl);
    return target !== null && this.#to.paths.kindOf((splitClusterKey(target)?.target ?? target).path) !== null;
  }

  handle(request: IncomingMessage, response: ServerResponse): void {
    const whole = splitTarget(request.url ?? '');
    const prefixed = whole === null ? null : splitClusterKey(whole);
    const target = prefixed?.target ?? whole;
    const pathKind = target === null ? null : this.#to.paths.kindOf(target.path);
    if (target === null || pathKind === null) {
      answer(response, 404, ['content-type', 'text/plain; charset=utf-8'], 'Not a proxied path.\n');
      return;
    }
    const { prefixes: clientPrefixes, conflict } = this.#to.protocolHeaders.normalize(request.rawHeaders);
    const method = request.method ?? '';
    const isSubmission = prefixed === null && method === 'POST' && this.#to.paths.isSubmissionPath(target.path);
    const kind = kindOf(pathKind, isSubmission);
    const certificate = this.#certificates?.users.of(request) ?? withoutCertificate;
    const proxied: ProxiedRequest = {
      request,
      response,
      method,
      target,
      rawTarget: targetText(target),
      clusterKey: prefixed?.key ?? null,
      pathKind,
      statementPath: pathKind === 'statement' && this.#to.paths.statementPathOf(target.path) !== null,
      kind,
      clientPrefixes,
      certificateUser: certificate.kind === 'user' && isAuthenticated(target.path) ? this.#nameOf(certificate) : null,
      startedAt: this.#clock.monotonic(),
      trace: this.#tracing?.begin(request, method, kind) ?? null,
      ended: false,
    };
    try {
      if (conflict !== null) {
        this.#to.answers.refuse(proxied, { reason: 'header_conflict', message: conflict, queryId: null });
      } else if (certificate.kind === 'refused') refuseCertificate(this.#to, proxied, certificate.why);
      else this.#route(proxied, isSubmission);
    } catch (error) {
      this.#to.steps.defect(proxied, error);
    }
  }

  kill(queryId: string, user: string): Promise<KillResult> {
    return this.#to.kills.kill(queryId, user);
  }

  refuseSubmissions(): void {
    this.#to.submissions.refuseAll();
    this.#queueStop = this.#to.queue?.room.stop() ?? null;
  }

  async close(timeoutMs: number): Promise<void> {
    const { upstreams, stickiness, transactions, queue } = this.#to;
    const deadline = this.#clock.monotonic() + timeoutMs;
    while (upstreams.inFlight > 0 && this.#clock.monotonic() < deadline) await delay(20);
    if (this.#sweeper !== null) clearInterval(this.#sweeper);
    for (const tender of this.#tenders.splice(0)) clearInterval(tender);
    await (this.#queueStop ?? queue?.room.stop());
    queue?.foreign.stop();
    stickiness.stop();
    transactions.stop();
    await upstreams.destroy();
  }

  #nameOf({ user }: Extract<CertificateUser, { readonly kind: 'user' }>): string {
    return this.#mapping?.ofCertificate(user) ?? user;
  }

  #route(proxied: ProxiedRequest, isSubmission: boolean): void {
    const { method, request, response, target, clusterKey } = proxied;
    const { paths, answers, enginePages, submissions, followUps, others, queue, keyed, mapped } = this.#to;
    if (this.#to.clients.isLooped(request)) {
      answers.refuse(proxied, looped);
      return;
    }
    if (hasDotSegments(target.path)) {
      const message = 'The path holds "." or ".." segments, raw or encoded; send it without them.';
      answers.refuse(proxied, { reason: 'dot_segments', message, queryId: null });
      return;
    }
    switch (method) {
      case 'GET':
      case 'HEAD':
      case 'PUT':
      case 'DELETE':
      case 'POST':
        break;
      case 'OPTIONS':
        answer(response, 200, ['allow', clusterKey === null ? ALLOWED_METHODS : KEYED_METHODS], '');
        return;
      default: {
        const message = `Method ${method} is not proxied; allowed are ${ALLOWED_METHODS}.`;
        answers.refuse(proxied, { reason: 'method', message, queryId: null });
        return;
      }
    }
    if (this.#certificates?.isRequired === true && proxied.certificateUser === null && isAuthenticated(target.path)) {
      refuseCertificate(this.#to, proxied, 'This gateway takes queries over TLS with a client certificate only.');
      return;
    }
    if (!this.#isLoaded()) {
      answers.refuse(proxied, starting);
      return;
    }
    const announced = method === 'GET' || method === 'HEAD' ? null : announcedLength(request);
    if (announced !== null && announced > this.#maxBodySize) {
      answers.refuse(proxied, bodyRefusal('body_too_large', this.#bodies.memory, this.#maxBodySize));
      return;
    }
    const id = method === 'POST' ? null : recognizeQueryId(paths, proxied.pathKind, target.path, target.query);
    // Their pages are the gateway's, also where those of engines are not served.
    if (queue !== null && id !== null && isQueuedId(id)) {
      queue.requests.serve(proxied, id);
      return;
    }
    if (enginePages.refuse(proxied)) return;
    if (isSubmission) {
      submissions.submit(proxied);
      return;
    }
    const isOfQuery = id !== null || (clusterKey !== null && method !== 'POST');
    mapped.pass(proxied, isOfQuery, () => {
      if (clusterKey !== null && keyed.answer(proxied, clusterKey, id !== null)) return;
      if (id === null) others.route(proxied);
      else followUps.followUp(proxied, id);
    });
  }
}

const withoutCertificate: CertificateUser = { kind: 'none' };

function refuseCertificate({ answers }: DataPlaneSteps, proxied: ProxiedRequest, message: string): void {
  answers.refuse(proxied, { reason: 'client_certificate', message, queryId: null });
}

const looped: Refusal = {
  reason: 'loop',
  message:
    'This gateway forwarded the request before: the proxyTo of a cluster leads back to the gateway. Set it to the address of the cluster.',
  queryId: null,
};

const starting: Refusal = {
  reason: 'starting',
  message: 'This gateway is starting and does not know its clusters yet; ask again in a second.',
  queryId: null,
};

function kindOf(pathKind: ProxiedRequest['pathKind'], isSubmission: boolean): RequestKind {
  if (isSubmission) return 'submission';
  return pathKind === 'statement' ? 'follow_up' : pathKind;
}

function delay(milliseconds: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, milliseconds);
  });
}
