import type { RuleLimits } from './ruleCompiler.ts';

/** Budgets unless configured otherwise (docs/rules.md#budgets). */
export const defaultRuleLimits: RuleLimits = {
  steps: 100_000,
  stringLength: 4_194_304,
  elements: 100_000,
  memory: 16_777_216,
  time: 50,
};

/** Deepest nesting of an expression or statement; deeper text is a compile error. */
export const MAX_DEPTH = 100;

/** Longest text of a condition or action in UTF-16 units; longer text is a compile error. */
export const MAX_SOURCE_LENGTH = 65_536;

/** Most UTF-16 units of a rule's condition and actions together. */
export const MAX_RULE_LENGTH = 131_072;

/** Most words, signs and literals of a rule's texts together. */
export const MAX_RULE_TOKENS = 25_000;

/** Most instructions of a rule's regular expressions together; each counts `PATTERN_COST` beside its own. */
export const MAX_PATTERN_COST = 20_000;
export const PATTERN_COST = 32;

/** Deepest nesting of lists, sets and maps that is compared, hashed or turned into text. */
export const MAX_VALUE_DEPTH = 64;
