import { describe, expect, test } from 'vitest';
import { defaultRuleLimits } from '../../../src/rules/limits.ts';
import { escapeAttempts } from '../../support/escapeAttempts.ts';
import { attempt } from '../../support/ruleAttempt.ts';

describe('attempts to get out of the language', () => {
  test('there are at least a hundred', () => expect(escapeAttempts.length).toBeGreaterThanOrEqual(100));

  test.each(escapeAttempts)('$what is refused', { timeout: 30_000 }, ({ text }) => {
    const { outcome, message, steps, evaluation } = attempt(text);
    expect(outcome).not.toBe('value');
    expect(message).not.toBe('');
    expect(steps).toBeLessThanOrEqual(defaultRuleLimits.steps);
    expect(evaluation.memoryUsed).toBeLessThanOrEqual(defaultRuleLimits.memory);
  });

  test('a word is never looked up beyond the language', () => {
    expect(attempt('1 == 2 toString').message).toMatch(/^[^[]*found "toString"/);
    expect(attempt('1 == 2 constructor').message).toMatch(/^[^[]*found "constructor"/);
  });

  test('budgets are what stops loops and growth, not chance', () => {
    expect(attempt('while (true) { }').message).toMatch(/budget of 100000 steps/);
    expect(attempt('s = "a"; while (true) { s = s + s }').message).toMatch(/longer than the 4194304 allowed/);
    expect(attempt('l = [1]; while (true) { l.addAll(l) }').message).toMatch(/more than the 100000 allowed/);
    expect(attempt('while (true) { "a".repeat(4000000) }').message).toMatch(/characters and elements is used up/);
    expect(attempt(`${'('.repeat(200)}1${')'.repeat(200)}`).message).toMatch(/nested deeper than 100/);
  });
});
