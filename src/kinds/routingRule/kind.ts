import { isDeepStrictEqual } from 'node:util';
import { areAlike, isRecord } from '../../model/record.ts';
import { keyTextOf, type Resource, registryNameOf } from '../../model/resource.ts';
import type { AdmissionPolicy } from '../../routing/admissionPolicy.ts';
import type { RoutableCluster } from '../../routing/routingTable.ts';
import { compileRule } from '../../rules/compile/compiledRule.ts';
import { plainRule, type RuleDefinition } from '../../rules/compile/definition.ts';
import type { CompiledRules, RuleReport } from '../../rules/ruleCompiler.ts';
import { type RuleRights, ruleRights, withholdsName } from '../../rules/tenancy.ts';
import {
  type Acceptance,
  conditionState,
  groupsText,
  liveOf,
  outcomeOf,
  type ResourceOutcome,
  ready,
  type State,
  type StatusDraft,
  type StatusView,
  servedGroups,
  statusDraft,
} from '../outcome.ts';
import {
  type CheckedManifest,
  column,
  conditionColumn,
  type Exportable,
  type ExportedResource,
  type ExportedRule,
  groupFindings,
  type KindProgram,
  type ManifestFinding,
  type ProgramSettings,
  plainKind,
  type ResourceKind,
  type RoutingDraft,
  specCheck,
  writeAccess,
} from '../resourceKind.ts';
import { DEFAULT_PRIORITY, ROUTING_RULE, ROUTING_RULES, type RoutingRule, RoutingRuleSpec } from './spec.ts';

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
    column('Priority', 'integer', 'spec.priority', 'Lower fires earlier.'),
    column('Routes to', 'string', 'status.routesTo', 'Where it sends requests.'),
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
  worksWithoutResources: true,
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

/** Compiles the rules of resources together with those of the rules file. */
export class RuleProgram implements KindProgram {
  readonly #settings: ProgramSettings;
  #compiled: CompiledRules | null = null;
  #outcomes = new Map<string, RuleOutcome>();
  /** Version of the rights and rules file of the last compilation. */
  #inputs: readonly unknown[] = [];
  #targets: RuleTargets | null = null;
  #rules: readonly Resource[] = [];

  constructor(settings: ProgramSettings) {
    this.#settings = settings;
  }

  restore(): void {
    // The compiler remembers the last versions that compiled.
  }

  refresh(resources: readonly Resource[], draft: RoutingDraft): ReadonlyMap<string, RuleOutcome> {
    const { defaultRoutingGroup } = this.#settings;
    const rules = liveOf(resources);
    const compiled = this.#compile(rules, ruleRights(draft.tenancy, draft.clusters, defaultRoutingGroup));
    const targets = ruleTargets(draft.clusters, draft.admission, defaultRoutingGroup);
    const isRetargeted = !isDeepStrictEqual(targets, this.#targets);
    const isIncremental = compiled.reports === this.#compiled?.reports && !isRetargeted;
    const isInPlace = isIncremental && areAlike(rules, this.#rules, isSameResource);
    const before = this.#outcomes;
    if (!isInPlace) this.#outcomes = new Map();
    for (const rule of isInPlace ? rules.filter((each, index) => each !== this.#rules[index]) : rules) {
      const key = keyTextOf(rule);
      this.#outcomes.set(key, ruleOutcome(rule, compiled, targets, before.get(key), isRetargeted));
    }
    this.#targets = targets;
    this.#rules = rules;
    this.#compiled = compiled;
    draft.rules = compiled;
    return this.#outcomes;
  }

  /** Compiles rules if one of them, the file or a right changed. */
  #compile(rules: readonly Resource[], rights: RuleRights | null): CompiledRules {
    const { compiler, file: followed } = this.#settings.rules;
    const file = followed?.current ?? null;
    const inputs = [rights?.version, file];
    const isSame = isDeepStrictEqual(inputs, this.#inputs) && areAlike(rules, this.#rules, isSameRule);
    if (isSame && this.#compiled !== null) return this.#compiled;
    this.#inputs = inputs;
    return compiler.compile(rules as readonly RoutingRule[], file, rights);
  }
}

const isSameResource = (a: Resource, b: Resource): boolean => a.metadata.uid === b.metadata.uid;
/** A resource with a new status is another object with the same spec and metadata. */
const isSameRule = (a: Resource, b: Resource): boolean => a.spec === b.spec && a.metadata === b.metadata;

export interface RuleOutcome extends ResourceOutcome {
  /** Null when the compiler states nothing about it. */
  readonly report: RuleReport | null;
  /** Condition `ResolvedRefs` without its generation. */
  readonly references: State;
}

/** Groups and clusters that rules may refer to. */
export interface RuleTargets {
  readonly groups: ReadonlySet<string>;
  readonly clusters: ReadonlySet<string>;
}

/**
 * The outcome of a RoutingRule. Pure.
 * @param last the outcome before, which stays where it says the same: there are thousands
 * @param isRetargeted whether the targets are others than those before
 */
export function ruleOutcome(
  resource: Resource,
  compiled: CompiledRules,
  targets: RuleTargets,
  last: RuleOutcome | undefined,
  isRetargeted: boolean,
): RuleOutcome {
  const report = compiled.reports.get(keyTextOf(resource)) ?? null;
  const isSameReport = last?.resource === resource && last.report === report;
  // The groups that its actions name are the compiler's as well, which keeps the report of a rule that is as before.
  if (isSameReport && !isRetargeted) return last;
  const { routeTo } = resource.spec as Partial<RoutingRule['spec']>;
  const named = compiled.namedGroups.get(`resource/${registryNameOf(resource)}`) ?? [];
  const references = ruleReferences(routeTo ?? null, report?.accepted === true ? named : [], targets);
  if (isSameReport && isDeepStrictEqual(last.references, references)) return last;
  const outcome = { ...outcomeOf(resource), report, references };
  // Nothing may be known by the name that it asks for.
  const { namespace, name } = resource.metadata;
  return withholdsName(report?.acceptedReason) ? { ...outcome, registryName: `${namespace}/${name}` } : outcome;
}

/** In a few words, where a rule sends requests: a column of `kubectl get`. */
export function routesTo(resource: Resource): string {
  const { routeTo, deny } = resource.spec as Partial<RoutingRule['spec']>;
  if (routeTo?.routingGroup !== undefined) return `group ${routeTo.routingGroup}`;
  if (routeTo?.cluster !== undefined) return `cluster ${routeTo.cluster}`;
  return deny === undefined ? 'actions' : 'denied';
}

const noReferences = conditionState('True', 'NoReferences', 'the rule names no group or cluster declaratively');
const resolvedReferences = conditionState('True', 'ResolvedRefs', 'what the rule routes to exists');

/**
 * True if what a rule routes to is there.
 * @param named routing groups that its actions name; what they compute is known only when they run
 */
export function ruleReferences(
  routeTo: RoutingRule['spec']['routeTo'] | null,
  named: readonly string[],
  targets: RuleTargets,
): State {
  const group = routeTo?.routingGroup;
  const cluster = routeTo?.cluster;
  const groups = group === undefined ? named : [group];
  const absent = groups.filter((name) => !targets.groups.has(name));
  if (absent.length > 0) {
    return conditionState('False', 'GroupNotFound', `no cluster belongs to ${groupsText(absent)}`);
  }
  if (cluster !== undefined && !targets.clusters.has(cluster)) {
    return conditionState('False', 'ClusterNotFound', `there is no cluster ${cluster}`);
  }
  return groups.length === 0 && cluster === undefined ? noReferences : resolvedReferences;
}

/** What rules may route to. @param defaultGroup the group of queries for which no rule chooses */
export function ruleTargets(
  clusters: readonly RoutableCluster[],
  { groups }: Pick<AdmissionPolicy, 'groups'>,
  defaultGroup: string,
): RuleTargets {
  return {
    groups: new Set([defaultGroup, ...servedGroups(clusters, groups)]),
    clusters: new Set(clusters.map(({ name }) => name)),
  };
}
