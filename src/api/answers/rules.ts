import { Type } from 'typebox';
import { Deny, RouteTo } from '../../kinds/routingRule/spec.ts';
import { reference } from '../schemas.ts';
import { type Answer, nullable } from './answer.ts';

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
    onUnavailable: Type.Union([Type.Literal('fallback'), Type.Literal('reject')]),
    stop: Type.Boolean(),
    suspended: Type.Boolean(),
    origin: Type.Union([Type.Literal('file'), Type.Literal('resource')]),
    resource: nullable(Type.String(), 'namespace/name of its resource; null in a file.'),
    place: Type.String({ description: 'Where it is written.' }),
    managers: Type.Array(Type.Object({ manager: Type.String(), fields: Type.Array(Type.String()) })),
    version: Type.String({ description: 'Changes whenever what it says does.' }),
    position: nullable(Type.Integer(), 'When it is asked, from 1; null: it is not.'),
    unresolved: nullable(
      Type.String(),
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
  effect: Type.Union([Type.Literal('fileNotLoaded'), Type.Literal('ruleLeftOut'), Type.Literal('warning')], {
    description: 'No rule of the file is in force; its rule alone is left out; or nothing.',
  }),
  path: Type.String(),
  document: nullable(Type.Integer()),
  line: Type.Integer(),
  column: Type.Integer(),
  rule: nullable(Type.String()),
  message: Type.String(),
});

export const RuleInventory = Type.Object({
  engine: Type.Union([Type.Literal('on'), Type.Literal('off'), Type.Literal('external')], {
    description: 'external: a service decides, and only deny rules are asked beside it.',
  }),
  file: nullable(
    Type.Object({
      path: Type.String(),
      state: Type.Union([
        Type.Literal('absent'),
        Type.Literal('loaded'),
        Type.Literal('failed'),
        Type.Literal('keptLast'),
      ]),
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
