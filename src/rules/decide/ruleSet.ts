import type { ProductNames } from '../../model/names.ts';
import { act, type CompiledRule, matches, RuleFailed } from '../compile/compiledRule.ts';
import { GROUP_KEY } from '../compile/resultKeys.ts';
import { versionOf } from '../compile/ruleVersion.ts';
import type { RuleCondition, RuleDecision, RuleRequest, RuleSet } from '../decision.ts';
import { Evaluation, type Sources } from '../evaluation.ts';
import { QueryObject } from '../objects/query.ts';
import { RequestObject } from '../objects/request.ts';
import { UserObject } from '../objects/user.ts';
import type { RouteRights } from '../routeRights.ts';
import type { RuleLimits } from '../ruleCompiler.ts';
import { JavaMap } from '../values/collections.ts';
import { describe } from '../values/describe.ts';
import { javaText } from '../values/text.ts';
import type { Value } from '../values/value.ts';
import { ConditionIndex } from './conditionIndex.ts';
import { Trace } from './trace.ts';

/** From this many rules on the index costs less than asking every rule. */
const INDEX_FROM = 4;

/** `result`, remembering what the current rule puts into it, for the trace. */
class ResultMap extends JavaMap {
  /** Keys and values in turn; null when nothing was put. */
  puts: Value[] | null = null;

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

  /** The group is always noted: it decides. */
  #note(key: Value, value: Value): void {
    if (typeof key !== 'string') return;
    if (this.puts === null) this.puts = [key, value];
    else if (this.puts.length < MAX_PUTS * 2 || key === GROUP_KEY) this.puts.push(key, value);
  }

  /** The group that the current rule put last; undefined when it put none. */
  get groupPut(): Value | undefined {
    const { puts } = this;
    if (puts === null) return undefined;
    const index = puts.length === 2 ? (puts[0] === GROUP_KEY ? 0 : -1) : lastKey(puts, GROUP_KEY);
    return index < 0 ? undefined : (puts[index + 1] ?? null);
  }
}

/** Most entries that are remembered of one rule. */
const MAX_PUTS = 100;

function lastKey(puts: readonly Value[], key: string): number {
  for (let index = puts.length - 2; index >= 0; index -= 2) if (puts[index] === key) return index;
  return -1;
}

/** How a rule set behaves beside its rules. */
export interface RuleSetOptions {
  readonly names: ProductNames;
  readonly limits: RuleLimits;
  readonly onRuleError: 'skip' | 'reject';
  /** The rules file did not load: where no rule sets a group, the header decides. */
  readonly fileFailed: boolean;
  /** Where rules of a namespace may route to; null: everywhere. */
  readonly rights: RouteRights | null;
  /** An external service chooses the group, which no rule knows. */
  readonly isExternal: boolean;
  readonly onFailure: (rule: CompiledRule, message: string) => void;
  /** A rule was not asked, as the decision's time was used up before its turn. */
  readonly onNotAsked: (rule: CompiledRule) => void;
  readonly sources: Sources;
  /** How recorded requests are asked about; left out for requests. */
  readonly recorded?: RecordedQuestions;
}

/** What differs where rules are asked about recorded requests (`src/rules/replay`). */
export interface RecordedQuestions {
  objectOf(request: RuleRequest): RequestObject;
  indexOf(rules: readonly CompiledRule[]): Pick<ConditionIndex, 'candidates'>;
  /** Asks the condition, as `matches` does. */
  matches(rule: CompiledRule, e: Evaluation): boolean;
}

/** What a request has been decided so far. */
class DecisionDraft {
  routingGroup: string | null = null;
  cluster: string | null = null;
  rule: string | null = null;
  denied: RuleDecision['denied'] = null;
  rejected: RuleDecision['rejected'] = null;
  onUnavailable: 'fallback' | 'reject' = 'fallback';
  readonly trace: Trace;
  /** Deny rules that matched and may refuse queries to some groups only: where the query goes is known in the end. */
  readonly bounded: { readonly number: number; readonly namespace: string; readonly error: string | undefined }[] = [];
  /** No later rule is asked. */
  isFinal = false;
  /** A rule failed. */
  hasFailed = false;
  /** Name of the rule in which the decision's time was used up. */
  outOfTime: string | null = null;

  constructor(trace: Trace) {
    this.trace = trace;
  }
}

/** Rules in the order in which they are asked, compiled. */
export class CompiledRuleSet implements RuleSet {
  readonly needsAnalysis: boolean;
  readonly headers: readonly string[];
  readonly version: string;
  readonly #rules: readonly CompiledRule[];
  readonly #options: RuleSetOptions;
  readonly #index: Pick<ConditionIndex, 'candidates'>;

  /** @param rules in order, suspended ones left out */
  constructor(rules: readonly CompiledRule[], options: RuleSetOptions) {
    this.#rules = rules;
    this.#options = options;
    this.needsAnalysis = rules.some((rule) => rule.needsAnalysis);
    this.version = versionOf(rules);
    this.headers = [...new Set(rules.flatMap((rule) => rule.headers))].sort();
    const { recorded } = options;
    const indexOf = (all: readonly CompiledRule[]) => recorded?.indexOf(all) ?? new ConditionIndex(all);
    this.#index = rules.length >= INDEX_FROM ? indexOf(rules) : allOf(rules.length);
  }

  decide(request: RuleRequest): RuleDecision {
    return this.ask(request, this.candidates(request)).decision;
  }

  conditions(): readonly RuleCondition[] {
    return this.#rules.map(({ definition: { name, origin, condition } }) => ({
      rule: name,
      origin,
      condition: condition.text,
    }));
  }

  /** The rules to ask, as `ConditionIndex.candidates` marks them: valid until it is called again. */
  candidates(request: RuleRequest): Uint32Array {
    return this.#index.candidates(request);
  }

  /** Sources of all that the marked rules read of a request; null when that cannot be determined of one of them. */
  readsOf(marked: Uint32Array): readonly string[] | null {
    const names = new Set<string>();
    for (const number of numbersOf(marked)) {
      const reads = this.#rules[number]?.reads ?? null;
      if (reads === null) return null;
      for (const source of reads) names.add(source);
    }
    return [...names];
  }

  /** Asks the marked rules. */
  ask(request: RuleRequest, marked: Uint32Array): { readonly decision: RuleDecision; readonly hasFailed: boolean } {
    const result = new ResultMap();
    const objects = {
      request: this.#options.recorded?.objectOf(request) ?? new RequestObject(request, this.#options.names),
      state: new JavaMap(),
      result,
      user: request.user === null ? undefined : new UserObject(request.user),
      query: request.queryProperties === null ? undefined : new QueryObject(request.queryProperties),
    };
    const e = new Evaluation(objects, this.#options.limits, this.#options.sources);
    const draft = new DecisionDraft(new Trace(this.#rules));
    for (const number of numbersOf(marked)) {
      this.#askRule(number, request, result, e, draft);
      if (draft.isFinal) break;
    }
    this.#settleBounded(draft);
    const decision = {
      routingGroup: draft.routingGroup,
      cluster: draft.cluster,
      rule: draft.rule,
      denied: draft.denied,
      rejected: draft.rejected,
      onUnavailable: draft.onUnavailable,
      useHeader: this.#options.fileFailed && draft.rule === null,
      trace: draft.trace,
    };
    return { decision, hasFailed: draft.hasFailed };
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
    result.puts = null;
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
      this.#options.onFailure(rule, error.message);
      this.#noteFailure(rule, number, error.message, draft);
    }
  }

  /** The time is the decision's: what comes after the rule that used it up is treated like a rule that failed. */
  #notAsked(rule: CompiledRule, number: number, cause: string, draft: DecisionDraft): void {
    this.#options.onNotAsked(rule);
    const { time } = this.#options.limits;
    this.#noteFailure(rule, number, `not asked: rule ${cause} used up the decision's time of ${time} ms`, draft);
  }

  #fire(rule: CompiledRule, result: ResultMap, e: Evaluation): void {
    act(rule, e);
    const { routeTo } = rule.definition;
    if (routeTo?.routingGroup !== undefined) result.put(GROUP_KEY, routeTo.routingGroup, e);
    const group = result.groupPut;
    if (group !== undefined && group !== null && typeof group !== 'string') {
      throw new RuleFailed(
        'actions',
        rule.actions.at(-1)?.program ?? rule.condition,
        {
          message: `result.routingGroup must be a String, not ${describe(group)}`,
          offset: 0,
        },
        0,
      );
    }
  }

  /** A group that the rule's namespace may not route to is not taken: the rule fails. */
  #checkRights(rule: CompiledRule, result: ResultMap): void {
    const { rights } = this.#options;
    const { namespace } = rule.definition;
    if (rights === null || namespace === null) return;
    const group = result.groupPut;
    if (typeof group !== 'string' || group === '') return;
    const message = rights.groupRefusal(namespace, group);
    if (message === null) return;
    const action = rule.actions.at(-1);
    throw new RuleFailed(action?.field ?? 'condition', action?.program ?? rule.condition, { message, offset: 0 }, 0);
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
      draft.onUnavailable = definition.onUnavailable;
    }
    const put = result.puts === null ? undefined : putTexts(result.puts, e);
    draft.trace.note(number, 'fired', { put });
    if (stop) this.#end(number, draft);
  }

  /** The group may have changed. */
  #noteGroup({ definition }: CompiledRule, result: ResultMap, draft: DecisionDraft): void {
    const group = result.groupPut;
    if (group === undefined) return;
    const isGroup = typeof group === 'string' && group !== '';
    draft.routingGroup = isGroup ? group : null;
    draft.cluster = null;
    draft.rule = isGroup ? definition.name : null;
    draft.onUnavailable = isGroup ? definition.onUnavailable : 'fallback';
  }

  #noteFailure({ definition }: CompiledRule, number: number, message: string, draft: DecisionDraft): void {
    draft.hasFailed = true;
    const { deny } = definition;
    if (deny !== null && deny.onError === 'deny') {
      this.#deny(number, deny.message, message, draft);
      return;
    }
    draft.trace.note(number, 'failed', { error: message });
    if (deny !== null || this.#options.onRuleError === 'skip') return;
    draft.rejected = { rule: definition.name, message };
    this.#end(number, draft);
  }

  #deny(number: number, message: string, error: string | undefined, draft: DecisionDraft): void {
    const rule = this.#rules[number];
    if (rule === undefined) return;
    const { name, namespace } = rule.definition;
    if (namespace !== null && this.#options.rights?.deniable(namespace) === 'some') {
      draft.bounded.push({ number, namespace, error });
      return;
    }
    draft.trace.note(number, 'denied', { error });
    draft.denied = { rule: name, message };
    this.#end(number, draft);
  }

  /** The first deny rule that may refuse queries to where this one goes does; the others are left out. */
  #settleBounded(draft: DecisionDraft): void {
    const { rights, isExternal, fileFailed } = this.#options;
    const { cluster, routingGroup: group } = draft;
    // Where the header or an external service chooses the group, none of the rules may be meant.
    const isUnknown = isExternal || (fileFailed && draft.rule === null);
    for (const { number, namespace, error } of draft.bounded) {
      const { name, deny } = this.#rules[number]?.definition ?? {};
      if (rights === null || name === undefined || deny === undefined || deny === null) continue;
      const refusal = isUnknown
        ? `the routing group is not known to rules, and namespace ${namespace} may deny queries to some groups only`
        : rights.denyRefusal(namespace, { cluster, group });
      const isStopped = draft.denied !== null || draft.rejected !== null;
      if (refusal !== null || isStopped) draft.trace.note(number, 'skipped', { error: refusal ?? error });
      else {
        draft.trace.note(number, 'denied', { error });
        draft.denied = { rule: name, message: deny.message };
      }
    }
  }

  /** Later rules are not asked. */
  #end(number: number, draft: DecisionDraft): void {
    draft.isFinal = true;
    draft.trace.endAt(number);
  }
}

/** Longest name of a group that a rule may put, in UTF-16 units: it goes into headers, logs and the history. */
const MAX_GROUP_LENGTH = 1024;

function checkGroupLength({ actions, condition }: CompiledRule, { groupPut }: ResultMap): void {
  if (typeof groupPut !== 'string' || groupPut.length <= MAX_GROUP_LENGTH) return;
  const message = `result.routingGroup is longer than ${MAX_GROUP_LENGTH} characters`;
  throw new RuleFailed('actions', actions.at(-1)?.program ?? condition, { message, offset: 0 }, 0);
}

/** Numbers of marked rules, ascending. */
function numbersOf(marked: Uint32Array): readonly number[] {
  const numbers: number[] = [];
  for (let word = 0; word < marked.length; word += 1) {
    for (let bits = marked[word] ?? 0; bits !== 0; bits &= bits - 1) {
      numbers.push(word * 32 + 31 - Math.clz32(bits & -bits));
    }
  }
  return numbers;
}

/** Asks every one of a few rules. */
function allOf(count: number): Pick<ConditionIndex, 'candidates'> {
  const all = Uint32Array.of(2 ** count - 1);
  return { candidates: () => all };
}

/** Longest text of a value in a trace. */
const MAX_TRACED = 200;

function putTexts(puts: readonly Value[], e: Evaluation): Readonly<Record<string, string | null>> {
  const [key, value] = puts;
  // The usual case first; Object.fromEntries defines keys such as __proto__ as what they are.
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

/** The beginning of a text: a copy, as a slice would keep the whole text for as long as the trace is remembered. */
function cut(text: string): string {
  if (text.length <= MAX_TRACED) return text;
  return Buffer.from(text.slice(0, MAX_TRACED), 'utf16le').toString('utf16le');
}
