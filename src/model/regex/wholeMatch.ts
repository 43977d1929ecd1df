import { RE2JS } from 're2js';
import { PatternError, toRe2 } from './javaSyntax.ts';

/** Bytes that the states of a pattern's automaton may take; beyond, it is made again or matched without. */
const AUTOMATON_BYTES = 131_072;

/**
 * Compiles a pattern in RE2's syntax.
 * @throws PatternError
 */
export function compileRe2(pattern: string): RE2JS {
  try {
    const re2 = RE2JS.compile(pattern);
    // The automaton of an innocent pattern can have millions of states; re2js keeps up to 8 MB of them for each pattern.
    const { dfa } = re2.re2() as unknown as { readonly dfa: { stateBudget: number; memBudget: number } };
    dfa.stateBudget = AUTOMATON_BYTES;
    dfa.memBudget = AUTOMATON_BYTES;
    return re2;
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    const [, property] = /range: `(\\[pP]\{\w+\})`$/.exec(reason) ?? [];
    const message = reason.replace(/^error parsing regexp: /, '').replace(/: `.*$/s, '');
    throw new PatternError(property === undefined ? message : `has an unknown property ${property}`, 0);
  }
}

/**
 * Compiles a Java regular expression: `matches(text)` is true if the whole text matches.
 * @throws PatternError
 */
export function compileWholeMatch(pattern: string): RE2JS {
  return compileRe2(toRe2(pattern).pattern);
}

/** Explains why a pattern cannot be used, as a predicate; null if it can. */
export function wholeMatchProblem(pattern: string): string | null {
  try {
    compileWholeMatch(pattern);
    return null;
  } catch (error) {
    if (error instanceof PatternError) return error.message;
    throw error;
  }
}
