import { defaultRuleLimits } from './limits.ts';
import type { QueryObject } from './objects/query.ts';
import type { RequestObject } from './objects/request.ts';
import type { UserObject } from './objects/user.ts';
import type { RuleLimits } from './ruleCompiler.ts';
import type { JavaMap } from './values/collections.ts';
import type { Mutable, Value } from './values/value.ts';

/**
 * A rule failed at evaluation. Not an `Error`: rules may fail for every request, and a stack trace of the gateway's
 * own frames costs more than the whole decision and is of no use to the rule's author.
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
const CHARACTERS_AN_ELEMENT = 16;

/** Steps are counted in units, so that small work costs a part of one. A unit is one character that native code reads. */
const UNITS_A_STEP = 1024;
/** Units that one comparison of a sort costs, beside the characters that it reads. */
const UNITS_A_COMPARISON = 32;
/** Units that making one element costs. */
const UNITS_AN_ELEMENT = 128;
/** Binary logarithm of the characters that are written for one unit: copying is several times as fast as searching. */
const WRITTEN_A_UNIT_LOG2 = 2;

/** The clock is read each time this many units are used: reading it for every step would cost more than the step. */
const UNITS_A_CLOCK_READING = 256 * UNITS_A_STEP;

/** Texts up to this length are compared and searched in less time than counting their characters takes. */
export const SHORT_TEXT = 64;

/** Where rules get time and chance from; injected, so that tests choose them. */
export interface Sources {
  /** Milliseconds since 1970. */
  now(): number;
  /** In [0, 1). */
  random(): number;
  /** Milliseconds of processor time that the thread has used; never goes back. */
  processorTime(): number;
}

/** The machine's clocks and random numbers. */
export const systemSources: Sources = {
  now: () => Date.now(),
  random: () => Math.random(),
  processorTime: () => {
    const { user, system } = process.threadCpuUsage();
    return (user + system) / 1000;
  },
};

/**
 * One request's evaluation of all rules: its objects, budgets and what is rolled back when the current rule fails.
 * Compiled code gets it as its only argument. Whatever does work in proportion to a value reports it here: `step` and
 * `text` for what is read, `reserveText` and `reserveElements` for what is made (docs/rules.md#budgets).
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
  /** Set when a declarative deny reads a statement that the engine may not run: it denies, whatever its `onError` is. */
  isUnreadable = false;
  /** Set when the decision's time is used up: no rule that does any work succeeds after that. */
  isOutOfTime = false;
  #units: number;
  /** The clock is read when fewer units than this are left. */
  #clockBelow: number;
  /** Processor time at which the decision's time is used up; null until the clock is read first. */
  #deadline: number | null = null;
  #memory: number;
  /** Grows with each rule: shows whether a collection was already saved for the current one. */
  #epoch = 1;
  /** What undoes the current rule's changes, in their order. */
  readonly #undo: (() => void)[] = [];

  readonly sources: Sources;

  constructor(objects: RuleObjects, limits: RuleLimits = defaultRuleLimits, sources: Sources = systemSources) {
    this.objects = objects;
    this.limits = limits;
    this.sources = sources;
    this.#units = limits.steps * UNITS_A_STEP;
    this.#clockBelow = this.#units - UNITS_A_CLOCK_READING;
    this.#memory = limits.memory;
  }

  /** Counts steps: calls, loop rounds, elements looked at. */
  step(count = 1): void {
    this.#units -= count * UNITS_A_STEP;
    if (this.#units < this.#clockBelow) this.#check();
  }

  /** Counts characters that are read by fast code: 1,024 are a step. To be called before the work is done. */
  text(characters: number): void {
    this.#units -= characters;
    if (this.#units < this.#clockBelow) this.#check();
  }

  /** Counts one comparison of a sort. */
  comparison(): void {
    this.#units -= UNITS_A_COMPARISON;
    if (this.#units < this.#clockBelow) this.#check();
  }

  /** Checks both budgets now: after work whose cost is not known before. */
  checkTime(): void {
    this.#clockBelow = Number.POSITIVE_INFINITY;
    this.#check();
  }

  /**
   * The first reading of the clock sets the deadline, so that decisions of few steps never read it. What is done before
   * costs less than a millisecond.
   */
  #check(): void {
    if (this.#units < 0) {
      // Later rules of the request fail at once, too: the budget is the request's.
      this.#units = 0;
      this.#clockBelow = 0;
      throw new EvaluationError(`the request's budget of ${this.limits.steps} steps is used up`);
    }
    const now = this.sources.processorTime();
    this.#deadline ??= now + this.limits.time;
    if (now >= this.#deadline) {
      this.isOutOfTime = true;
      this.#clockBelow = Number.POSITIVE_INFINITY;
      throw new EvaluationError(
        `the decision's time of ${this.limits.time} ms is used up (routingRules.decisionTimeout)`,
      );
    }
    this.#clockBelow = Math.max(0, this.#units - UNITS_A_CLOCK_READING);
  }

  /** Steps left in the request's budget. */
  get stepsLeft(): number {
    return Math.floor(this.#units / UNITS_A_STEP);
  }

  /** Characters and elements made so far. */
  get memoryUsed(): number {
    return this.limits.memory - this.#memory;
  }

  /**
   * Checks the length of a string before it is made, and counts it.
   * @param growth characters that are new, where the string extends one that was counted
   */
  reserveText(length: number, growth = length): void {
    if (length > this.limits.stringLength) {
      throw new EvaluationError(
        `a string of ${length} characters is longer than the ${this.limits.stringLength} allowed`,
      );
    }
    this.#reserve(growth);
    this.text(growth >> WRITTEN_A_UNIT_LOG2);
  }

  /**
   * Checks the size of a list, set, map or array before it grows, and counts what it grows by.
   * @param weight how many elements of a list take as much memory as one of these
   */
  reserveElements(size: number, growth: number, weight = 1): void {
    if (size > this.limits.elements) {
      throw new EvaluationError(`${size} elements are more than the ${this.limits.elements} allowed`);
    }
    this.#reserve(growth * weight * CHARACTERS_AN_ELEMENT);
    this.text(growth * weight * UNITS_AN_ELEMENT);
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
    this.text(collection.size * UNITS_AN_ELEMENT);
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
