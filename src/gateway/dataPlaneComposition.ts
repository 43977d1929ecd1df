import type { IncomingMessage } from 'node:http';
import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import type { Clock, Random } from '../model/clock.ts';
import type { ProductNames } from '../model/names.ts';
import type { RequestUser } from '../model/requestUser.ts';
import { ClusterChooser } from '../routing/clusterChooser.ts';
import { type ExternalRules, GroupRouter } from '../routing/groupRouter.ts';
import type { PathPattern, ProxiedPaths } from '../routing/proxiedPaths.ts';
import type { RoutingTable } from '../routing/routingTable.ts';
import type { QueuedQueryRepository } from '../store/queuedQueryRepository.ts';
import type { HistoryWriter, Store } from '../store/store.ts';
import type { Admission } from './admission/admission.ts';
import type { RequestAnalyzer } from './analysis/requestAnalyzer.ts';
import type { RequestBodies } from './bodies/requestBodies.ts';
import type { DataPlaneSettings } from './dataPlaneSettings.ts';
import { type GatewayResponses, OwnResponses } from './exchanges/ownResponses.ts';
import { QueryRecorder } from './exchanges/queryRecorder.ts';
import { ResponseHeaders } from './exchanges/responseHeaders.ts';
import { ForwardedCheck, type ForwardedHeadersObservation } from './headers/forwardedCheck.ts';
import { ownCookieNames } from './headers/ownCookies.ts';
import { RequestHeaders } from './headers/requestHeaders.ts';
import type { TrustPeer } from './headers/trustedProxies.ts';
import { DataPlaneMetrics } from './metrics/dataPlaneMetrics.ts';
import type { QueryOutcomes } from './outcomes/queryOutcomes.ts';
import { RefusalIds } from './outcomes/refusalIds.ts';
import { ClusterKeys } from './ownership/clusterKeys.ts';
import { CoordinatorSearch } from './ownership/coordinatorSearch.ts';
import { OwnershipReport } from './ownership/ownershipReport.ts';
import type { RunningQueries } from './ownership/runningQueries.ts';
import { Stickiness, type StickinessOptions } from './ownership/stickiness.ts';
import { Transactions } from './ownership/transactions.ts';
import { type HandshakeCookieOptions, HandshakeCookies } from './pages/handshakeCookies.ts';
import { DurableQueue, type DurableQueueDependencies } from './queue/durableQueue.ts';
import { QueuedEnds } from './queue/queuedEnds.ts';
import { QueuedKills } from './queue/queuedKills.ts';
import { QueuedOwners } from './queue/queuedOwners.ts';
import { QueuedRequests, QueueResponses } from './queue/queuedRequests.ts';
import type { QueueKey } from './queue/queueKey.ts';
import { RemotePolls } from './queue/remotePolls.ts';
import type { EnginePagesMode } from './requests/enginePages.ts';
import type { Tracing } from './tracing/openTelemetry.ts';
import { type UpstreamOptions, Upstreams } from './upstreams/upstreams.ts';
import type { ClientCertificates } from './user/clientCertificates.ts';
import type { CertificateIdentities } from './user/clusterTokens.ts';
import type { MappedUsers } from './user/mappedUsers.ts';

/** The mapping of user names. */
interface UserMapping {
  readonly users: MappedUsers;
  /** The user of a request, without groups. Neither throws nor rejects. */
  identity(request: IncomingMessage): RequestUser | Promise<RequestUser>;
}

export interface QueueOptions {
  readonly repository: QueuedQueryRepository;
  /** Seals what is kept; the same on all replicas. */
  readonly key: QueueKey;
  /** Name of this replica, different from those of all others that run or ran. */
  readonly replica: string;
}

export interface DataPlaneDependencies {
  readonly names: ProductNames;
  readonly table: { readonly current: RoutingTable };
  readonly store: Pick<Store, 'coordinators' | 'queries' | 'transactions' | 'history'>;
  readonly history: Pick<HistoryWriter, 'add' | 'findBuffered' | 'whenWritten'>;
  /** Null: requests are not traced. */
  readonly tracing: Tracing | null;
  readonly runningQueries: Pick<RunningQueries, 'noteActivity' | 'noteEnd'>;
  readonly outcomes: Pick<QueryOutcomes, 'begin' | 'page' | 'end' | 'cancel' | 'lose' | 'refuse' | 'awaitsRows'>;
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
  readonly bodies: RequestBodies;
  readonly logger: Logger;
  readonly registry: Registry;
  readonly clock: Clock;
  readonly random: Random;
  /** Takes what real requests find out about clusters. */
  readonly reports: {
    connectionFailed(cluster: string, proxyTo: string, reason: string): void;
    /** A request on a statement path got a response 5xx or none; how many in a row by now. */
    serverFailed(cluster: string, proxyTo: string, reason: string, inARow: number): void;
  };
  /** Takes changes of whether a cluster honours forwarded headers. */
  readonly onObservation: (observation: ForwardedHeadersObservation) => void;
}

export interface DataPlaneOptions {
  readonly additionalStatementPaths: readonly string[];
  readonly extraWhitelistPaths: readonly PathPattern[];
  readonly trustPeer: TrustPeer;
  /** `server.clientCertificateHeader`: never sent to a cluster; null for none. */
  readonly certificateHeader: string | null;
  /** Audiences of service account tokens that clusters do not get; null or absent: they get all. */
  readonly heldAudiences?: readonly string[] | null;
  /** Cookies of the gateway itself: never sent to a cluster. */
  readonly ownCookies: readonly string[];
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
export interface SharedParts extends DataPlaneDependencies {
  readonly settings: DataPlaneSettings;
  readonly enginePages: EnginePagesMode;
  readonly upstreams: Upstreams;
  readonly chooser: ClusterChooser;
  readonly router: GroupRouter;
  readonly metrics: DataPlaneMetrics;
  readonly refusalIds: RefusalIds;
  readonly headers: RequestHeaders;
  /** Which lines of a cluster's response the client gets. */
  readonly responseHeaders: ResponseHeaders;
  readonly keys: ClusterKeys;
  /** Cookies of OAuth2 logins; null unless they are used. */
  readonly handshakes: HandshakeCookies | null;
  /** Identity of certificate users for clusters; null: clients' headers are forwarded. */
  readonly identities: CertificateIdentities | null;
  /** Audiences of service account tokens that clusters do not get; null: they get all. */
  readonly heldAudiences: readonly string[] | null;
  readonly stickiness: Stickiness;
  readonly transactions: Transactions;
  /** Reports clusters that respond with query ids of others. */
  readonly ownership: OwnershipReport;
  /** Asks clusters for queries that no one knows. */
  readonly search: CoordinatorSearch;
  readonly forwardedCheck: ForwardedCheck;
}

/** Parts that all requests share. */
export interface DataPlaneParts extends SharedParts {
  readonly answers: OwnResponses;
  readonly recorder: QueryRecorder;
}

/** Parts of an exchange; the gateway's own responses may go elsewhere than to a client. */
export type ExchangeParts = Omit<DataPlaneParts, 'answers'> & { readonly answers: GatewayResponses };

/** Makes the parts of the data plane: the one place that knows all of them. */
export function composeParts(dependencies: DataPlaneDependencies, options: DataPlaneOptions): DataPlaneParts {
  const { settings, handshakeCookies, certificates, ownCookies } = options;
  const { names, table, clock, logger, registry, store, random, tracing, admission, externalRules } = dependencies;
  const { defaultRoutingGroup, propagateErrors, ownerTakeover } = settings;
  const upstreams = new Upstreams(options.upstream, clock);
  const refusalIds = new RefusalIds(clock, random);
  const keys = new ClusterKeys(table);
  const shared: SharedParts = {
    ...dependencies,
    settings,
    enginePages: options.enginePages,
    upstreams,
    chooser: new ClusterChooser(settings, {
      random,
      monotonic: () => clock.monotonic(),
      names,
      hasRoom: (cluster) => admission.hasRoom?.(cluster) ?? true,
    }),
    router: new GroupRouter(names, defaultRoutingGroup, externalRules, propagateErrors),
    metrics: new DataPlaneMetrics(registry, table, upstreams),
    refusalIds,
    headers: new RequestHeaders({
      names,
      viaToken: refusalIds.process,
      forwardedHeadersEnabled: settings.forwardedHeadersEnabled,
      trustPeer: options.trustPeer,
      ownCookies,
      certificateHeader: options.certificateHeader,
      tracing: tracing !== null,
    }),
    responseHeaders: new ResponseHeaders(
      names,
      ownCookieNames([...ownCookies, names.clusterHostCookie], [names.stickyCookiePrefix]),
      options.enginePages !== 'proxy',
    ),
    keys,
    handshakes: handshakeCookies === null ? null : new HandshakeCookies(handshakeCookies, keys, clock),
    identities: certificates?.identities ?? null,
    heldAudiences: options.heldAudiences ?? null,
    stickiness: new Stickiness({ ...dependencies, upstreams }, ownerTakeover, options.stickiness),
    transactions: new Transactions(names, store.transactions, logger, clock, options.stickiness),
    ownership: new OwnershipReport(registry, logger, clock),
    search: new CoordinatorSearch(table, upstreams, clock),
    forwardedCheck: new ForwardedCheck(clock, dependencies.onObservation),
  };
  return { ...shared, answers: new OwnResponses(shared), recorder: new QueryRecorder(shared) };
}

/** Keeps submissions that wait, and serves the requests for them. */
export interface QueueParts {
  readonly room: DurableQueue;
  readonly foreign: RemotePolls;
  readonly requests: QueuedRequests;
  readonly answers: QueueResponses;
  readonly kills: QueuedKills;
}

/** Makes the parts of the queue; null if submissions that wait are not kept. */
export function composeQueue(
  parts: DataPlaneParts,
  paths: ProxiedPaths,
  send: DurableQueueDependencies['send'],
  followUp: DurableQueueDependencies['followUp'],
): QueueParts | null {
  const { queue, names, admission, outcomes, clock, logger, random, answers, headers, settings } = parts;
  if (queue === null) return null;
  const { key, repository } = queue;
  const polls = new QueueResponses({ names, key, paths, clients: headers, answers, settings });
  const shared = { ...queue, clock, logger };
  const ends = new QueuedEnds({ names, outcomes });
  const ways = { send, followUp };
  const room = new DurableQueue({ ...shared, ...ways, names, admission, answers: polls, ends, random: random() });
  const foreign = new RemotePolls({ ...shared, room, answers: polls });
  const owners = new QueuedOwners({ names, repository, key });
  const requests = new QueuedRequests({
    ...{ key, repository, paths, room, foreign, polls, answers, followUp, logger },
    ...{ owners, hasEnginePages: parts.enginePages !== 'off' },
  });
  return { room, foreign, requests, answers: polls, kills: new QueuedKills({ repository, owners, room }) };
}
