import type { IncomingMessage, ServerResponse } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import type { GatewayConfig } from '../config/gatewayConfig.ts';
import type { Clock, Random } from '../model/clock.ts';
import type { ProductNames } from '../model/names.ts';
import type { RequestUser } from '../model/requestUser.ts';
import type { SizeEstimates } from '../model/sizeEstimates.ts';
import { type ChoiceSettings, ClusterChooser } from '../routing/clusterChooser.ts';
import { type ExternalRules, GroupRouter } from '../routing/groupRouter.ts';
import { ALLOWED_METHODS, type Refusal, toRefusal } from '../routing/refusal.ts';
import type { RoutingTable } from '../routing/routingTable.ts';
import { type ProxiedPathOptions, ProxiedPaths, type ProxiedTarget } from '../routing/statementProtocol.ts';
import type { Quarantine } from '../store/quarantine.ts';
import type { QueuedQueryRepository } from '../store/queuedQueryRepository.ts';
import type { HistoryWriter, Store } from '../store/store.ts';
import type { Admission } from './admission/admission.ts';
import { type RequestBodies, tooLargeBody } from './bodies/requestBodies.ts';
import { QueryRecorder } from './exchanges/queryRecorder.ts';
import { type GatewayResponses, OwnResponses, RefusalIds, ResponseHeaders, respond } from './exchanges/responses.ts';
import type { ForwardedHeadersObservation } from './exchanges/responseWatch.ts';
import { ForwardedCheck } from './exchanges/responseWatch.ts';
import { ownCookieNames } from './headers/cookies.ts';
import { ProtocolHeaders, type RequestHeaderOptions, RequestHeaders } from './headers/requestHeaders.ts';
import type { HealthMonitors } from './health/healthMonitors.ts';
import { DataPlaneMetrics } from './metrics/dataPlaneMetrics.ts';
import type { QueryOutcomes } from './outcomes/queryOutcomes.ts';
import { ClusterKeys } from './ownership/clusterKeys.ts';
import { CoordinatorSearch } from './ownership/coordinatorSearch.ts';
import { type KillResult, killAtCluster } from './ownership/engineKills.ts';
import { OwnershipReport } from './ownership/ownershipReport.ts';
import type { RunningQueries } from './ownership/runningQueries.ts';
import { Stickiness, type StickinessOptions } from './ownership/stickiness.ts';
import { Transactions } from './ownership/transactions.ts';
import { type HandshakeCookieOptions, HandshakeCookies } from './pages/handshakeCookies.ts';
import type { ProxiedRequest, RequestAnalyzer } from './proxiedRequest.ts';
import { DurableQueue } from './queue/durableQueue.ts';
import { QueuedRequests, QueueResponses } from './queue/queuedRequests.ts';
import type { QueueKey } from './queue/queueKey.ts';
import type { SendSubmission } from './queue/storedSubmission.ts';
import { Survival } from './queue/survival.ts';
import { ClusterRequests, type EnginePagesMode, KEYED_METHODS } from './requests/clusterRequests.ts';
import { Submissions } from './requests/submissions.ts';
import type { Tracing } from './tracing/openTelemetry.ts';
import { type UpstreamOptions, Upstreams } from './upstreams/upstreams.ts';
import { type CertificateUser, type ClientCertificates, isAuthenticated } from './user/clientCertificates.ts';
import type { CertificateIdentities } from './user/clusterTokens.ts';
import type { MappedUsers } from './user/userMapping.ts';

/** Settings of the data plane; times in milliseconds, sizes in bytes. */
export interface DataPlaneSettings
  extends ChoiceSettings,
    Omit<GatewayConfig['routing'], keyof ChoiceSettings | 'groups'>,
    Pick<GatewayConfig, 'includeClusterHostInResponse'> {
  /** True if errors of the external rules service are the client's response. */
  readonly propagateErrors: boolean;
  /** `requestAnalyzerConfig.maxBodySize`; submissions are buffered up to this, and at least up to 1 MB. */
  readonly maxAnalyzedBody: number;
  readonly maxBodySize: number;
  /** Time without a client taking what waits for it, after which its connection is cut. */
  readonly clientStallTimeout: number;
  /** Time of rejected connections after which a query's cluster counts as gone. */
  readonly ownerGoneAfter: number;
  readonly logQueryText: boolean;
  /** True if queries are recorded (`dataStore.queryHistoryEnabled`). */
  readonly historyEnabled: boolean;
  /** True if responses wait until their query is in the history (`queryHistory.writeBeforeAnswer`). */
  readonly historyBeforeResponse: boolean;
}

/** The mapping of user names. */
interface UserMapping {
  readonly users: MappedUsers;
  /** The user of a request, without groups. Neither throws nor rejects. */
  identity(proxied: ProxiedRequest): RequestUser | Promise<RequestUser>;
}

export interface QueueOptions {
  readonly repository: QueuedQueryRepository;
  /** Seals what is kept; the same on all replicas. */
  readonly key: QueueKey;
  /** Name of this replica, different from those of all others that run or ran. */
  readonly replica: string;
  /** Statements that lost clusters; absent: none is rejected therefore. */
  readonly quarantine?: Pick<Quarantine, 'note' | 'active'>;
}

/** Parts of the process that every part of the data plane may use. */
interface ProcessParts {
  readonly names: ProductNames;
  readonly bodies: RequestBodies;
  readonly logger: Logger;
  readonly registry: Registry;
  readonly clock: Clock;
  readonly random: Random;
}

/** Parts that get what happens to queries, and what these show of clusters. */
interface QueryObservers {
  readonly history: Pick<HistoryWriter, 'add' | 'findBuffered' | 'fitText' | 'whenWritten'>;
  readonly runningQueries: Pick<RunningQueries, 'noteActivity' | 'noteEnd'>;
  readonly outcomes: Pick<
    QueryOutcomes,
    'begin' | 'page' | 'end' | 'cancel' | 'lose' | 'retry' | 'reject' | 'awaitsRows'
  >;
  /** Expected sizes of queries; absent: nothing is estimated. */
  readonly estimates?: SizeEstimates;
  /** Null: requests are not traced. */
  readonly tracing: Tracing | null;
  /** Takes what real requests find out about clusters. */
  readonly reports: Pick<HealthMonitors, 'connectionFailed' | 'serverFailed'>;
  /** Takes changes of whether a cluster honours forwarded headers. */
  readonly onObservation: (observation: ForwardedHeadersObservation) => void;
  /** Takes a statement that its routing group rejects from now on, in words. */
  readonly onQuarantined?: (group: string, note: string) => void;
}

export interface DataPlaneDependencies extends ProcessParts, QueryObservers {
  readonly table: { readonly current: RoutingTable };
  readonly store: Pick<Store, 'coordinators' | 'queries' | 'transactions' | 'history'>;
  readonly analyzer: RequestAnalyzer;
  /** Mapping of user names; null or absent: disabled. */
  readonly mapping?: UserMapping | null;
  /** Null: rules and header decide. */
  readonly externalRules: ExternalRules | null;
  /** Decides when submissions are sent on. */
  readonly admission: Admission;
  /** Storage of waiting submissions; null: their requests wait. */
  readonly queue: QueueOptions | null;
  /** True if the resource source or the database was read, so that a missing cluster is a final response. */
  readonly isLoaded: () => boolean;
}

export interface DataPlaneOptions
  extends ProxiedPathOptions,
    Pick<RequestHeaderOptions, 'trustPeer' | 'certificateHeader' | 'ownCookies'> {
  /** Audiences of service account tokens that clusters do not get; null or absent: they get all. */
  readonly localAudiences?: readonly string[] | null;
  /** Users of client certificates; null: certificates name no users. */
  readonly certificates: {
    readonly users: ClientCertificates;
    readonly isRequired: boolean;
    /** Identity of certificate users for clusters; null: clients' headers are forwarded. */
    readonly identities: CertificateIdentities | null;
  } | null;
  /** Cookies of OAuth2 logins; null for none. */
  readonly handshakeCookies: HandshakeCookieOptions | null;
  /** `server.enginePages`. */
  readonly enginePages: EnginePagesMode;
  readonly upstream: UpstreamOptions;
  readonly stickiness: StickinessOptions;
  readonly settings: DataPlaneSettings;
}

/** Parts that all requests share, except those that are made of these. */
export type SharedParts = ReturnType<typeof composeShared>;

/** Parts that all requests share. */
export interface DataPlaneParts extends SharedParts {
  readonly responses: OwnResponses;
  readonly recorder: QueryRecorder;
  /** Null if submissions are not stored. */
  survival: Survival | null;
}

/** Parts of an exchange; the gateway's own responses may go elsewhere than to a client. */
export type ExchangeParts = Omit<DataPlaneParts, 'responses'> & { readonly responses: GatewayResponses };

/** Makes the parts of the data plane: the one place that knows all of them. */
function composeShared(dependencies: DataPlaneDependencies, options: DataPlaneOptions) {
  const { settings, handshakeCookies, certificates, ownCookies, trustPeer, certificateHeader } = options;
  const { names, table, clock, logger, registry, store, random, tracing, admission, externalRules } = dependencies;
  const { defaultRoutingGroup, propagateErrors, ownerTakeover } = settings;
  const hasCapacity = (cluster: string) => admission.hasCapacity?.(cluster) ?? true;
  const upstreams = new Upstreams(options.upstream, clock);
  const refusalIds = new RefusalIds(clock, random);
  const keys = new ClusterKeys(table);
  return {
    ...dependencies,
    settings,
    enginePages: options.enginePages,
    /** Header of submissions that take spooled results. */
    spooledEncoding: names.headerKey('Query-Data-Encoding'),
    upstreams,
    /** True if lines may be added to a response; most settings add none. */
    addsLines: handshakeCookies !== null || settings.explainHeader || settings.includeClusterHostInResponse,
    chooser: new ClusterChooser(settings, random, () => clock.monotonic(), names, hasCapacity),
    router: new GroupRouter(names, defaultRoutingGroup, externalRules, propagateErrors),
    metrics: new DataPlaneMetrics(registry, table, upstreams, clock),
    refusalIds,
    headers: new RequestHeaders({
      names,
      viaToken: refusalIds.process,
      forwardedHeadersEnabled: settings.forwardedHeadersEnabled,
      ...{ trustPeer, ownCookies, certificateHeader },
      tracing: tracing !== null,
    }),
    responseHeaders: new ResponseHeaders(
      names,
      ownCookieNames([...ownCookies, names.clusterHostCookie], [names.stickyCookiePrefix]),
      options.enginePages !== 'proxy',
    ),
    keys,
    /** Cookies of OAuth2 logins; null unless they are used. */
    handshakes: handshakeCookies === null ? null : new HandshakeCookies(handshakeCookies, keys, clock),
    /** Identity of certificate users for clusters; null: clients' headers are forwarded. */
    identities: certificates?.identities ?? null,
    /** Audiences of service account tokens that clusters do not get; null: they get all. */
    localAudiences: options.localAudiences ?? null,
    stickiness: new Stickiness({ ...dependencies, upstreams }, ownerTakeover, options.stickiness),
    transactions: new Transactions(names, store.transactions, logger, clock, options.stickiness, (queryId, id) =>
      admission.noteTransaction?.(queryId, id),
    ),
    ownership: new OwnershipReport(registry, logger, clock),
    search: new CoordinatorSearch(table, upstreams, clock),
    forwardedCheck: new ForwardedCheck(clock, dependencies.onObservation),
  };
}

/** Queues submissions that wait, and serves the requests for them. */
export interface QueueParts {
  readonly queue: DurableQueue;
  readonly requests: QueuedRequests;
  readonly responses: QueueResponses;
}

/** Makes the parts of the queue; null if submissions that wait are not stored. */
function composeQueue(
  parts: DataPlaneParts,
  paths: ProxiedPaths,
  send: SendSubmission,
  followUp: (proxied: ProxiedRequest, engineId: string) => void,
): QueueParts | null {
  const { queue: options } = parts;
  if (options === null) return null;
  const responses = new QueueResponses(parts, options, paths);
  const queue = new DurableQueue(parts, options, responses, send, followUp);
  return { queue, responses, requests: new QueuedRequests(parts, options, paths, queue, responses, followUp) };
}

const SWEEP_INTERVAL_MS = 60_000;

/** The proxying half of the gateway (docs/routing.md). `start` it before its first request. */
export class DataPlane {
  readonly #parts: DataPlaneParts;
  readonly #certificates: DataPlaneOptions['certificates'];
  readonly paths: ProxiedPaths;
  readonly #protocolHeaders: ProtocolHeaders;
  readonly #submissions: Submissions;
  readonly #requests: ClusterRequests;
  /** Null if submissions that wait are not kept. */
  readonly #queue: QueueParts | null;
  #isLoaded = false;
  #timers: NodeJS.Timeout[] = [];
  #queueStop: Promise<void> | null = null;

  constructor(dependencies: DataPlaneDependencies, options: DataPlaneOptions) {
    const shared = composeShared(dependencies, options);
    const own = { responses: new OwnResponses(shared), recorder: new QueryRecorder(shared), survival: null };
    const parts: DataPlaneParts = { ...shared, ...own };
    this.#parts = parts;
    this.#certificates = options.certificates;
    this.paths = new ProxiedPaths(options);
    this.#protocolHeaders = new ProtocolHeaders(parts.names);
    this.#requests = new ClusterRequests(parts);
    this.#queue = composeQueue(
      parts,
      this.paths,
      (proxied, submission, responses) =>
        this.#submissions
          .sendQueued(proxied, submission, responses)
          .catch((error: Error) => responses.failure(proxied, error, false)),
      (proxied, id) =>
        void parts.responses.guard(proxied, () =>
          this.#requests.followUp(parts.survival?.read(proxied) ?? proxied, id),
        ),
    );
    if (parts.queue !== null && this.#queue !== null) {
      parts.survival = new Survival(parts, parts.queue, this.#queue.queue);
    }
    this.#submissions = new Submissions(parts, this.#queue);
    const { table, chooser, stickiness } = parts;
    parts.admission.connect?.({
      isSuperseded: (queryId) => stickiness.isSuperseded(queryId),
      preferred: ({ decision, user: { user }, headers, excluded = null }) =>
        chooser.choose(table.current, decision, { user, headers }, excluded).cluster?.name ?? null,
      displace: (group, fairBy, flow) => this.#queue?.queue.displace(group, fairBy, flow) ?? Promise.resolve(false),
    });
  }

  /** Loads what the database knows of running queries. Never rejects. */
  async start(): Promise<void> {
    const { table, upstreams, chooser, stickiness } = this.#parts;
    const sweep = () => {
      upstreams.sweep(new Set([...table.current.clusters.values()].map((cluster) => cluster.proxyTo)));
      chooser.sweep(table.current);
    };
    this.#timers = [setInterval(sweep, SWEEP_INTERVAL_MS).unref()];
    await stickiness.start();
  }

  /** Serves a request; `paths` has read its target. */
  handle(request: IncomingMessage, response: ServerResponse, proxiedTarget: ProxiedTarget): void {
    const { clock, tracing } = this.#parts;
    const { target, clusterKey, pathKind, kind, statementPath } = proxiedTarget;
    const { fields, prefixes: clientPrefixes, conflict } = this.#protocolHeaders.normalize(request.rawHeaders);
    const method = request.method ?? '';
    const certificate = this.#certificates?.users.of(request) ?? withoutCertificate;
    const proxied: ProxiedRequest = {
      request,
      response,
      fields,
      method,
      target,
      rawTarget: target.query === null ? target.path : `${target.path}?${target.query}`,
      clusterKey,
      pathKind,
      statementPath,
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
        : certificate.kind === 'rejected'
          ? toRefusal('client_certificate', certificate.why)
          : null;
    void this.#serve(proxied, proxiedTarget, rejection);
  }

  /** Ends a running query by its cluster's own call, in the name of a user. Never rejects for what the cluster does. */
  kill(queryId: string, user: string): Promise<KillResult> {
    return killAtCluster(this.#parts, queryId, user);
  }

  /** From now on submissions get a response 503 with Retry-After, which clients repeat elsewhere (a clean stop). */
  rejectSubmissions(): void {
    this.#submissions.rejectAll();
    this.#queueStop = this.#queue?.queue.stop() ?? null;
  }

  /** Waits until running responses are finished, at most for the time, then ends all connections to clusters. */
  async close(timeoutMs: number): Promise<void> {
    const { clock, upstreams, stickiness, transactions } = this.#parts;
    const deadline = clock.monotonic() + timeoutMs;
    while (upstreams.inFlight > 0 && clock.monotonic() < deadline) await pause(20);
    for (const timer of this.#timers.splice(0)) clearInterval(timer);
    await (this.#queueStop ?? this.#queue?.queue.stop());
    stickiness.stop();
    transactions.stop();
    await upstreams.destroy();
  }

  #nameOf({ user }: Extract<CertificateUser, { readonly kind: 'user' }>): string {
    return this.#parts.mapping?.users.ofCertificate(user) ?? user;
  }

  /** Serves a request; never rejects. */
  async #serve(proxied: ProxiedRequest, target: ProxiedTarget, rejection: Refusal | null): Promise<void> {
    const { responses } = this.#parts;
    const { method, clusterKey } = proxied;
    const { queryId } = target;
    try {
      const refusal = rejection ?? this.#refusalOf(proxied, target);
      if (refusal !== null) responses.reject(proxied, refusal);
      else if (method === 'OPTIONS') {
        respond(proxied.response, 200, ['allow', clusterKey === null ? ALLOWED_METHODS : KEYED_METHODS], '');
      }
      // Their pages are the gateway's, also where those of engines are not served.
      else if (this.#queue !== null && queryId !== null && target.isOfQueue) {
        this.#queue.requests.serve(proxied, queryId);
      } else if (target.kind === 'submission') await this.#submissions.submit(proxied);
      else if (target.target.query === null || queryId === null) await this.#requests.serve(proxied, queryId);
      else await this.#serveMarked(proxied, queryId);
    } catch (error) {
      responses.defect(proxied, error);
    }
  }

  /** Serves a request about a query that may have the mark of one that can continue on another cluster. */
  async #serveMarked(proxied: ProxiedRequest, queryId: string): Promise<void> {
    const { survival } = this.#parts;
    const unmarked = survival === null || !proxied.statementPath ? proxied : survival.read(proxied);
    const mark = proxied.method === 'DELETE' ? unmarked.survival : undefined;
    const row = mark === undefined ? null : ((await survival?.cancel(mark, queryId)) ?? null);
    if (row === null) await this.#requests.serve(unmarked, queryId);
    else await this.#queue?.requests.cancel(unmarked, row);
  }

  /** Reason that a request is rejected whatever it asks for, or null. */
  #refusalOf({ method, fields, certificateUser }: ProxiedRequest, target: ProxiedTarget): Refusal | null {
    const { settings, refusalIds } = this.#parts;
    if (fields.get('via')?.some((value) => value.includes(refusalIds.process))) return looped;
    if (target.hasDotSegments) {
      const message = 'The path holds "." or ".." segments, raw or encoded; send it without them.';
      return toRefusal('dot_segments', message);
    }
    if (method === 'OPTIONS') return null;
    if (!METHODS.has(method)) {
      const message = `Method ${method} is not proxied; allowed are ${ALLOWED_METHODS}.`;
      return toRefusal('method', message);
    }
    if (this.#certificates?.isRequired === true && certificateUser === null && isAuthenticated(target.target.path)) {
      const message = 'This gateway takes queries over TLS with a client certificate only.';
      return toRefusal('client_certificate', message);
    }
    this.#isLoaded ||= this.#parts.isLoaded();
    if (!this.#isLoaded) return starting;
    const announced = method === 'GET' || method === 'HEAD' ? 0 : Number(fields.get('content-length')?.[0] ?? 0);
    return announced > settings.maxBodySize ? tooLargeBody(settings.maxBodySize) : null;
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
