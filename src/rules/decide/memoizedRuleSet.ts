import { LRUCache } from 'lru-cache';
import type { RuleDecision, RuleRequest } from '../decision.ts';
import type { Decider } from '../tenancy.ts';
import { isList, listReader, textReader } from './conditionIndex.ts';
import { CompiledRuleSet } from './ruleSet.ts';

/** Longer values are not cached: they rarely repeat. */
const MAX_VALUE_LENGTH = 256;
/** Maximum memory of cached decisions, in bytes. */
const MAX_BYTES = 8_000_000;
const BYTES_A_DECISION = 400;
const MAX_SETS = 1_000;

/** Reads one value of a request as text; null if missing. */
type Read = (request: RuleRequest) => string | null | undefined;

interface Question {
  readonly id: number;
  readonly candidates: Uint32Array;
  /** Values that these rules read; null if unknown. */
  readonly reads: readonly Read[] | null;
}

/**
 * Caches decisions of submissions: they follow from the evaluated rules and the values that these read
 * (docs/decisions/0012-memory-of-decisions.md).
 */
export class MemoizedRuleSet extends CompiledRuleSet {
  /** By hash of the candidates' bits; on a collision the newer set replaces the older. */
  readonly #questions = new LRUCache<number, Question>({ max: MAX_SETS });
  #lastId = 0;
  readonly #decisions = new LRUCache<string, RuleDecision>({
    maxSize: MAX_BYTES,
    // The trace is stored as objects and as text.
    sizeCalculation: ({ trace }, key) => BYTES_A_DECISION + 2 * (key.length + 2 * (trace.stored?.length ?? 0)),
  });

  override decide(request: RuleRequest): RuleDecision {
    // Other requests are rare, and deny rules are skipped for them.
    if (!request.isSubmission) return super.decide(request);
    const candidates = this.index.candidates(request);
    const decider = this.deciderOf(request);
    const key = keyOf(request, this.#questionOf(candidates), decider);
    const remembered = key === null ? undefined : this.#decisions.get(key);
    if (remembered !== undefined) return remembered;
    const { decision, hasFailed } = this.ask(request, candidates, decider);
    // Failures are reported each time.
    if (key !== null && !hasFailed) this.#decisions.set(key, decision);
    return decision;
  }

  #questionOf(candidates: Uint32Array): Question {
    const number = numberOf(candidates);
    const before = this.#questions.get(number);
    if (before !== undefined && areEqual(before.candidates, candidates)) return before;
    const sources = this.readsOf(candidates);
    this.#lastId += 1;
    const question = { id: this.#lastId, candidates: candidates.slice(), reads: sources?.map(readerOf) ?? null };
    this.#questions.set(number, question);
    return question;
  }
}

/** Cache key of rules and values; null if the decision cannot be cached. */
function keyOf(request: RuleRequest, { id, reads }: Question, { tenant, conflict }: Decider): string | null {
  if (reads === null) return null;
  // Names of tenants have neither slash nor comma.
  let key = `${id}/${tenant ?? conflict.join()}`;
  for (const read of reads) {
    const value = read(request) ?? null;
    if (value === null) key += '/';
    else if (value.length > MAX_VALUE_LENGTH) return null;
    else key += `/${value.length}:${value}`;
  }
  return key;
}

function numberOf(bits: Uint32Array): number {
  let number = 0;
  for (let word = 0; word < bits.length; word += 1) number = (Math.imul(number, 31) + (bits[word] ?? 0)) | 0;
  return number;
}

function areEqual(a: Uint32Array, b: Uint32Array): boolean {
  for (let word = 0; word < a.length; word += 1) if (a[word] !== b[word]) return false;
  return true;
}

function readerOf(source: string): Read {
  // A user has more groups than other lists have names; equal ones are known by their digest.
  if (source === 'group') return ({ user }) => user?.membership?.digest;
  if (!isList(source)) return textReader(source);
  const read = listReader(source);
  return (request) => {
    const values = read(request);
    return values === undefined ? null : JSON.stringify(values);
  };
}
