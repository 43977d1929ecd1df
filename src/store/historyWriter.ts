import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import type { Clock } from '../model/clock.ts';
import { historyMetrics } from './historyMetrics.ts';
import type { QueryHistoryRepository } from './historyRepository.ts';
import { plainRecord } from './historyText.ts';
import { type KeptTextSettings, KeptTexts } from './keptTexts.ts';
import { RecordWriter, type RecordWriterSettings } from './recordWriter.ts';
import type { HistoryWriter, QueryRecord } from './store.ts';

/** Settings of the writer (`queryHistory`, `dataStore.queryHistoryEnabled`). */
export interface HistorySettings extends KeptTextSettings, RecordWriterSettings {
  readonly enabled: boolean;
}

export interface HistoryWriterOptions {
  readonly repository: Pick<QueryHistoryRepository, 'insert'>;
  /** Asked at each use, so that changes take effect. */
  readonly settings: HistorySettings;
  readonly spillDirectory: string;
  /** Bound of this process's spill files, bytes; default 1 GB. */
  readonly maxSpillBytes?: number;
  readonly logger: Logger;
  readonly registry: Registry;
  readonly clock: Clock;
}

const weight = (record: QueryRecord): number => record.queryText.length + (record.decision?.length ?? 0) + 300;

function isRecord(value: unknown): value is QueryRecord {
  const { queryId, queryText } = value as Partial<QueryRecord>;
  return typeof queryId === 'string' && typeof queryText === 'string';
}

/** The writer of the query history, off the path of requests (docs/database.md#query-history). */
export function createHistoryWriter(options: HistoryWriterOptions): HistoryWriter {
  const { repository, settings, registry, ...rest } = options;
  const texts = new KeptTexts();
  const metrics = historyMetrics(registry, () => writer.depth());
  const writer = new RecordWriter<QueryRecord>({
    ...rest,
    what: 'history',
    insert: (records) => repository.insert(records),
    plain: plainRecord,
    weight,
    isRecord,
    settings,
    metrics,
  });
  return {
    add(record) {
      if (!settings.enabled || !writer.checkRoom()) return;
      const queryText = texts.fit(record.queryText, settings);
      writer.add(queryText === record.queryText ? record : { ...record, queryText });
    },
    findBuffered: (queryId) => writer.findBuffered(queryId),
    whenWritten: (queryId, timeoutMs) => writer.whenWritten(queryId, timeoutMs),
    depth: () => writer.depth(),
    flush: (timeoutMs) => writer.flush(timeoutMs),
    close: (timeoutMs) => writer.close(timeoutMs),
  };
}
