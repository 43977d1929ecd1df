import { javaRegexProblem } from './javaRegexProblem.ts';
import { MatchProgram } from './matchProgram.ts';
import { type LookAround, type MatchNode, matchTree } from './matchTree.ts';
import { PatternError, parsePattern } from './patternParser.ts';

/** Deepest nesting of groups and classes. */
const MAX_DEPTH = 50;
/** Longest expression in UTF-16 units. */
const MAX_LENGTH = 4096;
/** Most instructions of an expression with its look-arounds: all of them may be followed for each character of a text. */
const MOST_INSTRUCTIONS = 4000;

/**
 * A Java regular expression that is matched against whole texts as `Matcher.matches()` does, with look-around, in time that
 * grows linearly with the text: where each look-around holds is found first, by one run over the text.
 */
export class WholeMatch {
  readonly #program: MatchProgram;
  /** Those within others before them. */
  readonly #looks: readonly MatchProgram[];

  /** @throws PatternError where Java refuses the expression, or it cannot be matched here */
  constructor(pattern: string) {
    if (pattern.length > MAX_LENGTH) throw new PatternError(`is longer than ${MAX_LENGTH} characters`, MAX_LENGTH);
    const problem = javaRegexProblem(pattern);
    if (problem !== null) throw new PatternError(problem, 0);
    let left = MOST_INSTRUCTIONS;
    const budget = (instructions: number): void => {
      left -= instructions;
      if (left < 0) {
        const message = `has more than ${MOST_INSTRUCTIONS} steps when its repetitions are written out; use smaller counts`;
        throw new PatternError(message, 0);
      }
    };
    const looks: MatchProgram[] = [];
    const tables = new Map<MatchNode, number>();
    const tableOf = (look: LookAround): number => {
      const table = tables.get(look);
      if (table !== undefined) return table;
      const program = new MatchProgram(look.body, look.isAhead, tableOf, budget);
      const own = looks.push(program) - 1;
      tables.set(look, own);
      return own;
    };
    this.#program = new MatchProgram(matchTree(parsePattern(pattern, MAX_DEPTH)), false, tableOf, budget);
    this.#looks = looks;
  }

  /** Whether the whole text matches. */
  matches(text: string): boolean {
    const points = codePointsOf(text);
    const tables: Uint8Array[] = [];
    for (const look of this.#looks) tables.push(look.places(points, tables));
    return this.#program.matchesWhole(points, tables);
  }
}

function codePointsOf(text: string): Uint32Array {
  const points = new Uint32Array(text.length);
  let count = 0;
  for (let index = 0; index < text.length; index += 1) {
    const point = text.codePointAt(index) as number;
    if (point > 0xffff) index += 1;
    points[count] = point;
    count += 1;
  }
  return points.subarray(0, count);
}

/** Says why an expression cannot be matched here, as a predicate; null when it can. */
export function wholeMatchProblem(pattern: string): string | null {
  try {
    new WholeMatch(pattern);
    return null;
  } catch (error) {
    if (error instanceof PatternError) return error.message;
    throw error;
  }
}
