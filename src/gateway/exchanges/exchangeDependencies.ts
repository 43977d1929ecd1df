import type { Logger } from 'pino';
import type { Clock } from '../../model/clock.ts';
import type { ProductNames } from '../../model/names.ts';
import type { ClusterChooser } from '../../routing/clusterChooser.ts';
import type { RoutingTable } from '../../routing/routingTable.ts';
import type { HistoryWriter } from '../../store/store.ts';
import type { RequestBodies } from '../bodies/requestBodies.ts';
import type { DataPlaneSettings } from '../dataPlaneSettings.ts';
import type { ForwardedCheck } from '../headers/forwardedCheck.ts';
import type { RequestHeaders } from '../headers/requestHeaders.ts';
import type { DataPlaneMetrics } from '../metrics/dataPlaneMetrics.ts';
import type { OwnershipReport } from '../ownership/ownershipReport.ts';
import type { RunningQueries } from '../ownership/runningQueries.ts';
import type { Stickiness } from '../ownership/stickiness.ts';
import type { Transactions } from '../ownership/transactions.ts';
import type { BrowserPlaces } from '../pages/browserPlace.ts';
import type { HandshakeCookies } from '../pages/handshakeCookies.ts';
import type { Upstreams } from '../upstreams/upstreams.ts';
import type { ClusterHeaders } from './clusterHeaders.ts';
import type { ClusterReports } from './clusterReports.ts';
import type { GatewayAnswers } from './gatewayAnswers.ts';
import type { QueryRecorder } from './queryRecorder.ts';
import type { ResponseHeaders } from './responseHeaders.ts';

/** What every exchange works with. */
export interface ExchangeDependencies {
  readonly names: ProductNames;
  readonly table: { readonly current: RoutingTable };
  readonly settings: () => DataPlaneSettings;
  readonly upstreams: Pick<Upstreams, 'get'>;
  readonly bodies: RequestBodies;
  /** Header lines of the request for its cluster. */
  readonly clusterHeaders: ClusterHeaders;
  /** Header lines of the answer for the client. */
  readonly answerHeaders: ResponseHeaders;
  /** Cookies of OAuth2 logins; null unless they are used. */
  readonly handshakes: HandshakeCookies | null;
  /** Answers in place of the cluster. */
  readonly answers: GatewayAnswers;
  readonly reports: ClusterReports;
  readonly metrics: Pick<DataPlaneMetrics, 'clusterError' | 'retry'>;
}

/** What requests that are streamed to one cluster work with. */
export interface ForwardDependencies extends ExchangeDependencies {
  /** Keeps browsers on one cluster's pages; null where they are not. */
  readonly places: BrowserPlaces | null;
  readonly logger: Logger;
}

/** What follow-ups work with. */
export interface FollowUpDependencies extends ForwardDependencies {
  readonly stickiness: Pick<Stickiness, 'findStored' | 'isSuperseded' | 'learn'>;
  readonly transactions: Pick<Transactions, 'noteAnswer'>;
  readonly runningQueries: Pick<RunningQueries, 'noteActivity' | 'noteEnd'>;
}

/** What requests that are neither submissions nor follow-ups work with. */
export interface OtherDependencies extends ForwardDependencies {
  readonly chooser: Pick<ClusterChooser, 'choose'>;
}

/** What submissions work with. */
export interface SubmissionDependencies extends ExchangeDependencies {
  readonly chooser: Pick<ClusterChooser, 'choose' | 'countSubmission'>;
  readonly stickiness: Pick<Stickiness, 'learn'>;
  readonly transactions: Pick<Transactions, 'noteAnswer' | 'noteStatement'>;
  /** Reports clusters that answer with query ids of others. */
  readonly ownership: OwnershipReport;
  readonly runningQueries: Pick<RunningQueries, 'noteActivity' | 'noteEnd'>;
  readonly forwardedCheck: ForwardedCheck;
  readonly clients: Pick<RequestHeaders, 'clientOf'>;
  readonly recorder: QueryRecorder;
}

/** What history and log lines of queries are written with. */
export interface QueryRecorderDependencies {
  readonly names: ProductNames;
  readonly history: Pick<HistoryWriter, 'add' | 'whenWritten'>;
  readonly logger: Logger;
  readonly clock: Clock;
  readonly settings: () => DataPlaneSettings;
}
