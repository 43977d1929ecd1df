import { Type } from 'typebox';
import { digestDimensions } from '../../store/digestStatistics.ts';
import type { ListedOutcome } from '../../store/queryList.ts';
import { type QueryOutcomeRecord, type QueryState, queryStates, RUNNING } from '../../store/queryOutcome.ts';
import { statisticsDimensions } from '../../store/statisticsDimension.ts';
import {
  flagField,
  integerField,
  iso,
  list,
  nullable,
  objectOf,
  objects,
  oneOf,
  type ResponseBody,
  reference,
  textField,
  textOrNull,
  time,
} from '../schemas.ts';

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
    physicalInputBytes: figure('Bytes that the engine read from storage.'),
    planningMillis: figure('Time of planning, with that of the analysis.'),
    analysisMillis: figure('Time of the analysis.'),
    spilledBytes: figure('Bytes that the engine wrote to disk for lack of memory.'),
    resultBytes: figure('Bytes of bodies that went to the client, compressed ones as such.'),
    pages: figure('Answers that went to the client through the replica that saw the end.'),
    digest: textOrNull('Digest of the shape of its statement.'),
    exactDigest: textOrNull('Digest of its statement.'),
    tool: textOrNull('Tool that wrote the statement: dbt, looker, metabase, superset or tableau.'),
    model: textOrNull('Model, question, chart or workbook in that tool.'),
    dashboard: textOrNull('Dashboard in that tool.'),
    lastSeen: textField('When an answer for it passed last, RFC 3339.'),
  },
  { $id: 'QueryOutcome', description: 'How a query ended. Null figures: nobody said.' },
);
export type QueryOutcome = ResponseBody<typeof QueryOutcome>;

/** The outcome of a row; null if the query continues, or no one saw its end. */
export function outcomeResponse(record: QueryOutcomeRecord | null): QueryOutcome | null {
  if (record === null || record.state === RUNNING) return null;
  const fields = Object.keys(QueryOutcome.properties) as (keyof QueryOutcome)[];
  const outcome = Object.fromEntries(fields.map((field) => [field, record[field] ?? null]));
  return { ...(outcome as unknown as QueryOutcome), lastSeen: new Date(record.lastSeen).toISOString() };
}

export const bypassed = flagField(
  'It was not sent through the gateway: its cluster reported it (docs/query-events.md).',
);

export const QueryInputResponse = {
  table: textField('Catalog, schema and table.'),
  rows: figure('Rows that were read.'),
  bytes: figure('Bytes that were read from storage.'),
};

export const LISTED_TEXT = 2000;

export const ListedQuery = Type.Object({
  queryId: Type.String(),
  created: textField('RFC 3339.'),
  user: textOrNull(),
  source: textOrNull(),
  routingGroup: textOrNull(),
  cluster: textOrNull('Null: no cluster took it.'),
  rule: textOrNull(
    'Rule that decided its routing group, or that denied or refused it. Null: none did, or the query began within the last seconds.',
  ),
  queryText: textField(`Start of the statement, up to ${LISTED_TEXT} characters.`),
  bypassed,
  outcome: nullable(reference(QueryOutcome), 'Null: it runs, or nobody saw its end.'),
});
export type ListedQuery = ResponseBody<typeof ListedQuery>;

/** A query as lists have it. */
export function queryRow({ created, outcome, ...rest }: ListedOutcome): ListedQuery {
  return { ...rest, created: iso(created), outcome: outcomeResponse(outcome) };
}

export const QueryPage = Type.Object({
  queries: Type.Array(ListedQuery),
  next: textOrNull('For `after`, to get the next page; null on the last one.'),
  keptHours: integerField('How long queries are kept: `dataStore.queryHistoryHoursRetention`.'),
});
export type QueryPage = ResponseBody<typeof QueryPage>;

export const HistoryRow = Type.Object({
  queryId: Type.String(),
  queryText: Type.String(),
  user: Type.Optional(Type.String()),
  source: Type.Optional(Type.String()),
  cluster: Type.Optional(textField('Name of its cluster when it ran; absent for rows of a gateway that ran before.')),
  backendUrl: Type.String(),
  captureTime: integerField('Milliseconds since 1970.'),
  routingGroup: Type.Optional(Type.String()),
  externalUrl: Type.Optional(Type.String()),
});
export type HistoryRow = ResponseBody<typeof HistoryRow>;

export const SearchRow = Type.Object({
  ...HistoryRow.properties,
  state: Type.Optional(QueryOutcome.properties.state),
  errorName: Type.Optional(textField('SYNTAX_ERROR')),
  elapsedMillis: Type.Optional(Type.Number({ description: 'From its creation to its end.' })),
  digest: Type.Optional(textField('Digest of the shape of its statement.')),
});
export type SearchRow = ResponseBody<typeof SearchRow>;

export const RunningQueryList = Type.Object({
  total: integerField('Queries in the list.'),
  complete: flagField('False: there are more than a list has.'),
  queries: objects('Oldest first.', {
    queryId: Type.String(),
    cluster: textField('Registry name.'),
    routingGroup: textOrNull('Null where the history does not have the query.'),
    user: textOrNull('Who sent it; null where the history does not have the query.'),
    source: textOrNull('What its client says it is.'),
    queryText: textOrNull('The first 1,000 characters; null where the history does not have the query.'),
    since: time('When it began.'),
    ageSeconds: integerField('Seconds since then.'),
    lastRequest: time('When its client asked last, within a minute.'),
  }),
});
export type RunningQueryList = ResponseBody<typeof RunningQueryList>;

const place = {
  position: nullable(
    Type.Integer(),
    'Its place among those of its routing group, in which users (or sources) take turns; 1 is the next. Each replica admits in this order what it holds. Null while it is being sent.',
  ),
  groupWaiting: integerField('Queries that wait for its routing group.'),
  movedFirst: flagField('An administrator moved it before all others of its group.'),
  state: oneOf(['waiting', 'submitting'], '`submitting`: it is being sent to a cluster.'),
  reason: textField('Why it waits.'),
};

export const QueuePlace = Type.Object(place);

/** Queries that wait for their turn. */
export const QueueList = Type.Object({
  total: integerField('Queries in the list.'),
  queries: objects('Oldest first.', {
    id: textField('The id that the gateway gave it.'),
    routingGroup: Type.String(),
    user: textOrNull('The user who sent it; null where the gateway does not know.'),
    source: textOrNull('What its client says it is.'),
    since: time('When it was put into the queue.'),
    waitedSeconds: integerField('Seconds since then.'),
    ...place,
    replica: textOrNull('The replica that holds it; null: the one that its client asks next will.'),
  }),
});
export type QueueList = ResponseBody<typeof QueueList>;

const percentile = nullable(Type.Integer());
const Percentiles = objectOf(
  { description: 'Milliseconds, within 4.5 %; null where no query said it.' },
  { p50: percentile, p95: percentile, p99: percentile },
);

export const Statistics = Type.Object({
  by: oneOf(statisticsDimensions),
  from: Type.Integer(),
  to: Type.Integer(),
  keptHours: integerField('How long queries are kept.'),
  values: objects('Values with most queries first.', {
    value: textOrNull('Null: the queries that have none.'),
    queries: integerField('That ended, or were refused.'),
    failures: integerField("FAILED or LOST, without users' errors."),
    userErrors: integerField('FAILED with USER_ERROR.'),
    refused: integerField('REFUSED by the gateway.'),
    states: Type.Record(Type.String(), Type.Integer(), { description: 'Queries by state.' }),
    elapsedMillis: Percentiles,
    queuedMillis: Percentiles,
    cpuMillis: Type.Number(),
    processedBytes: Type.Number(),
    resultBytes: Type.Number(),
  }),
});
export type Statistics = ResponseBody<typeof Statistics>;

const digestPercentiles = (of: string) =>
  objectOf(
    { description: `${of}, within 4.5 %; null if no query reported it.` },
    { p50: nullable(Type.Integer()), p95: nullable(Type.Integer()) },
  );
export const DigestFiguresResponse = objectOf(
  { description: 'Figures of queries that ended.' },
  {
    queries: integerField('That ended, rejected ones included.'),
    failures: integerField("FAILED or LOST, without users' errors."),
    userErrors: integerField('FAILED with USER_ERROR.'),
    errors: Type.Record(Type.String(), Type.Integer(), { description: 'FAILED and LOST by type of the error.' }),
    elapsedMillis: Type.Number({ description: 'Sum of durations.' }),
    cpuMillis: Type.Number({ description: 'Sum of processor time.' }),
    processedBytes: Type.Number({ description: 'Sum of bytes read.' }),
    elapsed: digestPercentiles('Duration in milliseconds'),
    queued: digestPercentiles('Wait in milliseconds, of gateway and engine'),
    cpu: digestPercentiles('Processor time in milliseconds'),
    bytes: digestPercentiles('Bytes read'),
    memory: digestPercentiles('Peak memory in bytes'),
  },
);
export type DigestFiguresResponse = ResponseBody<typeof DigestFiguresResponse>;

const digestRange = {
  since: integerField('Milliseconds since 1970.'),
  until: integerField('Milliseconds since 1970.'),
};
const shape = textOrNull('Text of the shape, redacted, up to 10,000 characters.');

export const DigestList = Type.Object({
  ...digestRange,
  digests: objects('In the order of `top`.', {
    digest: textOrNull('`other`: digests of hours with too many of them. Null: queries without a digest.'),
    shape,
    figures: DigestFiguresResponse,
    before: Type.Object(DigestFiguresResponse.properties, {
      description: 'Of the range of equal length before `since`.',
    }),
  }),
});
export type DigestList = ResponseBody<typeof DigestList>;

export const QuarantineList = Type.Object({
  quarantined: objects('Shapes first.', {
    routingGroup: textField('Routing group that rejects the statements.'),
    digest: textField('Digest of the shape.'),
    exactDigest: textOrNull('Exact digest of the statement; null: all statements of the shape.'),
    clusters: list(Type.String(), 'Clusters that it lost.'),
    users: list(Type.String(), 'Their users; callers without ADMIN see themselves.'),
    since: time('When the first cluster was lost.'),
    until: time('When it ends by itself.'),
    canRelease: flagField('The caller may release it.'),
  }),
});
export type QuarantineList = ResponseBody<typeof QuarantineList>;

const values = (of: string) =>
  objects(`${of} with most queries, up to 10.`, { value: textOrNull('Null: none.'), queries: Type.Integer() });
const dimensions = Object.fromEntries(digestDimensions.map((name) => [name, values(`Values of ${name}`)])) as Record<
  (typeof digestDimensions)[number],
  ReturnType<typeof values>
>;

export const DigestDetails = Type.Object({
  ...digestRange,
  digest: textField('Digest of the shape.'),
  shape,
  figures: DigestFiguresResponse,
  hours: objects('By hour, in order; hours without queries are left out.', {
    start: integerField('Milliseconds since 1970.'),
    figures: DigestFiguresResponse,
  }),
  values: Type.Object(dimensions),
  inputs: objects('Tables that its newest 1,000 queries read, up to 20, by events of clusters.', {
    ...QueryInputResponse,
    queries: integerField('Queries that read the table.'),
  }),
  examples: Type.Array(ListedQuery, { description: 'The newest queries, up to 10.' }),
});
export type DigestDetails = ResponseBody<typeof DigestDetails>;
