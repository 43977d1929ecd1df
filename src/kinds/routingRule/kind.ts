import { isSameOutcome } from '../outcome.ts';
import { conditionColumn, type ResourceKind } from '../resourceKind.ts';
import { exportedRules } from './ruleExport.ts';
import { ruleFindings } from './ruleFindings.ts';
import type { RuleOutcome } from './ruleOutcome.ts';
import { RuleProgram } from './ruleProgram.ts';
import { ruleStatus } from './ruleStatus.ts';
import { ROUTING_RULE, ROUTING_RULES, RoutingRuleSpec } from './spec.ts';
import { ruleProblems } from './validation.ts';

/** Rules that choose the routing group of requests (docs/rules.md#fields). */
export const routingRule: ResourceKind<RuleOutcome> = {
  kind: ROUTING_RULE,
  plural: ROUTING_RULES,
  singular: 'routingrule',
  shortName: 'rr',
  description: 'RoutingRule chooses the routing group of requests.',
  spec: RoutingRuleSpec,
  objectRules: [],
  statusProperties: {
    routesTo: { type: 'string', description: 'Where the rule sends requests, in short.' },
  },
  columns: [
    { name: 'Priority', type: 'integer', jsonPath: '.spec.priority', description: 'Lower fires earlier.' },
    { name: 'Routes to', type: 'string', jsonPath: '.status.routesTo', description: 'Where it sends requests.' },
    conditionColumn('Accepted', 'The rule compiles and is in force.'),
    conditionColumn('ResolvedRefs', 'The group or cluster that it names is there.'),
    conditionColumn('Programmed', 'The rule is in the routing table.', 1),
  ],
  selectableFields: ['.spec.priority', '.spec.suspended', '.spec.gatewayClassName'],
  example: { condition: 'request.getHeader("X-Trino-Source") == "airflow"', routeTo: { routingGroup: 'etl' } },
  ownAccess: {
    verbs: ['get', 'list', 'watch', 'create', 'patch', 'delete'],
    why: 'REST creates, changes and deletes rules.',
  },
  gauge: { name: 'routing_rules', help: 'RoutingRule resources.' },
  specProblems: ruleProblems,
  findings: ruleFindings,
  exported: exportedRules,
  program: (settings) => new RuleProgram(settings),
  isSame: isSameOutcome,
  status: (outcome, { stored, findings }) => ruleStatus(outcome, stored, findings.ruleFailure(outcome)),
  endedAnnotations: () => [],
  rows: null,
  isRequired: true,
  hasUniqueNames: true,
  hasCounts: false,
};
