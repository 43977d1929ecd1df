import { Type } from 'typebox';
import { type Answer, nullable } from './answer.ts';
import { RuleEffect } from './routing.ts';

const count = (description: string) => Type.Integer({ minimum: 0, description });
const oneOf = <T extends string>(...values: readonly T[]) =>
  Type.Unsafe<T>(Type.Union(values.map((value) => Type.Literal(value))));

/** Destination or rejection of a query. */
const ImpactTarget = Type.Object(
  {
    kind: oneOf('group', 'cluster', 'denied', 'refused', 'bound', 'uncertain'),
    name: nullable(Type.String(), 'Of the routing group, or of the cluster that a rule chooses; null for the others.'),
  },
  {
    description:
      '`refused`: a rule fails (onRuleError: reject). `bound`: goes to the cluster of its transaction, or of the query that it kills. `uncertain`: one of several, as a rule could not be replayed.',
  },
);

const shares = (what: string) =>
  Type.Array(
    Type.Object({
      name: nullable(Type.String(), `Null: queries without a ${what}.`),
      queries: count('Of the range.'),
      moved: count('Those that move.'),
      unknown: count('Those that may move.'),
    }),
    { description: `By ${what}, those with most queries that move; others than these are left out.` },
  );

export const RuleImpact = Type.Object({
  from: Type.String({ format: 'date-time', description: 'Start of the range.' }),
  to: Type.String({ format: 'date-time', description: 'End of the range.' }),
  queries: count('Queries that were looked at, the newest first.'),
  unmoved: count('Those that go where they went.'),
  moved: count('Those that go elsewhere, or are denied or not denied any more.'),
  unknown: count('Those of which that depends on what the history does not hold.'),
  cutBy: nullable(
    oneOf('queries', 'time'),
    'Why not all queries of the range were looked at: there are too many, or the time was over. Null: all were.',
  ),
  oldest: nullable(Type.String({ format: 'date-time' }), 'Time of the oldest query that was looked at.'),
  moves: Type.Array(Type.Object({ from: ImpactTarget, to: ImpactTarget, queries: count('Queries.') }), {
    description: 'From where to where, most queries first.',
  }),
  users: shares('user'),
  sources: shares('source'),
  unreplayed: Type.Array(
    Type.Object({
      rule: Type.String({ description: 'Empty: the routing group header, which decides where there are no rules.' }),
      reads: Type.Array(Type.String(), { description: 'What it reads that the history does not hold.' }),
      queries: count('Queries for which it was asked and could not be replayed.'),
      unknown: count('Those of them that count as unknown.'),
    }),
    { description: 'Rules whose condition or actions could not be replayed for some queries.' },
  ),
  examples: Type.Array(
    Type.Object({
      queryId: Type.String(),
      user: nullable(Type.String()),
      source: nullable(Type.String()),
      created: Type.String({ format: 'date-time' }),
      queryText: Type.String({ description: 'The first 500 characters.' }),
      from: ImpactTarget,
      to: ImpactTarget,
      before: Type.Array(RuleEffect, {
        description: 'What the rules do now; of more than 50 rules those that do something, and those that change.',
      }),
      after: Type.Array(RuleEffect, { description: 'What they would do.' }),
      assumed: Type.Array(Type.String(), {
        description:
          'Rules that could not be replayed: the query moves however they come out, and the traces show one way.',
      }),
    }),
    { description: 'Queries that move, the newest of each move.' },
  ),
  unknownExamples: Type.Array(Type.String(), { description: 'Ids of queries that count as unknown.' }),
  milliseconds: count('Time that it took.'),
});
export type RuleImpact = Answer<typeof RuleImpact>;
