import type { CompiledRule } from '../compile/compiledRule.ts';
import type { DecisionTrace, RuleTrace } from '../decision.ts';
import { storedTrace } from '../storedTrace.ts';

/** Traces that are remembered together: about two megabytes, beside their texts. */
const MAX_TRACES = 10_000;
/** Characters of their texts together. */
const MAX_CHARACTERS = 1_000_000;

/** No later rule was asked. */
const STOPPED = Symbol('stopped');

/** What one more rule did. */
type Step = RuleTrace | typeof STOPPED;

/**
 * A trace as far as it is known: what all rules did up to one that did something else than not to match. Requests that
 * the rules treat alike go from node to node the same way, and come to the same trace.
 */
export class TraceNode implements DecisionTrace {
  readonly #memory: TraceMemory;
  readonly #before: TraceNode | null;
  readonly #number: number;
  readonly #step: Step;
  #next: Map<Step, TraceNode> | null = null;
  #stored: string | null = null;

  /** @param before null for the trace of requests that no rule matches */
  constructor(memory: TraceMemory, before: TraceNode | null, number: number, step: Step) {
    this.#memory = memory;
    this.#before = before;
    this.#number = number;
    this.#step = step;
  }

  /** The trace in which this rule did that. @param step one of the memory's entries */
  with(number: number, step: Step): TraceNode {
    this.#next ??= new Map();
    const known = this.#next.get(step);
    if (known !== undefined) return known;
    const next = new TraceNode(this.#memory, this, number, step);
    this.#next.set(step, next);
    this.#memory.count(1, 0);
    return next;
  }

  /** The trace in which no rule after this one was asked. */
  stoppedAfter(number: number): TraceNode {
    return this.with(number, STOPPED);
  }

  /** Made each time, as it is rarely requested and as long as the rules. */
  get rules(): readonly RuleTrace[] {
    const rules = this.#memory.notMatched.slice();
    for (let node: TraceNode = this; node.#before !== null; node = node.#before) {
      if (node.#step === STOPPED) this.#memory.skipAfter(node.#number, rules);
      else rules[node.#number] = node.#step;
    }
    return rules;
  }

  get stored(): string | null {
    if (this.#memory.notMatched.length === 0) return null;
    if (this.#stored === null) {
      this.#stored = JSON.stringify(storedTrace(this.rules));
      this.#memory.count(0, this.#stored.length);
    }
    return this.#stored;
  }
}

/**
 * Traces of a rule set's requests, used again: most requests have one of a few, and a trace of its own for each would have
 * a text of its own in the history.
 */
export class TraceMemory {
  readonly #rules: readonly CompiledRule[];
  #traces = 0;
  #characters = 0;
  #start: TraceNode;
  /** The last entry of each rule that fired, failed or denied. */
  readonly #entries: (RuleTrace | undefined)[] = [];
  /** Entries of a request that no rule matches. */
  readonly notMatched: readonly RuleTrace[];

  constructor(rules: readonly CompiledRule[]) {
    this.#rules = rules;
    this.notMatched = rules.map((rule) => rule.notMatched);
    this.#start = new TraceNode(this, null, -1, STOPPED);
  }

  /** The trace of a request that no rule has matched yet. */
  get start(): TraceNode {
    return this.#start;
  }

  /** Counts what is remembered from now on; all is forgotten when it is too much. */
  count(traces: number, characters: number): void {
    this.#traces += traces;
    this.#characters += characters;
    if (this.#traces < MAX_TRACES && this.#characters < MAX_CHARACTERS) return;
    this.#traces = 0;
    this.#characters = 0;
    this.#start = new TraceNode(this, null, -1, STOPPED);
  }

  /** A rule's entry: the same object as last time where nothing differs. */
  entry(number: number, outcome: RuleTrace['outcome'], put?: RuleTrace['put'], error?: string): RuleTrace {
    const last = this.#entries[number];
    if (last !== undefined && last.outcome === outcome && last.error === error && areEqual(last.put, put)) return last;
    const { rule, origin, priority } = this.notMatched[number] as RuleTrace;
    const entry: RuleTrace = {
      rule,
      origin,
      priority,
      outcome,
      ...(put === undefined ? {} : { put }),
      ...(error === undefined ? {} : { error }),
    };
    this.#entries[number] = entry;
    this.count(0, lengthOf(put) + (error?.length ?? 0));
    return entry;
  }

  /** Notes in a trace that later rules were not asked. */
  skipAfter(number: number, trace: RuleTrace[]): void {
    for (let later = number + 1; later < this.#rules.length; later += 1) {
      const rule = this.#rules[later];
      if (rule !== undefined) trace[later] = rule.skipped;
    }
  }
}

/** Characters of what a rule put. */
function lengthOf(put: RuleTrace['put']): number {
  return Object.entries(put ?? {}).reduce((sum, [name, value]) => sum + name.length + (value?.length ?? 0), 0);
}

/** Whether both hold the same texts, in the same order. */
function areEqual(a: RuleTrace['put'], b: RuleTrace['put']): boolean {
  if (a === undefined || b === undefined) return a === b;
  const names = Object.keys(b);
  const known = Object.keys(a);
  return known.length === names.length && names.every((name, at) => known[at] === name && a[name] === b[name]);
}
