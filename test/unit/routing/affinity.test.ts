import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { productNames } from '../../../src/model/names.ts';
import type { RequestKey } from '../../../src/routing/admissionPolicy.ts';
import { ClusterChooser } from '../../../src/routing/clusterChooser.ts';
import { requestKeyOf } from '../../../src/routing/requestKey.ts';
import { type ClusterEntry, neverChecked } from '../../../src/routing/routingTable.ts';
import { AffinityStrategy, FREE_QUERIES, LOAD_FACTOR } from '../../../src/routing/strategies/affinity.ts';
import type { PickRequest } from '../../../src/routing/strategies/strategy.ts';
import { RoutingTableHolder } from '../../../src/routing/tableHolder.ts';
import { noTrace } from '../../../src/rules/decision.ts';
import { groupPolicy, groupsOf } from '../../support/groupPolicy.ts';
import { clusterAt } from '../../support/routableCluster.ts';

const names = productNames('Engine');
const byUser = (): RequestKey => ({ by: 'user' });
const of = (user: string | null, headers: readonly string[] = []): PickRequest => ({ user, headers });

const entry = (name: string, weight = 100, running: number | null = 0): ClusterEntry => ({
  ...clusterAt(name, `http://${name}:8080`, { weight }),
  health: {
    ...neverChecked,
    status: 'HEALTHY',
    queued: running === null ? null : 0,
    running,
    countsAsOf: running === null ? null : 1,
  },
});
const strategy = (random = () => 0, now = () => 2) => new AffinityStrategy({ random, monotonic: now, names });
const users = Array.from({ length: 2_000 }, (_, index) => `user-${index}`);
/** The cluster of each user where nothing runs. */
const places = (clusters: readonly ClusterEntry[]) => {
  const affinity = strategy();
  return users.map((user) => affinity.pick(clusters, of(user), byUser).name);
};

const fleet = fc
  .uniqueArray(fc.record({ name: fc.stringMatching(/^[a-z]{1,6}$/), weight: fc.nat(3) }), {
    minLength: 2,
    maxLength: 7,
    selector: ({ name }) => name,
  })
  .map((all) => all.map(({ name, weight }) => entry(name, weight)));

describe('the cluster of a key', () => {
  test('is the same on every replica, in any order of the clusters', () => {
    fc.assert(
      fc.property(fleet, fc.string({ minLength: 1 }), (clusters, user) => {
        const one = strategy(() => 0).pick(clusters, of(user), byUser);
        const other = strategy(() => 0.9).pick([...clusters].reverse(), of(user), byUser);
        const isTie = clusters.every(({ weight }) => weight === 0);
        if (!isTie) expect(one.weight).toBeGreaterThan(0);
        expect(one.name).toBe(other.name);
      }),
    );
  });

  test('stays when another cluster leaves or comes', () => {
    fc.assert(
      fc.property(fleet, fc.nat(), fc.string({ minLength: 1 }), (clusters, which, user) => {
        const lost = clusters[which % clusters.length] as ClusterEntry;
        const left = clusters.filter((cluster) => cluster !== lost);
        // Clusters of weight 0 serve where there are no others.
        fc.pre(left.some(({ weight }) => weight > 0));
        const before = strategy().pick(clusters, of(user), byUser);
        const after = strategy().pick(left, of(user), byUser);
        if (before !== lost) expect(after).toBe(before);
      }),
    );
  });

  test('follows the weights', () => {
    const counts = new Map<string, number>();
    for (const name of places([entry('a', 1), entry('b', 3), entry('c', 0)]))
      counts.set(name, (counts.get(name) ?? 0) + 1);
    expect(counts.get('b')! / counts.get('a')!).toBeGreaterThan(2.5);
    expect(counts.get('b')! / counts.get('a')!).toBeLessThan(3.5);
    expect(counts.get('c')).toBeUndefined();
  });

  test.each<[string, string, readonly string[], string | null, string | null]>([
    ['user', 'user', [], 'ann', '"ann"'],
    ['source', 'source', ['X-Engine-Source', 'dbt'], 'ann', 'dbt'],
    ['session', 'session', ['X-Engine-Source', 'dbt', 'X-Engine-Trace-Token', 't1'], 'ann', '["ann","dbt",null,"t1"]'],
    ['a header', 'header:X-Team', ['x-TEAM', 'blue'], null, 'blue'],
    ['no such header', 'header:X-Team', [], 'ann', null],
    ['no user', 'user', [], null, null],
  ])('by %s', (_what, by, headers, user, key) => {
    const clusters = [entry('a'), entry('b'), entry('c')];
    const pickWith = (random: number) =>
      strategy(() => random).pick(clusters, of(user, headers), () => requestKeyOf(by)).name;
    const picked = new Set([0, 0.4, 0.9].map(pickWith));
    // Without a key they are spread at random.
    expect(picked.size).toBe(key === null ? 3 : 1);
  });
});

describe('the load', () => {
  test('of no cluster exceeds its share by more than the factor', () => {
    fc.assert(
      fc.property(
        fleet,
        fc.array(fc.constantFrom('hot', 'hot', 'hot', 'ann', 'bob'), { maxLength: 120 }),
        (clusters, queries) => {
          const affinity = strategy();
          const loads = new Map<string, number>();
          const total = clusters.reduce((sum, { weight }) => sum + weight, 0);
          for (const [index, user] of queries.entries()) {
            const { name, weight } = affinity.pick(clusters, of(user), byUser);
            affinity.countSubmission(clusters.find((cluster) => cluster.name === name)!).confirm();
            const load = (loads.get(name) ?? 0) + 1;
            loads.set(name, load);
            const share = total === 0 ? 1 / clusters.length : weight / total;
            expect(load).toBeLessThanOrEqual(Math.max(FREE_QUERIES, Math.ceil(LOAD_FACTOR * (index + 1) * share)));
          }
        },
      ),
      { numRuns: 60 },
    );
  });

  test('a few queries stay together, however little runs elsewhere', () => {
    const clusters = [entry('a'), entry('b'), entry('c')];
    const affinity = strategy();
    const picked = Array.from({ length: FREE_QUERIES }, () => {
      const cluster = affinity.pick(clusters, of('ann'), byUser);
      affinity.countSubmission(cluster).confirm();
      return cluster.name;
    });
    expect(new Set(picked).size).toBe(1);
    expect(affinity.pick(clusters, of('ann'), byUser).name).not.toBe(picked[0]);
  });

  test('that the checks count moves keys, and they come back', () => {
    const idle = [entry('a'), entry('b'), entry('c')];
    const home = strategy().pick(idle, of('ann'), byUser).name;
    const busy = idle.map(({ name }) => entry(name, 100, name === home ? 90 : 10));
    expect(strategy().pick(busy, of('ann'), byUser).name).not.toBe(home);
    expect(strategy().pick(idle, of('ann'), byUser).name).toBe(home);
  });

  test('where no check counts, the queries of the last minute do', () => {
    let now = 0;
    const clusters = [entry('a', 100, null), entry('b', 100, null)];
    const affinity = strategy(
      () => 0,
      () => now,
    );
    const home = affinity.pick(clusters, of('ann'), byUser);
    for (let count = 0; count < 40; count++) affinity.countSubmission(home).confirm();
    expect(affinity.pick(clusters, of('ann'), byUser)).not.toBe(home);
    now += 61_000;
    expect(affinity.pick(clusters, of('ann'), byUser)).toBe(home);
  });
});

test('the strategy and the key of a group come from its RoutingGroup, else from the configuration', () => {
  const table = new RoutingTableHolder();
  const clusters = ['a', 'b', 'c'].map((name) => clusterAt(name, `http://${name}`, { routingGroup: 'bi' }));
  table.setInputs({ clusters });
  for (const { name, proxyTo } of clusters) table.setHealth(name, proxyTo, { ...neverChecked, status: 'HEALTHY' });
  let random = 0;
  const settings = {
    ...{ defaultRoutingGroup: 'adhoc', strategy: 'weightedRandom' as const, affinity: requestKeyOf('user') },
    ...{ groupStrategies: new Map(), groupAffinities: new Map([['bi', requestKeyOf('header:X-Team')]]) },
  };
  const chooser = new ClusterChooser(settings, { random: () => random, monotonic: () => 0, names });
  const decision = { ...{ group: 'bi', cluster: null, rule: null }, trace: noTrace } as const;
  /** Clusters that ten requests of one user go to, whose header differs. */
  const spread = () => {
    const picked = Array.from({ length: 10 }, (_, index) => {
      random = index / 10;
      const request = of('ann', ['X-Team', `team-${index}`]);
      const way = { ...decision, decidedBy: 'header', onUnavailable: 'fallback' } as const;
      return chooser.choose(table.current, way, request, null).cluster?.name;
    });
    return new Set(picked).size;
  };
  expect(spread()).toBe(3);
  table.setInputs({ admission: { groups: groupsOf(groupPolicy('bi', { strategy: 'affinity' })), limits: [] } });
  expect(spread()).toBe(1);
  table.setInputs({ admission: { groups: groupsOf(groupPolicy('bi')), limits: [] } });
  settings.groupStrategies.set('bi', 'affinity');
  expect(spread()).toBeGreaterThan(1);
  settings.groupAffinities.clear();
  expect(spread()).toBe(1);
});
