import { LRUCache } from 'lru-cache';
import { RE2JS } from 're2js';
import { type Evaluation, EvaluationError } from '../evaluation.ts';
import { CompileError } from '../language/source.ts';
import { type LookAhead, translate } from './javaSyntax.ts';

/** Longest pattern in UTF-16 units. */
const MAX_LENGTH = 4096;

/** Characters of a text that count as one step. */
const CHARACTERS_A_STEP = 128;

/**
 * A Java regular expression on RE2, whose time grows linearly with the text whatever the pattern
 * (docs/decisions/regular-expressions.md).
 */
export class JavaPattern {
  readonly #re2: RE2JS;
  readonly #lookAheads: readonly { readonly re2: RE2JS; readonly isPositive: boolean }[];

  /** @throws CompileError for a pattern that is wrong or cannot be translated */
  constructor(pattern: string) {
    if (pattern.length > MAX_LENGTH)
      throw new CompileError(`regular expression longer than ${MAX_LENGTH} characters`, 0);
    const { pattern: re2, lookAheads } = translate(pattern);
    this.#re2 = compile(re2);
    this.#lookAheads = lookAheads.map((ahead: LookAhead) => ({
      re2: compile(ahead.pattern),
      isPositive: ahead.isPositive,
    }));
  }

  /** `String.matches`: the whole text. */
  matches(text: string, e: Evaluation): boolean {
    e.step(1 + Math.trunc(text.length / CHARACTERS_A_STEP) * (1 + this.#lookAheads.length));
    for (const { re2, isPositive } of this.#lookAheads) if (re2.matches(text) !== isPositive) return false;
    return this.#re2.matches(text);
  }

  /** Places of matches from left to right; an empty match moves on by one unit. */
  #find(text: string, e: Evaluation, most: number): Match[] {
    if (this.#lookAheads.length > 0) {
      throw new EvaluationError('a pattern with a look-ahead can only be matched against a whole text');
    }
    e.step(1 + Math.trunc(text.length / CHARACTERS_A_STEP));
    const matcher = this.#re2.matcher(text);
    const found: Match[] = [];
    while (found.length < most && matcher.find()) {
      e.step();
      const groups: (string | null)[] = [];
      for (let group = 1; group <= matcher.groupCount(); group += 1) groups.push(matcher.group(group) ?? null);
      found.push({ start: matcher.start(), end: matcher.end(), groups });
    }
    return found;
  }

  /** `String.replaceAll` or `replaceFirst`; `$1` and `\` in the replacement as in Java. */
  replace(text: string, replacement: string, isGlobal: boolean, e: Evaluation): string {
    const template = parseReplacement(replacement);
    const parts: string[] = [];
    let length = 0;
    let last = 0;
    const push = (part: string): void => {
      length += part.length;
      if (length > e.limits.stringLength) e.reserveText(length);
      parts.push(part);
    };
    for (const match of this.#find(text, e, isGlobal ? Number.POSITIVE_INFINITY : 1)) {
      push(text.slice(last, match.start));
      for (const part of template) push(typeof part === 'string' ? part : groupText(match, text, part));
      last = match.end;
    }
    push(text.slice(last));
    e.reserveText(length);
    return parts.join('');
  }

  /** `String.split` with its limit: 0 drops trailing empty parts, a negative one keeps all. */
  split(text: string, limit: number, e: Evaluation): string[] {
    const parts: string[] = [];
    let last = 0;
    for (const { start, end } of this.#find(text, e, Number.POSITIVE_INFINITY)) {
      if (limit > 0 && parts.length === limit - 1) break;
      // A match of nothing at the start never gives an empty first part.
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

function parseReplacement(replacement: string): (string | number)[] {
  const parts: (string | number)[] = [];
  for (let index = 0; index < replacement.length; index += 1) {
    const char = replacement.charAt(index);
    if (char === '\\') {
      index += 1;
      if (index >= replacement.length) throw new EvaluationError('the replacement ends with \\');
      parts.push(replacement.charAt(index));
    } else if (char === '$') {
      index += 1;
      const digit = replacement.charAt(index);
      if (!/[0-9]/.test(digit))
        throw new EvaluationError('$ in a replacement needs a group number; write \\\\$ for the character');
      parts.push(Number(digit));
    } else {
      parts.push(char);
    }
  }
  return parts;
}

function compile(pattern: string): RE2JS {
  try {
    return RE2JS.compile(pattern);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new CompileError(
      `regular expression: ${reason.replace(/^error parsing regexp: /, '').replace(/: `.*$/s, '')}`,
      0,
    );
  }
}

/** Patterns that rules have as literals, by their text: compiled with the rule. */
const literals = new LRUCache<string, JavaPattern>({ max: 4000 });
/** Patterns that rules put together, by their text: they repeat them with every request. */
const patterns = new LRUCache<string, JavaPattern>({ max: 2000 });

/** Steps that a pattern counts as that is no literal, beside its length. */
const STEPS_A_PATTERN = 200;

/** Keeps the pattern of a literal: using it costs a request no compilation. */
export function keepLiteral(text: string, pattern: JavaPattern): void {
  literals.set(text, pattern);
}

/**
 * The compiled pattern of a text. One that is no literal always counts as a new one: a request's budget must not depend
 * on what other requests asked before.
 * @throws EvaluationError for a pattern that is wrong or cannot be translated
 */
export function javaPattern(text: string, e: Evaluation): JavaPattern {
  const literal = literals.get(text);
  if (literal !== undefined) return literal;
  e.step(STEPS_A_PATTERN + text.length);
  const known = patterns.get(text);
  if (known !== undefined) return known;
  try {
    const made = new JavaPattern(text);
    patterns.set(text, made);
    return made;
  } catch (error) {
    if (error instanceof CompileError) throw new EvaluationError(error.message);
    throw error;
  }
}
