import type { ChoiceSettings } from '../routing/clusterChooser.ts';

/** Settings of the data plane; times in milliseconds, sizes in bytes. */
export interface DataPlaneSettings extends ChoiceSettings {
  readonly asyncTimeout: number;
  readonly forwardedHeadersEnabled: boolean;
  readonly retrySubmissions: 'untilAnswered' | 'untilSent';
  readonly statementErrors: 'protocol' | 'http';
  readonly explainHeader: boolean;
  /** True if errors of the external rules service are the client's response. */
  readonly propagateErrors: boolean;
  /** True if a query ends with the client that polls it. */
  readonly cancelQueryOnDisconnect: boolean;
  readonly includeClusterHostInResponse: boolean;
  /** `requestAnalyzerConfig.maxBodySize`; submissions are buffered up to this, and at least up to 1 MB. */
  readonly maxAnalyzedBody: number;
  readonly maxBodySize: number;
  /** Time without a client taking what waits for it, after which its connection is cut. */
  readonly clientStallTimeout: number;
  /** Time of rejected connections after which a query's cluster counts as gone. */
  readonly ownerGoneAfter: number;
  /** `routing.ownerTakeover`: time without a sign of life after which another cluster may own a cluster's query ids. */
  readonly ownerTakeover: number;
  /** `routing.askClusters`: how clusters are asked for queries that no one knows. */
  readonly askClusters: 'coordinatorId' | 'off';
  readonly logQueryText: boolean;
  /** True if queries are recorded (`dataStore.queryHistoryEnabled`). */
  readonly historyEnabled: boolean;
  /** True if responses wait until their query is in the history (`queryHistory.writeBeforeAnswer`). */
  readonly historyBeforeResponse: boolean;
}
