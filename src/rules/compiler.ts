import { keyOf, keyText } from '../model/resource.ts';
import { DEFAULT_PRIORITY, type RoutingRule } from '../model/routingRule.ts';
import { warningsOf } from './compile/checkRules.ts';
import { type CompiledRule, compileRule } from './compile/compiledRule.ts';
import { plainRule, type RuleDefinition } from './compile/definition.ts';
import { draftDefinition, placedProblems, type RuleDraft } from './compile/ruleDraft.ts';
import { parseRulesFile } from './compile/rulesFile.ts';
import { FailureReports } from './decide/failureReports.ts';
import { CompiledRuleSet } from './decide/ruleSet.ts';
import type { RuleSet } from './decision.ts';
import { systemSources } from './evaluation.ts';
import { defaultRuleLimits } from './limits.ts';
import type {
  CompiledRules,
  LiveRuleSettings,
  RuleCompiler,
  RuleCompilerOptions,
  RulesFile,
  RulesFileProblem,
  RuleVerdict,
  TriedRule,
} from './ruleCompiler.ts';

/** Outcome of compiling a resource's current version. */
type Outcome =
  | { readonly rule: CompiledRule }
  | { readonly reason: 'InvalidSpec' | 'CompileError' | 'AnalysisDisabled'; readonly message: string };

interface KnownResource {
  readonly uid: string;
  /** The spec that `outcome` is of, as JSON. */
  readonly spec: string;
  readonly outcome: Outcome;
  /** The last version that compiled. */
  readonly lastGood: CompiledRule | null;
}

interface KnownFile {
  readonly text: string | null;
  readonly rules: readonly CompiledRule[];
  readonly problems: readonly RulesFileProblem[];
}

/** Makes the compiler of rules; one a process, as it remembers what compiled last. */
export function createRuleCompiler(options: RuleCompilerOptions): RuleCompiler {
  return new SetCompiler(options);
}

class SetCompiler implements RuleCompiler {
  readonly #options: RuleCompilerOptions;
  readonly #failures: FailureReports;
  #resources = new Map<string, KnownResource>();
  #file: KnownFile | null = null;
  #lastGoodFile: readonly CompiledRule[] | null = null;
  /** Rules that take part since the last `compile`, those of the file in its order. */
  #partaking: {
    readonly file: readonly CompiledRule[];
    readonly resources: readonly CompiledRule[];
    readonly fileFailed: boolean;
  } = { file: [], resources: [], fileFailed: false };
  /** The rule set made last, for as long as its rules are the same objects. */
  #made: {
    readonly order: readonly CompiledRule[];
    readonly fileFailed: boolean;
    readonly settings: string;
    readonly ruleSet: RuleSet;
  } | null = null;

  constructor(options: RuleCompilerOptions) {
    this.#options = options;
    this.#failures = new FailureReports(options);
  }

  compile(resources: readonly RoutingRule[], file: RulesFile | null): CompiledRules {
    const isExternal = this.#options.rulesType === 'EXTERNAL';
    const ofFile = isExternal ? null : file;
    const known = this.#compileResources(resources);
    const owners = nameOwners(resources);
    const compiledFile = ofFile === null ? null : this.#compileFile(ofFile);
    const isOff = this.#options.rulesEngineEnabled === false;
    const isUnused = this.#options.rulesEngineEnabled === undefined && file === null && resources.length === 0;
    const verdicts = new Map<string, RuleVerdict>();
    const inForce: CompiledRule[] = [];
    for (const resource of resources) {
      const key = keyText(keyOf(resource));
      const entry = known.get(key);
      if (entry === undefined) continue;
      const { verdict, rule } = judge(resource, entry, owners, isOff, isExternal);
      verdicts.set(key, verdict);
      if (rule !== null) inForce.push(rule);
    }
    const settings = { ...this.#options, ...this.#options.live?.() };
    const fileFailed = compiledFile !== null && compiledFile.problems.length > 0;
    const keepsLast = fileFailed && settings.onFileError === 'keepLast' && this.#lastGoodFile !== null;
    const fileRules = keepsLast ? (this.#lastGoodFile ?? []) : (compiledFile?.rules ?? []);
    this.#partaking = { file: isOff ? [] : fileRules, resources: inForce, fileFailed: fileFailed && !keepsLast };
    const order = inOrder(this.#partaking.file, inForce);
    return {
      ruleSet: isOff || isUnused ? null : this.#ruleSet(order, this.#partaking.fileFailed, settings),
      verdicts,
      fileProblems: compiledFile?.problems ?? [],
      fileState: compiledFile === null ? 'absent' : keepsLast ? 'keptLast' : fileFailed ? 'failed' : 'loaded',
      order: order.map(({ definition: { name, origin, priority } }) => ({ rule: name, origin, priority })),
    };
  }

  tryRule(draft: RuleDraft): TriedRule | null {
    if (this.#options.rulesEngineEnabled === false) return null;
    const { file, resources, fileFailed } = this.#partaking;
    const isDraft = ({ definition }: CompiledRule): boolean => definition.name === draft.name;
    const origin = file.some(isDraft) ? 'file' : 'resource';
    const compiled = compileRule(draftDefinition(draft, origin), this.#options);
    if (!('rule' in compiled)) return { problems: placedProblems(compiled.problems) };
    const { rule } = compiled;
    const replaced = (rules: readonly CompiledRule[]) => rules.map((each) => (isDraft(each) ? rule : each));
    const withDraft = origin === 'file' || resources.some(isDraft) ? replaced(resources) : [...resources, rule];
    const order = inOrder(replaced(file), withDraft).filter(({ definition }) => !definition.suspended);
    const settings = { ...this.#options, ...this.#options.live?.() };
    return { ruleSet: this.#newRuleSet(order, fileFailed, settings, () => undefined) };
  }

  /** A rule set of these rules; the same object as before when nothing changed. */
  #ruleSet(order: readonly CompiledRule[], fileFailed: boolean, settings: LiveRuleSettings): RuleSet {
    const made = this.#made;
    const limits = { ...defaultRuleLimits, ...settings.limits };
    const kept = JSON.stringify([settings.onRuleError, limits]);
    if (
      made !== null &&
      made.fileFailed === fileFailed &&
      made.settings === kept &&
      made.order.length === order.length &&
      order.every((rule, index) => rule === made.order[index])
    ) {
      return made.ruleSet;
    }
    const ruleSet = this.#newRuleSet(order, fileFailed, settings, (rule, message) =>
      this.#failures.report(rule, message),
    );
    this.#made = { order, fileFailed, settings: kept, ruleSet };
    return ruleSet;
  }

  #newRuleSet(
    order: readonly CompiledRule[],
    fileFailed: boolean,
    { onRuleError, limits }: LiveRuleSettings,
    onFailure: (rule: CompiledRule, message: string) => void,
  ): RuleSet {
    const { names } = this.#options;
    const all = { ...defaultRuleLimits, ...limits };
    return new CompiledRuleSet(order, {
      names,
      limits: all,
      onRuleError,
      fileFailed,
      onFailure,
      sources: systemSources,
    });
  }

  #compileResources(resources: readonly RoutingRule[]): ReadonlyMap<string, KnownResource> {
    const next = new Map<string, KnownResource>();
    for (const resource of resources) {
      const key = keyText(keyOf(resource));
      const spec = JSON.stringify(resource.spec);
      const { uid } = resource.metadata;
      const before = this.#resources.get(key);
      const same = before !== undefined && before.uid === uid ? before : undefined;
      if (same !== undefined && same.spec === spec) {
        next.set(key, same);
        continue;
      }
      const outcome = this.#compileResource(resource);
      next.set(key, { uid, spec, outcome, lastGood: 'rule' in outcome ? outcome.rule : (same?.lastGood ?? null) });
    }
    // Resources that are gone are forgotten, so that nothing grows with their number over time.
    this.#resources = next;
    return next;
  }

  #compileResource(resource: RoutingRule): Outcome {
    const definition = definitionOf(resource);
    if (typeof definition === 'string') return { reason: 'InvalidSpec', message: definition };
    const compiled = compileRule(definition, this.#options);
    if ('rule' in compiled) return compiled;
    const message = compiled.problems
      .map((problem) => `${problem.field}, line ${problem.line}, column ${problem.column}: ${problem.message}`)
      .join('; ');
    const isAnalysis = compiled.problems.every((problem) => problem.analysisDisabled);
    return { reason: isAnalysis ? 'AnalysisDisabled' : 'CompileError', message };
  }

  #compileFile(file: RulesFile): KnownFile {
    if (this.#file !== null && this.#file.text !== null && this.#file.text === file.text) return this.#file;
    const parsed = parseRulesFile(file);
    const problems = [...parsed.problems];
    const rules: CompiledRule[] = [];
    for (const { rule, document } of parsed.documents) {
      const compiled = compileRule(rule, this.#options);
      if ('rule' in compiled) {
        rules.push(compiled.rule);
        continue;
      }
      for (const { field, message, line, column } of compiled.problems) {
        problems.push({ path: file.path, document, line, column, rule: rule.name, message: `${field}: ${message}` });
      }
    }
    const isGood = problems.length === 0;
    this.#file = { text: file.text, rules: isGood ? rules : [], problems };
    if (isGood) this.#lastGoodFile = rules;
    return this.#file;
  }
}

/** Name of a resource's rule. */
function nameOf(resource: RoutingRule): string {
  return resource.spec.name ?? resource.metadata.name;
}

/** Of resources with one name the oldest has it. */
function nameOwners(resources: readonly RoutingRule[]): ReadonlyMap<string, RoutingRule> {
  const owners = new Map<string, RoutingRule>();
  for (const resource of resources) {
    const other = owners.get(nameOf(resource));
    if (other === undefined || isOlder(resource, other)) owners.set(nameOf(resource), resource);
  }
  return owners;
}

function isOlder(a: RoutingRule, b: RoutingRule): boolean {
  const byTime = a.metadata.creationTimestamp.localeCompare(b.metadata.creationTimestamp);
  if (byTime !== 0) return byTime < 0;
  return keyText(keyOf(a)) < keyText(keyOf(b));
}

/** A rule's definition from its resource, or what is wrong with the spec. */
function definitionOf(resource: RoutingRule): RuleDefinition | string {
  const { spec } = resource;
  if (typeof spec.condition !== 'string') return 'spec.condition is missing';
  const actions = spec.actions ?? [];
  if (!Array.isArray(actions) || actions.some((action) => typeof action !== 'string')) {
    return 'spec.actions must be a list of texts';
  }
  if (actions.length === 0 && spec.routeTo === undefined && spec.deny === undefined) {
    return 'exactly one of actions, routeTo and deny must be set';
  }
  return {
    ...plainRule,
    name: nameOf(resource),
    origin: 'resource',
    description: spec.description ?? '',
    priority: spec.priority ?? DEFAULT_PRIORITY,
    condition: { text: spec.condition, field: 'condition', place: null },
    actions: actions.map((text, index) => ({ text, field: `actions[${index}]`, place: null })),
    routeTo: spec.routeTo ?? null,
    deny: spec.deny === undefined ? null : { message: spec.deny.message, onError: spec.deny.onError ?? 'deny' },
    onUnavailable: spec.onUnavailable ?? 'fallback',
    stop: spec.stop ?? false,
    suspended: spec.suspended ?? false,
  };
}

function judge(
  resource: RoutingRule,
  { outcome, lastGood }: KnownResource,
  owners: ReadonlyMap<string, RoutingRule>,
  isOff: boolean,
  isExternal: boolean,
): { readonly verdict: RuleVerdict; readonly rule: CompiledRule | null } {
  const rule = nameOf(resource);
  const owner = owners.get(rule);
  if (owner !== resource && owner !== undefined) {
    const message = `the name ${rule} belongs to the older resource ${owner.metadata.namespace}/${owner.metadata.name}; choose another spec.name`;
    return { verdict: notInForce(rule, 'NameConflict', message), rule: null };
  }
  const isAccepted = 'rule' in outcome;
  const candidate = isAccepted ? outcome.rule : lastGood;
  const accepted = isAccepted
    ? ({ accepted: true, acceptedReason: 'Accepted', message: acceptedMessage(outcome.rule) } as const)
    : ({ accepted: false, acceptedReason: outcome.reason, message: outcome.message } as const);
  if (candidate === null) return { verdict: notInForce(rule, accepted.acceptedReason, accepted.message), rule: null };
  const off = offReason(candidate, isOff, isExternal);
  const inForce = isAccepted ? 'current' : 'previous';
  if (off !== null) return { verdict: { rule, ...accepted, inForce: 'none', programmed: false, ...off }, rule: null };
  const programmed = isAccepted
    ? ({ programmedReason: 'Programmed', programmedMessage: 'the rule decides requests' } as const)
    : ({
        programmedReason: 'PreviousVersion',
        programmedMessage: 'the last version that compiled decides requests',
      } as const);
  return { verdict: { rule, ...accepted, inForce, programmed: isAccepted, ...programmed }, rule: candidate };
}

/** Says what will fail once it is reached, such as unknown variables. */
function acceptedMessage(rule: CompiledRule): string {
  const warnings = warningsOf(rule).map(({ line, column, message }) => `${message} (line ${line}, column ${column})`);
  return ['the rule compiles', ...warnings].join('; ').slice(0, 4096);
}

function notInForce(rule: string, acceptedReason: RuleVerdict['acceptedReason'], message: string): RuleVerdict {
  return {
    rule,
    accepted: false,
    acceptedReason,
    message,
    inForce: 'none',
    programmed: false,
    programmedReason: 'NotAccepted',
    programmedMessage: 'the rule is not accepted and has no earlier version that compiled',
  };
}

/** Why a rule that compiles does not take part; null when it does. */
function offReason(
  { definition }: CompiledRule,
  isOff: boolean,
  isExternal: boolean,
): Pick<RuleVerdict, 'programmedReason' | 'programmedMessage'> | null {
  if (isOff) {
    return { programmedReason: 'RulesEngineDisabled', programmedMessage: 'routingRules.rulesEngineEnabled is false' };
  }
  if (isExternal && definition.deny === null) {
    return {
      programmedReason: 'ExternalRules',
      programmedMessage: 'routingRules.rulesType is EXTERNAL: only deny rules are asked beside the external service',
    };
  }
  if (definition.suspended) {
    return { programmedReason: 'Suspended', programmedMessage: 'spec.suspended is true' };
  }
  return null;
}

/** Priority, then file before resources, then order of definition in the file and by name among resources. */
function inOrder(fileRules: readonly CompiledRule[], resourceRules: readonly CompiledRule[]): CompiledRule[] {
  const byName = [...resourceRules].sort((a, b) =>
    a.definition.name < b.definition.name ? -1 : a.definition.name > b.definition.name ? 1 : 0,
  );
  return [...fileRules, ...byName].sort((a, b) => a.definition.priority - b.definition.priority);
}
