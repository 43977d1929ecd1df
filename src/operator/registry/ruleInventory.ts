import { ruleReferences, ruleTargets } from '../../kinds/routingRule/kind.ts';
import { DEFAULT_PRIORITY, ROUTING_RULE, type RoutingRuleSpec } from '../../kinds/routingRule/spec.ts';
import type { PlacedProblem } from '../../model/errors.ts';
import { keyOf, keyText, type Resource, registryNameOf } from '../../model/resource.ts';
import { Turns } from '../../model/turns.ts';
import type { RuleDefinition } from '../../rules/compile/definition.ts';
import { draftProblems, type RuleDraft } from '../../rules/compile/ruleDraft.ts';
import { parseRulesFile } from '../../rules/compile/rulesFile.ts';
import type { CompileContext } from '../../rules/language/scope.ts';
import type { CompiledRules, RuleReport, RulesFileProblem } from '../../rules/ruleCompiler.ts';
import type { Provenance, ResourceSource } from '../sources/source.ts';
import { digestOfJson, type ResourceWrites } from './resourceWrites.ts';
import { fieldsOf, type RulesFileWatch } from './rulesFile/rulesFileWatch.ts';

const MAX_WARNINGS = 200;

export type RuleStatus = RuleReport['programmedReason'] | 'FileFailed';

export interface InventoryRule extends Required<Omit<RuleDraft, 'priority'>> {
  readonly priority: number;
  readonly origin: 'file' | 'resource';
  /** `namespace/name` of its resource; null in a file. */
  readonly resource: string | null;
  readonly place: string;
  readonly managers: Provenance['managers'];
  /** Changes whenever what it states does. */
  readonly version: string;
  /** When it is asked, counted from 1; null: it is not. */
  readonly position: number | null;
  readonly status: RuleStatus;
  readonly message: string;
  /** Reason that its target is missing: the group has no clusters, or the cluster does not exist; null: it exists. */
  readonly unresolved: string | null;
  /** Compile errors of its current text, with positions. */
  readonly problems: readonly PlacedProblem[];
  readonly warnings: readonly PlacedProblem[];
}

export interface RuleInventory {
  /** `off`: `rulesEngineEnabled: false`; `external`: a service decides, and only deny rules are asked beside it. */
  readonly engine: 'on' | 'off' | 'external';
  /** Null: no rules file is configured. */
  readonly file: {
    readonly path: string;
    readonly state: CompiledRules['fileState'];
    readonly problems: readonly RulesFileProblem[];
    readonly warnings: readonly RulesFileProblem[];
  } | null;
  /** In the order in which they are asked; those that are not asked where they would be. */
  readonly rules: readonly InventoryRule[];
}

export interface RoutingRulesOptions {
  readonly writes: ResourceWrites;
  readonly defaultRoutingGroup: string;
  /** Null: no rules file is configured. */
  readonly file: RulesFileWatch | null;
  readonly rulesType: 'FILE' | 'EXTERNAL';
  readonly rulesEngineEnabled: boolean | undefined;
  readonly context: CompileContext;
}

type Rules = RoutingRulesOptions;

/**
 * Lists every rule there is in firing order (docs/rules.md#a-set-of-rules), as they all are at the call. Compiles rules
 * that are not active for their problems, in turns of the event loop.
 */
export async function ruleInventory(parts: Rules): Promise<RuleInventory> {
  const compiled = parts.writes.controller.compiledRules;
  const { fileState: state = 'absent', fileProblems: problems = [], fileWarnings = [] } = compiled ?? {};
  const path = parts.file?.current.path;
  const turns = new Turns();
  const rules: InventoryRule[] = [];
  for (const listed of listedRules(parts)) {
    rules.push(withProblems(listed, parts.context));
    if (turns.isOver) await turns.next();
  }
  const file = path === undefined ? null : { path, state, problems, warnings: fileWarnings.slice(0, MAX_WARNINGS) };
  return { engine: engineOf(parts), file, rules };
}

/** State of the rules engine of a configuration. */
export function engineOf({ rulesType, rulesEngineEnabled }: Rules): RuleInventory['engine'] {
  return rulesEngineEnabled === false ? 'off' : rulesType === 'EXTERNAL' ? 'external' : 'on';
}

/** The first rule of a name in firing order, or null. */
export function ruleNamed(parts: Rules, name: string): InventoryRule | null {
  const [rule] = listedRules(parts, name);
  return rule === undefined ? null : withProblems(rule, parts.context);
}

function withProblems({ rule, source }: PlacedRule, context: CompileContext): InventoryRule {
  return { ...rule, problems: rule.status === 'Programmed' ? [] : knownProblems(source, rule, context) };
}

/** Of rules that do not compile there may be thousands; what each states is immutable. */
const problemsBySource = new WeakMap<object, { readonly context: CompileContext; readonly problems: Problems }>();
type Problems = InventoryRule['problems'];

/** Compile errors of a rule. @param source the object with its text */
function knownProblems(source: object, draft: RuleDraft, context: CompileContext): Problems {
  const before = problemsBySource.get(source);
  if (before?.context === context) return before.problems;
  const problems = draftProblems(draft, context);
  problemsBySource.set(source, { context, problems });
  return problems;
}

interface PlacedRule {
  readonly rule: Omit<InventoryRule, 'problems'>;
  /** Its definition in the file or its resource's spec. */
  readonly source: object;
}

/** Rules in firing order. @param only the name of those listed; absent: all */
function listedRules(parts: Rules, only?: string): PlacedRule[] {
  const { source, controller, table } = parts.writes;
  const compiled = controller.compiledRules;
  const file = parts.file?.current ?? null;
  const engine = engineOf(parts);
  const { clusters, admission } = table.current;
  const targets = ruleTargets([...clusters.values()], admission, parts.defaultRoutingGroup);
  const fileState = compiled?.fileState ?? 'absent';
  const isListed = (name: string): boolean => only === undefined || name === only;
  const ofFile = file === null ? [] : parseRulesFile(file).documents.filter(({ rule }) => isListed(rule.name));
  const leftOut = leftOutDocuments(compiled);
  const listed = [
    ...ofFile.map(({ rule, document }) => ({
      rule: fileRule(rule, `${file?.path}, document ${document}`, leftOut.get(document)),
      source: rule as object,
    })),
    ...source
      .list(ROUTING_RULE)
      .filter((resource) => isListed(registryNameOf(resource)))
      .map((resource) => ({
        rule: resourceRule(resource, source, compiled?.reports.get(keyText(keyOf(resource)))),
        source: resource.spec as object,
      }))
      .sort(({ rule: a }, { rule: b }) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0)),
  ].sort((a, b) => a.rule.priority - b.rule.priority);
  const positions = new Map(
    (compiled?.order ?? []).map(({ rule, origin }, index) => [`${origin}/${rule}`, index + 1] as const),
  );
  return listed.map(({ rule, source }) => {
    const status = rule.origin === 'file' ? fileStatus(rule.status, fileState, engine) : rule.status;
    const isAsked = status === 'Programmed' || status === 'PreviousVersion';
    const message = rule.origin === 'file' ? (fileMessages[status] ?? rule.message) : rule.message;
    const position = isAsked && engine !== 'off' ? (positions.get(`${rule.origin}/${rule.name}`) ?? null) : null;
    const warnings = status === 'Programmed' ? compiled?.ruleWarnings.get(`${rule.origin}/${rule.name}`) : undefined;
    const named = compiled?.namedGroups.get(`${rule.origin}/${rule.name}`) ?? [];
    const references = ruleReferences(rule.routeTo, isAsked ? named : [], targets);
    const unresolved = references.status === 'False' ? references.message : null;
    return { rule: { ...rule, status, message, position, unresolved, warnings: warnings ?? [] }, source };
  });
}

type Listed = Omit<InventoryRule, 'position' | 'unresolved' | 'problems' | 'warnings'>;

function leftOutDocuments(compiled: CompiledRules | null): ReadonlyMap<number | null, string> {
  const problems = (compiled?.fileProblems ?? []).filter(({ effect }) => effect === 'ruleLeftOut');
  return new Map(problems.map(({ document, message }) => [document, message]));
}

function fileRule(rule: RuleDefinition, place: string, leftOut: string | undefined): Listed {
  return {
    ...knownTexts(rule, rule.name, () => {
      const { routeTo, deny, whenUnavailable, stop, suspend, priority } = rule;
      return { ...fieldsOf(rule), priority, routeTo, deny, whenUnavailable, stop, suspend };
    }),
    origin: 'file',
    resource: null,
    place,
    managers: [],
    status: leftOut === undefined ? 'Programmed' : 'NotAccepted',
    message: leftOut ?? '',
  };
}

function resourceRule(resource: Resource, source: ResourceSource, report: RuleReport | undefined): Listed {
  const { namespace, name } = resource.metadata;
  return {
    ...knownTexts(resource.spec, registryNameOf(resource), () => resourceFields(resource)),
    origin: 'resource',
    resource: `${namespace}/${name}`,
    ...(source.provenance(keyOf(resource)) ?? { place: '', managers: [] }),
    status: report?.programmedReason ?? 'NotAccepted',
    message: messageOf(report),
  };
}

type RuleFacts = Omit<RuleTexts, 'version'>;
type RuleTexts = Required<Omit<RuleDraft, 'priority'>> & Pick<InventoryRule, 'priority' | 'version'>;
/** Resources and definitions are immutable, and the versions of thousands take a while to compute. */
const textsBySource = new WeakMap<object, RuleTexts>();

/** Text of a rule with its version. @param source the object with its text */
function knownTexts(source: object, name: string, facts: () => RuleFacts): RuleTexts {
  const before = textsBySource.get(source);
  if (before?.name === name) return before;
  const fields = facts();
  const texts = { ...fields, version: digestOfJson(fields) };
  textsBySource.set(source, texts);
  return texts;
}

/** The text of a rule's resource, with defaults. */
export function resourceFields(resource: Resource): RuleFacts {
  const spec = resource.spec as Partial<RoutingRuleSpec>;
  return {
    name: registryNameOf(resource),
    description: spec.description ?? '',
    priority: spec.priority ?? DEFAULT_PRIORITY,
    condition: spec.condition ?? '',
    actions: Array.isArray(spec.actions) ? spec.actions : [],
    routeTo: spec.routeTo ?? null,
    deny: spec.deny ?? null,
    whenUnavailable: spec.whenUnavailable ?? 'Fallback',
    stop: spec.stop ?? false,
    suspend: spec.suspend ?? false,
  };
}

function messageOf(report: RuleReport | undefined): string {
  if (report === undefined) return 'not looked at yet';
  if (!report.accepted) return report.message;
  return report.programmed ? report.message : report.programmedMessage;
}

function fileStatus(own: RuleStatus, state: CompiledRules['fileState'], engine: RuleInventory['engine']): RuleStatus {
  if (engine === 'off') return 'RulesEngineDisabled';
  if (engine === 'external') return 'ExternalRules';
  return state === 'loaded' ? own : state === 'keptLast' ? 'PreviousVersion' : 'FileFailed';
}

const fileMessages: Partial<Record<RuleStatus, string>> = {
  Programmed: 'the rule decides requests',
  PreviousVersion: 'the file has mistakes; its last version that loaded decides requests',
  FileFailed: 'the file has mistakes and is not in force',
  RulesEngineDisabled: 'routingRules.rulesEngineEnabled is false',
  ExternalRules: 'routingRules.rulesType is EXTERNAL',
};
