import type { ProductNames } from '../../model/names.ts';
import { type CompiledRule, compileRule, matches, RuleFailed } from '../compile/compiledRule.ts';
import type { RuleDefinition } from '../compile/definition.ts';
import { CompiledRuleSet } from '../decide/ruleSet.ts';
import type { RuleDecision, RuleTrace } from '../decision.ts';
import { Evaluation, EvaluationError, type Sources, systemSources } from '../evaluation.ts';
import { CompileBudget } from '../language/compileBudget.ts';
import { parse } from '../language/parser.ts';
import { isTotal } from '../language/recordedLogic.ts';
import { type CompileContext, Scope } from '../language/scope.ts';
import { QueryObject } from '../objects/query.ts';
import { UserObject } from '../objects/user.ts';
import type { RouteRights } from '../routeRights.ts';
import { JavaMap } from '../values/collections.ts';
import type { EditedRules, EditedRulesSettings } from './editedRules.ts';
import { mentions } from './mentions.ts';
import { RecordedIndex } from './recordedIndex.ts';
import { type RecordedRequest, RecordedRequestObject } from './recordedRequest.ts';
import { UnknownRead } from './unknownRead.ts';

/** A condition or action that could not be replayed for a request. */
export interface UnreplayedRule {
  /** Empty: it is no rule, but the routing group header, which decides where there are no rules. */
  readonly rule: string;
  /** What it reads that the record does not hold. */
  readonly fact: string;
}

/** What the rules decide if conditions that cannot be replayed come out in one way of several. */
export interface PossibleDecisions {
  /** Null: there are no rules. */
  readonly before: RuleDecision | null;
  readonly after: RuleDecision | null;
}

/** Gets each possible pair of decisions; false ends the search. May throw `UnknownRead`: the request is undecidable then. */
export type VisitDecisions = (decisions: PossibleDecisions) => boolean;

/** What came of replaying a request. */
export interface ReplayedRequest {
  /**
   * `same`: no changed rule can have an effect, nothing was visited; `visited`: the decisions are all that are possible, unless
   * the visitor ended the search; `undecidable`: there are too many, or an action could not be replayed.
   */
  readonly kind: 'same' | 'visited' | 'undecidable';
  readonly unreplayed: readonly UnreplayedRule[];
}

/** Pairs of decisions that are looked at for one request; where more are possible, it is undecidable. */
const MOST_DECISIONS = 64;

const CHANCE = 'random numbers';

type Outcome = 'false' | 'true' | 'failed';

/** What is known of a rule's condition beside its code. */
interface ConditionFacts {
  readonly text: string;
  /** Whether its outcome follows from the request alone, and it changes nothing. */
  readonly isPlain: boolean;
  /** How it can come out where it cannot be replayed. */
  readonly outcomes: readonly Outcome[];
}

/** How a condition came out by what was recorded of its rule; null where that says nothing, as of a rule that was not asked. */
function recordedOutcome({ outcome, error }: RuleTrace): Outcome | null {
  if (outcome === 'not-matched') return 'false';
  if (error?.startsWith('condition,') === true) return 'failed';
  return outcome === 'fired' || (outcome === 'denied' && error === undefined) ? 'true' : null;
}

/** The same for conditions that come out alike for each request. */
function conditionKey({ definition: { condition, deny } }: CompiledRule): string {
  // A rule that denies fails where another one only does not match.
  return `${deny === null ? '' : deny.onError}/${condition.text}`;
}

/** @throws RuleFailed where it failed */
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
 * Decides recorded requests by rules as they are and as they would be. A condition that reads what the record lacks may come out
 * in each way; where a text is in both rule sets it comes out alike, so that rules that are not changed cancel out.
 */
export class RuleReplay {
  readonly #facts = new Map<CompiledRule, ConditionFacts>();
  readonly #before: CompiledRuleSet | null;
  readonly #after: CompiledRuleSet | null;
  /** Rules that only one of both has. */
  readonly #changed: readonly CompiledRule[];
  readonly #changedIndex: RecordedIndex;
  /** Whether a request that no changed rule matches is decided alike. */
  readonly #isSeparable: boolean;
  readonly #settings: EditedRulesSettings;
  readonly #sources: Sources;
  /** Rules in force by their conditions: one that is changed in another respect comes out like the one before. */
  readonly #beforeByCondition = new Map<string, CompiledRule>();
  #choices: Choice[] = [];
  #unreplayed: UnreplayedRule[] = [];
  readonly #names: ProductNames;
  #current: CompiledRule | null = null;
  #request: RecordedRequest | null = null;

  /** @param rights those whose version `rules` names */
  constructor(
    rules: EditedRules,
    context: Pick<CompileContext, 'names' | 'analyzeRequest'>,
    rights: RouteRights | null,
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
    // Without denies and rejections a rule that fails is one that did not match.
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
    this.#changedIndex = new RecordedIndex(this.#changed);
    this.#isSeparable =
      (before === null) === (after === null) && this.#changed.every((rule) => this.#facts.get(rule)?.isPlain === true);
  }

  /** Whether rules of either read user or query of requests. */
  get needsAnalysis(): boolean {
    return this.#before?.needsAnalysis === true || this.#after?.needsAnalysis === true;
  }

  /** Decides a request by both. */
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
      // A local constant for the compiler: it was set while the rules were asked.
      const rule = this.#current as CompiledRule | null;
      this.#note(rule?.definition.name ?? '', error);
      return { kind: 'undecidable', unreplayed: this.#unreplayed };
    }
  }

  /** Whether a changed rule matches, fails, or cannot be replayed. */
  #isTouched(request: RecordedRequest): boolean {
    const marked = this.#changedIndex.candidates(request);
    for (const [number, rule] of this.#changed.entries()) {
      if (((marked[number >>> 5] ?? 0) & (1 << (number & 31))) === 0) continue;
      if (this.#doesMatch(rule, request) !== false) return true;
    }
    return false;
  }

  #doesMatch(rule: CompiledRule, request: RecordedRequest): boolean | null {
    try {
      const { user, queryProperties } = request;
      const objects = {
        request: new RecordedRequestObject(request, this.#names),
        state: new JavaMap(),
        result: new JavaMap(),
        user: user === null ? undefined : new UserObject(user),
        query: queryProperties === null ? undefined : new QueryObject(queryProperties),
      };
      const e = new Evaluation(objects, this.#settings.limits, this.#sources);
      e.requireAnalysis = rule.definition.deny !== null;
      return matches(rule, e);
    } catch (error) {
      if (error instanceof RuleFailed || error instanceof UnknownRead) return null;
      throw error;
    }
  }

  /** @returns whether all decisions were visited, or as many as the visitor wanted */
  #visitAll(request: RecordedRequest, visit: VisitDecisions): boolean {
    for (let count = 0; count < MOST_DECISIONS; count += 1) {
      const before = this.#before?.decide(request) ?? null;
      const after = this.#after?.decide(request) ?? null;
      this.#current = null;
      if (!visit({ before, after }) || !this.#chooseNext()) return true;
    }
    return false;
  }

  /** Goes on to the next combination of outcomes; false where there is none. */
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

  /** @param of name of the rule where rules of the same text come out apart; else empty */
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

  /** How the condition came out when the request was decided, by the same rules; null where that is not recorded. */
  #recordedOutcome(rule: CompiledRule, fact: string): Outcome | null {
    const recorded = this.#request?.recordedTrace ?? null;
    if (recorded === null || recorded.version !== this.#before?.version) return null;
    const definition = this.#beforeByCondition.get(conditionKey(rule))?.definition;
    if (definition === undefined) return null;
    const { name, origin } = definition;
    // Chance is another one for each rule.
    if (fact === CHANCE && name !== rule.definition.name) return null;
    const trace = recorded.rules.find((each) => each.rule === name && each.origin === origin);
    // Of many rules those that did not match are left out of the record.
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
    const isPlain = !mentions(block, ['result', 'state']);
    const isLenient = this.#settings.onRuleError === 'skip' && (deny === null || deny.onError === 'skip');
    const replay = isLenient ? 'lenient' : 'strict';
    // What changes `result` or `state` while it is asked runs as for a request, to the first read of what is unknown.
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

  #ruleSet(rules: readonly CompiledRule[], rights: RouteRights | null): CompiledRuleSet {
    const { limits, onRuleError, fileFailed, isExternal } = this.#settings;
    const names = this.#names;
    return new CompiledRuleSet(rules, {
      names,
      ...{ limits, onRuleError, fileFailed, isExternal, rights },
      onFailure: () => undefined,
      onNotAsked: () => undefined,
      sources: this.#sources,
      recorded: {
        objectOf: (request) => new RecordedRequestObject(request as RecordedRequest, names),
        indexOf: (all) => {
          const index = new RecordedIndex(all);
          return { candidates: (request) => index.candidates(request as RecordedRequest) };
        },
        matches: (rule, e) => this.#matches(rule, e),
      },
    });
  }
}
