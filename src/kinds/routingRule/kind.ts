import { isRecord } from '../../model/record.ts';
import { compileRule } from '../../rules/compile/compiledRule.ts';
import { plainRule, type RuleDefinition } from '../../rules/compile/definition.ts';
import type { RuleReport } from '../../rules/ruleCompiler.ts';
import { groupFindings } from '../groupFindings.ts';
import { type Acceptance, conditionState, ready, type StatusDraft, type StatusView, statusDraft } from '../outcome.ts';
import {
  type CheckedManifest,
  conditionColumn,
  type Exportable,
  type ExportedResource,
  type ExportedRule,
  type ManifestFinding,
  plainKind,
  type ResourceKind,
  specCheck,
  writeAccess,
} from '../resourceKind.ts';
import { type RuleOutcome, routesTo } from './ruleOutcome.ts';
import { RuleProgram } from './ruleProgram.ts';
import { DEFAULT_PRIORITY, ROUTING_RULE, ROUTING_RULES, RoutingRuleSpec } from './spec.ts';

/** Rules that choose the routing group of requests (docs/rules.md#fields). */
export const routingRule: ResourceKind<RuleOutcome> = {
  ...plainKind,
  kind: ROUTING_RULE,
  plural: ROUTING_RULES,
  singular: 'routingrule',
  shortName: 'rr',
  description: 'RoutingRule chooses the routing group of requests.',
  spec: RoutingRuleSpec,
  statusProperties: {
    routesTo: { type: 'string', description: 'Where the rule sends requests, in short.' },
  },
  columns: [
    { name: 'Priority', type: 'integer', jsonPath: '.spec.priority', description: 'Lower fires earlier.' },
    { name: 'Routes to', type: 'string', jsonPath: '.status.routesTo', description: 'Where it sends requests.' },
    conditionColumn('Accepted', 'The rule compiles.', 1),
    conditionColumn('ResolvedRefs', 'The group or cluster that it names is there.', 1),
    conditionColumn('Programmed', 'The rule is in the routing table.', 1),
  ],
  selectableFields: ['.spec.priority', '.spec.gatewayClassName'],
  example: { condition: 'request.getHeader("X-Trino-Source") == "airflow"', routeTo: { routingGroup: 'etl' } },
  ownAccess: writeAccess('REST creates, changes and deletes rules.'),
  gauge: { name: 'routing_rules', help: 'RoutingRule resources.' },
  // Its expressions are compiled elsewhere.
  specProblems: specCheck(RoutingRuleSpec),
  findings: ruleFindings,
  exported: exportedRules,
  program: (settings) => new RuleProgram(settings),
  status: ruleStatus,
  isRequired: true,
  hasUniqueNames: true,
};

/**
 * Rules of a rules file as RoutingRules. A rules file asks rules of equal priority in its order, resources in order of their
 * names: where that differs, an earlier rule's priority is lowered just as far as keeps the order.
 */
function* exportedRules({ rules }: Exportable): Generator<ExportedResource> {
  const priorities = orderedPriorities(rules);
  for (const rule of rules) {
    const priority = priorities.get(rule) ?? DEFAULT_PRIORITY;
    yield {
      registryName: rule.name,
      spec: {
        ...(rule.description === undefined || rule.description === '' ? {} : { description: rule.description }),
        ...(priority === DEFAULT_PRIORITY ? {} : { priority }),
        condition: rule.condition,
        actions: rule.actions,
      },
    };
  }
}

/** Priorities with which resources are asked in the order in which the file's rules are. */
function orderedPriorities(rules: readonly ExportedRule[]): ReadonlyMap<ExportedRule, number> {
  const priorityOf = (rule: ExportedRule): number => rule.priority ?? DEFAULT_PRIORITY;
  const lastFirst = rules.toSorted((a, b) => priorityOf(a) - priorityOf(b)).toReversed();
  const priorities = new Map<ExportedRule, number>();
  let next: { readonly rule: ExportedRule; readonly priority: number } | null = null;
  for (const rule of lastFirst) {
    let priority = priorityOf(rule);
    if (next !== null && priority >= next.priority) {
      priority = rule.name < next.rule.name ? next.priority : next.priority - 1;
    }
    priorities.set(rule, priority);
    next = { rule, priority };
  }
  return priorities;
}

/** Mistakes in the expressions of a RoutingRule, and what will fail once it is reached. */
function ruleFindings(manifest: CheckedManifest): readonly ManifestFinding[] {
  const { condition, routeTo } = manifest.spec;
  const ofGroup = isRecord(routeTo) ? groupFindings(routeTo.routingGroup, 'spec.routeTo.routingGroup') : [];
  return typeof condition === 'string' ? [...ofGroup, ...textFindings(manifest, condition)] : ofGroup;
}

function textFindings(manifest: CheckedManifest, condition: string): readonly ManifestFinding[] {
  const compiled = compileRule(definitionOf(manifest, condition), manifest.context);
  if ('rule' in compiled) {
    return compiled.rule.warnings.map(({ field, isMistake, message, line, column }) => ({
      severity: isMistake === true ? 'problem' : 'warning',
      message: `spec.${field}: ${message}`,
      at: { line, column },
    }));
  }
  return compiled.problems.map(({ field, line, column, message }) => ({
    severity: 'problem',
    message: `spec.${field}: ${message}`,
    at: { line, column },
  }));
}

function definitionOf(manifest: CheckedManifest, condition: string): RuleDefinition {
  const { actions } = manifest.spec;
  const texts = Array.isArray(actions) ? actions.filter((action) => typeof action === 'string') : [];
  return {
    ...plainRule,
    name: manifest.name,
    origin: 'resource',
    description: '',
    priority: DEFAULT_PRIORITY,
    condition: { text: condition, field: 'condition', place: manifest.textPlace(['spec', 'condition']) },
    actions: texts.map((text, index) => ({
      text,
      field: `actions[${index}]`,
      place: manifest.textPlace(['spec', 'actions', index]),
    })),
  };
}

const notCompiled = { ...conditionState('Unknown', 'Pending', 'the rule has not been compiled yet'), final: false };

/** The status of a rule. Pure. */
function ruleStatus(outcome: RuleOutcome, { stored, findings }: Pick<StatusView, 'stored' | 'findings'>): StatusDraft {
  const { report, references, resource } = outcome;
  const acceptance: Acceptance = report === null ? notCompiled : acceptanceOf(report);
  const failing = findings.failure(outcome);
  const programmed =
    report === null
      ? notCompiled
      : conditionState(report.programmed ? 'True' : 'False', report.programmedReason, report.programmedMessage);
  // A suspended rule is in its desired state.
  const isOut = report?.accepted === true && !report.programmed && report.programmedReason !== 'Suspended';
  return statusDraft(
    outcome,
    acceptance,
    { routesTo: routesTo(resource) },
    {
      ResolvedRefs: references,
      Programmed: programmed,
      Ready: isOut ? programmed : ready(acceptance, stored, ...(outcome.suspended ? [] : [references])),
      Failing: failing === null ? null : conditionState('True', 'EvaluationError', failing),
    },
  );
}

function acceptanceOf({ accepted, acceptedReason, message }: RuleReport): Acceptance {
  return { ...conditionState(accepted ? 'True' : 'False', acceptedReason, message), final: true };
}
