import { Type } from 'typebox';
import { Deny, RouteTo } from '../../kinds/routingRule/spec.ts';
import { reference } from '../schemas.ts';
import { type Answer, count, nullable, oneOf, textOrNull, time } from './response.ts';
import { RuleEffect } from './routing.ts';

const Problem = Type.Object({
  field: Type.String({ description: 'condition, actions[0], …' }),
  message: Type.String(),
  line: Type.Optional(Type.Integer()),
  column: Type.Optional(Type.Integer()),
});

export const RuleState = Type.Object(
  {
    name: Type.String(),
    description: Type.String(),
    priority: Type.Integer(),
    condition: Type.String(),
    actions: Type.Array(Type.String()),
    routeTo: nullable(RouteTo),
    deny: nullable(Deny),
    onUnavailable: oneOf(['fallback', 'reject']),
    stop: Type.Boolean(),
    suspended: Type.Boolean(),
    origin: oneOf(['file', 'resource']),
    resource: textOrNull('namespace/name of its resource; null in a file.'),
    place: Type.String({ description: 'Where it is written.' }),
    managers: Type.Array(Type.Object({ manager: Type.String(), fields: Type.Array(Type.String()) })),
    version: Type.String({ description: 'Changes whenever what it says does.' }),
    position: nullable(Type.Integer(), 'When it is asked, from 1; null: it is not.'),
    unresolved: textOrNull(
      'Why nothing is where it routes to: the group it names has no clusters, or there is no such cluster; null: it is there.',
    ),
    status: Type.String({
      description:
        'Programmed, PreviousVersion (its last good version decides), NotAccepted, Suspended, FileFailed, RulesEngineDisabled, ExternalRules.',
    }),
    message: Type.String({ description: 'The status in a sentence.' }),
    problems: Type.Array(Problem, { description: 'Why what it says now does not compile.' }),
    warnings: Type.Array(Problem, {
      description: 'What of it may not be meant as it runs: it will fail, or Trino Gateway does something else.',
    }),
  },
  { $id: 'RuleState', description: 'A rule, where it lives and what became of it.' },
);
export type RuleState = Answer<typeof RuleState>;

const FileProblem = Type.Object({
  effect: oneOf(
    ['fileNotLoaded', 'ruleLeftOut', 'warning'],
    'No rule of the file is in force; its rule alone is left out; or nothing.',
  ),
  path: Type.String(),
  document: nullable(Type.Integer()),
  line: Type.Integer(),
  column: Type.Integer(),
  rule: textOrNull(),
  message: Type.String(),
});

export const RuleInventory = Type.Object({
  engine: oneOf(['on', 'off', 'external'], 'external: a service decides, and only deny rules are asked beside it.'),
  file: nullable(
    Type.Object({
      path: Type.String(),
      state: oneOf(['absent', 'loaded', 'failed', 'keptLast']),
      problems: Type.Array(FileProblem, { description: 'Its mistakes, with places in the file.' }),
      warnings: Type.Array(FileProblem, { description: 'What may not be meant as it runs, 200 at most.' }),
    }),
    'The rules file; null: none is configured.',
  ),
  rules: Type.Array(reference(RuleState), { description: 'In the order in which they are asked.' }),
});
export type RuleInventory = Answer<typeof RuleInventory>;

export const RuleHitList = Type.Object({
  asOf: Type.String({ description: 'When they were counted, RFC 3339.' }),
  hits: Type.Array(
    Type.Object({
      rule: Type.String({ description: 'Name of a rule that decided queries; those that decided none are left out.' }),
      lastHour: Type.Integer(),
      lastDay: Type.Integer(),
    }),
  ),
});
export type RuleHitList = Answer<typeof RuleHitList>;

/** Destination or rejection of a query. */
const ImpactTarget = Type.Object(
  {
    kind: oneOf(['group', 'cluster', 'denied', 'refused', 'bound', 'uncertain']),
    name: textOrNull('Of the routing group, or of the cluster that a rule chooses; null for the others.'),
  },
  {
    description:
      '`refused`: a rule fails (onRuleError: reject). `bound`: goes to the cluster of its transaction, or of the query that it kills. `uncertain`: one of several, as a rule could not be replayed.',
  },
);

const shares = (what: string) =>
  Type.Array(
    Type.Object({
      name: textOrNull(`Null: queries without a ${what}.`),
      queries: count('Of the range.'),
      moved: count('Those that move.'),
      unknown: count('Those that may move.'),
    }),
    { description: `By ${what}, those with most queries that move; others than these are left out.` },
  );

export const RuleImpact = Type.Object({
  from: time('Start of the range.'),
  to: time('End of the range.'),
  queries: count('Queries that were looked at, the newest first.'),
  unmoved: count('Those that go where they went.'),
  moved: count('Those that go elsewhere, or are denied or not denied any more.'),
  unknown: count('Those of which that depends on what the history does not hold.'),
  cutBy: nullable(
    oneOf(['queries', 'time']),
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
      user: textOrNull(),
      source: textOrNull(),
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
