import type { RuleLimits } from './ruleCompiler.ts';

export const defaultRuleLimits: RuleLimits = {
  steps: 100_000,
  stringLength: 4_194_304,
  elements: 100_000,
  memory: 16_777_216,
  time: 50,
};

/** Maximum nesting of an expression or statement; deeper text is a compile error. */
export const MAX_DEPTH = 100;

/** Maximum length of a condition or action in UTF-16 units; longer text is a compile error. */
export const MAX_SOURCE_LENGTH = 65_536;

/** Maximum total length of a rule's condition and actions, in UTF-16 units. */
export const MAX_RULE_LENGTH = 131_072;

/** Maximum number of words, signs and literals in a rule's texts. */
export const MAX_RULE_TOKENS = 25_000;

/** Maximum number of instructions of a rule's regular expressions; each counts `PATTERN_COST` in addition. */
export const MAX_PATTERN_COST = 20_000;
export const PATTERN_COST = 32;

/** Maximum nesting of lists, sets and maps that are compared, hashed or converted to text. */
export const MAX_VALUE_DEPTH = 64;
