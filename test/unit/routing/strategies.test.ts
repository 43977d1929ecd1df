/** Strategies by which a cluster of a routing group is chosen. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { productNames } from '../../../src/model/names.ts';
import { type StrategyName, strategyNames } from '../../../src/model/strategies.ts';
import type { RequestKey } from '../../../src/routing/admissionPolicy.ts';
import { ClusterChooser } from '../../../src/routing/clusterChooser.ts';
import { type HealthVerdict, neverChecked, RoutingTableHolder } from '../../../src/routing/routingTable.ts';
import { noTrace } from '../../../src/rules/decision.ts';
import { groupPolicy, groupsOf } from '../../support/groupPolicy.ts';
import { clusterAt } from '../../support/routableCluster.ts';

type Counts = Partial<Pick<HealthVerdict, 'queued' | 'running'>> & { readonly byUser?: Record<string, number> };
interface FleetSettings {
  readonly strategy?: StrategyName;
  readonly key?: RequestKey;
  readonly random?: () => number;
  readonly weights?: Readonly<Record<string, number>>;
}

/** Clusters of the group adhoc with what their checks count, and a chooser whose clock the test moves. */
function fleet(
  counts: Readonly<Record<string, Counts>>,
  { strategy = 'leastLoaded', key = { by: 'user' }, random = () => 0, weights = {} }: FleetSettings = {},
) {
  const table = new RoutingTableHolder();
  let now = 1_000;
  const groupStrategies = new Map<string, StrategyName>([['adhoc', strategy]]);
  const groupAffinities = new Map<string, RequestKey>([['adhoc', key]]);
  const settings = {
    ...{ defaultRoutingGroup: 'adhoc', strategy: 'weightedRandom' as const, groupStrategies },
    ...{ affinity: { by: 'source' } as const, groupAffinities },
  };
  const chooser = new ClusterChooser(settings, random, () => now, productNames('Engine'));
  const declared = Object.keys(counts);
  const register = () =>
    table.setInputs({
      clusters: declared.map((name) => clusterAt(name, `http://${name}:1`, { weight: weights[name] ?? 100 })),
    });
  const publish = (name: string, { queued = null, running = null, byUser }: Counts, isNew = false) => {
    if (isNew) {
      declared.push(name);
      register();
    }
    table.setHealth(name, `http://${name}:1`, {
      ...{ ...neverChecked, status: 'HEALTHY', checkedAt: 1, queued, running },
      queuedByUser: byUser === undefined ? null : new Map(Object.entries(byUser)),
      countsAsOf: queued === null ? null : now,
    });
  };
  register();
  for (const [name, count] of Object.entries(counts)) publish(name, count);
  const decision = {
    ...({ group: 'adhoc', cluster: null, rule: null, decidedBy: 'default', onUnavailable: 'fallback' } as const),
    trace: noTrace,
  };
  const choose = (user: string | null, headers: readonly string[]) => {
    const { cluster } = chooser.choose(table.current, decision, { user, headers }, null);
    if (cluster === null) throw new Error('none');
    return cluster;
  };
  const submit = (user: string | null = null, headers: readonly string[] = []) => {
    const cluster = choose(user, headers);
    return { name: cluster.name, counted: chooser.countSubmission(table.current, cluster, { user, headers }) };
  };
  return {
    ...{ table, chooser, groupStrategies, groupAffinities, publish, submit },
    fail: (name: string) => table.setHealth(name, `http://${name}:1`, { ...neverChecked, status: 'UNHEALTHY' }),
    pass: (milliseconds: number) => {
      now += milliseconds;
    },
    choose: (user: string | null = null, headers: readonly string[] = []) => choose(user, headers).name,
    /** Submits, and the cluster accepts it. */
    run: (user: string | null = null) => {
      const { name, counted } = submit(user);
      counted?.confirm();
      return name;
    },
  };
}

const uncounted = (...names: readonly string[]) => Object.fromEntries(names.map((name) => [name, {}]));
const idle = (...names: readonly string[]) =>
  Object.fromEntries(names.map((name) => [name, { queued: 0, running: 0 }] as const));

const count = fc.option(fc.nat(5), { nil: null });
test.each(strategyNames)('%s picks one of the candidates, whatever their weights and counts', (strategy) => {
  fc.assert(
    fc.property(
      fc.array(fc.record({ weight: fc.nat(3), queued: count, running: count }), { minLength: 1, maxLength: 5 }),
      fc.option(fc.constantFrom('ann', '__proto__'), { nil: null }),
      fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
      (all, user, random) => {
        const names = all.map((_, index) => `c${index}`);
        const counts = Object.fromEntries(all.map((counted, index) => [`c${index}`, counted]));
        const weights = Object.fromEntries(all.map(({ weight }, index) => [`c${index}`, weight]));
        const { run, chooser, table } = fleet(counts, { strategy, weights, random: () => random });
        expect(names).toContain(run(user));
        chooser.sweep(table.current);
        expect(names).toContain(run(user));
      },
    ),
  );
});

test('only strategies that use load count submissions', () => {
  expect(fleet(uncounted('a'), { strategy: 'weightedRandom' }).submit().counted).toBeNull();
});

describe('affinity', () => {
  /** Queries that stay at the cluster of their key, whatever its share; beyond, so much more than its share. */
  const [FREE_QUERIES, LOAD_FACTOR] = [4, 1.25];
  const strategy = 'affinity';
  const fleets = fc
    .uniqueArray(fc.record({ name: fc.stringMatching(/^[a-z]{1,6}$/), weight: fc.nat(3) }), {
      ...{ minLength: 2, maxLength: 7, selector: ({ name }: { readonly name: string }) => name },
    })
    .map((all) => Object.fromEntries(all.map(({ name, weight }) => [name, weight])));
  const home = (weights: Readonly<Record<string, number>>, user: string, random = 0) =>
    fleet(idle(...Object.keys(weights)), { strategy, weights, random: () => random }).choose(user);

  test('a key has the same cluster on every replica, in any order of the clusters', () => {
    fc.assert(
      fc.property(fleets, fc.string({ minLength: 1 }), (weights, user) => {
        const cluster = home(weights, user);
        expect(home(Object.fromEntries(Object.entries(weights).reverse()), user, 0.9)).toBe(cluster);
        if (Object.values(weights).some((weight) => weight > 0)) expect(weights[cluster]).toBeGreaterThan(0);
      }),
    );
  });

  test('it stays when another cluster leaves or comes', () => {
    fc.assert(
      fc.property(fleets, fc.nat(), fc.string({ minLength: 1 }), (weights, which, user) => {
        const names = Object.keys(weights);
        const lost = names[which % names.length];
        const left = Object.fromEntries(Object.entries(weights).filter(([name]) => name !== lost));
        // Clusters of weight 0 serve if no other is left.
        fc.pre(Object.values(left).some((weight) => weight > 0));
        const before = home(weights, user);
        if (before !== lost) expect(home(left, user)).toBe(before);
      }),
    );
  });

  test('keys follow the weights', () => {
    const { choose } = fleet(idle('a', 'b', 'c'), { strategy, weights: { a: 1, b: 3, c: 0 } });
    const counts: Record<string, number> = { a: 0, b: 0, c: 0 };
    for (let user = 0; user < 2_000; user++) counts[choose(`user-${user}`)]! += 1;
    expect(counts.b! / counts.a!).toBeGreaterThan(2.5);
    expect(counts.b! / counts.a!).toBeLessThan(3.5);
    expect(counts.c).toBe(0);
  });

  test.each<[string, RequestKey, readonly string[], string | null, boolean]>([
    ['user', { by: 'user' }, [], 'ann', true],
    ['source', { by: 'source' }, ['X-Engine-Source', 'dbt'], 'ann', true],
    ['session', { by: 'session' }, ['X-Engine-Source', 'dbt', 'X-Engine-Trace-Token', 't1'], 'ann', true],
    ['a header', { by: 'header', header: 'x-team' }, ['x-TEAM', 'blue'], null, true],
    ['no such header', { by: 'header', header: 'x-team' }, [], 'ann', false],
    ['no user', { by: 'user' }, [], null, false],
  ])('by %s', (_what, key, headers, user, isSame) => {
    const picks = [0, 0.4, 0.9].map((random) =>
      fleet(idle('a', 'b', 'c'), { strategy, key, random: () => random }).choose(user, headers),
    );
    // Without a key they are spread at random.
    expect(new Set(picks).size).toBe(isSame ? 1 : 3);
  });

  test('no load exceeds the share by more than the factor', () => {
    const users = fc.array(fc.constantFrom('hot', 'hot', 'hot', 'ann', 'bob'), { maxLength: 120 });
    fc.assert(
      fc.property(fleets, users, (weights, queries) => {
        const names = Object.keys(weights);
        const { run } = fleet(idle(...names), { strategy, weights });
        const total = Object.values(weights).reduce((sum, weight) => sum + weight, 0);
        const loads: Record<string, number> = {};
        for (const [index, user] of queries.entries()) {
          const name = run(user);
          loads[name] = (loads[name] ?? 0) + 1;
          const share = total === 0 ? 1 / names.length : (weights[name] ?? 0) / total;
          const allowed = Math.max(FREE_QUERIES, Math.ceil(LOAD_FACTOR * (index + 1) * share));
          expect(loads[name]).toBeLessThanOrEqual(allowed);
        }
      }),
      { numRuns: 60 },
    );
  });

  test('a few queries stay together; load that the checks count moves keys, and they come back', () => {
    const { run, choose, publish, pass } = fleet(idle('a', 'b', 'c'), { strategy });
    const own = choose('ann');
    expect(Array.from({ length: FREE_QUERIES }, () => run('ann'))).toEqual(Array(FREE_QUERIES).fill(own));
    expect(choose('ann')).not.toBe(own);
    pass(1_000);
    for (const name of ['a', 'b', 'c']) publish(name, { queued: 0, running: 0 });
    expect(choose('ann')).toBe(own);
    for (const name of ['a', 'b', 'c']) publish(name, { queued: 0, running: name === own ? 90 : 10 });
    expect(choose('ann')).not.toBe(own);
  });

  test('if no check counts, the queries of the last minute do', () => {
    const { run, choose, pass } = fleet(uncounted('a', 'b'), { strategy });
    const own = choose('ann');
    for (let query = 0; query < 40; query++) run('ann');
    for (let query = 0; query < 40; query++) run('bob');
    pass(61_000);
    expect(choose('ann')).toBe(own);
  });

  test('strategy and key of a group come from its RoutingGroup, else from the configuration', () => {
    let random = 0;
    const key = { by: 'header', header: 'x-team' } as const;
    const { choose, table, groupStrategies, groupAffinities } = fleet(uncounted('a', 'b', 'c'), {
      ...{ strategy: 'weightedRandom', key, random: () => random },
    });
    /** Number of clusters that ten requests of a user go to, each with another header. */
    const spread = () => {
      const picks = Array.from({ length: 10 }, (_, index) => {
        random = index / 10;
        return choose('ann', ['X-Team', `team-${index}`]);
      });
      return new Set(picks).size;
    };
    expect(spread()).toBe(3);
    table.setInputs({ admission: { groups: groupsOf(groupPolicy('adhoc', { strategy: 'affinity' })), limits: [] } });
    expect(spread()).toBe(1);
    table.setInputs({ admission: { groups: groupsOf(groupPolicy('adhoc')), limits: [] } });
    groupStrategies.set('adhoc', 'affinity');
    expect(spread()).toBeGreaterThan(1);
    groupAffinities.set('adhoc', { by: 'user' });
    expect(spread()).toBe(1);
  });
});

describe('least loaded', () => {
  test.each<[string, Record<string, Counts>, string | null, string]>([
    ['fewest queued', { a: { queued: 3, running: 0 }, b: { queued: 2, running: 90 } }, null, 'b'],
    ['then fewest running', { a: { queued: 2, running: 9 }, b: { queued: 2, running: 8 } }, null, 'b'],
    [
      "the user's own queue first",
      { a: { queued: 5, running: 5, byUser: { ann: 1 } }, b: { queued: 50, running: 50, byUser: {} } },
      ...(['ann', 'b'] as const),
    ],
    [
      "others' queues do not count as the user's",
      { a: { queued: 5, running: 5, byUser: { bob: 5 } }, b: { queued: 6, running: 0, byUser: {} } },
      ...(['ann', 'a'] as const),
    ],
    ['one that counts nothing stands at the average', { a: {}, b: { queued: 4, running: 0 } }, null, 'a'],
    [
      '... also if another has less',
      { a: {}, b: { queued: 4, running: 0 }, c: { queued: 2, running: 9 } },
      ...([null, 'c'] as const),
    ],
  ])('%s', (_what, counts, user, expected) => {
    expect(fleet(counts).choose(user)).toBe(expected);
  });

  test('ties go by weight', () => {
    const even = { queued: 1, running: 1 };
    const counts = { a: even, b: even, c: { queued: 2, running: 0 } };
    const weights = { a: 1, b: 3, c: 1000 };
    expect(fleet(counts, { random: () => 0.24, weights }).choose()).toBe('a');
    expect(fleet(counts, { random: () => 0.26, weights }).choose()).toBe('b');
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

  test('a query without a response yet survives new statistics; a failed one counts no more', () => {
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

  test("the user's own queue grows by what the user sent", () => {
    const { run } = fleet({
      a: { queued: 2, running: 0, byUser: { ann: 2 } },
      b: { queued: 9, running: 0, byUser: { ann: 4 } },
    });
    expect(Array.from({ length: 5 }, () => run('ann'))).toEqual(['a', 'a', 'a', 'b', 'a']);
  });

  describe('if checks count nothing', () => {
    const chance = () => {
      let seed = 1;
      return () => {
        seed = (seed * 16_807) % 2_147_483_647;
        return seed / 2_147_483_647;
      };
    };
    /** Queries of each cluster among the next ones. */
    const shares = (run: () => string, queries: number) => {
      const counted: Record<string, number> = {};
      for (let sent = 0; sent < queries; sent++) {
        const name = run();
        counted[name] = (counted[name] ?? 0) + 1;
      }
      return counted;
    };
    const areThirds = (counted: Readonly<Record<string, number>>) =>
      ['a', 'b', 'c'].every((name) => counted[name]! > 3_300 && counted[name]! < 3_400);

    test('a cluster that joins, or is back after an outage, gets its share and no more', () => {
      const joined = fleet(uncounted('a', 'b'), { random: chance() });
      shares(joined.run, 10_000);
      joined.pass(1_000);
      joined.publish('c', {}, true);
      expect(areThirds(shares(joined.run, 10_000))).toBe(true);
      joined.fail('c');
      joined.pass(30_000);
      shares(joined.run, 10_000);
      joined.pass(1_000);
      joined.publish('c', {});
      expect(areThirds(shares(joined.run, 10_000))).toBe(true);
    });

    test('queries count for a minute', () => {
      const { run, pass, choose } = fleet(uncounted('a', 'b'));
      expect([run(), run(), run()]).toEqual(['a', 'b', 'a']);
      pass(59_000);
      expect(choose()).toBe('b');
      pass(2_000);
      expect(choose()).toBe('a');
    });

    test('one among others that are counted is neither avoided nor flooded', () => {
      const { run, publish, pass } = fleet({ a: {}, b: { queued: 0, running: 0 } }, { random: chance() });
      let toA = 0;
      for (let second = 0; second < 600; second++) {
        // Each query runs for less than a second.
        toA += shares(run, 10).a ?? 0;
        pass(1_000);
        publish('b', { queued: 0, running: 0 });
      }
      expect(toA / 6_000).toBeGreaterThan(0.45);
      expect(toA / 6_000).toBeLessThan(0.55);
    });
  });

  test('with statistics that are right, no cluster is ever more than one query ahead', () => {
    const names = ['a', 'b', 'c'] as const;
    const step = fc.oneof(
      { weight: 6, arbitrary: fc.record({ user: fc.constantFrom('ann', 'bob', null) }) },
      { weight: 1, arbitrary: fc.record({ poll: fc.constantFrom(...names) }) },
    );
    const chances = fc.float({ min: 0, max: Math.fround(0.99), noNaN: true });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 80 }), chances, (steps, chance) => {
        const truth: Record<string, number> = { a: 0, b: 0, c: 0 };
        const { run, publish, pass } = fleet(idle(...names), { random: () => chance });
        for (const one of steps) {
          if ('user' in one) truth[run(one.user)]! += 1;
          else {
            // Statistics are asked for some time after the last query; they show all of them.
            pass(500);
            publish(one.poll, { queued: 0, running: truth[one.poll]! });
          }
          const counts = Object.values(truth);
          expect(Math.max(...counts) - Math.min(...counts)).toBeLessThanOrEqual(1);
        }
      }),
    );
  });

  test('no other cluster beats the chosen one in own queue, queue and running queries together', () => {
    const upTo5 = fc.integer({ min: 0, max: 5 });
    const counts = fc.record({ queued: upTo5, running: upTo5, ann: upTo5 });
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
});
