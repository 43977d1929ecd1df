import { describe, expect, test } from 'vitest';
import {
  type AnalysisRules,
  type Evidence,
  judge,
  type RolloutSide,
  type StartedQuery,
} from '../../../src/rollout/judge.ts';

/** Seeded random numbers (mulberry32). */
function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const rules: AnalysisRules = { steps: 3, minQueries: 50, compare: 'cpu', slowFactor: 2 };
const WEIGHTS = [0.1, 0.25, 0.5];
const QUERIES = 4_000;

interface Defect {
  /** Additional share of queries that fail on the candidate. */
  readonly failures?: number;
  /** Factor of the times on the candidate. */
  readonly slower?: number;
}

interface Habit {
  readonly digest: number;
  readonly failureRate: number;
}

/** The verdicts of a whole generated rollout, until it fails. */
function rollout(seed: number, defect: Defect = {}): { readonly failed: string | null; readonly queries: number } {
  const random = seeded(seed);
  const normal = () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
  const zipf = (count: number) => Math.floor(count ** random()) - 1;
  const digests = Array.from({ length: 200 }, () => ({
    median: Math.exp(4 + 2 * normal()),
    spread: 0.2 + random(),
    // A few statements fail often, most hardly ever.
    failureRate: random() < 0.05 ? random() * 0.4 : random() * 0.01,
    errorType: random() < 0.5 ? 'USER_ERROR' : random() < 0.6 ? 'EXTERNAL' : 'INTERNAL_ERROR',
  }));
  const users = Array.from({ length: 80 }, () => {
    // Users have statements of their own, with literals of their own: other times and other failures.
    const carelessness = Math.exp(0.7 * normal());
    const habits: Habit[] = Array.from({ length: 3 + Math.floor(random() * 20) }, () => {
      const digest = zipf(200);
      return { digest, failureRate: (digests[digest]?.failureRate ?? 0) * carelessness };
    });
    return { place: random(), habits, slowness: Math.exp(0.3 * normal()) };
  });
  const history = new Map(
    digests.map(({ failureRate }, digest) => [`d${digest}`, { queries: 40, failures: Math.round(40 * failureRate) }]),
  );
  const warm = new Set<string>();
  let now = 0;
  let count = 0;
  for (const weight of WEIGHTS) {
    const queries: StartedQuery[] = [];
    // Now and then a table is broken for a while, on both sides; and a client retries without a pause.
    const incident = random() < 0.3 ? { digest: zipf(200), from: random() * 1_000, size: 150 } : null;
    const loop = random() < 0.2 ? { user: zipf(80), from: Math.floor(random() * 1_000), size: 60 } : null;
    for (let index = 0; index < QUERIES / WEIGHTS.length; index++) {
      now += 500 * random();
      const isLoop = loop !== null && index >= loop.from && index < loop.from + loop.size;
      const number = isLoop ? loop.user : zipf(80);
      const user = users[number]!;
      const habit = (isLoop ? user.habits[0] : user.habits[Math.floor(random() * user.habits.length)])!;
      const { median, spread, errorType } = digests[habit.digest]!;
      const side: RolloutSide = user.place < weight ? 'candidate' : 'stable';
      const isBroken =
        incident?.digest === habit.digest && index >= incident.from && index < incident.from + incident.size;
      const isTypo = random() < 0.02;
      const isDefect = side === 'candidate' && random() < (defect.failures ?? 0);
      const isFailed = isLoop || isBroken || isTypo || isDefect || random() < habit.failureRate;
      const digest = isTypo ? `typo ${index}` : `d${habit.digest}`;
      const isCold = side === 'candidate' && !warm.has(digest);
      if (side === 'candidate') warm.add(digest);
      const tail = random() < 0.03 ? 20 * random() : 1;
      const slower = side === 'candidate' ? (defect.slower ?? 1) : 1;
      const cpu = median * user.slowness * Math.exp(spread * normal()) * tail * slower * (isCold ? 3 : 1);
      queries.push({
        queryId: `q${count++}`,
        digest,
        side,
        user: `u${number}`,
        started: now,
        state: isFailed ? 'FAILED' : 'FINISHED',
        errorType: isFailed ? (isTypo ? 'USER_ERROR' : isDefect ? 'INTERNAL_ERROR' : errorType) : null,
        errorName: isFailed ? 'E' : null,
        cpuMillis: cpu,
        elapsedMillis: cpu,
      });
    }
    const result = judge({ queries, history, now }, rules);
    if (result.verdict === 'Fail') return { failed: result.reason, queries: count };
  }
  return { failed: null, queries: count };
}

const failures = (from: number, count: number, defect?: Defect) => {
  const reasons: Record<string, number> = {};
  for (let seed = from; seed < from + count; seed++) {
    const { failed } = rollout(seed, defect);
    if (failed !== null) reasons[failed] = (reasons[failed] ?? 0) + 1;
  }
  return reasons;
};
const total = (reasons: Readonly<Record<string, number>>) =>
  Object.values(reasons).reduce((sum, each) => sum + each, 0);

describe('whole generated rollouts', () => {
  test('fewer than 1 % of 1,000 equal candidates are rolled back', { timeout: 300_000 }, () => {
    expect(total(failures(1, 1_000))).toBeLessThan(10);
  });

  test('5 % additional failures are found in more than 80 % of rollouts', { timeout: 60_000 }, () => {
    expect(total(failures(5_001, 100, { failures: 0.05 }))).toBeGreaterThan(80);
  });

  test('a candidate that takes three times as long is found in more than half of rollouts', { timeout: 60_000 }, () => {
    expect(total(failures(9_001, 60, { slower: 3 }))).toBeGreaterThan(30);
  });
});

describe('the verdict', () => {
  /** Queries of users, every tenth on the candidate. */
  const traffic = (count: number, of: (index: number, side: RolloutSide) => Partial<StartedQuery> = () => ({})) =>
    Array.from({ length: count }, (_, index): StartedQuery => {
      const side = index % 10 === 0 ? 'candidate' : 'stable';
      return {
        ...{ queryId: `q${index}`, digest: `d${index % 7}`, side, user: `u${index % 50}`, started: index * 1_000 },
        ...{ state: 'FINISHED', errorType: null, errorName: null, cpuMillis: 100, elapsedMillis: 120 },
        ...of(index, side),
      };
    });
  const failed = (errorType: string, errorName = 'E') => ({ state: 'FAILED', errorType, errorName });
  const verdictOf = (queries: readonly StartedQuery[], more: Partial<Evidence> = {}, minQueries = 20) => {
    const evidence = { queries, history: new Map(), now: queries.length * 1_000, ...more };
    return judge(evidence, { ...rules, minQueries });
  };

  test('passes after enough queries on both sides', () => {
    const enough = verdictOf(traffic(200));
    expect(enough).toMatchObject({ verdict: 'Pass', ended: { stable: 180, candidate: 20 }, digests: [] });
    expect(verdictOf(traffic(199), {}, 21)).toMatchObject({ verdict: 'Inconclusive', reason: 'NotEnoughQueries' });
    expect(verdictOf([])).toMatchObject({ verdict: 'Inconclusive', reason: 'NotEnoughQueries' });
  });

  test('fails with a statement that the candidate rejects, and names it', () => {
    const of = (index: number, side: RolloutSide) =>
      index % 7 === 3 && side === 'candidate' ? failed('USER_ERROR', 'SYNTAX_ERROR') : {};
    const verdict = verdictOf(traffic(1_000, of));
    expect(verdict).toMatchObject({ verdict: 'Fail', reason: 'MoreErrors' });
    const [digest] = verdict.digests;
    expect(digest).toMatchObject({ digest: 'd3', criterion: 'errors', error: 'SYNTAX_ERROR', stable: { events: 0 } });
    expect(digest?.examples).toHaveLength(3);
    expect(verdict.message).toMatch(/^\d+ of \d+ queries on the candidate failed, 0 of \d+ on stable$/);
  });

  test('passes with typos, and with a client that retries', () => {
    const typo = (index: number, side: RolloutSide) =>
      side === 'candidate' && index % 20 === 0 ? { ...failed('USER_ERROR'), digest: `typo ${index}` } : {};
    expect(verdictOf(traffic(400, typo)).verdict).toBe('Pass');
    const loop = (index: number, side: RolloutSide) =>
      side === 'candidate' && index > 200 ? { ...failed('INTERNAL_ERROR'), digest: 'd1', user: 'loop' } : {};
    expect(verdictOf(traffic(2_000, loop)).verdict).toBe('Pass');
  });

  test('passes if a table is broken on both sides', () => {
    const of = (index: number) => (index % 7 === 2 && index > 300 ? failed('EXTERNAL') : {});
    expect(verdictOf(traffic(2_000, of)).verdict).toBe('Pass');
  });

  test('uses the last days for a statement that does not run on stable now, but not for one alone', () => {
    const alone = (digests: number) => (index: number, side: RolloutSide) =>
      side === 'candidate' ? { ...failed('EXTERNAL'), digest: `only ${(index / 10) % digests}` } : {};
    const history = new Map(
      Array.from({ length: 40 }, (_, digest) => [`only ${digest}`, { queries: 500, failures: 0 }]),
    );
    expect(verdictOf(traffic(400, alone(1)), { history }).verdict).toBe('Pass');
    expect(verdictOf(traffic(400, alone(40)), { history }).verdict).toBe('Fail');
    expect(verdictOf(traffic(400, alone(40))).verdict).toBe('Pass');
  });

  test('fails with a candidate that hangs', () => {
    const of = (index: number, side: RolloutSide) =>
      side === 'candidate' && index > 60 ? { state: 'RUNNING', cpuMillis: null, elapsedMillis: 400_000 } : {};
    expect(verdictOf(traffic(400, of))).toMatchObject({ verdict: 'Fail', reason: 'Slower' });
  });

  test('fails fast with internal errors of several statements and users', () => {
    const of = (index: number, side: RolloutSide) =>
      side === 'candidate' && index >= 100 ? failed('INTERNAL_ERROR') : {};
    expect(verdictOf(traffic(121, of))).toMatchObject({
      ...{ verdict: 'Fail', reason: 'InternalErrors' },
      message: 'the candidate failed with internal errors: q100, q110, q120',
    });
    expect(verdictOf(traffic(120, of)).verdict).toBe('Inconclusive');
  });

  test('waits for missing outcomes', () => {
    const of = (index: number) => (index % 3 === 0 ? { state: null } : {});
    expect(verdictOf(traffic(900, of))).toMatchObject({ verdict: 'Inconclusive', reason: 'OutcomesMissing' });
  });
});
