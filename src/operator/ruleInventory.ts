import { createHash } from 'node:crypto';
import type { PlacedProblem } from '../model/errors.ts';
import { keyOf, keyText, type Resource } from '../model/resource.ts';
import { DEFAULT_PRIORITY, type RoutingRuleSpec } from '../model/routingRule.ts';
import type { RuleDefinition } from '../rules/compile/definition.ts';
import { draftProblems, type RuleDraft } from '../rules/compile/ruleDraft.ts';
import { parseRulesFile } from '../rules/compile/rulesFile.ts';
import type { CompileContext } from '../rules/language/scope.ts';
import type { CompiledRules, RulesFile, RulesFileProblem, RuleVerdict } from '../rules/ruleCompiler.ts';
import { registryNameOf } from './resourceName.ts';
import { fieldsOf } from './rulesFile/ruleDocument.ts';
import type { Provenance, ResourceSource } from './source.ts';

/** Whether a rule is asked, and if not, why. */
export type RuleStatus = RuleVerdict['programmedReason'] | 'FileFailed';

/** A rule with where it lives and what became of it. */
export interface InventoryRule extends Required<Omit<RuleDraft, 'priority'>> {
  readonly priority: number;
  readonly origin: 'file' | 'resource';
  /** `namespace/name` of its resource; null in a file. */
  readonly resource: string | null;
  readonly place: string;
  readonly managers: Provenance['managers'];
  /** Changes whenever what it says does. */
  readonly version: string;
  /** When it is asked, counted from 1; null: it is not. */
  readonly position: number | null;
  readonly status: RuleStatus;
  /** Sentence for people. */
  readonly message: string;
  /** Why what it says now does not compile, with places in its texts. */
  readonly problems: readonly PlacedProblem[];
}

/** All rules and what holds for all of them. */
export interface RuleInventory {
  /** `off`: `rulesEngineEnabled: false`; `external`: a service decides, and only deny rules are asked beside it. */
  readonly engine: 'on' | 'off' | 'external';
  /** Null: no rules file is configured. */
  readonly file: {
    readonly path: string;
    readonly state: CompiledRules['fileState'];
    readonly problems: readonly RulesFileProblem[];
  } | null;
  /** In the order in which they are asked; those that are not asked where they would be. */
  readonly rules: readonly InventoryRule[];
}

/** What an inventory is made of. */
export interface RuleInventoryParts {
  readonly source: Pick<ResourceSource, 'list' | 'provenance'>;
  readonly compiled: CompiledRules | null;
  readonly file: RulesFile | null;
  readonly engine: RuleInventory['engine'];
  readonly context: CompileContext;
}

/** Lists every rule there is in firing order (rules.md: Order). */
export function ruleInventory({ source, compiled, file, engine, context }: RuleInventoryParts): RuleInventory {
  const fileState = compiled?.fileState ?? 'absent';
  const ofFile = file === null ? [] : parseRulesFile(file).documents;
  const listed = [
    ...ofFile.map(({ rule, document }) => fileRule(rule, `${file?.path}, document ${document}`)),
    ...source
      .list('RoutingRule')
      .map((resource) => resourceRule(resource, source, compiled?.verdicts.get(keyText(keyOf(resource)))))
      .sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0)),
  ].sort((a, b) => a.priority - b.priority);
  const positions = new Map(
    (compiled?.order ?? []).map(({ rule, origin }, index) => [`${origin}/${rule}`, index + 1] as const),
  );
  const rules = listed.map((rule): InventoryRule => {
    const status = rule.origin === 'file' ? fileStatus(fileState, engine) : rule.status;
    const isAsked = status === 'Programmed' || status === 'PreviousVersion';
    return {
      ...rule,
      status,
      message: rule.origin === 'file' ? (fileMessages[status] ?? '') : rule.message,
      position: isAsked && engine !== 'off' ? (positions.get(`${rule.origin}/${rule.name}`) ?? null) : null,
      problems: status === 'Programmed' ? [] : draftProblems(rule, context),
    };
  });
  return {
    engine,
    file: file === null ? null : { path: file.path, state: fileState, problems: compiled?.fileProblems ?? [] },
    rules,
  };
}

type Listed = Omit<InventoryRule, 'position' | 'problems'>;

function fileRule(rule: RuleDefinition, place: string): Listed {
  const { routeTo, deny, onUnavailable, stop, suspended, priority } = rule;
  return {
    ...versioned({ ...fieldsOf(rule), priority, routeTo, deny, onUnavailable, stop, suspended }),
    origin: 'file',
    resource: null,
    place,
    managers: [],
    status: 'Programmed',
    message: '',
  };
}

function resourceRule(
  resource: Resource,
  source: RuleInventoryParts['source'],
  verdict: RuleVerdict | undefined,
): Listed {
  const spec = resource.spec as Partial<RoutingRuleSpec>;
  const { namespace, name } = resource.metadata;
  return {
    ...versioned({
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
    }),
    origin: 'resource',
    resource: `${namespace}/${name}`,
    ...(source.provenance(keyOf(resource)) ?? { place: '', managers: [] }),
    status: verdict?.programmedReason ?? 'NotAccepted',
    message: messageOf(verdict),
  };
}

function messageOf(verdict: RuleVerdict | undefined): string {
  if (verdict === undefined) return 'not looked at yet';
  if (!verdict.accepted) return verdict.message;
  return verdict.programmed ? verdict.message : verdict.programmedMessage;
}

function versioned<T extends object>(fields: T): T & { readonly version: string } {
  return { ...fields, version: createHash('sha256').update(JSON.stringify(fields)).digest('base64url').slice(0, 16) };
}

function fileStatus(state: CompiledRules['fileState'], engine: RuleInventory['engine']): RuleStatus {
  if (engine === 'off') return 'RulesEngineDisabled';
  if (engine === 'external') return 'ExternalRules';
  return state === 'loaded' ? 'Programmed' : state === 'keptLast' ? 'PreviousVersion' : 'FileFailed';
}

const fileMessages: Partial<Record<RuleStatus, string>> = {
  Programmed: 'the rule decides requests',
  PreviousVersion: 'the file has mistakes; its last version that loaded decides requests',
  FileFailed: 'the file has mistakes and is not in force',
  RulesEngineDisabled: 'routingRules.rulesEngineEnabled is false',
  ExternalRules: 'routingRules.rulesType is EXTERNAL',
};
