import type { ProductNames } from '../../model/names.ts';
import type { CompiledRule } from '../compile/compiledRule.ts';
import { isList, listReader, textReader } from '../compile/requestValues.ts';
import type { RuleDecision, RuleRequest } from '../decision.ts';
import { readSources } from './readSources.ts';

/** Reads one value of a request as text; null where it has none. */
type Read = (request: RuleRequest) => string | null | undefined;

/** Longer values are not remembered: they seldom come again. */
const LONGEST_VALUE = 256;
/** What is remembered, at most; all is forgotten beyond: about four megabytes. */
const MAX_PLACES = 20_000;
const MAX_CHARACTERS = 1_000_000;

/** After so many requests it is looked at whether remembering is worth it, which costs about as much as two rules. */
const TRIAL = 1_000;
/** How many of them have to find what was remembered. */
const WORTH = TRIAL / 2;
/** Requests for which nothing is remembered where it was not worth it. */
const PAUSE = 20_000;

/** Where the decision of requests with certain values is remembered. */
class Place {
  /** Null as long as no such request was decided. */
  decision: RuleDecision | null = null;
  #next: Map<string | null, Place> | null = null;

  /** The place of requests that have this as their next value. */
  get(value: string | null): Place | undefined {
    return this.#next?.get(value);
  }

  set(value: string | null, place: Place): void {
    this.#next ??= new Map();
    this.#next.set(value, place);
  }
}

/** Where the decisions of requests begin that the same rules are asked about. */
class RulesPlace extends Place {
  /** What these rules read; null where it cannot be determined. */
  readonly reads: readonly Read[] | null;
  readonly #marked: Uint32Array;
  #asked = 0;
  #found = 0;
  #pause = 0;

  constructor(marked: Uint32Array, reads: readonly Read[] | null) {
    super();
    this.#marked = marked.slice();
    this.reads = reads;
  }

  isOf(marked: Uint32Array): boolean {
    for (let word = 0; word < marked.length; word += 1) if (marked[word] !== this.#marked[word]) return false;
    return true;
  }

  /** Whether the next request is worth looking up. */
  isWorthIt(): boolean {
    if (this.#pause > 0) {
      this.#pause -= 1;
      return false;
    }
    if (this.#asked < TRIAL) return true;
    if (this.#found < WORTH) this.#pause = PAUSE;
    this.#asked = 0;
    this.#found = 0;
    return this.#pause === 0;
  }

  count({ decision }: Place): void {
    this.#asked += 1;
    if (decision !== null) this.#found += 1;
  }
}

/**
 * Decisions that are used again. What the rules decide follows from which rules are asked, and from the values of the
 * request that these read: most requests have values that came before, and asking the rules again costs several times as
 * much as looking their values up.
 */
export class DecisionMemory {
  readonly #rules: readonly CompiledRule[];
  readonly #names: ProductNames;
  /** Places of marked rules, by a number made of their bits. */
  #byRules = new Map<number, RulesPlace[]>();
  #owner: object | null = null;
  #places = 0;
  #characters = 0;

  constructor(rules: readonly CompiledRule[], names: ProductNames) {
    this.#rules = rules;
    this.#names = names;
  }

  /**
   * The place of a request's decision; null where it cannot be remembered.
   * @param marked bits of the rules that are asked, 32 a word
   * @param owner all is forgotten when another one comes
   */
  placeOf(request: RuleRequest, marked: Uint32Array, owner: object): Place | null {
    if (owner !== this.#owner || this.#places > MAX_PLACES || this.#characters > MAX_CHARACTERS) this.#forget(owner);
    const ofRules = this.#placeOfRules(marked);
    if (ofRules.reads === null || !ofRules.isWorthIt()) return null;
    let place: Place = ofRules;
    for (const read of ofRules.reads) {
      const value = read(request) ?? null;
      if (value !== null && value.length > LONGEST_VALUE) return null;
      place = place.get(value) ?? this.#add(place, value);
    }
    ofRules.count(place);
    return place;
  }

  #placeOfRules(marked: Uint32Array): RulesPlace {
    const number = numberOf(marked);
    const alike = this.#byRules.get(number);
    const known = alike?.find((place) => place.isOf(marked));
    if (known !== undefined) return known;
    const place = new RulesPlace(marked, this.#readsOf(marked));
    this.#places += 1 + (marked.length >>> 5);
    if (alike === undefined) this.#byRules.set(number, [place]);
    else alike.push(place);
    return place;
  }

  #add(before: Place, value: string | null): Place {
    const place = new Place();
    this.#places += 1;
    this.#characters += value?.length ?? 0;
    before.set(value, place);
    return place;
  }

  #readsOf(marked: Uint32Array): readonly Read[] | null {
    const found = new Set<string>();
    for (const [number, rule] of this.#rules.entries()) {
      if (((marked[number >>> 5] ?? 0) & (1 << (number & 31))) === 0) continue;
      const sources = readSources(rule, this.#names);
      if (sources === null) return null;
      for (const source of sources) found.add(source);
    }
    return [...found].map(readerOf);
  }

  #forget(owner: object): void {
    this.#byRules = new Map();
    this.#owner = owner;
    this.#places = 0;
    this.#characters = 0;
  }
}

/** Equal for equal bits, and seldom for others. */
function numberOf(marked: Uint32Array): number {
  let number = 0;
  for (let word = 0; word < marked.length; word += 1) number = (Math.imul(number, 31) + (marked[word] ?? 0)) | 0;
  return number;
}

function readerOf(source: string): Read {
  if (!isList(source)) return textReader(source);
  const read = listReader(source);
  return (request) => {
    const values = read(request);
    return values === undefined ? null : JSON.stringify(values);
  };
}
