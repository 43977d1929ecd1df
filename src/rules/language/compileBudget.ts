import { MAX_PATTERN_COST, MAX_RULE_LENGTH, MAX_RULE_TOKENS, MAX_SOURCE_LENGTH, PATTERN_COST } from '../limits.ts';
import { UnavailableError } from './source.ts';

/**
 * Limits for compiling the texts of one rule. Counted, not timed, so that the result is deterministic; a rule that uses
 * the whole budget compiles in less than a tenth of a second (docs/rules.md#texts-of-rules).
 */
export class CompileBudget {
  #length = MAX_RULE_LENGTH;
  #tokens = MAX_RULE_TOKENS;
  #patterns = MAX_PATTERN_COST;

  /** Counts a text before it is read. @throws UnavailableError */
  countText(text: string): void {
    if (text.length > MAX_SOURCE_LENGTH) {
      throw new UnavailableError(`longer than ${MAX_SOURCE_LENGTH} characters`, MAX_SOURCE_LENGTH);
    }
    this.#length -= text.length;
    if (this.#length < 0) {
      throw new UnavailableError(`the texts of the rule are longer than ${MAX_RULE_LENGTH} characters together`, 0);
    }
  }

  /** Counts a word, sign or literal. @throws UnavailableError */
  countToken(offset: number): void {
    this.#tokens -= 1;
    if (this.#tokens < 0) {
      throw new UnavailableError(
        `the rule has more than ${MAX_RULE_TOKENS} words, signs and literals; split it into several rules`,
        offset,
      );
    }
  }

  /**
   * Counts a regular expression that is compiled with the rule. @param cost number of its instructions @throws
   * UnavailableError
   */
  countPattern(cost: number, offset: number): void {
    this.#patterns -= cost + PATTERN_COST;
    if (this.#patterns < 0) {
      throw new UnavailableError(
        'the regular expressions of the rule are too large together; split it into several rules',
        offset,
      );
    }
  }
}
