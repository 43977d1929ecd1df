import { Type } from 'typebox';
import { type QueryOutcomeRecord, type QueryState, queryStates, RUNNING } from '../../store/queryOutcome.ts';
import { type Answer, nullable, oneOf, textOrNull } from './response.ts';

const figure = (description: string) => nullable(Type.Number(), description);

export const QueryOutcome = Type.Object(
  {
    state: oneOf<QueryState>(queryStates, 'See docs/protocol.md#outcomes.'),
    errorName: textOrNull('Of the engine, or of the refusal: SYNTAX_ERROR.'),
    errorType: textOrNull('USER_ERROR, INTERNAL_ERROR, INSUFFICIENT_RESOURCES or EXTERNAL.'),
    errorCode: figure('Number of the error.'),
    errorMessage: textOrNull('Up to 2,000 characters.'),
    elapsedMillis: figure(
      'From its creation to its end: by the engine, or by the gateway where the engine did not say.',
    ),
    firstRowMillis: figure(
      'From its creation to the first answer with rows, as it passed the gateway; null where it had none, or none was seen.',
    ),
    queuedMillis: figure("In the engine's queue."),
    gatewayQueuedMillis: figure('Before the gateway sent it on; null where it did not wait.'),
    cpuMillis: figure('Processor time of the engine.'),
    processedRows: figure('Rows that the engine read.'),
    processedBytes: figure('Bytes that the engine read.'),
    peakMemoryBytes: figure('Most memory that the engine used for it.'),
    resultBytes: figure('Bytes of bodies that went to the client, compressed ones as such.'),
    pages: figure('Answers that went to the client through the replica that saw the end.'),
    lastSeen: Type.String({ description: 'When an answer for it passed last, RFC 3339.' }),
  },
  { $id: 'QueryOutcome', description: 'How a query ended. Null figures: nobody said.' },
);
export type QueryOutcome = Answer<typeof QueryOutcome>;

/** The outcome of a row; null if the query continues, or no one saw its end. */
export function outcomeResponse(record: QueryOutcomeRecord | null): QueryOutcome | null {
  if (record === null || record.state === RUNNING) return null;
  const fields = Object.keys(QueryOutcome.properties) as (keyof QueryOutcome)[];
  const outcome = Object.fromEntries(fields.map((field) => [field, record[field] ?? null]));
  return { ...(outcome as unknown as QueryOutcome), lastSeen: new Date(record.lastSeen).toISOString() };
}
