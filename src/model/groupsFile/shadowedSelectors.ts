import type { Problem } from '../errors.ts';
import { PatternError } from '../regex/javaSyntax.ts';
import { compileWholeMatch } from '../regex/wholeMatch.ts';
import { type FileSelector, resourceEstimates } from './groupFields.ts';

/** Most texts that an expression may stand for to be taken as a list of them. */
const MAX_TEXTS = 64;
/** Maximum number of comparisons of selectors, and of matches of expressions, per file; the rest is not checked. */
const MAX_COMPARISONS = 500_000;
const MAX_MATCHES = 20_000;

interface PlacedSelector {
  readonly at: string;
  readonly selector: FileSelector;
}

/**
 * Warns of unreachable selectors, because an earlier one matches all of their queries. Only certain cases: an equal
 * expression, one that matches any text, or one that matches each of the few texts of the later one.
 * @param selectors whose expressions compile, in order of evaluation
 */
export function shadowWarnings(selectors: readonly PlacedSelector[]): readonly Problem[] {
  const warnings: Problem[] = [];
  const expressions = new Expressions();
  const before: PlacedSelector[] = [];
  let comparisons = 0;
  for (const placed of selectors) {
    if (hasEmptyRange(placed.selector)) {
      const message = 'has a range whose min is above its max: no query matches';
      warnings.push({ field: `${placed.at}.selectorResourceEstimate`, message });
      continue;
    }
    const shadow = before.find((other) => {
      comparisons += 1;
      return comparisons <= MAX_COMPARISONS && covers(other.selector, placed.selector, expressions);
    });
    if (shadow === undefined) before.push(placed);
    else warnings.push({ field: placed.at, message: `is never reached: ${shadow.at} takes all that it would match` });
  }
  return warnings;
}

/** True if `first` matches every query that `later` matches. */
function covers(first: FileSelector, later: FileSelector, expressions: Expressions): boolean {
  return (
    // Every query has a user, and an original one.
    expressions.cover(first.user, later.user, true) &&
    expressions.cover(first.originalUser, later.originalUser, true) &&
    expressions.cover(first.authenticatedUser, later.authenticatedUser, false) &&
    expressions.cover(first.source, later.source, false) &&
    expressions.cover(first.userGroup, later.userGroup, false) &&
    (first.queryType == null || first.queryType.toUpperCase() === later.queryType?.toUpperCase()) &&
    (first.clientTags ?? []).every((tag) => (later.clientTags ?? []).includes(tag)) &&
    resourceEstimates.every(([name, read]) => {
      const [wide, narrow] = [rangeOf(first, name, read), rangeOf(later, name, read)];
      if (wide === null) return true;
      return narrow !== null && wide.min <= narrow.min && wide.max >= narrow.max;
    })
  );
}

/** A range of an estimate; null without a condition. */
function rangeOf(
  { selectorResourceEstimate }: FileSelector,
  name: (typeof resourceEstimates)[number][0],
  read: (text: string) => number | null,
): { readonly min: number; readonly max: number } | null {
  const range = selectorResourceEstimate?.[name];
  if (range == null) return null;
  const end = (text: string | null | undefined, open: number) => (text == null ? open : (read(text) ?? open));
  return { min: end(range.min, Number.NEGATIVE_INFINITY), max: end(range.max, Number.POSITIVE_INFINITY) };
}

function hasEmptyRange(selector: FileSelector): boolean {
  return resourceEstimates.some(([name, read]) => {
    const range = rangeOf(selector, name, read);
    return range !== null && range.min > range.max;
  });
}

class Expressions {
  readonly #compiled = new Map<
    string,
    { readonly match: ReturnType<typeof compiled>; readonly texts: readonly string[] | 'any' | null }
  >();
  #matches = 0;

  /**
   * True if `first` holds whenever `later` does; null and undefined: no condition.
   * @param isPresent true if every query has the value
   */
  cover(first: string | null | undefined, later: string | null | undefined, isPresent: boolean): boolean {
    if (first == null || first === later) return true;
    const { match, texts } = this.#of(first);
    if (texts === 'any') return isPresent || later != null;
    if (later == null || match === null) return false;
    const narrow = this.#of(later).texts;
    if (narrow === null || narrow === 'any') return false;
    this.#matches += narrow.length;
    return this.#matches <= MAX_MATCHES && narrow.every((text) => match.matches(text));
  }

  #of(regex: string) {
    const present = this.#compiled.get(regex);
    if (present !== undefined) return present;
    const expression = { match: compiled(regex), texts: textsOf(regex) };
    this.#compiled.set(regex, expression);
    return expression;
  }
}

/** Null if RE2 cannot match it. */
function compiled(regex: string): ReturnType<typeof compileWholeMatch> | null {
  try {
    return compileWholeMatch(regex);
  } catch (error) {
    if (error instanceof PatternError) return null;
    throw error;
  }
}

/** The texts that an expression such as `ann|bob` lists; `any`: any text of one line, as all of these values are. */
function textsOf(regex: string): readonly string[] | 'any' | null {
  if (/^(?:\(\.\*\)|\.\*)$/.test(regex)) return 'any';
  const [, list] = /^(?:\((?:\?:)?)?([\w@ ,:;=/|-]*)\)?$/.exec(regex) ?? [];
  const texts = list?.split('|') ?? [];
  return list !== undefined && texts.length <= MAX_TEXTS ? texts : null;
}
