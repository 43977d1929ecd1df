import type { StringMatch } from '../kinds/fields/spec.ts';
import { Evaluation, EvaluationError } from './evaluation.ts';
import { CompileError } from './language/source.ts';
import { defaultRuleLimits } from './limits.ts';
import { JavaPattern } from './regex/javaPattern.ts';

export type TextMatcher = (text: string) => boolean;

/** An invalid regular expression, by its index in the list. */
export interface ValueProblem {
  readonly index: number;
  readonly message: string;
}

/** Maximum number of instructions of all regular expressions of a list: all of them are followed for each character. */
const MAX_INSTRUCTIONS = 2_000;
/** Longer texts than names of users and sources have are not searched. */
const MAX_TEXT_LENGTH = 1_024;
/** Maximum number of cached texts, and their maximum length in UTF-16 units. */
const [KEPT_TEXTS, MAX_CACHED_LENGTH] = [128, 128];
const LIMITS = { ...defaultRuleLimits, memory: 1_048_576, stringLength: 65_536, time: 10 };

/**
 * Returns a matcher of texts. Its time per text is bounded.
 * @param inDoubt result for a text for which regular expressions would take longer, or with more than 1,024 characters: clients choose
 *   texts, to avoid a limit or to get a right
 */
export function textMatcher(
  values: readonly StringMatch[],
  inDoubt: boolean,
): { readonly matches: TextMatcher } | { readonly problems: readonly ValueProblem[] } {
  const of = (wanted: StringMatch['type']) =>
    values.filter(({ type = 'Exact' }) => type === wanted).map(({ value }) => value);
  const texts = new Set(of('Exact'));
  const prefixes = of('Prefix');
  const isPlainMatch: TextMatcher = (text) => texts.has(text) || prefixes.some((prefix) => text.startsWith(prefix));
  const patterns: JavaPattern[] = [];
  const problems: ValueProblem[] = [];
  let instructions = 0;
  for (const [index, { type, value }] of values.entries()) {
    if (type !== 'RegularExpression') continue;
    try {
      const pattern = new JavaPattern(value);
      instructions += pattern.size;
      patterns.push(pattern);
    } catch (error) {
      if (!(error instanceof CompileError)) throw error;
      problems.push({ index, message: error.message });
    }
    // Each of the following values takes time to compile too.
    if (instructions > MAX_INSTRUCTIONS) {
      problems.push({
        index,
        message: 'the regular expressions of the list are too large together; write shorter ones',
      });
      break;
    }
  }
  if (problems.length > 0) return { problems };
  return { matches: patterns.length === 0 ? isPlainMatch : withPatterns(isPlainMatch, patterns, inDoubt) };
}

/** As `textMatcher`, for values of a valid spec. */
export function validMatcher(values: readonly StringMatch[], inDoubt: boolean): TextMatcher {
  const matcher = textMatcher(values, inDoubt);
  if (!('matches' in matcher)) throw new TypeError('a spec that is not valid has no matchers');
  return matcher.matches;
}

/** Mistakes in lists of matches. @param parent of the fields, such as `spec.match` */
export function* matchProblems(parent: string, lists: Readonly<Record<string, readonly StringMatch[] | undefined>>) {
  for (const [field, values = []] of Object.entries(lists)) {
    const matcher = textMatcher(values, false);
    for (const { index, message } of 'problems' in matcher ? matcher.problems : [])
      yield { field: `${parent}.${field}[${index}].value`, message };
  }
}

function withPatterns(isPlainMatch: TextMatcher, patterns: readonly JavaPattern[], inDoubt: boolean): TextMatcher {
  // Each replica matches the same few names repeatedly.
  const responses = new Map<string, boolean>();
  return (text) => {
    if (isPlainMatch(text)) return true;
    if (text.length > MAX_TEXT_LENGTH) return inDoubt;
    const response = responses.get(text);
    if (response !== undefined) return response;
    const isMatch = matchesOne(patterns, text);
    // Out of time, which may not repeat.
    if (isMatch === null) return inDoubt;
    if (text.length <= MAX_CACHED_LENGTH) {
      if (responses.size >= KEPT_TEXTS) responses.clear();
      responses.set(text, isMatch);
    }
    return isMatch;
  };
}

function matchesOne(patterns: readonly JavaPattern[], text: string): boolean | null {
  const evaluation = new Evaluation({} as Evaluation['objects'], LIMITS);
  try {
    return patterns.some((pattern) => pattern.matches(text, evaluation));
  } catch (error) {
    if (error instanceof EvaluationError) return null;
    throw error;
  }
}
