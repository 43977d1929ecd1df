import { Type } from 'typebox';
import { type StatisticsDimension, statisticsDimensions } from '../../store/statisticsDimension.ts';
import { type Answer, nullable } from './answer.ts';

const percentile = nullable(Type.Integer());
const Percentiles = Type.Object(
  { p50: percentile, p95: percentile, p99: percentile },
  { description: 'Milliseconds, within 4.5 %; null where no query said it.' },
);

export const Statistics = Type.Object({
  by: Type.Unsafe<StatisticsDimension>({ type: 'string', enum: [...statisticsDimensions] }),
  from: Type.Integer(),
  to: Type.Integer(),
  keptHours: Type.Integer({ description: 'How long queries are kept.' }),
  values: Type.Array(
    Type.Object({
      value: nullable(Type.String(), 'Null: the queries that have none.'),
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
