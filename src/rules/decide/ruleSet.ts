import { isDeepStrictEqual } from 'node:util';
import type { ProductNames } from '../../model/names.ts';
import { areAlike } from '../../model/record.ts';
import type { CompiledRule } from '../compile/compiledRule.ts';
import { GROUP_KEY } from '../compile/resultKeys.ts';
import { versionOf } from '../compile/ruleVersion.ts';
import type { RuleCondition, RuleDecision, RuleRequest, RuleSet } from '../decision.ts';
import { Evaluation, EvaluationError, type Sources } from '../evaluation.ts';
import type { Program } from '../language/program.ts';
import { placeText } from '../language/source.ts';
import { QueryObject, RequestObject, UserObject } from '../requestObjects.ts';
import type { RuleLimits } from '../ruleCompiler.ts';
import { type Decider, noDecider, type RuleRights, type Stage, stageOf } from '../tenancy.ts';
import { JavaMap } from '../values/collections.ts';
import { describe } from '../values/describe.ts';
import { javaText } from '../values/text.ts';
import type { Value } from '../values/value.ts';
import { ConditionIndex, textReader } from './conditionIndex.ts';
import type { RuleFailureReports } from './failureReports.ts';
import { type RulePlace, Trace } from './trace.ts';

/** `result`, with a log of the current rule's entries for the trace. */
class ResultMap extends JavaMap {
  /** Keys and values in turn; null if empty. */
  puts: Value[] | null = null;
  /** The last group from the current rule, or undefined. */
  groupPut: Value | undefined;

  beginRule(): void {
    this.puts = null;
    this.groupPut = undefined;
  }

  override put(key: Value, value: Value, e: Evaluation): Value | undefined {
    const before = super.put(key, value, e);
    this.#note(key, value);
    return before;
  }

  override delete(key: Value, e: Evaluation): Value | undefined {
    const before = super.delete(key, e);
    if (before !== undefined) this.#note(key, null);
    return before;
  }

  override clear(e: Evaluation): void {
    const keys = [...this.entries.values()].map((entry) => entry.key);
    super.clear(e);
    for (const key of keys) this.#note(key, null);
  }

  /** Always records the group, which decides. */
  #note(key: Value, value: Value): void {
    if (typeof key !== 'string') return;
    if (key === GROUP_KEY) this.groupPut = value;
    if (this.puts === null) this.puts = [key, value];
    else if (this.puts.length < MAX_PUTS * 2 || key === GROUP_KEY) this.puts.push(key, value);
  }
}

const MAX_PUTS = 100;

export interface RuleSetOptions {
  readonly names: ProductNames;
  readonly limits: RuleLimits;
  readonly onRuleError: 'skip' | 'reject';
  /** True if the rules file did not load: if no rule sets a group, the header decides. */
  readonly fileFailed: boolean;
  /** Rights of rules by namespace; null: unrestricted. */
  readonly rights: RuleRights | null;
  /** Null: failures are not reported. */
  readonly reports: RuleFailureReports | null;
  readonly sources: Sources;
  readonly recorded?: RecordedQuestions;
}

/** Differences in the evaluation of recorded requests (`src/rules/replay`). */
export interface RecordedQuestions {
  objectOf(request: RuleRequest): RequestObject;
  /** Evaluates the condition, like `matches`. */
  matches(rule: CompiledRule, e: Evaluation): boolean;
}

class DecisionDraft {
  routingGroup: string | null = null;
  cluster: string | null = null;
  rule: string | null = null;
  denied: RuleDecision['denied'] = null;
  rejected: RuleDecision['rejected'] = null;
  onUnavailable: 'fallback' | 'reject' = 'fallback';
  readonly trace: Trace;
  /** Rules of earlier stages are not asked any more; 3: no rule is. */
  resumesAt: Stage | 3 = 0;
  hasFailed = false;
  outOfTime: string | null = null;

  constructor(trace: Trace) {
    this.trace = trace;
  }
}

const haveSameKeys = (a: CompiledRule, b: CompiledRule): boolean => isDeepStrictEqual(a.neededKeys, b.neededKeys);

export class CompiledRuleSet implements RuleSet {
  readonly needsAnalysis: boolean;
  readonly headers: readonly string[];
  readonly version: string;
  readonly #rules: readonly CompiledRule[];
  readonly #options: RuleSetOptions;
  protected readonly index: ConditionIndex;
  /** Stages and tenants of the rules; null: all are in the first stage. */
  readonly #places: readonly RulePlace[] | null;
  readonly #sourceOf: ReturnType<typeof textReader>;
  #unasked: ReturnType<CompiledRuleSet['ask']> | null = null;
  readonly needsSender: boolean;

  /**
   * @param rules in firing order, without suspended rules
   * @param last the set before, most rules of which may be the same
   */
  constructor(rules: readonly CompiledRule[], options: RuleSetOptions, last: CompiledRuleSet | null = null) {
    this.#rules = rules;
    this.#options = options;
    this.needsAnalysis = rules.some((rule) => rule.needsAnalysis);
    this.version = versionOf(rules);
    const headers = new Set<string>();
    for (const rule of rules) for (const header of rule.headers) headers.add(header);
    this.headers = [...headers].sort();
    // Thousands of rules take a while to index, and most changes are of what rules do, not of when.
    const isSameIndex = last !== null && areAlike(rules, last.#rules, haveSameKeys);
    this.index = isSameIndex ? last.index : new ConditionIndex(rules);
    const { rights, names } = options;
    const isPlain = rights === null && rules.every(({ definition }) => definition.stage === 'First');
    const placeOf = ({ definition }: CompiledRule) => ({
      stage: stageOf(definition, rights),
      tenant: rights?.tenancy.tenantOf(definition.namespace) ?? null,
    });
    this.#places = isPlain ? null : rules.map(placeOf);
    this.needsSender = this.#places?.some(({ stage }) => stage === 1) === true;
    this.#sourceOf = textReader(`header:${names.headerKey('Source')}`);
  }

  decide(request: RuleRequest): RuleDecision {
    const marked = this.index.candidates(request);
    if (this.#unasked !== null && !this.needsSender && !marked.some(Boolean)) return this.#unasked.decision;
    return this.ask(request, marked, this.deciderOf(request)).decision;
  }

  conditions(): readonly RuleCondition[] {
    return this.#rules.map(({ definition: { name, origin, condition } }) => ({
      rule: name,
      origin,
      condition: condition.text,
    }));
  }

  /** Sources that the marked rules read; null if unknown for one of them. */
  readsOf(marked: Uint32Array): readonly string[] | null {
    const names = new Set<string>();
    for (const number of numbersOf(marked)) {
      const reads = this.#rules[number]?.reads ?? null;
      if (reads === null) return null;
      for (const source of reads) names.add(source);
    }
    return [...names];
  }

  /** Returns the tenant that decides a request; none without rules of tenants. */
  deciderOf(request: RuleRequest): Decider {
    const { rights, reports } = this.#options;
    if (!this.needsSender || rights === null) return noDecider;
    const decider = rights.tenancy.decider(request.sender, this.#sourceOf(request) ?? '');
    if (decider.conflict.length > 0) reports?.conflict(decider.conflict);
    return decider;
  }

  ask(
    request: RuleRequest,
    marked: Uint32Array,
    decider: Decider,
  ): { readonly decision: RuleDecision; readonly hasFailed: boolean } {
    const numbers = numbersOf(marked);
    const isUnasked = numbers.length === 0 && decider === noDecider;
    if (isUnasked && this.#unasked !== null) return this.#unasked;
    const trace = new Trace(this.#rules, this.#places, decider);
    const result = new ResultMap();
    const { names, limits, sources, recorded } = this.#options;
    const object = recorded?.objectOf(request) ?? new RequestObject(request, names);
    const state = new JavaMap();
    let e = evaluationOf(request, object, result, limits, sources, state);
    const draft = new DecisionDraft(trace);
    let current: Stage = 0;
    for (const number of numbers) {
      const { stage = 0, tenant = null } = this.#places?.[number] ?? {};
      if (stage < draft.resumesAt || tenant !== (stage === 1 ? decider.tenant : null)) continue;
      if (stage !== current) {
        // Tenants have a separate state and separate budgets, so that they do not affect rules of the platform.
        current = stage;
        draft.outOfTime = null;
        e = evaluationOf(request, object, result, limits, sources, stage === 1 ? new JavaMap() : state);
      }
      this.#askRule(number, request, result, e, draft);
      if (draft.resumesAt === 3) break;
    }
    const { routingGroup, cluster, rule, denied, rejected, onUnavailable, hasFailed } = draft;
    const useHeader = this.#options.fileFailed && rule === null;
    const decision = { routingGroup, cluster, rule, denied, rejected, onUnavailable, useHeader, trace };
    if (isUnasked) this.#unasked = { decision, hasFailed };
    return { decision, hasFailed };
  }

  #askRule(number: number, request: RuleRequest, result: ResultMap, e: Evaluation, draft: DecisionDraft): void {
    const rule = this.#rules[number];
    if (rule === undefined) return;
    const { definition } = rule;
    const { deny } = definition;
    if (deny !== null && !request.isSubmission) {
      draft.trace.note(number, 'skipped');
      return;
    }
    if (draft.outOfTime !== null) {
      this.#notAsked(rule, number, draft.outOfTime, draft);
      return;
    }
    result.beginRule();
    e.requireAnalysis = deny !== null;
    e.isUnreadable = false;
    try {
      const { recorded } = this.#options;
      const isMatch = recorded === undefined ? matches(rule, e) : recorded.matches(rule, e);
      if (isMatch && deny !== null) {
        e.commit();
        this.#deny(number, deny.message, undefined, draft);
        return;
      }
      if (isMatch) this.#fire(rule, result, e);
      this.#checkRights(rule, result);
      if (result.puts !== null) checkGroupLength(rule, result);
      e.commit();
      if (isMatch) this.#noteMatch(number, result, e, draft);
      else if (result.puts !== null) this.#noteGroup(rule, result, draft);
    } catch (error) {
      if (!(error instanceof RuleFailed)) throw error;
      e.undo();
      if (deny !== null && e.isUnreadable) {
        // The request is at fault, not the rule.
        draft.hasFailed = true;
        this.#deny(number, deny.message, error.message, draft);
        return;
      }
      if (e.isOutOfTime) draft.outOfTime = definition.name;
      this.#options.reports?.report(rule, error.message);
      this.#noteFailure(rule, number, error.message, draft);
    }
  }

  /** The time limit belongs to the decision: rules after the one that used it up are treated like failed rules. */
  #notAsked(rule: CompiledRule, number: number, cause: string, draft: DecisionDraft): void {
    this.#options.reports?.count(rule);
    const { time } = this.#options.limits;
    this.#noteFailure(rule, number, `not asked: rule ${cause} used up the decision's time of ${time} ms`, draft);
  }

  #fire(rule: CompiledRule, result: ResultMap, e: Evaluation): void {
    act(rule, e);
    const { routeTo } = rule.definition;
    if (routeTo?.routingGroup !== undefined) result.put(GROUP_KEY, routeTo.routingGroup, e);
    const group = result.groupPut;
    if (group !== undefined && group !== null && typeof group !== 'string') {
      throw resultFailure(rule, `result.routingGroup must be a String, not ${describe(group)}`);
    }
  }

  /** Fails the rule if its namespace may not route to its group. */
  #checkRights(rule: CompiledRule, result: ResultMap): void {
    const { rights } = this.#options;
    const { namespace } = rule.definition;
    if (rights === null || namespace === null) return;
    const group = result.groupPut;
    if (group === undefined) return;
    const message = rights.chosenRejection(namespace, typeof group === 'string' && group !== '' ? group : null);
    if (message !== null) throw resultFailure(rule, message, rule.actions.at(-1)?.field ?? 'condition');
  }

  #noteMatch(number: number, result: ResultMap, e: Evaluation, draft: DecisionDraft): void {
    const rule = this.#rules[number];
    if (rule === undefined) return;
    const { definition } = rule;
    const { name, routeTo, stop } = definition;
    this.#noteGroup(rule, result, draft);
    if (routeTo?.cluster !== undefined) {
      draft.cluster = routeTo.cluster;
      draft.routingGroup = null;
      draft.rule = name;
      draft.onUnavailable = definition.whenUnavailable === 'Reject' ? 'reject' : 'fallback';
    }
    const put = result.puts === null ? undefined : putTexts(result.puts, e);
    draft.trace.note(number, 'fired', { put });
    // A rule of the platform also ends the stage of the tenants.
    if (stop) this.#end(number, draft, this.#places === null || this.#places[number]?.stage === 2 ? 3 : 2);
  }

  #noteGroup({ definition }: CompiledRule, result: ResultMap, draft: DecisionDraft): void {
    const group = result.groupPut;
    if (group === undefined) return;
    const isGroup = typeof group === 'string' && group !== '';
    draft.routingGroup = isGroup ? group : null;
    draft.cluster = null;
    draft.rule = isGroup ? definition.name : null;
    draft.onUnavailable = isGroup && definition.whenUnavailable === 'Reject' ? 'reject' : 'fallback';
  }

  #noteFailure({ definition }: CompiledRule, number: number, message: string, draft: DecisionDraft): void {
    draft.hasFailed = true;
    const { deny } = definition;
    if (deny !== null && deny.whenError === 'Reject') {
      this.#deny(number, deny.message, message, draft);
      return;
    }
    draft.trace.note(number, 'failed', { error: message });
    if (deny !== null || this.#options.onRuleError === 'skip') return;
    draft.rejected = { rule: definition.name, message };
    this.#end(number, draft, 3);
  }

  #deny(number: number, message: string, error: string | undefined, draft: DecisionDraft): void {
    const rule = this.#rules[number];
    if (rule === undefined) return;
    draft.trace.note(number, 'denied', { error });
    draft.denied = { rule: rule.definition.name, message };
    this.#end(number, draft, 3);
  }

  #end(number: number, draft: DecisionDraft, resumesAt: Stage | 3): void {
    draft.resumesAt = resumesAt;
    draft.trace.endAt(number, resumesAt);
  }
}

/** Maximum length of a group name from a rule, in UTF-16 units: it goes into headers, logs and the history. */
const MAX_GROUP_LENGTH = 1024;

function checkGroupLength(rule: CompiledRule, { groupPut }: ResultMap): void {
  if (typeof groupPut !== 'string' || groupPut.length <= MAX_GROUP_LENGTH) return;
  throw resultFailure(rule, `result.routingGroup is longer than ${MAX_GROUP_LENGTH} characters`);
}

function resultFailure({ actions, condition }: CompiledRule, message: string, field = 'actions'): RuleFailed {
  return new RuleFailed(field, actions.at(-1)?.program ?? condition, { message, offset: 0 }, 0);
}

export function evaluationOf(
  { user, queryProperties }: RuleRequest,
  request: RequestObject,
  result: JavaMap,
  limits: RuleLimits,
  sources: Sources,
  state = new JavaMap(),
): Evaluation {
  const objects = {
    request,
    state,
    result,
    user: user === null ? undefined : new UserObject(user),
    query: queryProperties === null ? undefined : new QueryObject(queryProperties),
  };
  return new Evaluation(objects, limits, sources);
}

export function numbersOf(marked: Uint32Array): readonly number[] {
  const numbers: number[] = [];
  for (let word = 0; word < marked.length; word += 1) {
    for (let bits = marked[word] ?? 0; bits !== 0; bits &= bits - 1) {
      numbers.push(word * 32 + 31 - Math.clz32(bits & -bits));
    }
  }
  return numbers;
}

const MAX_TRACED = 200;

function putTexts(puts: readonly Value[], e: Evaluation): Readonly<Record<string, string | null>> {
  const [key, value] = puts;
  // The usual case first; Object.fromEntries treats keys such as __proto__ as plain keys.
  if (puts.length === 2 && key === GROUP_KEY && typeof value === 'string') return { routingGroup: cut(value) };
  const entries: [string, string | null][] = [];
  for (let index = 0; index < puts.length; index += 2) {
    entries.push([cut(String(puts[index])), putText(puts[index + 1] ?? null, e)]);
  }
  return Object.fromEntries(entries);
}

function putText(value: Value, e: Evaluation): string | null {
  if (value === null) return null;
  return typeof value === 'object' ? describe(value) : cut(javaText(value, e));
}

/** Truncates a text. Copies it, because a slice would keep the whole text in memory. */
function cut(text: string): string {
  if (text.length <= MAX_TRACED) return text;
  return Buffer.from(text.slice(0, MAX_TRACED), 'utf16le').toString('utf16le');
}

/** A rule's failure for logs, traces and clients: field, position and reason. */
export class RuleFailed {
  readonly message: string;

  constructor(field: string, program: Program, error: EvaluationError, at: number) {
    this.message = `${field}, ${placeText(program.source, error.offset ?? at)}: ${error.message}`;
  }
}

/**
 * Evaluates the condition.
 * @throws RuleFailed
 */
export function matches(rule: CompiledRule, e: Evaluation): boolean {
  try {
    e.at = 0;
    const value = rule.condition.run(e);
    if (typeof value === 'boolean') return value;
    throw new EvaluationError(`a condition must give true or false, not ${describe(value)}`, 0);
  } catch (error) {
    if (error instanceof EvaluationError) throw new RuleFailed('condition', rule.condition, error, e.at);
    throw error;
  }
}

/**
 * Runs the actions.
 * @throws RuleFailed
 */
export function act(rule: CompiledRule, e: Evaluation): void {
  for (const { field, program } of rule.actions) {
    try {
      e.at = 0;
      program.run(e);
    } catch (error) {
      if (error instanceof EvaluationError) throw new RuleFailed(field, program, error, e.at);
      throw error;
    }
  }
}
