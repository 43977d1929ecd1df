import type { IncomingMessage, ServerResponse } from 'node:http';
import { splitClusterKey } from '../routing/clusterKey.ts';
import { hasDotSegments, ProxiedPaths, splitTarget, targetText } from '../routing/proxiedPaths.ts';
import { isQueuedId, recognizeQueryId } from '../routing/queryId.ts';
import { ALLOWED_METHODS, type Refusal, toRefusal } from '../routing/refusal.ts';
import { announcedLength } from './bodies/body.ts';
import { bodyRefusal } from './bodies/bodyRefusal.ts';
import {
  composeParts,
  composeQueue,
  type DataPlaneDependencies,
  type DataPlaneOptions,
  type DataPlaneParts,
  type QueueParts,
} from './dataPlaneComposition.ts';
import { answer } from './exchanges/ownResponses.ts';
import { SubmissionExchange } from './exchanges/submissionExchange.ts';
import { ProtocolHeaders } from './headers/protocolHeaders.ts';
import type { RequestKind } from './metrics/dataPlaneMetrics.ts';
import { type KillResult, killAtCluster } from './ownership/engineKills.ts';
import type { ProxiedRequest } from './proxiedRequest.ts';
import { ClusterRequests, KEYED_METHODS } from './requests/clusterRequests.ts';
import { rejectPage } from './requests/enginePages.ts';
import { Submissions } from './requests/submissions.ts';
import { isAuthenticated } from './user/authenticatedPaths.ts';
import type { CertificateUser } from './user/clientCertificates.ts';

const SWEEP_INTERVAL_MS = 60_000;
const QUEUE_INTERVAL_MS = 1_000;
const COMMANDS_INTERVAL_MS = 250;

/** The proxying half of the gateway (docs/routing.md). `start` it before its first request. */
export class DataPlane {
  readonly #parts: DataPlaneParts;
  readonly #certificates: DataPlaneOptions['certificates'];
  readonly #paths: ProxiedPaths;
  readonly #protocolHeaders: ProtocolHeaders;
  readonly #submissions: Submissions;
  readonly #requests: ClusterRequests;
  /** Null if submissions that wait are not kept. */
  readonly #queue: QueueParts | null;
  #timers: NodeJS.Timeout[] = [];
  #queueStop: Promise<void> | null = null;

  constructor(dependencies: DataPlaneDependencies, options: DataPlaneOptions) {
    const parts = composeParts(dependencies, options);
    this.#parts = parts;
    this.#certificates = options.certificates;
    this.#paths = new ProxiedPaths(options);
    this.#protocolHeaders = new ProtocolHeaders(parts.names);
    this.#requests = new ClusterRequests(parts);
    this.#queue = composeQueue(
      parts,
      this.#paths,
      (proxied, submission, answers) => new SubmissionExchange({ ...parts, answers }, proxied, submission).start(),
      (proxied, id) => void parts.answers.guard(proxied, () => this.#requests.followUp(proxied, id)),
    );
    this.#submissions = new Submissions(parts, this.#queue);
    parts.admission.watchCoordinators?.((queryId) => parts.stickiness.isSuperseded(queryId));
  }

  /** Loads what the database knows of running queries. Never rejects. */
  async start(): Promise<void> {
    const { table, upstreams, chooser, stickiness } = this.#parts;
    const sweep = () => {
      upstreams.sweep(new Set([...table.current.clusters.values()].map((cluster) => cluster.proxyTo)));
      chooser.sweep(table.current);
    };
    this.#timers = [setInterval(sweep, SWEEP_INTERVAL_MS).unref()];
    if (this.#queue !== null) {
      const { room } = this.#queue;
      this.#timers.push(
        setInterval(() => void room.maintain(), QUEUE_INTERVAL_MS).unref(),
        setInterval(() => void room.obey(), COMMANDS_INTERVAL_MS).unref(),
      );
    }
    await stickiness.start();
  }

  /** True if a request target is proxied; all others are the API's. */
  handles(rawUrl: string): boolean {
    const target = splitTarget(rawUrl);
    return target !== null && this.#paths.kindOf((splitClusterKey(target)?.target ?? target).path) !== null;
  }

  handle(request: IncomingMessage, response: ServerResponse): void {
    const whole = splitTarget(request.url ?? '');
    const prefixed = whole === null ? null : splitClusterKey(whole);
    const target = prefixed?.target ?? whole;
    const pathKind = target === null ? null : this.#paths.kindOf(target.path);
    if (target === null || pathKind === null) {
      answer(response, 404, ['content-type', 'text/plain; charset=utf-8'], 'Not a proxied path.\n');
      return;
    }
    const { clock, tracing, answers } = this.#parts;
    const { prefixes: clientPrefixes, conflict } = this.#protocolHeaders.normalize(request.rawHeaders);
    const method = request.method ?? '';
    const isSubmission = prefixed === null && method === 'POST' && this.#paths.isSubmissionPath(target.path);
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
      statementPath: pathKind === 'statement' && this.#paths.statementPathOf(target.path) !== null,
      kind,
      clientPrefixes,
      certificateUser: certificate.kind === 'user' && isAuthenticated(target.path) ? this.#nameOf(certificate) : null,
      startedAt: clock.monotonic(),
      trace: tracing?.begin(request, method, kind) ?? null,
      ended: false,
    };
    const rejection: Refusal | null =
      conflict !== null
        ? toRefusal('header_conflict', conflict)
        : certificate.kind === 'refused'
          ? toRefusal('client_certificate', certificate.why)
          : null;
    void answers.guard(proxied, () =>
      rejection === null ? this.#route(proxied, isSubmission) : answers.refuse(proxied, rejection),
    );
  }

  /** Ends a running query by its cluster's own call, in the name of a user. Never rejects for what the cluster does. */
  kill(queryId: string, user: string): Promise<KillResult> {
    return killAtCluster(this.#parts, queryId, user);
  }

  /** From now on submissions get a response 503 with Retry-After, which clients repeat elsewhere (a clean stop). */
  rejectSubmissions(): void {
    this.#submissions.rejectAll();
    this.#queueStop = this.#queue?.room.stop() ?? null;
  }

  /** Waits until running responses are finished, at most for the time, then ends all connections to clusters. */
  async close(timeoutMs: number): Promise<void> {
    const { clock, upstreams, stickiness, transactions } = this.#parts;
    const deadline = clock.monotonic() + timeoutMs;
    while (upstreams.inFlight > 0 && clock.monotonic() < deadline) await delay(20);
    for (const timer of this.#timers.splice(0)) clearInterval(timer);
    await (this.#queueStop ?? this.#queue?.room.stop());
    this.#queue?.foreign.stop();
    stickiness.stop();
    transactions.stop();
    await upstreams.destroy();
  }

  #nameOf({ user }: Extract<CertificateUser, { readonly kind: 'user' }>): string {
    return this.#parts.mapping?.users.ofCertificate(user) ?? user;
  }

  async #route(proxied: ProxiedRequest, isSubmission: boolean): Promise<void> {
    const { method, request, response, target, clusterKey } = proxied;
    const refusal = this.#refusalOf(proxied);
    if (refusal !== null) {
      this.#parts.answers.refuse(proxied, refusal);
      return;
    }
    if (method === 'OPTIONS') {
      answer(response, 200, ['allow', clusterKey === null ? ALLOWED_METHODS : KEYED_METHODS], '');
      return;
    }
    const { bodies, settings, answers } = this.#parts;
    const announced = method === 'GET' || method === 'HEAD' ? null : announcedLength(request);
    if (announced !== null && announced > settings.maxBodySize) {
      answers.refuse(proxied, bodyRefusal('body_too_large', bodies.memory, settings.maxBodySize));
      return;
    }
    const id = method === 'POST' ? null : recognizeQueryId(this.#paths, proxied.pathKind, target.path, target.query);
    // Their pages are the gateway's, also where those of engines are not served.
    if (this.#queue !== null && id !== null && isQueuedId(id)) this.#queue.requests.serve(proxied, id);
    else if (rejectPage(this.#parts, proxied)) return;
    else if (isSubmission) await this.#submissions.submit(proxied);
    else await this.#requests.serve(proxied, id);
  }

  /** Reason that a request is rejected whatever it asks for, or null. */
  #refusalOf({ method, request, target, certificateUser }: ProxiedRequest): Refusal | null {
    if (this.#parts.headers.isLooped(request)) return looped;
    if (hasDotSegments(target.path)) {
      const message = 'The path holds "." or ".." segments, raw or encoded; send it without them.';
      return toRefusal('dot_segments', message);
    }
    if (method === 'OPTIONS') return null;
    if (!METHODS.has(method)) {
      const message = `Method ${method} is not proxied; allowed are ${ALLOWED_METHODS}.`;
      return toRefusal('method', message);
    }
    if (this.#certificates?.isRequired === true && certificateUser === null && isAuthenticated(target.path)) {
      const message = 'This gateway takes queries over TLS with a client certificate only.';
      return toRefusal('client_certificate', message);
    }
    return this.#parts.isLoaded() ? null : starting;
  }
}

const METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'PUT', 'DELETE', 'POST']);

const withoutCertificate: CertificateUser = { kind: 'none' };

const looped = toRefusal(
  'loop',
  'This gateway forwarded the request before: the proxyTo of a cluster leads back to the gateway. Set it to the address of the cluster.',
);

const starting = toRefusal(
  'starting',
  'This gateway is starting and does not know its clusters yet; ask again in a second.',
);

function kindOf(pathKind: ProxiedRequest['pathKind'], isSubmission: boolean): RequestKind {
  if (isSubmission) return 'submission';
  return pathKind === 'statement' ? 'follow_up' : pathKind;
}

function delay(milliseconds: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, milliseconds);
  });
}
