import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Logger } from 'pino';
import type { Clock } from '../model/clock.ts';
import type { ProductNames } from '../model/names.ts';
import type { ChoiceSettings, ClusterChooser } from '../routing/clusterChooser.ts';
import type { PathKind, ProxiedPaths, RequestTarget } from '../routing/proxiedPaths.ts';
import type { Refusal } from '../routing/refusal.ts';
import type { RoutingTable } from '../routing/routingTable.ts';
import type { HistoryWriter } from '../store/store.ts';
import type { RequestAnalyzer } from './analysis/requestAnalyzer.ts';
import type { RequestBodies } from './bodies/requestBodies.ts';
import type { ResponseHeaders } from './exchanges/responseHeaders.ts';
import type { ForwardedCheck } from './headers/forwardedCheck.ts';
import type { RequestHeaders } from './headers/requestHeaders.ts';
import type { DataPlaneMetrics, RequestKind } from './metrics/dataPlaneMetrics.ts';
import type { ClusterKeys } from './ownership/clusterKeys.ts';
import type { OwnershipReport } from './ownership/ownershipReport.ts';
import type { RunningQueries } from './ownership/runningQueries.ts';
import type { Stickiness } from './ownership/stickiness.ts';
import type { Transactions } from './ownership/transactions.ts';
import type { BrowserPlaces } from './pages/browserPlace.ts';
import type { EngineCookies } from './pages/engineCookies.ts';
import type { HandshakeCookies } from './pages/handshakeCookies.ts';
import type { EnginePages } from './requests/enginePages.ts';
import type { RequestTrace } from './tracing/requestTrace.ts';
import type { Upstreams } from './upstreams/upstreams.ts';

/** Settings of the data plane that may change while it runs; times in milliseconds, sizes in bytes. */
export interface DataPlaneSettings extends ChoiceSettings {
  /** Time until a cluster must have begun its answer. */
  readonly asyncTimeout: number;
  readonly forwardedHeadersEnabled: boolean;
  readonly retrySubmissions: 'untilAnswered' | 'untilSent';
  readonly statementErrors: 'protocol' | 'http';
  readonly explainHeader: boolean;
  /** Whether errors of the external rules service are the client's answer. */
  readonly propagateErrors: boolean;
  /** Whether a query ends with the client that polls it. */
  readonly cancelQueryOnDisconnect: boolean;
  readonly includeClusterHostInResponse: boolean;
  /** `requestAnalyzerConfig.maxBodySize`; submissions are buffered up to this, and at least up to 1 MB. */
  readonly maxAnalyzedBody: number;
  /** Largest body of a proxied request. */
  readonly maxBodySize: number;
  /** Time without a client taking what waits for it, after which its connection is cut. */
  readonly clientStallTimeout: number;
  /** Time of refused connections after which a query's cluster counts as gone. */
  readonly ownerGoneAfter: number;
  /** `routing.ownerTakeover`: time without a sign of life after which another cluster may own a cluster's query ids. */
  readonly ownerTakeover: number;
  /** `routing.askClusters`: how clusters are asked for queries that nobody knows. */
  readonly askClusters: 'coordinatorId' | 'off';
  /** Whether the line of a query holds its text. */
  readonly logQueryText: boolean;
  /** Whether queries are recorded (`dataStore.queryHistoryEnabled`). */
  readonly historyEnabled: boolean;
}

/** A proxied request while it is worked on. */
export interface ProxiedRequest {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly method: string;
  readonly target: RequestTarget;
  /** Path and query string for the cluster. */
  readonly rawTarget: string;
  /** Key of a cluster that stood before the path (`routing.prefixSticky`); null for none. */
  readonly clusterKey: string | null;
  readonly pathKind: PathKind;
  /** Below a statement path: refusals come in the engine's protocol. */
  readonly statementPath: boolean;
  readonly kind: RequestKind;
  /** Monotonic milliseconds. */
  readonly startedAt: number;
  /** Null: traces are off. */
  readonly trace: RequestTrace | null;
  /** Whether its end is noted already. */
  ended: boolean;
}

/** What the parts of the data plane share. */
export interface DataPlaneContext {
  readonly names: ProductNames;
  readonly table: { readonly current: RoutingTable };
  readonly paths: ProxiedPaths;
  readonly stickiness: Stickiness;
  readonly transactions: Transactions;
  /** Reports clusters that answer with query ids of others. */
  readonly ownership: OwnershipReport;
  /** Tells clusters their keys as a path prefix; null unless `routing.prefixSticky`. */
  readonly prefixes: ClusterKeys | null;
  /** Cookies of OAuth2 logins; null unless they are used. */
  readonly handshakes: HandshakeCookies | null;
  /** Keeps browsers on one cluster's pages; null where they are not. */
  readonly places: BrowserPlaces | null;
  /** Keeps the cookies of clusters apart; null where they pass as they are. */
  readonly engineCookies: EngineCookies | null;
  readonly upstreams: Upstreams;
  readonly headers: RequestHeaders;
  readonly answerHeaders: ResponseHeaders;
  readonly enginePages: EnginePages;
  readonly bodies: RequestBodies;
  readonly metrics: DataPlaneMetrics;
  readonly history: Pick<HistoryWriter, 'add'>;
  /** Null: nobody wants to know. */
  readonly runningQueries: RunningQueries | null;
  readonly analyzer: RequestAnalyzer;
  readonly forwardedCheck: ForwardedCheck;
  readonly logger: Logger;
  readonly clock: Clock;
  /** Chooses the cluster of a request by its group's strategy. */
  readonly chooser: ClusterChooser;
  readonly settings: () => DataPlaneSettings;
  /** A real request could not connect to a cluster. */
  readonly connectionFailed: (cluster: string, baseUrl: string, reason: string) => void;
  /** A real request on a statement path was answered 5xx or not at all; how many in a row by now. */
  readonly serverFailed: (cluster: string, baseUrl: string, reason: string, inARow: number) => void;
  /** Answers a request with a refusal. */
  readonly refuse: (proxied: ProxiedRequest, refusal: Refusal) => void;
  /** Answers 502 as text (docs/compatibility.md#proxying). */
  readonly answerFailure: (proxied: ProxiedRequest, error: Error, answered: boolean) => void;
  /**
   * Notes the end of a request for metrics and trace; only the first time counts.
   * @param status of the client's answer; 0 when the client went away
   * @param clusterStatus of the cluster's answer; 0 for none
   */
  readonly noteEnd: (proxied: ProxiedRequest, status: number, clusterStatus: number) => void;
}
