import type { ProductNames } from '../../model/names.ts';
import { type CompiledRule, compileRule } from '../compile/compiledRule.ts';
import type { RuleDefinition } from '../compile/definition.ts';
import { ConditionIndex } from '../decide/conditionIndex.ts';
import { CompiledRuleSet, evaluationOf, matches, numbersOf, RuleFailed } from '../decide/ruleSet.ts';
import type { RuleDecision, RuleTrace } from '../decision.ts';
import { type Evaluation, EvaluationError, type Sources, systemSources } from '../evaluation.ts';
import { expressionsIn } from '../language/children.ts';
import { CompileBudget } from '../language/compileBudget.ts';
import { parse } from '../language/parser.ts';
import { isTotal } from '../language/recordedLogic.ts';
import { type CompileContext, Scope } from '../language/scope.ts';
import type { RuleRights } from '../tenancy.ts';
import { JavaMap } from '../values/collections.ts';
import {
  type EditedRules,
  type EditedRulesSettings,
  type RecordedRequest,
  RecordedRequestObject,
} from './recordedRequest.ts';
import { UnknownRead } from './unknownRead.ts';

/** A condition or action that could not be replayed for a request. */
export interface UnreplayedRule {
  /** Empty for the routing group header, which decides without rules. */
  readonly rule: string;
  readonly fact: string;
}

/** Decisions of the rules for one combination of outcomes of unknown conditions. */
interface PossibleDecisions {
  /** Null: there are no rules. */
  readonly before: RuleDecision | null;
  readonly after: RuleDecision | null;
}

/**
 * Receives each possible pair of decisions; returns false to end the search. May throw `UnknownRead`: the request is
 * undecidable then.
 */
type VisitDecisions = (decisions: PossibleDecisions) => boolean;

interface ReplayedRequest {
  /**
   * `same`: no changed rule has an effect, nothing was visited; `visited`: all possible decisions were visited, unless
   * the visitor ended the search; `undecidable`: there are too many, or an action could not be replayed.
   */
  readonly kind: 'same' | 'visited' | 'undecidable';
  readonly unreplayed: readonly UnreplayedRule[];
}

/** Maximum number of pairs of decisions per request; with more, it is undecidable. */
const MAX_DECISIONS = 64;

const CHANCE = 'random numbers';

type Outcome = 'false' | 'true' | 'failed';

interface ConditionFacts {
  readonly text: string;
  /** True if its outcome only depends on the request, and it changes nothing. */
  readonly isPlain: boolean;
  readonly outcomes: readonly Outcome[];
}

/** Recorded outcome of a condition; null if unknown, as for a rule that was not evaluated. */
function recordedOutcome({ outcome, error }: RuleTrace): Outcome | null {
  if (outcome === 'not-matched') return 'false';
  if (error?.startsWith('condition,') === true) return 'failed';
  return outcome === 'fired' || (outcome === 'denied' && error === undefined) ? 'true' : null;
}

/** Equal for conditions with equal outcomes for each request. */
function conditionKey({ definition: { condition, deny } }: CompiledRule): string {
  // A rule that denies fails in cases in which another does not match.
  return `${deny === null ? '' : deny.whenError}/${condition.text}`;
}

/** @throws RuleFailed if it failed */
function outcomeOf(rule: CompiledRule, outcome: Outcome, { fact }: UnknownRead): boolean {
  if (outcome !== 'failed') return outcome === 'true';
  throw new RuleFailed('condition', rule.condition, new EvaluationError(`the record has no ${fact}`, 0), 0);
}

interface Choice {
  readonly text: string;
  readonly outcomes: readonly Outcome[];
  chosen: number;
}

/**
 * Decides recorded requests by active and edited rules. A condition that reads missing data may have each outcome; a
 * text in both rule sets has the same outcome, so that unchanged rules cancel out.
 */
export class RuleReplay {
  readonly #facts = new Map<CompiledRule, ConditionFacts>();
  readonly #before: CompiledRuleSet | null;
  readonly #after: CompiledRuleSet | null;
  readonly #changed: readonly CompiledRule[];
  readonly #changedIndex: ConditionIndex;
  /** True if a request without a matching changed rule has the same decision. */
  readonly #isSeparable: boolean;
  readonly #settings: EditedRulesSettings;
  readonly #sources: Sources;
  /** Active rules by condition: a rule that changed in another respect has the same outcome as before. */
  readonly #beforeByCondition = new Map<string, CompiledRule>();
  #choices: Choice[] = [];
  #unreplayed: UnreplayedRule[] = [];
  readonly #names: ProductNames;
  #current: CompiledRule | null = null;
  #request: RecordedRequest | null = null;

  /** @param rights the rights with the version in `rules` */
  constructor(
    rules: EditedRules,
    context: Pick<CompileContext, 'names' | 'analyzeRequest'>,
    rights: RuleRights | null,
  ) {
    const { definitions, before, after, settings } = rules;
    this.#settings = settings;
    this.#names = context.names;
    this.#sources = {
      now: () => this.#request?.time ?? 0,
      random: () => {
        throw new UnknownRead(CHANCE);
      },
      processorTime: systemSources.processorTime,
    };
    // Without denies and rejections a failed rule equals one without a match.
    const canFailureMatter = settings.onRuleError === 'reject' || definitions.some(({ deny }) => deny !== null);
    const compiled = definitions.map((definition) => this.#compiled(definition, context, canFailureMatter));
    const setOf = (positions: readonly number[] | null): CompiledRuleSet | null =>
      positions === null
        ? null
        : this.#ruleSet(
            positions.map((position) => compiled[position] as CompiledRule),
            rights,
          );
    this.#before = setOf(before);
    this.#after = setOf(after);
    for (const position of before ?? []) {
      const rule = compiled[position] as CompiledRule;
      this.#beforeByCondition.set(conditionKey(rule), rule);
    }
    const [inBefore, inAfter] = [new Set(before), new Set(after)];
    this.#changed = compiled.filter((_, position) => inBefore.has(position) !== inAfter.has(position));
    this.#changedIndex = new ConditionIndex(this.#changed);
    this.#isSeparable =
      (before === null) === (after === null) && this.#changed.every((rule) => this.#facts.get(rule)?.isPlain === true);
  }

  replay(request: RecordedRequest, visit: VisitDecisions): ReplayedRequest {
    this.#request = request;
    this.#unreplayed = [];
    this.#choices = [];
    this.#current = null;
    try {
      if (this.#isSeparable && !this.#isTouched(request)) return { kind: 'same', unreplayed: [] };
      return { kind: this.#visitAll(request, visit) ? 'visited' : 'undecidable', unreplayed: this.#unreplayed };
    } catch (error) {
      if (!(error instanceof UnknownRead)) throw error;
      // A local constant for the compiler: it was set during the evaluation.
      const rule = this.#current as CompiledRule | null;
      this.#note(rule?.definition.name ?? '', error);
      return { kind: 'undecidable', unreplayed: this.#unreplayed };
    }
  }

  /** True if a changed rule matches, fails, or cannot be replayed. */
  #isTouched(request: RecordedRequest): boolean {
    const candidates = numbersOf(this.#changedIndex.candidates(request));
    return candidates.some((number) => this.#doesMatch(this.#changed[number] as CompiledRule, request) !== false);
  }

  #doesMatch(rule: CompiledRule, request: RecordedRequest): boolean | null {
    try {
      const object = new RecordedRequestObject(request, this.#names);
      const e = evaluationOf(request, object, new JavaMap(), this.#settings.limits, this.#sources);
      e.requireAnalysis = rule.definition.deny !== null;
      return matches(rule, e);
    } catch (error) {
      if (error instanceof RuleFailed || error instanceof UnknownRead) return null;
      throw error;
    }
  }

  /** @returns true if all decisions were visited, or the visitor ended the search */
  #visitAll(request: RecordedRequest, visit: VisitDecisions): boolean {
    for (let count = 0; count < MAX_DECISIONS; count += 1) {
      const before = this.#before?.decide(request) ?? null;
      const after = this.#after?.decide(request) ?? null;
      this.#current = null;
      if (!visit({ before, after }) || !this.#chooseNext()) return true;
    }
    return false;
  }

  /** Advances to the next combination of outcomes; false at the end. */
  #chooseNext(): boolean {
    let last = this.#choices.at(-1);
    while (last !== undefined && last.chosen === last.outcomes.length - 1) {
      this.#choices.pop();
      last = this.#choices.at(-1);
    }
    if (last === undefined) return false;
    last.chosen += 1;
    return true;
  }

  /** @param of name of the rule if rules with the same text may differ; else empty */
  #outcomeOf({ text: condition, outcomes }: ConditionFacts, of: string): Outcome {
    const text = `${of}/${condition}`;
    let choice = this.#choices.find((each) => each.text === text);
    if (choice === undefined) {
      choice = { text, outcomes, chosen: 0 };
      this.#choices.push(choice);
    }
    return choice.outcomes[choice.chosen] ?? 'false';
  }

  #matches(rule: CompiledRule, e: Evaluation): boolean {
    this.#current = rule;
    try {
      return matches(rule, e);
    } catch (error) {
      const facts = this.#facts.get(rule);
      if (!(error instanceof UnknownRead) || facts?.isPlain !== true) throw error;
      const recorded = this.#recordedOutcome(rule, error.fact);
      if (recorded !== null) return outcomeOf(rule, recorded, error);
      this.#note(rule.definition.name, error);
      return outcomeOf(rule, this.#outcomeOf(facts, error.fact === CHANCE ? rule.definition.name : ''), error);
    }
  }

  /** Recorded outcome of the condition by the same rules; null if not recorded. */
  #recordedOutcome(rule: CompiledRule, fact: string): Outcome | null {
    const recorded = this.#request?.recordedTrace ?? null;
    if (recorded === null || recorded.version !== this.#before?.version) return null;
    const definition = this.#beforeByCondition.get(conditionKey(rule))?.definition;
    if (definition === undefined) return null;
    const { name, origin } = definition;
    // Random values differ between rules.
    if (fact === CHANCE && name !== rule.definition.name) return null;
    const trace = recorded.rules.find((each) => each.rule === name && each.origin === origin);
    // Records of many rules omit rules without a match.
    return trace === undefined ? 'false' : recordedOutcome(trace);
  }

  #note(rule: string, { fact }: UnknownRead): void {
    const isNoted = this.#unreplayed.some((each) => each.rule === rule && each.fact === fact);
    if (!isNoted) this.#unreplayed.push({ rule, fact });
  }

  #compiled(
    definition: RuleDefinition,
    context: Pick<CompileContext, 'names' | 'analyzeRequest'>,
    canFailureMatter: boolean,
  ): CompiledRule {
    const { deny, condition } = definition;
    const budget = new CompileBudget();
    const block = parse(condition.text, budget, context.names);
    const isPlain = !expressionsIn(block).some(
      (each) => each.type === 'name' && (each.name === 'result' || each.name === 'state'),
    );
    const isLenient = this.#settings.onRuleError === 'skip' && (deny === null || deny.whenError === 'Skip');
    const replay = isLenient ? 'lenient' : 'strict';
    // A condition that changes `result` or `state` runs up to the first unknown read.
    const compiled = compileRule(definition, isPlain ? { ...context, differenceWarnings: false, replay } : context);
    if (!('rule' in compiled)) throw new Error(`rule ${definition.name} of a rule set does not compile`);
    const [only] = block.statements;
    const scope = new Scope({ ...context, replay: 'strict' }, budget);
    const cannotFail = block.statements.length === 1 && only?.type === 'expression' && isTotal(only.expression, scope);
    const outcomes: readonly Outcome[] =
      canFailureMatter && !cannotFail ? ['false', 'true', 'failed'] : ['false', 'true'];
    this.#facts.set(compiled.rule, { text: condition.text, isPlain, outcomes });
    return compiled.rule;
  }

  #ruleSet(rules: readonly CompiledRule[], rights: RuleRights | null): CompiledRuleSet {
    const { limits, onRuleError, fileFailed } = this.#settings;
    const names = this.#names;
    return new CompiledRuleSet(rules, {
      names,
      ...{ limits, onRuleError, fileFailed, rights },
      reports: null,
      sources: this.#sources,
      recorded: {
        objectOf: (request) => new RecordedRequestObject(request as RecordedRequest, names),
        matches: (rule, e) => this.#matches(rule, e),
      },
    });
  }
}
