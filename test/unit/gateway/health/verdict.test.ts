import { expect, test } from 'vitest';
import type { CheckResult } from '../../../../src/gateway/health/healthCheck.ts';
import { nextVerdict, noStreak } from '../../../../src/gateway/health/verdict.ts';
import { neverChecked } from '../../../../src/routing/routingTable.ts';

const letters: Readonly<Record<string, CheckResult['health']>> = {
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
    const result = { health: letters[letter]!, reason: 'why' };
    ({ verdict, streak } = nextVerdict(
      verdict,
      streak,
      result,
      { failureThreshold, successThreshold },
      { checkedAt: 7, askedAt: 3 },
    ));
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
    { health: 'UNHEALTHY', reason: 'status 500' },
    { failureThreshold: 3, successThreshold: 1 },
    { checkedAt: 1, askedAt: 1 },
  );
  expect(verdict).toMatchObject({ status: 'HEALTHY', reason: 'status 500 (1 of 3 failed checks)' });
});

test('counts are those of the last check that counted, as of its question; a bad check keeps them until its threshold', () => {
  const thresholds = { failureThreshold: 2, successThreshold: 1 };
  const good: CheckResult = { health: 'HEALTHY', reason: 'ok', queued: 2, running: 3, workers: 4 };
  const bad: CheckResult = { health: 'UNHEALTHY', reason: 'status 500' };
  const first = nextVerdict(neverChecked, noStreak, good, thresholds, { checkedAt: 7, askedAt: 3 });
  const counted = { queued: 2, running: 3, workers: 4, countsAsOf: 3 };
  expect(first.verdict).toMatchObject(counted);
  const second = nextVerdict(first.verdict, first.streak, bad, thresholds, { checkedAt: 17, askedAt: 13 });
  expect(second.verdict).toMatchObject({ ...counted, checkedAt: 17, reason: 'status 500 (1 of 2 failed checks)' });
  const third = nextVerdict(second.verdict, second.streak, bad, thresholds, { checkedAt: 27, askedAt: 23 });
  expect(third.verdict).toMatchObject({ status: 'UNHEALTHY', queued: null, countsAsOf: null });
});
