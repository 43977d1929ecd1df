import { createHash } from 'node:crypto';
import { type RuleTargets, ruleReferences } from '../../kinds/routingRule/ruleOutcome.ts';
import { DEFAULT_PRIORITY, ROUTING_RULE, type RoutingRuleSpec } from '../../kinds/routingRule/spec.ts';
import type { PlacedProblem } from '../../model/errors.ts';
import { keyOf, keyText, type Resource } from '../../model/resource.ts';
import { registryNameOf } from '../../model/resourceName.ts';
import { Turns } from '../../model/turns.ts';
import type { RuleDefinition } from '../../rules/compile/definition.ts';
import { draftProblems, type RuleDraft } from '../../rules/compile/ruleDraft.ts';
import { parseRulesFile } from '../../rules/compile/rulesFile.ts';
import type { CompileContext } from '../../rules/language/scope.ts';
import type { CompiledRules, RuleReport, RulesFile, RulesFileProblem } from '../../rules/ruleCompiler.ts';
import type { Provenance, ResourceSource } from '../sources/source.ts';
import { fieldsOf } from './rulesFile/ruleDocument.ts';

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

export interface RuleInventoryOptions {
  readonly source: Pick<ResourceSource, 'list' | 'provenance'>;
  readonly compiled: CompiledRules | null;
  readonly file: RulesFile | null;
  readonly engine: RuleInventory['engine'];
  readonly context: CompileContext;
  readonly targets: RuleTargets;
}

/**
 * Lists every rule there is in firing order (docs/rules.md#a-set-of-rules), as they all are at the call. Compiles rules
 * that are not active for their problems, in turns of the event loop.
 */
export async function ruleInventory(parts: RuleInventoryOptions): Promise<RuleInventory> {
  const { compiled, file, engine, context } = parts;
  const turns = new Turns();
  const rules: InventoryRule[] = [];
  for (const listed of listedRules(parts)) {
    rules.push(withProblems(listed, context));
    if (turns.isOver) await turns.next();
  }
  const state = compiled?.fileState ?? 'absent';
  return {
    engine,
    file:
      file === null
        ? null
        : {
            path: file.path,
            state,
            problems: compiled?.fileProblems ?? [],
            warnings: (compiled?.fileWarnings ?? []).slice(0, MAX_WARNINGS),
          },
    rules,
  };
}

/** The first rule of a name in firing order, or null. */
export function ruleNamed(parts: RuleInventoryOptions, name: string): InventoryRule | null {
  const [rule] = listedRules(parts, name);
  return rule === undefined ? null : withProblems(rule, parts.context);
}

function withProblems({ rule, said }: PlacedRule, context: CompileContext): InventoryRule {
  return { ...rule, problems: rule.status === 'Programmed' ? [] : knownProblems(said, rule, context) };
}

/** Of rules that do not compile there may be thousands; what each states is immutable. */
const problemsBySaid = new WeakMap<object, { readonly context: CompileContext; readonly problems: Problems }>();
type Problems = InventoryRule['problems'];

/** Compile errors of a rule. @param said the object with its text */
function knownProblems(said: object, draft: RuleDraft, context: CompileContext): Problems {
  const before = problemsBySaid.get(said);
  if (before?.context === context) return before.problems;
  const problems = draftProblems(draft, context);
  problemsBySaid.set(said, { context, problems });
  return problems;
}

interface PlacedRule {
  readonly rule: Omit<InventoryRule, 'problems'>;
  /** Its definition in the file or its resource's spec. */
  readonly said: object;
}

/** Rules in firing order. @param only the name of those listed; absent: all */
function listedRules({ source, compiled, file, engine, targets }: RuleInventoryOptions, only?: string): PlacedRule[] {
  const fileState = compiled?.fileState ?? 'absent';
  const isListed = (name: string): boolean => only === undefined || name === only;
  const ofFile = file === null ? [] : parseRulesFile(file).documents.filter(({ rule }) => isListed(rule.name));
  const leftOut = leftOutDocuments(compiled);
  const listed = [
    ...ofFile.map(({ rule, document }) => ({
      rule: fileRule(rule, `${file?.path}, document ${document}`, leftOut.get(document)),
      said: rule as object,
    })),
    ...source
      .list(ROUTING_RULE)
      .filter((resource) => isListed(registryNameOf(resource)))
      .map((resource) => ({
        rule: resourceRule(resource, source, compiled?.reports.get(keyText(keyOf(resource)))),
        said: resource.spec as object,
      }))
      .sort(({ rule: a }, { rule: b }) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0)),
  ].sort((a, b) => a.rule.priority - b.rule.priority);
  const positions = new Map(
    (compiled?.order ?? []).map(({ rule, origin }, index) => [`${origin}/${rule}`, index + 1] as const),
  );
  return listed.map(({ rule, said }) => {
    const status = rule.origin === 'file' ? fileStatus(rule.status, fileState, engine) : rule.status;
    const isAsked = status === 'Programmed' || status === 'PreviousVersion';
    const message = rule.origin === 'file' ? (fileMessages[status] ?? rule.message) : rule.message;
    const position = isAsked && engine !== 'off' ? (positions.get(`${rule.origin}/${rule.name}`) ?? null) : null;
    const warnings = status === 'Programmed' ? compiled?.ruleWarnings.get(`${rule.origin}/${rule.name}`) : undefined;
    const named = compiled?.namedGroups.get(`${rule.origin}/${rule.name}`) ?? [];
    const references = ruleReferences(rule.routeTo, isAsked ? named : [], targets);
    const unresolved = references.status === 'False' ? references.message : null;
    return { rule: { ...rule, status, message, position, unresolved, warnings: warnings ?? [] }, said };
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
      const { routeTo, deny, onUnavailable, stop, suspended, priority } = rule;
      return { ...fieldsOf(rule), priority, routeTo, deny, onUnavailable, stop, suspended };
    }),
    origin: 'file',
    resource: null,
    place,
    managers: [],
    status: leftOut === undefined ? 'Programmed' : 'NotAccepted',
    message: leftOut ?? '',
  };
}

function resourceRule(
  resource: Resource,
  source: RuleInventoryOptions['source'],
  report: RuleReport | undefined,
): Listed {
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
const textsBySaid = new WeakMap<object, RuleTexts>();

/** Text of a rule with its version. @param said the object with its text */
function knownTexts(said: object, name: string, facts: () => RuleFacts): RuleTexts {
  const before = textsBySaid.get(said);
  if (before?.name === name) return before;
  const texts = versioned(facts());
  textsBySaid.set(said, texts);
  return texts;
}

function resourceFields(resource: Resource): RuleFacts {
  const spec = resource.spec as Partial<RoutingRuleSpec>;
  return {
    name: registryNameOf(resource),
    description: spec.description ?? '',
    priority: spec.priority ?? DEFAULT_PRIORITY,
    condition: spec.condition ?? '',
    actions: Array.isArray(spec.actions) ? spec.actions : [],
    routeTo: spec.routeTo ?? null,
    deny: spec.deny ?? null,
    onUnavailable: spec.onUnavailable ?? 'fallback',
    stop: spec.stop ?? false,
    suspended: spec.suspended ?? false,
  };
}

function messageOf(report: RuleReport | undefined): string {
  if (report === undefined) return 'not looked at yet';
  if (!report.accepted) return report.message;
  return report.programmed ? report.message : report.programmedMessage;
}

function versioned<T extends object>(fields: T): T & { readonly version: string } {
  return { ...fields, version: createHash('sha256').update(JSON.stringify(fields)).digest('base64url').slice(0, 16) };
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
