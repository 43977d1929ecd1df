import { certainty, type QueryOutcomeRecord } from '../../src/store/queryOutcome.ts';
import type { QueryRecord } from '../../src/store/store.ts';

/** A row of the history. */
export const queryRecord = (id: string, extra: Partial<QueryRecord> = {}): QueryRecord => ({
  queryId: id,
  queryText: 'select 1',
  user: 'alice',
  source: 'cli',
  backendUrl: 'http://a:8080',
  created: 1_800_000_000_000,
  routingGroup: 'adhoc',
  externalUrl: 'http://a.example',
  cluster: 'a',
  decision: '{"rule":null}',
  ...extra,
});

/** The outcome of a query that succeeded. */
export const queryOutcome = (queryId: string, extra: Partial<QueryOutcomeRecord> = {}): QueryOutcomeRecord => ({
  ...{ queryId, created: 1_800_000_000_000, lastSeen: 1_800_000_000_500, state: 'FINISHED', certainty: certainty.said },
  ...{ refused: false, cluster: 'a', routingGroup: 'adhoc', user: 'alice', source: 'cli', rule: 'team' },
  ...{ errorName: null, errorType: null, errorCode: null, errorMessage: null, elapsedMillis: 500, queuedMillis: 20 },
  ...{ gatewayQueuedMillis: null, cpuMillis: 100, processedRows: 9, processedBytes: 900, peakMemoryBytes: 1 << 20 },
  ...{ resultBytes: 4000, pages: 3, queryText: null, decision: null, firstRowMillis: null },
  ...{ physicalInputBytes: null, planningMillis: null, analysisMillis: null, spilledBytes: null, inputs: null },
  ...{ digest: null, exactDigest: null, tool: null, model: null, dashboard: null },
  ...extra,
});
