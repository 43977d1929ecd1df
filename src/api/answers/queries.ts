import { Type } from 'typebox';
import { statisticsDimensions } from '../../store/statisticsDimension.ts';
import { reference } from '../schemas.ts';
import { QueryOutcome } from './outcome.ts';
import { type Answer, nullable, oneOf, textOrNull, time } from './response.ts';

export const LISTED_TEXT = 2000;

export const ListedQuery = Type.Object({
  queryId: Type.String(),
  created: Type.String({ description: 'RFC 3339.' }),
  user: textOrNull(),
  source: textOrNull(),
  routingGroup: textOrNull(),
  cluster: textOrNull('Null: no cluster took it.'),
  rule: textOrNull(
    'Rule that decided its routing group, or that denied or refused it. Null: none did, or the query began within the last seconds.',
  ),
  queryText: Type.String({ description: `Start of the statement, up to ${LISTED_TEXT} characters.` }),
  outcome: nullable(reference(QueryOutcome), 'Null: it runs, or nobody saw its end.'),
});
export type ListedQuery = Answer<typeof ListedQuery>;

export const QueryPage = Type.Object({
  queries: Type.Array(ListedQuery),
  next: textOrNull('For `after`, to get the next page; null on the last one.'),
  keptHours: Type.Integer({ description: 'How long queries are kept: `dataStore.queryHistoryHoursRetention`.' }),
});
export type QueryPage = Answer<typeof QueryPage>;

export const HistoryRow = Type.Object({
  queryId: Type.String(),
  queryText: Type.String(),
  user: Type.Optional(Type.String()),
  source: Type.Optional(Type.String()),
  cluster: Type.Optional(
    Type.String({ description: 'Name of its cluster when it ran; absent for rows of a gateway that ran before.' }),
  ),
  backendUrl: Type.String(),
  captureTime: Type.Integer({ description: 'Milliseconds since 1970.' }),
  routingGroup: Type.Optional(Type.String()),
  externalUrl: Type.Optional(Type.String()),
});
export type HistoryRow = Answer<typeof HistoryRow>;

export const SearchRow = Type.Object({
  ...HistoryRow.properties,
  state: Type.Optional(QueryOutcome.properties.state),
  errorName: Type.Optional(Type.String({ description: 'SYNTAX_ERROR' })),
  elapsedMillis: Type.Optional(Type.Number({ description: 'From its creation to its end.' })),
});
export type SearchRow = Answer<typeof SearchRow>;

export const RunningQueryList = Type.Object({
  total: Type.Integer({ description: 'Queries in the list.' }),
  complete: Type.Boolean({ description: 'False: there are more than a list has.' }),
  queries: Type.Array(
    Type.Object({
      queryId: Type.String(),
      cluster: Type.String({ description: 'Registry name.' }),
      routingGroup: textOrNull('Null where the history does not have the query.'),
      user: textOrNull('Who sent it; null where the history does not have the query.'),
      source: textOrNull('What its client says it is.'),
      queryText: textOrNull('The first 1,000 characters; null where the history does not have the query.'),
      since: time('When it began.'),
      ageSeconds: Type.Integer({ description: 'Seconds since then.' }),
      lastRequest: time('When its client asked last, within a minute.'),
    }),
    { description: 'Oldest first.' },
  ),
});
export type RunningQueryList = Answer<typeof RunningQueryList>;

const place = {
  position: nullable(
    Type.Integer(),
    'Its place among those of its routing group, in which users (or sources) take turns; 1 is the next. Each replica admits in this order what it holds. Null while it is being sent.',
  ),
  groupWaiting: Type.Integer({ description: 'Queries that wait for its routing group.' }),
  movedFirst: Type.Boolean({ description: 'An administrator moved it before all others of its group.' }),
  state: oneOf(['waiting', 'submitting'], '`submitting`: it is being sent to a cluster.'),
  reason: Type.String({ description: 'Why it waits.' }),
};

export const QueuePlace = Type.Object(place);

/** Queries that wait for their turn. */
export const QueueList = Type.Object({
  total: Type.Integer({ description: 'Queries in the list.' }),
  queries: Type.Array(
    Type.Object({
      id: Type.String({ description: 'The id that the gateway gave it.' }),
      routingGroup: Type.String(),
      user: textOrNull('The user who sent it; null where the gateway does not know.'),
      source: textOrNull('What its client says it is.'),
      since: time('When it was put into the queue.'),
      waitedSeconds: Type.Integer({ description: 'Seconds since then.' }),
      ...place,
      replica: textOrNull('The replica that holds it; null: the one that its client asks next will.'),
    }),
    { description: 'Oldest first.' },
  ),
});
export type QueueList = Answer<typeof QueueList>;

const percentile = nullable(Type.Integer());
const Percentiles = Type.Object(
  { p50: percentile, p95: percentile, p99: percentile },
  { description: 'Milliseconds, within 4.5 %; null where no query said it.' },
);

export const Statistics = Type.Object({
  by: oneOf(statisticsDimensions),
  from: Type.Integer(),
  to: Type.Integer(),
  keptHours: Type.Integer({ description: 'How long queries are kept.' }),
  values: Type.Array(
    Type.Object({
      value: textOrNull('Null: the queries that have none.'),
      queries: Type.Integer({ description: 'That ended, or were refused.' }),
      failures: Type.Integer({ description: "FAILED or LOST, without users' errors." }),
      userErrors: Type.Integer({ description: 'FAILED with USER_ERROR.' }),
      refused: Type.Integer({ description: 'REFUSED by the gateway.' }),
      states: Type.Record(Type.String(), Type.Integer(), { description: 'Queries by state.' }),
      elapsedMillis: Percentiles,
      queuedMillis: Percentiles,
      cpuMillis: Type.Number(),
      processedBytes: Type.Number(),
      resultBytes: Type.Number(),
    }),
    { description: 'Values with most queries first.' },
  ),
});
export type Statistics = Answer<typeof Statistics>;
