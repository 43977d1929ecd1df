import { defaultRuleLimits } from './limits.ts';
import type { QueryObject, RequestObject, UserObject } from './requestObjects.ts';
import type { RuleLimits } from './ruleCompiler.ts';
import type { JavaMap } from './values/collections.ts';
import type { Mutable, Value } from './values/value.ts';

/**
 * Failure of a rule at evaluation. Not an `Error`: rules may fail for every request, and a stack trace of the gateway's
 * own frames costs more than the whole decision and is of no use to the rule's author.
 */
export class EvaluationError {
  readonly message: string;
  /** Offset in the expression's text; null: the evaluation's current position. */
  readonly offset: number | null;

  constructor(message: string, offset: number | null = null) {
    this.message = message;
    this.offset = offset;
  }
}

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

/** Steps are counted in units, so that small work costs a fraction. A unit is one character that native code reads. */
const UNITS_A_STEP = 1024;
/** Units of one comparison of a sort, in addition to the characters that it reads. */
const UNITS_A_COMPARISON = 32;
const UNITS_AN_ELEMENT = 128;
/** Binary logarithm of the characters that are written for one unit: copying is several times as fast as searching. */
const WRITTEN_A_UNIT_LOG2 = 2;

/** The clock is read after this many units: reading it for every step would cost more than the step. */
const UNITS_A_CLOCK_READING = 256 * UNITS_A_STEP;

/** Texts up to this length are compared and searched in less time than counting their characters takes. */
export const SHORT_TEXT = 64;

/** Sources of time and random numbers for rules; injected for tests. */
export interface Sources {
  /** Milliseconds since 1970. */
  now(): number;
  /** In [0, 1). */
  random(): number;
  /** Milliseconds of processor time that the thread has used; never goes back. */
  processorTime(): number;
}

export const systemSources: Sources = {
  now: () => Date.now(),
  random: () => Math.random(),
  processorTime: () => {
    const { user, system } = process.threadCpuUsage();
    return (user + system) / 1000;
  },
};

/**
 * One request's evaluation of all rules: its objects, budgets, and changes to roll back if the current rule fails.
 * Compiled code receives it as its only argument.
 *
 * Work proportional to the size of a value is reported here: `step` and `text` for reads, `reserveText` and
 * `reserveElements` for new values (docs/rules.md#budgets).
 */
export class Evaluation {
  readonly objects: RuleObjects;
  readonly limits: RuleLimits;
  /** Local variables of the current program, by slot. */
  locals: Value[] = [];
  /** Set by `return`: the program ends with `returnValue`. */
  hasReturned = false;
  returnValue: Value = null;
  /** Offset of the current call, for errors of library methods. */
  at = 0;
  /** True while a declarative deny is evaluated: then properties of a body without analysis cannot be read. */
  requireAnalysis = false;
  /**
   * Set if a declarative deny reads a statement that the engine may not run: it denies, regardless of its `whenError`.
   */
  isUnreadable = false;
  /** Set when the decision's time is used up: any further work of a rule fails. */
  isOutOfTime = false;
  #units: number;
  /** The clock is read when fewer units are left. */
  #clockBelow: number;
  /** Processor time at which the decision's time is used up; null until the first reading. */
  #deadline: number | null = null;
  #memory: number;
  /** Incremented for each rule: shows whether a collection was already saved for the current one. */
  #epoch = 1;
  /** Functions that roll back the current rule's changes, in order of the changes. */
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

  /** Counts steps: calls, loop rounds, visited elements. */
  step(count = 1): void {
    this.#units -= count * UNITS_A_STEP;
    if (this.#units < this.#clockBelow) this.#check();
  }

  /** Counts characters read by native code: 1,024 are a step. Call it before the work. */
  text(characters: number): void {
    this.#units -= characters;
    if (this.#units < this.#clockBelow) this.#check();
  }

  comparison(): void {
    this.#units -= UNITS_A_COMPARISON;
    if (this.#units < this.#clockBelow) this.#check();
  }

  /** Checks both budgets now: after work with unknown cost. */
  checkTime(): void {
    this.#clockBelow = Number.POSITIVE_INFINITY;
    this.#check();
  }

  /**
   * The first reading of the clock sets the deadline, so that decisions with few steps never read it. Earlier work
   * costs less than a millisecond.
   */
  #check(): void {
    if (this.#units < 0) {
      // Later rules of the request fail immediately too: the budget is the request's.
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

  get stepsLeft(): number {
    return Math.floor(this.#units / UNITS_A_STEP);
  }

  /** Number of characters and elements created so far. */
  get memoryUsed(): number {
    return this.limits.memory - this.#memory;
  }

  /**
   * Checks the length of a string before it is created, and counts it.
   * @param growth number of new characters, if the string extends one that was counted
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
   * Checks the size of a list, set, map or array before it grows, and counts the growth.
   * @param weight memory of an element, in elements of a list
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

  /** Saves a collection's content before its first change by a rule. Call it before each change. */
  willChange(collection: Mutable): void {
    if (collection.savedEpoch === this.#epoch) return;
    collection.savedEpoch = this.#epoch;
    this.text(collection.size * UNITS_AN_ELEMENT);
    this.#undo.push(collection.snapshot());
  }

  /** Like `willChange` for a change with a known inverse: cheaper than a copy of the collection. */
  willChangeOnly(collection: Mutable, undo: () => void): void {
    if (collection.savedEpoch !== this.#epoch) this.#undo.push(undo);
  }

  commit(): void {
    // Most rules change nothing; setting the length of an empty array costs more than reading it.
    if (this.#undo.length > 0) this.#undo.length = 0;
    this.#epoch += 1;
  }

  /** Rolls back the changes of the current rule. */
  undo(): void {
    for (let index = this.#undo.length - 1; index >= 0; index -= 1) this.#undo[index]?.();
    this.#undo.length = 0;
    this.#epoch += 1;
  }
}
