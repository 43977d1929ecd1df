import path from 'node:path';
import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import type { Clock } from '../model/clock.ts';
import { historyMetrics } from './historyMetrics.ts';
import { asciiOf } from './historyText.ts';
import type { HistorySettings } from './historyWriter.ts';
import { KeptTexts } from './keptTexts.ts';
import type { QueryOutcomeRepository } from './outcomeRepository.ts';
import type { QueryOutcomeRecord } from './queryOutcome.ts';
import { RecordWriter } from './recordWriter.ts';

export interface OutcomeWriterOptions {
  readonly repository: Pick<QueryOutcomeRepository, 'put'>;
  /** Those of the history, which outcomes belong to. Asked at each use, so that changes take effect. */
  readonly settings: HistorySettings;
  /** That of the history; outcomes are in a folder in it. */
  readonly spillDirectory: string;
  /** Bound of this process's spill files, bytes; default 1 GB. */
  readonly maxSpillBytes?: number;
  readonly logger: Logger;
  readonly registry: Registry;
  readonly clock: Clock;
}

/** Takes outcomes of queries off the request path and writes them in batches. */
export interface OutcomeWriter {
  /** Never throws, never waits. */
  add(record: QueryOutcomeRecord): void;
  /** The last outcome that may not be in the database yet; null when not buffered. */
  findBuffered(queryId: string): QueryOutcomeRecord | null;
  /** Records in memory and spilled to disk, not yet in the database. */
  depth(): { readonly memory: number; readonly spilled: number };
  /** Flushes and stops; resolves within about the time, what is left is on disk. */
  close(timeoutMs: number): Promise<void>;
}

/** Messages and statements that are kept are no longer than this, so nothing longer waits in memory. */
const MAX_TEXT_BYTES = 262_144;

const lengthOf = (text: string | null): number => text?.length ?? 0;
const weight = (record: QueryOutcomeRecord): number =>
  500 +
  lengthOf(record.errorMessage) +
  lengthOf(record.queryText) +
  lengthOf(record.decision) +
  (record.groups ?? []).reduce((sum, name) => sum + name.length, 0);

function isRecord(value: unknown): value is QueryOutcomeRecord {
  const { queryId, state, created } = value as Partial<QueryOutcomeRecord>;
  return typeof queryId === 'string' && typeof state === 'string' && typeof created === 'number';
}

/** The record in ASCII: the last resort for a table whose character set does not have a character. */
function plain(record: QueryOutcomeRecord): QueryOutcomeRecord {
  const texts = Object.entries(record).map(([name, value]) => [
    name,
    typeof value === 'string' ? asciiOf(value) : value,
  ]);
  const groups = record.groups?.map(asciiOf);
  return { ...Object.fromEntries(texts), ...(groups === undefined ? {} : { groups }) } as QueryOutcomeRecord;
}

/** The writer of `eg_query_outcomes`, off the path of requests (docs/database.md#outcomes). */
export function createOutcomeWriter(options: OutcomeWriterOptions): OutcomeWriter {
  const { repository, settings, registry, spillDirectory, ...rest } = options;
  const texts = new KeptTexts();
  const metrics = historyMetrics(registry, () => writer.depth(), 'outcomes');
  const writer = new RecordWriter<QueryOutcomeRecord>({
    ...rest,
    what: 'history of outcomes',
    spillDirectory: path.join(spillDirectory, 'outcomes'),
    insert: (records) => repository.put(records),
    plain,
    weight,
    isRecord,
    settings,
    metrics,
  });
  return {
    add(record) {
      if (!settings.enabled || !writer.checkRoom()) return;
      const { queryText, errorMessage } = record;
      if (queryText === null && errorMessage === null) {
        writer.add(record);
        return;
      }
      const statement = { redact: settings.redact, maxTextSize: Math.min(settings.maxTextSize, MAX_TEXT_BYTES) };
      const message = { redact: settings.redact, maxTextSize: MAX_TEXT_BYTES };
      writer.add({
        ...record,
        queryText: queryText === null ? null : texts.fit(queryText, statement),
        errorMessage: errorMessage === null ? null : texts.fit(errorMessage, message),
      });
    },
    findBuffered: (queryId) => writer.findBuffered(queryId),
    depth: () => writer.depth(),
    close: (timeoutMs) => writer.close(timeoutMs),
  };
}
