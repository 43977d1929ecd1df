import { DEFAULT_PRIORITY, ONE_EFFECT, type RoutingRule } from '../kinds/routingRule/spec.ts';
import type { PlacedProblem } from '../model/errors.ts';
import { areAlike } from '../model/record.ts';
import { claimNames, keyTextOf, nameConflictMessage, registryNameOf } from '../model/resource.ts';
import { type CompiledRulesFile, compileRulesFile } from './compile/checkRules.ts';
import { type CompiledRule, compileRule } from './compile/compiledRule.ts';
import type { RuleDefinition } from './compile/definition.ts';
import { draftDefinition, placedProblems, placedText, type RuleDraft } from './compile/ruleDraft.ts';
import { parseRulesFile, parseRulesFileInTurns, runInTurns, runSteps } from './compile/rulesFile.ts';
import { RuleFailureReports } from './decide/failureReports.ts';
import { MemoizedRuleSet } from './decide/memoizedRuleSet.ts';
import { CompiledRuleSet, type RuleSetOptions } from './decide/ruleSet.ts';
import type { RuleSet } from './decision.ts';
import { systemSources } from './evaluation.ts';
import { defaultRuleLimits } from './limits.ts';
import type { EditedRules, RuleEdit } from './replay/recordedRequest.ts';
import type {
  CompiledRules,
  EditProblem,
  RuleCompiler,
  RuleCompilerOptions,
  RuleReport,
  RulesFile,
  RulesFileProblem,
  TriedRule,
} from './ruleCompiler.ts';
import { grantText, type RuleRights, stageOf } from './tenancy.ts';

type Compilation =
  | { readonly rule: CompiledRule }
  | { readonly reason: 'InvalidSpec' | 'CompileError' | 'AnalysisDisabled'; readonly message: string };

interface CachedResource {
  readonly uid: string;
  /** The spec that `compilation` is of, and its JSON. */
  readonly specObject: unknown;
  readonly spec: string;
  readonly compilation: Compilation;
  readonly lastGood: CompiledRule | null;
}

interface CachedFile {
  readonly text: string | null;
  readonly defaultPriority: number | undefined;
  readonly rules: readonly CompiledRule[];
  readonly problems: readonly RulesFileProblem[];
}

/**
 * Decisions of fewer rules are not cached: evaluating them costs about as much
 * (docs/decisions/0012-memory-of-decisions.md).
 */
const MEMOIZED_FROM = 4;

/** Creates the compiler of rules; one per process, as it caches the last compilations. */
export function createRuleCompiler(options: RuleCompilerOptions): RuleCompiler {
  return new SetCompiler(options);
}

class SetCompiler implements RuleCompiler {
  readonly #options: RuleCompilerOptions;
  readonly #failures: RuleFailureReports;
  #resources = new Map<string, CachedResource>();
  #file: CachedFile | null = null;
  #preparedFile: CachedFile | null = null;
  #lastGoodFile: readonly CompiledRule[] | null = null;
  /** Reports of resource versions; settings of the process do not affect them. */
  readonly #reports = new WeakMap<
    CachedResource,
    {
      readonly name: string;
      readonly rights: RuleRights['version'] | null;
      readonly isOwner: boolean;
      readonly verdict: Verdict;
    }
  >();
  /** Active rules of the last `compile`, rules of the file in their order. */
  #partaking: {
    readonly file: readonly CompiledRule[];
    readonly resources: readonly CompiledRule[];
    readonly fileFailed: boolean;
  } = { file: [], resources: [], fileFailed: false };
  readonly #reported = new WeakSet<CachedResource>();
  #rights: RuleRights | null = null;
  /** Inputs of the last `compile`, including inactive rules. */
  #inputs: { readonly resources: readonly RoutingRule[]; readonly hasFile: boolean } = {
    resources: [],
    hasFile: false,
  };
  #rightsVersion: string | null = null;
  #order: {
    readonly order: readonly CompiledRule[];
    readonly fileFailed: boolean;
    readonly rightsVersion: string | null;
    readonly ruleSet: CompiledRuleSet;
  } | null = null;

  /** Results of the last `compile` by resource; null if names were claimed twice. */
  #lastVerdicts: {
    readonly resources: readonly RoutingRule[];
    readonly all: readonly Verdict[];
    readonly reports: Map<string, RuleReport>;
    readonly rights: string | null;
  } | null = null;
  #orderedLast: (OrderedRules & { readonly file: readonly CompiledRule[] }) | null = null;

  constructor(options: RuleCompilerOptions) {
    this.#options = options;
    this.#failures = new RuleFailureReports(options);
  }

  compile(resources: readonly RoutingRule[], file: RulesFile | null, rights: RuleRights | null = null): CompiledRules {
    this.#rights = rights;
    this.#inputs = { resources, hasFile: file !== null };
    this.#rightsVersion = rights?.version ?? null;
    const isExternal = this.#options.rulesType === 'EXTERNAL';
    const ofFile = isExternal ? null : file;
    const compiledFile = ofFile === null ? null : this.#compileFile(ofFile);
    const isOff = this.#options.rulesEngineEnabled === false;
    const isUnused = this.#options.rulesEngineEnabled === undefined && file === null && resources.length === 0;
    const { reports, inForce, replaced } =
      this.#judgeChanged(resources, isOff, isExternal) ?? this.#judgeAll(resources, isOff, isExternal);
    const fileFailed = compiledFile !== null && !isLoaded(compiledFile);
    const keepsLast = fileFailed && this.#options.onFileError === 'keepLast' && this.#lastGoodFile !== null;
    const fileRules = keepsLast ? (this.#lastGoodFile ?? []) : (compiledFile?.rules ?? []);
    this.#partaking = { file: isOff ? [] : fileRules, resources: inForce, fileFailed: fileFailed && !keepsLast };
    const { order, listing, warnings, groups } = this.#ordered(this.#partaking.file, inForce, replaced);
    return {
      ruleSet: isOff || isUnused ? null : this.#ruleSet(order, this.#partaking.fileFailed),
      reports,
      fileProblems: compiledFile?.problems.filter(({ effect }) => effect !== 'warning') ?? [],
      fileWarnings: compiledFile?.problems.filter(({ effect }) => effect === 'warning') ?? [],
      fileState: compiledFile === null ? 'absent' : keepsLast ? 'keptLast' : fileFailed ? 'failed' : 'loaded',
      order: listing,
      ruleWarnings: warnings,
      namedGroups: groups,
    };
  }

  fresh(): RuleCompiler {
    const { onRuleWarnings: _, ...options } = this.#options;
    return new SetCompiler(options);
  }

  #judgeAll(resources: readonly RoutingRule[], isOff: boolean, isExternal: boolean): ResourceVerdicts {
    // A name that a namespace may not use stays free for others.
    const claimants = resources.filter((each) => (this.#rights?.tenancy.nameRejectionOf(each) ?? null) === null);
    const owners = claimNames(claimants);
    const entries = new Map<string, CachedResource>();
    const all: Verdict[] = [];
    const reports = new Map<string, RuleReport>();
    for (const resource of resources) {
      const key = keyTextOf(resource);
      const entry = this.#compiled(resource, key);
      entries.set(key, entry);
      const owner = owners.get(registryNameOf(resource)) ?? resource;
      const verdict = this.#verdictOf(resource, entry, owner, isOff, isExternal);
      all.push(verdict);
      reports.set(key, verdict.report);
    }
    this.#reportWarnings(entries.values());
    // Deleted resources are dropped, so that memory does not grow over time.
    this.#resources = entries;
    // If several resources claim a name, a change of one may affect the others.
    const isPlain = owners.size === claimants.length && reports.size === resources.length;
    this.#lastVerdicts = isPlain ? { resources, all, reports, rights: this.#rightsVersion } : null;
    return { reports, inForce: rulesOf(all), replaced: null };
  }

  /**
   * Incremental variant for a few changed specs: only these are examined, because a change in a set of thousands would
   * block the event loop. Returns null if more has changed.
   */
  #judgeChanged(resources: readonly RoutingRule[], isOff: boolean, isExternal: boolean): ResourceVerdicts | null {
    const last = this.#lastVerdicts;
    if (last === null || last.rights !== this.#rightsVersion) return null;
    const changed = changedPositions(last.resources, resources);
    if (changed === null) return null;
    const all = [...last.all];
    const { reports } = last;
    const replaced = new Map<CompiledRule, CompiledRule>();
    let isInPlace = true;
    for (const position of changed) {
      const resource = resources[position] as RoutingRule;
      const key = keyTextOf(resource);
      const entry = this.#compiled(resource, key);
      this.#resources.set(key, entry);
      this.#reportWarnings([entry]);
      const before = all[position]?.rule ?? null;
      const verdict = this.#verdictOf(resource, entry, resource, isOff, isExternal);
      all[position] = verdict;
      reports.set(key, verdict.report);
      if (before === verdict.rule) continue;
      if (before !== null && verdict.rule !== null && haveOnePlace(before, verdict.rule))
        replaced.set(before, verdict.rule);
      else isInPlace = false;
    }
    this.#lastVerdicts = { resources, all, reports, rights: this.#rightsVersion };
    return { reports, inForce: rulesOf(all), replaced: isInPlace ? replaced : null };
  }

  /** @param replaced rules that replace previous ones at the same position; null: any may differ */
  #ordered(
    file: readonly CompiledRule[],
    inForce: readonly CompiledRule[],
    replaced: ReadonlyMap<CompiledRule, CompiledRule> | null,
  ): OrderedRules {
    const last = this.#orderedLast;
    if (last !== null && replaced !== null && areAlike(file, last.file)) {
      const order = replaced.size === 0 ? last.order : [...last.order];
      for (const [before, rule] of replaced) (order as CompiledRule[])[last.order.indexOf(before)] = rule;
      const warn = [...replaced].some(([before, rule]) => before.warnings.length + rule.warnings.length > 0);
      const warnings = warn ? ruleWarnings(order) : last.warnings;
      const isNaming = [...replaced].some(([before, rule]) => before.groups.join() !== rule.groups.join());
      const groups = isNaming ? namedGroups(order) : last.groups;
      this.#orderedLast = { file, order, listing: last.listing, warnings, groups };
      return this.#orderedLast;
    }
    const order = inOrder(file, inForce, this.#rights);
    const listing = order.map(({ definition: { name, origin, priority } }) => ({ rule: name, origin, priority }));
    this.#orderedLast = { file, order, listing, warnings: ruleWarnings(order), groups: namedGroups(order) };
    return this.#orderedLast;
  }

  /** Returns the previous report object if its inputs are unchanged: there are thousands. */
  #verdictOf(
    resource: RoutingRule,
    entry: CachedResource,
    owner: RoutingRule,
    isOff: boolean,
    isExternal: boolean,
  ): Verdict {
    const name = registryNameOf(resource);
    const isOwner = owner === resource;
    const rights = this.#rightsVersion;
    const before = this.#reports.get(entry);
    if (before?.name === name && before.rights === rights && before.isOwner && isOwner) return before.verdict;
    const verdict = judge(resource, entry, owner, isOff, isExternal, this.#rights);
    this.#reports.set(entry, { name, rights, isOwner, verdict });
    return verdict;
  }

  tryRule(draft: RuleDraft): TriedRule | null {
    if (this.#options.rulesEngineEnabled === false) return null;
    const { file, resources, fileFailed } = this.#partaking;
    const draw = this.#withDraft({ file, resources }, draft);
    if ('problems' in draw) return draw;
    return { ruleSet: new CompiledRuleSet(activeRules(draw, this.#rights), this.#setOptions(fileFailed, null)) };
  }

  edited(edits: readonly RuleEdit[]): EditedRules | { readonly problems: readonly EditProblem[] } | null {
    const { onRuleError, limits } = this.#options;
    const { rulesEngineEnabled, rulesType } = this.#options;
    if (rulesEngineEnabled === false) return null;
    const { file, resources, fileFailed } = this.#partaking;
    const problems: EditProblem[] = [];
    let rules: PartakingRules = { file, resources };
    for (const [edit, { name, rule }] of edits.entries()) {
      const outcome = rule === null ? without(rules, name) : this.#withDraft(rules, rule);
      if ('problems' in outcome) problems.push(...outcome.problems.map((problem) => ({ ...problem, edit })));
      else rules = outcome;
    }
    if (problems.length > 0) return { problems };
    const [before, after] = [activeRules({ file, resources }, this.#rights), activeRules(rules, this.#rights)];
    const definitions = [...new Set([...before, ...after].map(({ definition }) => definition))];
    const positions = new Map(definitions.map((definition, position) => [definition, position]));
    const positionsOf = (order: readonly CompiledRule[], isUnused: boolean): readonly number[] | null =>
      isUnused ? null : order.map(({ definition }) => positions.get(definition) as number);
    // By default, rules are active if there are rules or a rules file, even if all of them are suspended.
    const named = new Set(edits.map(({ name }) => name));
    const isDrafted = edits.some(({ rule }) => rule !== null);
    const present = this.#inputs.resources;
    const areOthers = present.some((resource) => !named.has(registryNameOf(resource)));
    const isOptional = rulesEngineEnabled === undefined && !this.#inputs.hasFile;
    return {
      definitions,
      before: positionsOf(before, isOptional && present.length === 0),
      after: positionsOf(after, isOptional && !isDrafted && !areOthers),
      settings: {
        onRuleError,
        limits: { ...defaultRuleLimits, ...limits },
        fileFailed,
        isExternal: rulesType === 'EXTERNAL',
        rights: this.#rightsVersion,
      },
    };
  }

  /** Rules with a draft that replaces the rule with its name, or is added. */
  #withDraft(
    { file, resources }: PartakingRules,
    draft: RuleDraft,
  ): PartakingRules | { problems: readonly PlacedProblem[] } {
    const isDraft = ({ definition }: CompiledRule): boolean => definition.name === draft.name;
    const origin = file.some(isDraft) ? 'file' : 'resource';
    // A draft has rights and stage of the resource that it replaces.
    const resource = this.#inputs.resources.find((each) => registryNameOf(each) === draft.name);
    const namespace = resources.find(isDraft)?.definition.namespace ?? resource?.metadata.namespace ?? null;
    const priority =
      draft.priority ?? (origin === 'file' ? this.#file?.defaultPriority : undefined) ?? DEFAULT_PRIORITY;
    const stage = origin === 'file' || resource === undefined ? 'First' : stageIn(resource);
    const definition = { ...draftDefinition({ ...draft, priority }, origin), namespace, stage };
    const compiled = compileRule(definition, this.#options);
    if (!('rule' in compiled)) return { problems: placedProblems(compiled.problems) };
    const { rule } = compiled;
    const replaced = (rules: readonly CompiledRule[]) => rules.map((each) => (isDraft(each) ? rule : each));
    const isAdded = origin !== 'file' && !resources.some(isDraft);
    return { file: replaced(file), resources: isAdded ? [...resources, rule] : replaced(resources) };
  }

  /** Returns a rule set of these rules; the previous object if nothing changed. */
  #ruleSet(order: readonly CompiledRule[], fileFailed: boolean): RuleSet {
    const last = this.#order;
    if (
      last !== null &&
      last.fileFailed === fileFailed &&
      last.rightsVersion === this.#rightsVersion &&
      areAlike(order, last.order)
    ) {
      return last.ruleSet;
    }
    const Type = order.length < MEMOIZED_FROM ? CompiledRuleSet : MemoizedRuleSet;
    const ruleSet = new Type(order, this.#setOptions(fileFailed, this.#failures), last?.ruleSet);
    this.#order = { order, fileFailed, rightsVersion: this.#rightsVersion, ruleSet };
    return ruleSet;
  }

  #setOptions(fileFailed: boolean, reports: RuleFailureReports | null): RuleSetOptions {
    const { names, onRuleError, limits, sources = systemSources } = this.#options;
    return {
      names,
      limits: { ...defaultRuleLimits, ...limits },
      onRuleError,
      fileFailed,
      rights: this.#rights,
      reports,
      sources,
    };
  }

  /** Returns the compilation of a resource, cached by its spec. */
  #compiled(resource: RoutingRule, key: string): CachedResource {
    const { uid } = resource.metadata;
    const before = this.#resources.get(key);
    const same = before !== undefined && before.uid === uid ? before : undefined;
    if (same !== undefined && same.specObject === resource.spec) return same;
    const spec = JSON.stringify(resource.spec);
    if (same !== undefined && same.spec === spec) return same;
    const compilation = this.#compileResource(resource);
    const lastGood = 'rule' in compilation ? compilation.rule : (same?.lastGood ?? null);
    return { uid, specObject: resource.spec, spec, compilation, lastGood };
  }

  /** Reports the warnings of each version of a resource's rule once. */
  #reportWarnings(resources: Iterable<CachedResource>): void {
    const { onRuleWarnings } = this.#options;
    if (onRuleWarnings === undefined) return;
    const unreported: { readonly rule: string; readonly warnings: readonly PlacedProblem[] }[] = [];
    for (const entry of resources) {
      const { compilation } = entry;
      if (this.#reported.has(entry) || !('rule' in compilation) || compilation.rule.warnings.length === 0) continue;
      this.#reported.add(entry);
      unreported.push({
        rule: compilation.rule.definition.name,
        warnings: placedWarnings(compilation.rule.warnings),
      });
    }
    if (unreported.length > 0) onRuleWarnings(unreported);
  }

  #compileResource(resource: RoutingRule): Compilation {
    const definition = definitionOf(resource);
    if (typeof definition === 'string') return { reason: 'InvalidSpec', message: definition };
    const compiled = compileRule(definition, this.#options);
    if ('rule' in compiled) return compiled;
    const message = placedText(placedProblems(compiled.problems));
    const isAnalysis = compiled.problems.every((problem) => problem.analysisDisabled);
    return { reason: isAnalysis ? 'AnalysisDisabled' : 'CompileError', message };
  }

  async prepareFile(file: RulesFile): Promise<readonly RulesFileProblem[]> {
    // Parsed also if the text is already compiled: rules are listed from the latest file.
    const parsed = await parseRulesFileInTurns(file);
    const entry = this.#cachedFile(file);
    if (entry !== null) return entry.problems;
    this.#preparedFile = toCachedFile(file, await runInTurns(compileRulesFile(file, parsed, this.#options)));
    return this.#preparedFile.problems;
  }

  #compileFile(file: RulesFile): CachedFile {
    const compile = () => runSteps(compileRulesFile(file, parseRulesFile(file), this.#options));
    const entry = this.#cachedFile(file) ?? toCachedFile(file, compile());
    this.#preparedFile = null;
    this.#file = entry;
    if (isLoaded(entry)) this.#lastGoodFile = entry.rules;
    return entry;
  }

  #cachedFile({ text, defaultPriority }: RulesFile): CachedFile | null {
    if (text === null) return null;
    return (
      [this.#file, this.#preparedFile].find(
        (entry) => entry?.text === text && entry.defaultPriority === defaultPriority,
      ) ?? null
    );
  }
}

/** A compiled file; without rules if a mistake rejects all of it. */
function toCachedFile({ text, defaultPriority }: RulesFile, { rules, findings }: CompiledRulesFile): CachedFile {
  const entry = { text, defaultPriority, rules, problems: findings };
  return isLoaded(entry) ? entry : { ...entry, rules: [] };
}

/** True if no mistake rejects the whole file. */
function isLoaded({ problems }: Pick<CachedFile, 'problems'>): boolean {
  return problems.every(({ effect }) => effect !== 'fileNotLoaded');
}

/** Returns the rule definition of a resource, or the mistakes in its spec. */
function definitionOf(resource: RoutingRule): RuleDefinition | string {
  const { spec } = resource;
  if (typeof spec.condition !== 'string') return 'spec.condition is missing';
  const actions = spec.actions ?? [];
  if (!Array.isArray(actions) || actions.some((action) => typeof action !== 'string')) {
    return 'spec.actions must be a list of texts';
  }
  if (actions.length === 0 && spec.routeTo === undefined && spec.deny === undefined) {
    return ONE_EFFECT;
  }
  const draft = { ...spec, name: registryNameOf(resource), actions };
  const { namespace } = resource.metadata;
  return { ...draftDefinition(draft, 'resource'), namespace, stage: stageIn(resource) };
}

const stageIn = ({ spec }: RoutingRule): RuleDefinition['stage'] => (spec.stage === 'Final' ? 'Final' : 'First');

interface ResourceVerdicts {
  readonly reports: ReadonlyMap<string, RuleReport>;
  readonly inForce: readonly CompiledRule[];
  /** Replacements of previous rules if nothing else differs, else null. */
  readonly replaced: ReadonlyMap<CompiledRule, CompiledRule> | null;
}

/** Rules in firing order, with their warnings. */
interface OrderedRules {
  readonly order: readonly CompiledRule[];
  readonly listing: CompiledRules['order'];
  readonly warnings: CompiledRules['ruleWarnings'];
  readonly groups: CompiledRules['namedGroups'];
}

const MAX_CHANGES = 100;

/** Positions of resources with a changed spec; null if there are too many, or if more than specs differ. */
function changedPositions(before: readonly RoutingRule[], after: readonly RoutingRule[]): readonly number[] | null {
  if (before.length !== after.length) return null;
  const changed: number[] = [];
  for (let position = 0; position < after.length; position += 1) {
    const [last, now] = [before[position] as RoutingRule, after[position] as RoutingRule];
    if (last === now || (last.spec === now.spec && last.metadata === now.metadata)) continue;
    if (changed.length === MAX_CHANGES || !isOfOneClaim(last, now)) return null;
    changed.push(position);
  }
  return changed;
}

/** True if two versions belong to one resource and claim the same name with the same age. */
function isOfOneClaim(a: RoutingRule, b: RoutingRule): boolean {
  return (
    a.metadata.uid === b.metadata.uid &&
    a.metadata.namespace === b.metadata.namespace &&
    a.metadata.name === b.metadata.name &&
    a.metadata.creationTimestamp === b.metadata.creationTimestamp &&
    a.metadata.deletionTimestamp === b.metadata.deletionTimestamp &&
    registryNameOf(a) === registryNameOf(b)
  );
}

function haveOnePlace({ definition: a }: CompiledRule, { definition: b }: CompiledRule): boolean {
  return a.name === b.name && a.priority === b.priority && a.origin === b.origin && a.stage === b.stage;
}

function rulesOf(verdicts: readonly Verdict[]): readonly CompiledRule[] {
  const rules: CompiledRule[] = [];
  for (const { rule } of verdicts) if (rule !== null) rules.push(rule);
  return rules;
}

interface Verdict {
  readonly report: RuleReport;
  readonly rule: CompiledRule | null;
}

function judge(
  resource: RoutingRule,
  { compilation, lastGood }: CachedResource,
  owner: RoutingRule,
  isOff: boolean,
  isExternal: boolean,
  rights: RuleRights | null,
): Verdict {
  const rule = registryNameOf(resource);
  const isAccepted = 'rule' in compilation;
  const refusalOf = ({ definition }: CompiledRule) => rights?.ruleRejection(definition) ?? null;
  const ofName = rights?.tenancy.nameRejectionOf(resource) ?? null;
  if (ofName === null && owner !== resource) {
    return { report: notInForce(rule, 'NameConflict', nameConflictMessage(resource, owner)), rule: null };
  }
  const refusal = ofName ?? (isAccepted ? refusalOf(compilation.rule) : null);
  if (refusal !== null) {
    const programmedMessage = 'the rule may not do that';
    const report = notInForce(rule, refusal.reason, grantText(refusal));
    return { report: { ...report, programmedMessage }, rule: null };
  }
  const isLastAllowed = lastGood !== null && refusalOf(lastGood) === null;
  const candidate = isAccepted ? compilation.rule : isLastAllowed ? lastGood : null;
  const accepted = isAccepted
    ? ({ accepted: true, acceptedReason: 'Accepted', message: acceptedMessage(compilation.rule) } as const)
    : ({ accepted: false, acceptedReason: compilation.reason, message: compilation.message } as const);
  if (candidate === null) return { report: notInForce(rule, accepted.acceptedReason, accepted.message), rule: null };
  const off = offReason(candidate, isOff, isExternal);
  const inForce = isAccepted ? 'current' : 'previous';
  if (off !== null) return { report: { rule, ...accepted, inForce: 'none', programmed: false, ...off }, rule: null };
  const programmed = isAccepted
    ? ({ programmedReason: 'Programmed', programmedMessage: 'the rule decides requests' } as const)
    : ({
        programmedReason: 'PreviousVersion',
        programmedMessage: 'the last version that compiled decides requests',
      } as const);
  return { report: { rule, ...accepted, inForce, programmed: isAccepted, ...programmed }, rule: candidate };
}

/** Describes code that fails at evaluation, such as unknown variables. */
function acceptedMessage(rule: CompiledRule): string {
  const warnings = rule.warnings.map(
    ({ field, line, column, message }) => `${field}: ${message} (line ${line}, column ${column})`,
  );
  return ['the rule compiles', ...warnings].join('; ').slice(0, 4096);
}

function notInForce(rule: string, acceptedReason: string, message: string): RuleReport {
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

/** Returns the reason that a compiled rule is not active; null if it is. */
function offReason(
  { definition }: CompiledRule,
  isOff: boolean,
  isExternal: boolean,
): Pick<RuleReport, 'programmedReason' | 'programmedMessage'> | null {
  if (isOff) {
    return { programmedReason: 'RulesEngineDisabled', programmedMessage: 'routingRules.rulesEngineEnabled is false' };
  }
  if (isExternal && definition.deny === null) {
    return {
      programmedReason: 'ExternalRules',
      programmedMessage: 'routingRules.rulesType is EXTERNAL: only deny rules are asked beside the external service',
    };
  }
  if (definition.suspend) {
    return { programmedReason: 'Suspended', programmedMessage: 'spec.suspend is true' };
  }
  return null;
}

const ruleWarnings = (rules: readonly CompiledRule[]): CompiledRules['ruleWarnings'] =>
  byRule(rules, ({ warnings }) => placedWarnings(warnings));
const namedGroups = (rules: readonly CompiledRule[]): CompiledRules['namedGroups'] =>
  byRule(rules, ({ groups }) => groups);

/** Values of rules by `origin/name`; rules without any are left out. */
function byRule<T>(
  rules: readonly CompiledRule[],
  of: (rule: CompiledRule) => readonly T[],
): ReadonlyMap<string, readonly T[]> {
  const all = new Map<string, readonly T[]>();
  for (const rule of rules) {
    const own = of(rule);
    const key = `${rule.definition.origin}/${rule.definition.name}`;
    if (own.length > 0) all.set(key, [...(all.get(key) ?? []), ...own]);
  }
  return all;
}

function placedWarnings(warnings: CompiledRule['warnings']): readonly PlacedProblem[] {
  return warnings.map(({ field, message, inText }) => ({ field, message, ...inText }));
}

/** Active rules; rules of the file in their order. */
interface PartakingRules {
  readonly file: readonly CompiledRule[];
  readonly resources: readonly CompiledRule[];
}

function without({ file, resources }: PartakingRules, name: string): PartakingRules {
  const others = (rules: readonly CompiledRule[]) => rules.filter(({ definition }) => definition.name !== name);
  return { file: others(file), resources: others(resources) };
}

/** Returns rules in firing order. */
function activeRules({ file, resources }: PartakingRules, rights: RuleRights | null): readonly CompiledRule[] {
  return inOrder(file, resources, rights).filter(({ definition }) => !definition.suspend);
}

/** Stage, then priority, then file before resources, then order of definition in the file and by name among resources. */
function inOrder(
  fileRules: readonly CompiledRule[],
  resourceRules: readonly CompiledRule[],
  rights: RuleRights | null,
): CompiledRule[] {
  const byName = [...resourceRules].sort((a, b) =>
    a.definition.name < b.definition.name ? -1 : a.definition.name > b.definition.name ? 1 : 0,
  );
  const placed = [...fileRules, ...byName].map((rule) => ({ rule, stage: stageOf(rule.definition, rights) }));
  placed.sort((a, b) => a.stage - b.stage || a.rule.definition.priority - b.rule.definition.priority);
  return placed.map(({ rule }) => rule);
}
