import { LRUCache } from 'lru-cache';
import type { RE2JS } from 're2js';
import { PatternError, toRe2 } from '../../model/regex/javaSyntax.ts';
import { compileRe2 } from '../../model/regex/wholeMatch.ts';
import { type Evaluation, EvaluationError } from '../evaluation.ts';
import { CompileError } from '../language/source.ts';
import { MeteredText } from './meteredText.ts';

/** Maximum length of a pattern in UTF-16 units. */
const MAX_LENGTH = 4096;

/**
 * Maximum number of instructions of a compiled pattern with its look-aheads: matching follows all of them for each
 * character.
 */
const MAX_INSTRUCTIONS = 12_000;

const WORK_A_STEP = 512;
/** Less work is done without reading the clock; less than the second value without counting reads. */
const QUICK_WORK = 4096;
const SMALL_WORK = 65_536;

/**
 * A Java regular expression on RE2: linear in the size of the text for every pattern
 * (docs/decisions/0003-regular-expressions.md).
 */
export class JavaPattern {
  readonly #re2: RE2JS;
  readonly #lookAheads: readonly { readonly re2: RE2JS; readonly isPositive: boolean }[];
  /** Number of instructions of the pattern and its look-aheads: the cost of matching per character, and its memory. */
  readonly size: number;
  /** Cost of compilation in instructions: classes with many ranges count several. */
  readonly cost: number;

  /**
   * @param allowsLookAheads at the start of the pattern; only `matches` works with them
   * @throws CompileError for a pattern that is wrong or cannot be translated
   */
  constructor(pattern: string, allowsLookAheads = false) {
    try {
      const { pattern: re2, lookAheads, size } = toRe2(pattern, allowsLookAheads);
      this.#re2 = compileRe2(re2);
      this.#lookAheads = lookAheads.map((ahead) => ({ re2: compileRe2(ahead.pattern), isPositive: ahead.isPositive }));
      this.size = this.#lookAheads.reduce((sum, { re2: ahead }) => sum + ahead.programSize(), this.#re2.programSize());
      this.cost = Math.max(size, this.size);
    } catch (error) {
      if (error instanceof PatternError) throw new CompileError(`regular expression: ${error.message}`, error.offset);
      throw error;
    }
    if (this.size > MAX_INSTRUCTIONS) throw new CompileError('regular expression: too large when it is compiled', 0);
  }

  /** `String.matches`: the whole text. */
  matches(text: string, e: Evaluation): boolean {
    const work = text.length * this.size;
    e.step(1);
    if (work > SMALL_WORK) return this.#matchesAll(new MeteredText(text, this.size, e) as unknown as string);
    e.step(Math.trunc(work / WORK_A_STEP));
    const isMatch = this.#matchesAll(text);
    if (work > QUICK_WORK) e.checkTime();
    return isMatch;
  }

  #matchesAll(text: string): boolean {
    for (const { re2, isPositive } of this.#lookAheads) if (re2.matches(text) !== isPositive) return false;
    return this.#re2.matches(text);
  }

  /** Returns what the named groups match in a text that matches as a whole; null if the text does not match. */
  namedGroups(text: string, e: Evaluation): ReadonlyMap<string, string> | null {
    e.step(1 + Math.trunc((text.length * this.size) / WORK_A_STEP));
    const matcher = this.#re2.matcher(text);
    const isMatch = matcher.matches();
    e.checkTime();
    if (!isMatch) return null;
    const groups = Object.keys(this.#re2.namedGroups()).flatMap((name) => {
      const value = matcher.group(name);
      return value == null ? [] : [[name, value] as const];
    });
    return new Map(groups);
  }

  /** Positions of matches from left to right; an empty match advances by one unit. */
  #find(text: string, e: Evaluation, most: number): Match[] {
    if (this.#lookAheads.length > 0) {
      throw new EvaluationError('a pattern with a look-ahead can only be matched against a whole text');
    }
    // In the worst case the rest of the text is read again for each match.
    const work = text.length * text.length * this.size;
    e.step(1);
    if (work <= SMALL_WORK) e.step(Math.trunc(work / WORK_A_STEP));
    const matcher = this.#re2.matcher(
      work <= SMALL_WORK ? text : (new MeteredText(text, this.size, e) as unknown as string),
    );
    const matches: Match[] = [];
    while (matches.length < most && matcher.find()) {
      const count = matcher.groupCount();
      e.step(1 + (count >> 3));
      e.reserveElements(matches.length + 1, 1 + count);
      const groups: (string | null)[] = [];
      for (let group = 1; group <= count; group += 1) {
        const start = matcher.start(group) ?? -1;
        groups.push(start < 0 ? null : text.slice(start, matcher.end(group) ?? start));
      }
      matches.push({ start: matcher.start(), end: matcher.end(), groups });
    }
    if (work > QUICK_WORK) e.checkTime();
    return matches;
  }

  /** `String.replaceAll` or `replaceFirst`; `$1` and `\` in the replacement as in Java. */
  replace(text: string, replacement: string, isGlobal: boolean, e: Evaluation): string {
    const template = parseReplacement(replacement, e);
    const parts: string[] = [];
    let length = 0;
    let last = 0;
    const push = (part: string): void => {
      length += part.length;
      e.reserveText(length, part.length);
      parts.push(part);
    };
    for (const match of this.#find(text, e, isGlobal ? Number.POSITIVE_INFINITY : 1)) {
      push(text.slice(last, match.start));
      for (const part of template) push(typeof part === 'string' ? part : groupText(match, text, part));
      last = match.end;
    }
    push(text.slice(last));
    return parts.join('');
  }

  /** `String.split` with its limit: 0 drops trailing empty parts, a negative one keeps all. */
  split(text: string, limit: number, e: Evaluation): string[] {
    const parts: string[] = [];
    let last = 0;
    for (const { start, end } of this.#find(text, e, Number.POSITIVE_INFINITY)) {
      if (limit > 0 && parts.length === limit - 1) break;
      // An empty match at the start never creates an empty first part.
      if (end === 0) continue;
      if (start === text.length && end === start) continue;
      parts.push(text.slice(last, start));
      last = end;
    }
    if (last === 0 && parts.length === 0) return [text];
    parts.push(text.slice(last));
    if (limit === 0) while (parts.length > 0 && parts.at(-1) === '') parts.pop();
    e.reserveElements(parts.length, parts.length);
    return parts;
  }
}

interface Match {
  readonly start: number;
  readonly end: number;
  readonly groups: readonly (string | null)[];
}

function groupText(match: Match, text: string, group: number): string {
  if (group === 0) return text.slice(match.start, match.end);
  if (group > match.groups.length) throw new EvaluationError(`the pattern has no group ${group}`);
  return match.groups[group - 1] ?? '';
}

function parseReplacement(replacement: string, e: Evaluation): (string | number)[] {
  if (!/[\\$]/.test(replacement)) return [replacement];
  e.text(16 * replacement.length);
  const parts: (string | number)[] = [];
  for (const [part, escaped, group] of replacement.matchAll(/\\(.)?|\$([0-9])?|[^\\$]+/gs)) {
    if (part === '\\') throw new EvaluationError('the replacement ends with \\');
    if (part === '$') {
      throw new EvaluationError('$ in a replacement needs a group number; write \\\\$ for the character');
    }
    e.reserveElements(parts.length + 1, 1);
    parts.push(group === undefined ? (escaped ?? part) : Number(group));
  }
  return parts;
}

/** Patterns that rules have as literals, by their text: compiled with the rule. */
const literals = new LRUCache<string, JavaPattern>({
  max: 4000,
  maxSize: 1_000_000,
  sizeCalculation: ({ size }) => size,
});
/** Computed patterns of rules, by text: they repeat with every request. */
const patterns = new LRUCache<string, JavaPattern>({ max: 500, maxSize: 100_000, sizeCalculation: ({ size }) => size });

const STEPS_A_PATTERN = 200;

/** Caches the pattern of a literal: requests need not compile it. */
export function keepLiteral(text: string, pattern: JavaPattern): void {
  literals.set(text, pattern);
}

/**
 * Returns the compiled pattern of a text. A computed pattern always counts as a new one: a request's budget must not
 * depend on other requests.
 * @throws EvaluationError for an invalid or unsupported pattern
 */
export function javaPattern(text: string, e: Evaluation): JavaPattern {
  if (text.length > MAX_LENGTH) throw new EvaluationError(`regular expression longer than ${MAX_LENGTH} characters`);
  const literal = literals.get(text);
  if (literal !== undefined) return literal;
  e.step(STEPS_A_PATTERN + text.length);
  const pattern = patterns.get(text);
  if (pattern !== undefined) return pattern;
  try {
    const pattern = new JavaPattern(text, true);
    e.checkTime();
    patterns.set(text, pattern);
    return pattern;
  } catch (error) {
    // Accounts for the time of an invalid pattern.
    e.checkTime();
    if (error instanceof CompileError) throw new EvaluationError(error.message);
    throw error;
  }
}
