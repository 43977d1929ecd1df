import { expect, test } from 'vitest';
import { runRuleCases, targetsReached } from '../../../scripts/cases/rules.ts';

test('the cases of the rules language come out as they should, known differences aside', () => {
  const outcomes = runRuleCases();
  const unknown = outcomes.filter(
    ({ verdict, quirk, known }) => verdict === 'differs' && !quirk && known === undefined,
  );
  expect(unknown).toEqual([]);
  expect(targetsReached(outcomes)).toBe(true);
});

test('every known difference still is one', () => {
  const outcomes = runRuleCases();
  expect(outcomes.filter(({ verdict, known }) => verdict === 'right' && known !== undefined)).toEqual([]);
});
