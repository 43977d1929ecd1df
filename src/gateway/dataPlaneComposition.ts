import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import type { Clock, Random } from '../model/clock.ts';
import type { ProductNames } from '../model/names.ts';
import { ClusterChooser } from '../routing/clusterChooser.ts';
import { type ExternalRules, GroupRouter } from '../routing/groupRouter.ts';
import { type PathPattern, ProxiedPaths } from '../routing/proxiedPaths.ts';
import type { RoutingTable } from '../routing/routingTable.ts';
import type { QueuedQueryRepository } from '../store/queuedQueryRepository.ts';
import type { HistoryWriter, Store } from '../store/store.ts';
import type { Admission } from './admission/admission.ts';
import type { RequestAnalyzer } from './analysis/requestAnalyzer.ts';
import type { RequestBodies } from './bodies/requestBodies.ts';
import type { DataPlaneSettings } from './dataPlaneSettings.ts';
import { AddedLines } from './exchanges/addedLines.ts';
import { AttemptFailures } from './exchanges/attemptFailures.ts';
import { ClusterHeaders } from './exchanges/clusterHeaders.ts';
import type { ClusterReports } from './exchanges/clusterReports.ts';
import { ClusterTargets } from './exchanges/clusterTargets.ts';
import type { ExchangeDependencies } from './exchanges/exchange.ts';
import { OutgoingRequests } from './exchanges/outgoingRequests.ts';
import { OwnedQueries } from './exchanges/ownedQueries.ts';
import { QueryRecorder } from './exchanges/queryRecorder.ts';
import { ResponseHeaders } from './exchanges/responseHeaders.ts';
import { type SubmissionDependencies, SubmissionExchange } from './exchanges/submissionExchange.ts';
import { SubmittedQueries } from './exchanges/submittedQueries.ts';
import { ForwardedCheck, type ForwardedHeadersObservation } from './headers/forwardedCheck.ts';
import { ownCookieNames } from './headers/ownCookies.ts';
import { ProtocolHeaders } from './headers/protocolHeaders.ts';
import { RequestHeaders } from './headers/requestHeaders.ts';
import type { TrustPeer } from './headers/trustedProxies.ts';
import { DataPlaneMetrics } from './metrics/dataPlaneMetrics.ts';
import type { QueryOutcomes } from './outcomes/queryOutcomes.ts';
import { RefusalIds } from './outcomes/refusalIds.ts';
import { ClusterKeys } from './ownership/clusterKeys.ts';
import { CoordinatorSearch } from './ownership/coordinatorSearch.ts';
import { EngineKills } from './ownership/engineKills.ts';
import { OwnershipReport } from './ownership/ownershipReport.ts';
import type { RunningQueries } from './ownership/runningQueries.ts';
import { Stickiness, type StickinessOptions } from './ownership/stickiness.ts';
import { Transactions } from './ownership/transactions.ts';
import { type HandshakeCookieOptions, HandshakeCookies } from './pages/handshakeCookies.ts';
import { DurableQueue, type DurableQueueDependencies } from './queue/durableQueue.ts';
import { QueuedEnds } from './queue/queuedEnds.ts';
import { QueuedKills } from './queue/queuedKills.ts';
import { QueuedOwners } from './queue/queuedOwners.ts';
import { QueueAnswers, QueuedRequests } from './queue/queuedRequests.ts';
import type { QueueKey } from './queue/queueKey.ts';
import { RemotePolls } from './queue/remotePolls.ts';
import { EnginePages, type EnginePagesMode } from './requests/enginePages.ts';
import { FollowUps } from './requests/followUps.ts';
import { KeyedRequests } from './requests/keyedRequests.ts';
import { MappedRequests, type UserMappingSteps } from './requests/mappedRequests.ts';
import { OtherRequests } from './requests/otherRequests.ts';
import { OwnAnswers } from './requests/ownAnswers.ts';
import { RequestRouting } from './requests/requestRouting.ts';
import { RequestSteps } from './requests/requestSteps.ts';
import { SubmissionBinding } from './requests/submissionBinding.ts';
import { SubmissionBodies } from './requests/submissionBodies.ts';
import { Submissions } from './requests/submissions.ts';
import type { Tracing } from './tracing/requestTrace.ts';
import { type UpstreamOptions, Upstreams } from './upstreams/upstreams.ts';
import type { ClientCertificates } from './user/clientCertificates.ts';
import type { CertificateIdentities } from './user/clusterTokens.ts';

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
  readonly mapping?: UserMappingSteps | null;
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
  readonly reports: ClusterReports;
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

/** The steps of the data plane, and what has to be started, swept and closed with them. */
export interface DataPlaneSteps {
  readonly paths: ProxiedPaths;
  readonly steps: RequestSteps;
  readonly answers: OwnAnswers;
  readonly clients: Pick<RequestHeaders, 'isLooped'>;
  readonly protocolHeaders: ProtocolHeaders;
  readonly enginePages: EnginePages;
  readonly submissions: Submissions;
  readonly followUps: FollowUps;
  readonly others: OtherRequests;
  /** Null where no submissions are kept that wait. */
  readonly queue: QueueParts | null;
  readonly keyed: KeyedRequests;
  readonly mapped: MappedRequests;
  readonly upstreams: Upstreams;
  /** Ends queries by their clusters' own call. */
  readonly kills: EngineKills;
  readonly chooser: ClusterChooser;
  readonly stickiness: Stickiness;
  readonly transactions: Transactions;
}

/** Makes the steps of the data plane, each with what it works with: the one place that knows all of them. */
export function composeDataPlane(dependencies: DataPlaneDependencies, options: DataPlaneOptions): DataPlaneSteps {
  const { settings } = options;
  const { names, table, clock, logger, registry, bodies } = dependencies;
  const upstreams = new Upstreams(options.upstream, clock);
  const chooser = new ClusterChooser(settings, {
    random: dependencies.random,
    monotonic: () => clock.monotonic(),
    names,
    hasRoom: (cluster) => dependencies.admission.hasRoom?.(cluster) ?? true,
  });
  const metrics = new DataPlaneMetrics(registry, table, upstreams);
  const refusalIds = new RefusalIds(clock, dependencies.random);
  const clients = new RequestHeaders({
    names,
    viaToken: refusalIds.process,
    forwardedHeadersEnabled: settings.forwardedHeadersEnabled,
    trustPeer: options.trustPeer,
    ownCookies: options.ownCookies,
    certificateHeader: options.certificateHeader,
    tracing: dependencies.tracing !== null,
  });
  const answers = new OwnAnswers({ names, headers: clients, metrics, logger, clock, refusalIds, settings });
  const steps = new RequestSteps(logger);
  const shared: SharedSteps = { settings, upstreams, metrics, clients, answers };

  const owners = ownersOf(dependencies, options, shared);
  dependencies.admission.watchCoordinators?.((queryId) => owners.stickiness.isSuperseded(queryId));
  const keys = new ClusterKeys(table);
  const { handshakeCookies } = options;
  const handshakes = handshakeCookies === null ? null : new HandshakeCookies(handshakeCookies, keys, clock);
  const paths = new ProxiedPaths(options);
  const enginePages = new EnginePages({ mode: options.enginePages, answers, headers: clients, table });
  const exchange = exchangesOf(dependencies, options, shared, keys, handshakes);
  const targets = new ClusterTargets({ table, chooser, upstreams });

  const { defaultRoutingGroup, propagateErrors } = settings;
  const chain = new GroupRouter(names, defaultRoutingGroup, dependencies.externalRules, propagateErrors);
  const { analyzer, admission } = dependencies;
  const routing = new RequestRouting({ names, steps, table, analyzer, clients, routers: chain, clock });
  const recorder = new QueryRecorder({
    ...{ names, history: dependencies.history, outcomes: dependencies.outcomes, refusalIds, logger, clock, settings },
    table,
  });
  const submitting = { ...exchange, targets, ...submittedOf(dependencies, shared, owners, recorder), recorder };
  const queue = queueOf(dependencies, shared, {
    paths,
    hasEnginePages: options.enginePages !== 'off',
    send: (proxied, submission, gatewayAnswers) =>
      new SubmissionExchange({ ...submitting, answers: gatewayAnswers }, proxied, submission).start(),
    followUp: (proxied, id) => followUps.followUp(proxied, id),
  });
  const submissions = new Submissions({
    queue,
    bodies: new SubmissionBodies({ bodies, settings }),
    routing,
    binding: new SubmissionBinding({ names, table, ...owners }),
    admission,
    exchange: submitting,
    steps,
    answers,
    metrics,
    recorder,
    clock,
  });

  const { stickiness, transactions, ownership } = owners;
  const { runningQueries, outcomes } = dependencies;
  const queries = new OwnedQueries({
    ...{ table, upstreams, stickiness, transactions, runningQueries, outcomes, settings, logger },
  });
  const search = new CoordinatorSearch(table, upstreams, clock);
  const followUps = new FollowUps({
    stickiness,
    search,
    ownership,
    upstreams,
    enginePages,
    exchange: { ...exchange, queries },
    steps,
    answers,
    metrics,
    settings,
  });
  const others = new OtherRequests({
    handshakes,
    routing,
    enginePages,
    answers,
    exchange: { ...exchange, targets },
  });
  const keyed = new KeyedRequests({ keys, stickiness, table, steps, answers, metrics, others });
  return {
    paths,
    steps,
    answers,
    clients,
    protocolHeaders: new ProtocolHeaders(names),
    enginePages,
    submissions,
    followUps,
    others,
    queue,
    keyed,
    mapped: new MappedRequests({ mapping: dependencies.mapping ?? null, steps, answers }),
    upstreams,
    kills: new EngineKills({ names, stickiness, upstreams, runningQueries }),
    chooser,
    stickiness,
    transactions,
  };
}

interface SharedSteps {
  readonly settings: DataPlaneSettings;
  readonly upstreams: Upstreams;
  readonly metrics: DataPlaneMetrics;
  readonly clients: RequestHeaders;
  readonly answers: OwnAnswers;
}

interface Owners {
  readonly stickiness: Stickiness;
  readonly transactions: Transactions;
  /** Reports clusters that response with query ids of others. */
  readonly ownership: OwnershipReport;
}

function ownersOf(
  { names, table, clock, logger, store, history, registry }: DataPlaneDependencies,
  options: DataPlaneOptions,
  { settings, upstreams }: SharedSteps,
): Owners {
  const sources = {
    store,
    history,
    table,
    upstream: (proxyTo: string) => upstreams.peek(proxyTo),
    takeover: settings.ownerTakeover,
    logger,
    clock,
  };
  return {
    stickiness: new Stickiness(sources, options.stickiness),
    transactions: new Transactions({ names, store: store.transactions, logger, clock }, options.stickiness),
    ownership: new OwnershipReport(registry, logger, clock),
  };
}

/** Keeps submissions that wait, and serves the requests for them. */
export interface QueueParts {
  readonly room: DurableQueue;
  readonly foreign: RemotePolls;
  readonly requests: QueuedRequests;
  readonly answers: QueueAnswers;
  readonly kills: QueuedKills;
}

function queueOf(
  { queue, names, admission, outcomes, clock, logger, random }: DataPlaneDependencies,
  { answers, clients, settings }: SharedSteps,
  {
    paths,
    hasEnginePages,
    ...ways
  }: Pick<DurableQueueDependencies, 'send' | 'followUp'> & {
    readonly paths: ProxiedPaths;
    readonly hasEnginePages: boolean;
  },
): QueueParts | null {
  if (queue === null) return null;
  const { key, repository } = queue;
  const polls = new QueueAnswers({ names, key, paths, clients, answers, settings });
  const shared = { ...queue, clock, logger };
  const ends = new QueuedEnds({ names, outcomes });
  const room = new DurableQueue({ ...shared, ...ways, names, admission, answers: polls, ends, random: random() });
  const foreign = new RemotePolls({ ...shared, room, answers: polls });
  const { followUp } = ways;
  const owners = new QueuedOwners({ names, repository, key });
  const requests = new QueuedRequests({
    ...{ key, repository, paths, room, foreign, polls, answers, followUp, logger },
    ...{ owners, hasEnginePages },
  });
  return { room, foreign, requests, answers: polls, kills: new QueuedKills({ repository, owners, room }) };
}

/** What exchanges of all kinds work with. */
function exchangesOf(
  { names, bodies, reports, logger }: DataPlaneDependencies,
  options: DataPlaneOptions,
  { settings, metrics, clients, answers }: SharedSteps,
  keys: ClusterKeys,
  handshakes: HandshakeCookies | null,
): ExchangeDependencies {
  const identities = options.certificates?.identities ?? null;
  const clusterHeaders = new ClusterHeaders({ headers: clients, names, keys, identities, settings });
  return {
    settings,
    requests: new OutgoingRequests({
      names,
      clusterHeaders,
      bodies,
      settings,
      heldAudiences: options.heldAudiences ?? null,
    }),
    answerHeaders: new ResponseHeaders({
      names,
      ownCookies: ownCookieNames([...options.ownCookies, names.clusterHostCookie], [names.stickyCookiePrefix]),
      sandboxed: options.enginePages !== 'proxy',
    }),
    addedLines: new AddedLines({ names, handshakes, settings }),
    failures: new AttemptFailures({ reports, metrics, bodies, settings, logger }),
    answers,
  };
}

/** Handling of clusters' responses to submissions. */
function submittedOf(
  { clock, onObservation, runningQueries, outcomes }: DataPlaneDependencies,
  { settings, clients }: SharedSteps,
  owners: Owners,
  recorder: QueryRecorder,
): Pick<SubmissionDependencies, 'submitted' | 'forwardedCheck'> {
  const forwardedCheck = new ForwardedCheck(clock, onObservation);
  const submitted = new SubmittedQueries({
    ...{ ...owners, runningQueries, outcomes, forwardedCheck, clients, recorder, settings },
  });
  return { submitted, forwardedCheck };
}
