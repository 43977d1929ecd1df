import { OutcomeMetrics } from '../../gateway/outcomes/outcomeMetrics.ts';
import { QueryOutcomes } from '../../gateway/outcomes/queryOutcomes.ts';
import { RunningQueries } from '../../gateway/ownership/runningQueries.ts';
import { AuditWriter } from '../../store/auditWriter.ts';
import { createHistoryWriter, createOutcomeWriter } from '../../store/historyWriter.ts';
import { openStoreWaiting } from '../../store/waitingStore.ts';
import { databaseSettings, historySettings } from '../settings.ts';
import type { GatewayContext } from './context.ts';

/** Time limit for flushing the history at a clean stop; the rest is on disk for the next start. */
const FLUSH_TIMEOUT_MS = 10_000;

/** Maximum number of open databases named by `useSchema`. */
const OPEN_SCHEMAS = 8;

/** Opens the database, or starts to wait for it, and the writer of the history. */
export async function openStorage(context: GatewayContext) {
  const { config, logger, metrics, clock, onClose } = context;
  const store = await openStoreWaiting({
    ...databaseSettings(config),
    runMigrations: config.dataStore.runMigrationsEnabled,
    logger,
  });
  onClose(() => store.close());
  const writing = {
    ...{ settings: historySettings(config), spillDirectory: config.queryHistory.spillDirectory },
    ...{ logger, registry: metrics, clock },
  };
  const history = createHistoryWriter({ repository: store.history, ...writing });
  onClose(() => history.close(FLUSH_TIMEOUT_MS));
  const outcomes = createOutcomeWriter({ repository: store.outcomes, ...writing });
  onClose(() => outcomes.close(FLUSH_TIMEOUT_MS));
  const auditWriter = new AuditWriter(store.audit, config.audit.maxEntries, logger);
  onClose(() => auditWriter.close(FLUSH_TIMEOUT_MS));
  const runningQueries = new RunningQueries({
    ...{ repository: store.runningQueries, outcomes: store.outcomes, clock, logger },
  });
  onClose(() => runningQueries.stop());
  runningQueries.start();
  const queryOutcomes = new QueryOutcomes({
    ...{ writer: outcomes, running: store.runningQueries, stored: store.outcomes, clock, logger },
    counts: new OutcomeMetrics(metrics),
  });
  onClose(() => queryOutcomes.stop());
  queryOutcomes.start();
  const groupTables = config.resourceGroups.enabled
    ? store.resourceGroups({ allowed: config.resourceGroups.allowedSchemas, maxOpen: OPEN_SCHEMAS })
    : null;
  onClose(() => groupTables?.close());
  return { store, history, outcomes, queryOutcomes, auditWriter, runningQueries, groupTables };
}

export type Storage = Awaited<ReturnType<typeof openStorage>>;
