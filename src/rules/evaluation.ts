import { defaultRuleLimits } from './limits.ts';
import type { QueryObject } from './objects/query.ts';
import type { RequestObject } from './objects/request.ts';
import type { UserObject } from './objects/user.ts';
import type { RuleLimits } from './ruleCompiler.ts';
import type { JavaMap } from './values/collections.ts';
import type { Mutable, Value } from './values/value.ts';

/**
 * A rule failed at evaluation. Not an `Error`: rules may fail for every request, and a stack trace of the gateway's
 * own frames costs more than the whole decision and tells the rule's author nothing.
 */
export class EvaluationError {
  readonly message: string;
  /** Offset in the expression's text; null: the evaluation's current place. */
  readonly offset: number | null;

  constructor(message: string, offset: number | null = null) {
    this.message = message;
    this.offset = offset;
  }
}

/** The objects that rules see, made once a request. */
export interface RuleObjects {
  readonly request: RequestObject;
  readonly state: JavaMap;
  readonly result: JavaMap;
  /** Undefined while request analysis is off. */
  readonly user: UserObject | undefined;
  /** Undefined while request analysis is off. */
  readonly query: QueryObject | undefined;
}

/** An element takes about as much memory as this many characters. */
const CHARACTERS_AN_ELEMENT = 8;

/** Where rules get time and chance from; injected, so that tests choose them. */
export interface Sources {
  /** Milliseconds since 1970. */
  now(): number;
  /** In [0, 1). */
  random(): number;
}

/** The machine's clock and random numbers. */
export const systemSources: Sources = { now: () => Date.now(), random: () => Math.random() };

/**
 * One request's evaluation of all rules: its objects, budgets and what has to be undone when the current rule fails.
 * Compiled code gets it as its only argument.
 */
export class Evaluation {
  readonly objects: RuleObjects;
  readonly limits: RuleLimits;
  /** Local variables of the program that runs now, by slot. */
  locals: Value[] = [];
  /** Set by `return`: the program ends with `returnValue`. */
  hasReturned = false;
  returnValue: Value = null;
  /** Offset of the call that runs now, for errors of library methods. */
  at = 0;
  /** True while a declarative deny is asked: then properties of a body that was not analysed cannot be read. */
  requireAnalysis = false;
  #steps: number;
  #memory: number;
  /** Grows with each rule: tells whether a collection was already saved for the current one. */
  #epoch = 1;
  /** What undoes the current rule's changes, in their order. */
  readonly #undo: (() => void)[] = [];

  readonly sources: Sources;

  constructor(objects: RuleObjects, limits: RuleLimits = defaultRuleLimits, sources: Sources = systemSources) {
    this.objects = objects;
    this.limits = limits;
    this.sources = sources;
    this.#steps = limits.steps;
    this.#memory = limits.memory;
  }

  /** Counts steps: calls, loop rounds, elements looked at. */
  step(count = 1): void {
    this.#steps -= count;
    if (this.#steps < 0) {
      // Later rules of the request fail at once, too: the budget is the request's.
      this.#steps = 0;
      throw new EvaluationError(`the request's budget of ${this.limits.steps} steps is used up`);
    }
  }

  /** Steps left in the request's budget. */
  get stepsLeft(): number {
    return this.#steps;
  }

  /** Characters and elements made so far. */
  get memoryUsed(): number {
    return this.limits.memory - this.#memory;
  }

  /** Checks the length of a string before it is made, and counts it. */
  reserveText(length: number): void {
    if (length > this.limits.stringLength) {
      throw new EvaluationError(
        `a string of ${length} characters is longer than the ${this.limits.stringLength} allowed`,
      );
    }
    this.#reserve(length);
  }

  /** Checks the size of a list, set, map or array before it grows, and counts what it grows by. */
  reserveElements(size: number, growth: number): void {
    if (size > this.limits.elements) {
      throw new EvaluationError(`${size} elements are more than the ${this.limits.elements} allowed`);
    }
    this.#reserve(growth * CHARACTERS_AN_ELEMENT);
  }

  #reserve(units: number): void {
    this.#memory -= units;
    if (this.#memory < 0) {
      this.#memory = 0;
      throw new EvaluationError(`the request's budget of ${this.limits.memory} characters and elements is used up`);
    }
  }

  /** To be called before a collection changes: keeps what it holds, once a rule. */
  willChange(collection: Mutable): void {
    if (collection.savedEpoch === this.#epoch) return;
    collection.savedEpoch = this.#epoch;
    this.#undo.push(collection.snapshot());
  }

  /** Like `willChange` for a change whose undoing is known: cheaper than a copy of the collection. */
  willChangeOnly(collection: Mutable, undo: () => void): void {
    if (collection.savedEpoch !== this.#epoch) this.#undo.push(undo);
  }

  /** The current rule went well: its changes stay. */
  commit(): void {
    // Most rules change nothing; setting the length of an empty array costs more than looking at it.
    if (this.#undo.length > 0) this.#undo.length = 0;
    this.#epoch += 1;
  }

  /** The current rule failed: collections are as they were before it. */
  undo(): void {
    for (let index = this.#undo.length - 1; index >= 0; index -= 1) this.#undo[index]?.();
    this.#undo.length = 0;
    this.#epoch += 1;
  }
}
