import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { productNames } from '../../../src/model/names.ts';
import type { StrategyName } from '../../../src/model/strategies.ts';
import { ClusterChooser } from '../../../src/routing/clusterChooser.ts';
import type { GroupDecision } from '../../../src/routing/groupDecision.ts';
import { type ClusterEntry, emptyTable, type HealthVerdict, neverChecked } from '../../../src/routing/routingTable.ts';
import { RoutingTableHolder } from '../../../src/routing/tableHolder.ts';
import { noTrace } from '../../../src/rules/decision.ts';

type Counts = Partial<Pick<HealthVerdict, 'queued' | 'running'>> & { readonly byUser?: Record<string, number> };

/** Clusters of one group with statistics, and a chooser whose clock the test moves. */
function fleet(counts: Readonly<Record<string, Counts>>, random = () => 0, weights: Record<string, number> = {}) {
  const table = new RoutingTableHolder();
  let now = 1_000;
  const settings = {
    defaultRoutingGroup: 'adhoc',
    strategy: 'weightedRandom' as StrategyName,
    groupStrategies: new Map<string, StrategyName>([['adhoc', 'leastLoaded']]),
    affinity: { by: 'user' } as const,
    groupAffinities: new Map<string, never>(),
  };
  const chooser = new ClusterChooser(settings, { random, monotonic: () => now, names: productNames('Engine') });
  const declared = Object.keys(counts);
  const register = () =>
    table.setInputs({
      clusters: declared.map((name) => ({
        name,
        proxyTo: `http://${name}:1`,
        externalUrl: '',
        routingGroup: 'adhoc',
        active: true,
        weight: weights[name] ?? 100,
        healthCheck: null,
        tls: null,
        origin: 'resource' as const,
      })),
    });
  const fail = (name: string) => table.setHealth(name, `http://${name}:1`, { ...neverChecked, status: 'UNHEALTHY' });
  const publish = (name: string, { queued = null, running = null, byUser }: Counts, isNew = false) => {
    if (isNew) {
      declared.push(name);
      register();
    }
    table.setHealth(name, `http://${name}:1`, {
      ...neverChecked,
      status: 'HEALTHY',
      checkedAt: 1,
      queued,
      running,
      queuedByUser: byUser === undefined ? null : new Map(Object.entries(byUser)),
      countsAsOf: queued === null ? null : now,
    });
  };
  register();
  for (const [name, count] of Object.entries(counts)) publish(name, count);
  const decision: GroupDecision = {
    group: 'adhoc',
    cluster: null,
    rule: null,
    decidedBy: 'default',
    onUnavailable: 'fallback',
    trace: noTrace,
  };
  const choose = (user: string | null = null) => {
    const { cluster } = chooser.choose(table.current, decision, { user, headers: [] }, null);
    if (cluster === null) throw new Error('none');
    return cluster;
  };
  return {
    publish,
    fail,
    pass: (milliseconds: number) => {
      now += milliseconds;
    },
    choose: (user: string | null = null) => choose(user).name,
    submit: (user: string | null = null) => {
      const cluster = choose(user);
      return { name: cluster.name, counted: chooser.countSubmission(table.current, cluster, { user, headers: [] }) };
    },
    /** Submits and has the cluster take it. */
    run: (user: string | null = null) => {
      const cluster = choose(user);
      chooser.countSubmission(table.current, cluster, { user, headers: [] })?.confirm();
      return cluster.name;
    },
  };
}

describe('least loaded', () => {
  test.each<[string, Record<string, Counts>, string | null, string]>([
    ['fewest queued', { a: { queued: 3, running: 0 }, b: { queued: 2, running: 90 } }, null, 'b'],
    ['then fewest running', { a: { queued: 2, running: 9 }, b: { queued: 2, running: 8 } }, null, 'b'],
    [
      "the user's own queue first",
      { a: { queued: 5, running: 5, byUser: { ann: 1 } }, b: { queued: 50, running: 50, byUser: {} } },
      'ann',
      'b',
    ],
    [
      "others' queues do not count as the user's",
      { a: { queued: 5, running: 5, byUser: { bob: 5 } }, b: { queued: 6, running: 0, byUser: {} } },
      'ann',
      'a',
    ],
    ['one that counts nothing stands at the average', { a: {}, b: { queued: 4, running: 0 } }, null, 'a'],
    [
      '... also where another has less',
      { a: {}, b: { queued: 4, running: 0 }, c: { queued: 2, running: 9 } },
      null,
      'c',
    ],
    [
      'a user called __proto__',
      { a: { queued: 1, running: 0, byUser: {} }, b: { queued: 2, running: 0 } },
      '__proto__',
      'a',
    ],
  ])('%s', (_what, counts, user, expected) => {
    expect(fleet(counts).choose(user)).toBe(expected);
  });

  test('ties go by weight', () => {
    const even = { queued: 1, running: 1 };
    const counts = { a: even, b: even, c: { queued: 2, running: 0 } };
    expect(fleet(counts, () => 0.24, { a: 1, b: 3, c: 1000 }).choose()).toBe('a');
    expect(fleet(counts, () => 0.26, { a: 1, b: 3, c: 1000 }).choose()).toBe('b');
  });

  test('what was sent is added until statistics asked for later arrive, and counted once', () => {
    const { run, publish, pass, choose } = fleet({ a: { queued: 0, running: 0 }, b: { queued: 0, running: 3 } });
    expect([run(), run(), run()]).toEqual(['a', 'a', 'a']);
    pass(1_000);
    // The cluster counts the three itself now; they are not added a second time.
    publish('a', { queued: 0, running: 2 });
    expect(choose()).toBe('a');
    publish('a', { queued: 0, running: 4 });
    expect(choose()).toBe('b');
  });

  test('a query that no cluster has answered yet survives new statistics; a failed one counts no more', () => {
    const { submit, publish, pass, choose } = fleet({ a: { queued: 0, running: 0 }, b: { queued: 0, running: 1 } });
    const pending = [submit(), submit()];
    expect(pending.map(({ name }) => name)).toEqual(['a', 'a']);
    pass(1_000);
    publish('a', { queued: 0, running: 0 });
    expect(choose()).toBe('b');
    pending[0]?.counted?.withdraw();
    pending[1]?.counted?.withdraw();
    pending[1]?.counted?.confirm();
    expect(choose()).toBe('a');
  });

  test("the user's own queue grows by what the user sent, where the user has one", () => {
    const byUser = (count: number) => ({ ann: count });
    const { run } = fleet({
      a: { queued: 2, running: 0, byUser: byUser(2) },
      b: { queued: 9, running: 0, byUser: byUser(4) },
    });
    expect(Array.from({ length: 5 }, () => run('ann'))).toEqual(['a', 'a', 'a', 'b', 'a']);
  });

  test('a group with the other strategy is not counted', () => {
    const chooser = new ClusterChooser(
      {
        ...{ defaultRoutingGroup: 'adhoc', strategy: 'weightedRandom', groupStrategies: new Map() },
        ...{ affinity: { by: 'user' }, groupAffinities: new Map() },
      },
      { random: () => 0, monotonic: () => 0, names: productNames('Engine') },
    );
    const entry = { routingGroup: 'adhoc', name: 'a' } as ClusterEntry;
    expect(chooser.countSubmission(emptyTable, entry, { user: null, headers: [] })).toBeNull();
  });
});

/** Queries of each cluster among the next ones. */
function shareOf(run: () => string, queries: number): Record<string, number> {
  const shares: Record<string, number> = {};
  for (let sent = 0; sent < queries; sent++) {
    const name = run();
    shares[name] = (shares[name] ?? 0) + 1;
  }
  return shares;
}

describe('clusters whose checks count nothing', () => {
  const chance = () => {
    let seed = 1;
    return () => {
      seed = (seed * 16_807) % 2_147_483_647;
      return seed / 2_147_483_647;
    };
  };
  const third = (count: number) => count > 3_300 && count < 3_400;

  test('a cluster that joins after 10,000 queries gets its share of the next 10,000', () => {
    const { run, publish, pass } = fleet({ a: {}, b: {} }, chance());
    shareOf(run, 10_000);
    pass(1_000);
    publish('c', {}, true);
    expect(Object.values(shareOf(run, 10_000)).filter(third)).toHaveLength(3);
  });

  test('a cluster that is back after an outage gets its share', () => {
    const { run, publish, pass, fail } = fleet({ a: {}, b: {}, c: {} }, chance());
    shareOf(run, 10);
    fail('c');
    pass(30_000);
    shareOf(run, 10_000);
    pass(1_000);
    publish('c', {});
    expect(Object.values(shareOf(run, 10_000)).filter(third)).toHaveLength(3);
  });

  test('so does the second cluster of a group that had one', () => {
    const { run, publish, pass } = fleet({ a: {} }, chance());
    shareOf(run, 1_000);
    pass(1_000);
    publish('b', {}, true);
    expect(shareOf(run, 1_000)).toEqual({ a: 500, b: 500 });
  });

  test('queries count for a minute', () => {
    const { run, pass, choose } = fleet({ a: {}, b: {} });
    expect([run(), run(), run()]).toEqual(['a', 'b', 'a']);
    pass(59_000);
    expect(choose()).toBe('b');
    pass(2_000);
    expect(choose()).toBe('a');
  });

  test('one among others that are counted is neither avoided nor flooded', () => {
    const { run, publish, pass } = fleet({ a: {}, b: { queued: 0, running: 0 } }, chance());
    const shares = { a: 0, b: 0 };
    for (let second = 0; second < 600; second++) {
      // Each query runs for less than a second.
      for (const [name, count] of Object.entries(shareOf(run, 10))) shares[name as keyof typeof shares] += count;
      pass(1_000);
      publish('b', { queued: 0, running: 0 });
    }
    expect(shares.a / (shares.a + shares.b)).toBeGreaterThan(0.45);
    expect(shares.a / (shares.a + shares.b)).toBeLessThan(0.55);
  });
});

const clusterNames = ['a', 'b', 'c'] as const;
const step = fc.oneof(
  { weight: 6, arbitrary: fc.record({ do: fc.constant('run' as const), user: fc.constantFrom('ann', 'bob', null) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('poll' as const), cluster: fc.constantFrom(...clusterNames) }) },
);

test('with statistics that are right, no cluster is ever more than one query ahead', () => {
  fc.assert(
    fc.property(
      fc.array(step, { maxLength: 80 }),
      fc.float({ min: 0, max: Math.fround(0.99), noNaN: true }),
      (steps, chance) => {
        const truth = { a: 0, b: 0, c: 0 };
        const { run, publish, pass } = fleet(
          { a: { queued: 0, running: 0 }, b: { queued: 0, running: 0 }, c: { queued: 0, running: 0 } },
          () => chance,
        );
        for (const one of steps) {
          if (one.do === 'run') truth[run(one.user) as keyof typeof truth]++;
          else {
            // Statistics are asked for some time after the last query; they show all of them.
            pass(500);
            publish(one.cluster, { queued: 0, running: truth[one.cluster] });
          }
          const counts = Object.values(truth);
          expect(Math.max(...counts) - Math.min(...counts)).toBeLessThanOrEqual(1);
        }
      },
    ),
  );
});

test('the chosen cluster is never one that another beats in own queue, queue and running queries together', () => {
  const counts = fc.record({
    queued: fc.integer({ min: 0, max: 5 }),
    running: fc.integer({ min: 0, max: 5 }),
    ann: fc.integer({ min: 0, max: 5 }),
  });
  fc.assert(
    fc.property(fc.tuple(counts, counts, counts), ([a, b, c]) => {
      // A user's queued queries are among the cluster's.
      const all = Object.entries({ a, b, c }).map(([name, { queued, running, ann }]) => {
        return [name, { queued: queued + ann, running, byUser: { ann } }] as const;
      });
      const chosen = all.find(([name]) => name === fleet(Object.fromEntries(all)).choose('ann'))?.[1];
      const key = (one: (typeof all)[number][1]) => one.byUser.ann * 10_000 + one.queued * 100 + one.running;
      expect(chosen && key(chosen)).toBe(Math.min(...all.map(([, one]) => key(one))));
    }),
  );
});
