import type { QueryHistoryRepository } from './historyRepository.ts';
import type { QueryOutcomeRepository } from './outcomeRepository.ts';
import type { QueryOutcomeRecord } from './queryOutcome.ts';
import { RecordWriter, type RecordWriterOptions } from './recordWriter.ts';
import type { HistoryWriter } from './store.ts';

/** The writer of `eg_query_outcomes`, off the path of requests (docs/database.md#outcomes). */
export type OutcomeWriter = RecordWriter<QueryOutcomeRecord>;

export function createHistoryWriter({
  repository,
  ...options
}: RecordWriterOptions & { readonly repository: Pick<QueryHistoryRepository, 'insert'> }): HistoryWriter {
  return new RecordWriter('history', (records) => repository.insert(records), options);
}

export function createOutcomeWriter({
  repository,
  ...options
}: RecordWriterOptions & { readonly repository: Pick<QueryOutcomeRepository, 'put'> }): OutcomeWriter {
  return new RecordWriter('outcomes', (records) => repository.put(records), options);
}
