import { expect, test } from 'vitest';
import { type CheckResult, nextVerdict, noStreak } from '../../../src/gateway/healthCheck.ts';
import { neverChecked } from '../../../src/routing/routingTable.ts';

const letters: Readonly<Record<string, CheckResult['found']>> = {
  g: 'HEALTHY',
  b: 'UNHEALTHY',
  p: 'PENDING',
  i: 'inconclusive',
};

test.each([
  ['g', 1, 1, 'H'],
  ['b', 1, 1, 'U'],
  ['p', 1, 1, 'P'],
  ['i', 1, 1, 'P'],
  ['gbg', 1, 1, 'HUH'],
  ['gib', 1, 1, 'HHU'],
  ['gbbb', 3, 1, 'HHHU'],
  ['gbbgbb', 3, 1, 'HHHHHH'],
  ['gbibib', 3, 1, 'HHHHHU'],
  ['ggg', 1, 3, 'PPH'],
  ['bgg', 1, 2, 'UUH'],
  ['gp', 3, 1, 'HP'],
  ['gpb', 2, 1, 'HPP'],
])('checks %s with thresholds %i bad, %i good give %s', (checks, failureThreshold, successThreshold, expected) => {
  let verdict = neverChecked;
  let streak = noStreak;
  let seen = '';
  for (const letter of checks) {
    const result = { found: letters[letter]!, reason: 'why' };
    ({ verdict, streak } = nextVerdict(verdict, streak, result, { failureThreshold, successThreshold }, 7, 3));
    seen += verdict.status[0];
  }
  expect(seen).toBe(expected);
  expect(verdict.checkedAt).toBe(7);
});

test('the reason says what is waited for', () => {
  const before = { ...neverChecked, status: 'HEALTHY' as const };
  const { verdict } = nextVerdict(
    before,
    noStreak,
    { found: 'UNHEALTHY', reason: 'status 500' },
    { failureThreshold: 3, successThreshold: 1 },
    1,
    1,
  );
  expect(verdict).toMatchObject({ status: 'HEALTHY', reason: 'status 500 (1 of 3 failed checks)' });
});
