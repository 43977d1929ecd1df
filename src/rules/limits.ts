import type { RuleLimits } from './ruleCompiler.ts';

/** Budgets unless configured otherwise (docs/rules.md: Budgets). */
export const defaultRuleLimits: RuleLimits = {
  steps: 100_000,
  stringLength: 4_194_304,
  elements: 100_000,
  memory: 67_108_864,
};

/** Deepest nesting of an expression or statement; deeper text is a compile error. */
export const MAX_DEPTH = 100;

/** Longest text of a condition or action in UTF-16 units; longer text is a compile error. */
export const MAX_SOURCE_LENGTH = 65_536;

/** Deepest nesting of lists, sets and maps that is compared, hashed or turned into text. */
export const MAX_VALUE_DEPTH = 64;
