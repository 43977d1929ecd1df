import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { GroupPolicy } from '../../../src/routing/admissionPolicy.ts';
import { chooseCluster, type PickCluster } from '../../../src/routing/clusterChooser.ts';
import { explainRouting } from '../../../src/routing/explanation.ts';
import type { GroupDecision } from '../../../src/routing/groupRouter.ts';
import { neverChecked, type RoutingTable, RoutingTableHolder } from '../../../src/routing/routingTable.ts';
import { type ChoiceStep, explainNoCluster, stepsText } from '../../../src/routing/storedDecision.ts';
import { noTrace } from '../../../src/rules/decision.ts';
import { groupPolicy, groupsOf } from '../../support/groupPolicy.ts';
import { clusterAt } from '../../support/routableCluster.ts';

/**
 * `ok`; `full`: healthy without room; `sick`: UNHEALTHY, and when it was healthy last; `new`: PENDING; `off`: inactive; `apart`: healthy
 * and rolloutOnly.
 */
type Condition = 'ok' | 'apart' | 'full' | 'sick' | `sick${number}` | 'new' | 'off';
/** By routing group: clusters with their condition. */
type Fleet = Readonly<Record<string, Readonly<Record<string, Condition>>>>;

function tableOf(fleet: Fleet, policies: readonly GroupPolicy[]): RoutingTable {
  const holder = new RoutingTableHolder();
  const clusters = Object.entries(fleet).flatMap(([routingGroup, members]) =>
    Object.entries(members).map(([name, condition]) => ({
      ...clusterAt(name, `http://${name}:8080`, { routingGroup, maxRunningQueries: 5, active: condition !== 'off' }),
      rolloutOnly: condition === 'apart',
      condition,
    })),
  );
  holder.setInputs({ clusters, admission: { groups: groupsOf(...policies), limits: [] } });
  for (const { name, proxyTo, condition } of clusters) {
    const healthyAt = Number(/\d+/.exec(condition)?.[0] ?? 0);
    if (condition !== 'new' && (/ok|full|apart/.test(condition) || healthyAt > 0))
      holder.setHealth(name, proxyTo, { ...neverChecked, status: 'HEALTHY', reason: 'fine', checkedAt: healthyAt });
    if (condition.startsWith('sick'))
      holder.setHealth(name, proxyTo, { ...neverChecked, status: 'UNHEALTHY', reason: 'refused', checkedAt: 99 });
  }
  return holder.current;
}

const roomIn = (fleet: Fleet) => (cluster: string) =>
  !Object.values(fleet).some((members) => members[cluster] === 'full');
const wish = (more: Partial<GroupDecision> = {}): GroupDecision => ({
  group: 'etl',
  cluster: null,
  rule: null,
  decidedBy: 'header',
  onUnavailable: 'fallback',
  trace: noTrace,
  ...more,
});
const first: PickCluster = (candidates) => candidates[0] as ReturnType<PickCluster>;
const spill = groupPolicy('etl', { fallbacks: ['spill', 'more'] });
const whenFull = groupPolicy('etl', { fallbacks: ['spill', 'more'], fallbackWhen: 'full' });
const waits = groupPolicy('etl', { fallbacks: ['spill'], queue: { whenUnavailable: 'wait' } });
const bestEffort = groupPolicy('etl', { fallbacks: ['spill'], bestEffort: true });

interface Case {
  readonly fleet: Fleet;
  readonly policy: GroupPolicy;
  readonly decision?: Partial<GroupDecision>;
  /** The cluster; null: refused. */
  readonly to: string | null;
  /** In words, or the refusal. */
  readonly steps: string | null;
}

const cases: Readonly<Record<string, Case>> = {
  'the group has a healthy cluster': {
    fleet: { etl: { e1: 'sick', e2: 'ok' }, spill: { s1: 'ok' } },
    policy: spill,
    to: 'e2',
    steps: null,
  },
  'its first fallback': {
    fleet: { etl: { e1: 'sick', e2: 'off' }, spill: { s1: 'ok' }, more: { m1: 'ok' }, adhoc: { a: 'ok' } },
    policy: spill,
    to: 's1',
    steps: 'group etl: no healthy cluster (e1 is UNHEALTHY (refused); e2 is inactive); fallback spill: s1',
  },
  'the next one': {
    fleet: { etl: { e1: 'sick' }, spill: { s1: 'new' }, more: { m1: 'ok' }, adhoc: { a: 'ok' } },
    policy: spill,
    to: 'm1',
    steps:
      'group etl: no healthy cluster (e1 is UNHEALTHY (refused)); fallback spill: no healthy cluster (s1 is PENDING (not checked yet)); fallback more: m1',
  },
  'the default group comes last': {
    fleet: { etl: { e1: 'sick' }, adhoc: { a: 'ok' } },
    policy: spill,
    to: 'a',
    steps:
      'group etl: no healthy cluster (e1 is UNHEALTHY (refused)); fallback spill: no cluster is registered there; fallback more: no cluster is registered there; default group adhoc: a',
  },
  'nobody is left': {
    fleet: { etl: { e1: 'sick' }, spill: { s1: 'sick' }, adhoc: { a: 'off' } },
    policy: spill,
    to: null,
    steps:
      'No healthy cluster in routing group "etl" nor in its fallbacks "spill", "more" nor in the default routing group "adhoc": e1 is UNHEALTHY (refused); s1 is UNHEALTHY (refused); a is inactive',
  },
  'a rule that rejects keeps it in its group': {
    fleet: { etl: { e1: 'sick' }, spill: { s1: 'ok' }, adhoc: { a: 'ok' } },
    policy: spill,
    decision: { onUnavailable: 'reject', rule: 'strict' },
    to: null,
    steps: 'No healthy cluster in routing group "etl" (chosen by rule "strict"): e1 is UNHEALTHY (refused)',
  },
  'a pinned cluster has no fallbacks but the default group': {
    fleet: { etl: { e1: 'sick' }, spill: { s1: 'ok' }, adhoc: { a: 'ok' } },
    policy: spill,
    decision: { cluster: 'e1' },
    to: 'a',
    steps: 'cluster e1 is UNHEALTHY (refused); default group adhoc: a',
  },
  'fallbacks that lead back': {
    fleet: { etl: { e1: 'sick' }, adhoc: { a: 'sick' } },
    policy: groupPolicy('etl', { fallbacks: ['etl', 'adhoc', 'etl', 'adhoc'] }),
    to: null,
    steps:
      'No healthy cluster in routing group "etl" nor in its fallback "adhoc": e1 is UNHEALTHY (refused); a is UNHEALTHY (refused)',
  },
  'a cluster with room before a full one': {
    fleet: { etl: { e1: 'full', e2: 'ok' } },
    policy: spill,
    to: 'e2',
    steps: null,
  },
  'a full group waits': {
    fleet: { etl: { e1: 'full' }, spill: { s1: 'ok' } },
    policy: spill,
    to: 'e1',
    steps: null,
  },
  'a full group spills over': {
    fleet: { etl: { e1: 'full', e2: 'sick' }, spill: { s1: 'full' }, more: { m1: 'ok' } },
    policy: whenFull,
    to: 'm1',
    steps:
      'group etl: no cluster has room (e1 is full (maxRunningQueries 5); e2 is UNHEALTHY (refused)); fallback spill: no cluster has room (s1 is full (maxRunningQueries 5)); fallback more: m1',
  },
  'all are full: it waits for its own group, and not in the default one': {
    fleet: { etl: { e1: 'full' }, spill: { s1: 'full' }, adhoc: { a: 'ok' } },
    policy: whenFull,
    to: 'e1',
    steps:
      'group etl: no cluster has room (e1 is full (maxRunningQueries 5)); fallback spill: no cluster has room (s1 is full (maxRunningQueries 5)); fallback more: no cluster is registered there; group etl: e1',
  },
  'the group is down and its fallbacks are full': {
    fleet: { etl: { e1: 'sick' }, spill: { s1: 'full' }, more: { m1: 'full' }, adhoc: { a: 'ok' } },
    policy: whenFull,
    to: 's1',
    steps:
      'group etl: no healthy cluster (e1 is UNHEALTHY (refused)); fallback spill: no cluster has room (s1 is full (maxRunningQueries 5)); fallback more: no cluster has room (m1 is full (maxRunningQueries 5)); fallback spill: s1',
  },
  'a full group of a rule that rejects waits': {
    fleet: { etl: { e1: 'full' }, spill: { s1: 'ok' } },
    policy: whenFull,
    decision: { onUnavailable: 'reject' },
    to: 'e1',
    steps: null,
  },
  'where queries wait, the default group does not serve': {
    fleet: { etl: { e1: 'sick' }, spill: { s1: 'off' }, adhoc: { a: 'ok' } },
    policy: waits,
    to: null,
    steps:
      'No healthy cluster in routing group "etl" nor in its fallback "spill": e1 is UNHEALTHY (refused); s1 is inactive',
  },
  'best effort is the last resort': {
    fleet: { etl: { e1: 'sick' }, adhoc: { a: 'ok' } },
    policy: bestEffort,
    to: 'a',
    steps:
      'group etl: no healthy cluster (e1 is UNHEALTHY (refused)); fallback spill: no cluster is registered there; default group adhoc: a',
  },
  'best effort: one that was not checked yet': {
    fleet: { etl: { e1: 'sick9', e2: 'new', e3: 'off' }, adhoc: { a: 'sick9' } },
    policy: bestEffort,
    decision: { onUnavailable: 'reject' },
    to: 'e2',
    steps:
      'group etl: no healthy cluster (e1 is UNHEALTHY (refused); e2 is PENDING (not checked yet); e3 is inactive); best effort: e2 is PENDING (not checked yet)',
  },
  'best effort: the one that was healthy last': {
    fleet: { etl: { e0: 'sick', e1: 'sick3', e2: 'sick7', e3: 'off' } },
    policy: bestEffort,
    decision: { onUnavailable: 'reject' },
    to: 'e2',
    steps:
      'group etl: no healthy cluster (e0 is UNHEALTHY (refused); e1 is UNHEALTHY (refused); e2 is UNHEALTHY (refused); e3 is inactive); best effort: e2 is UNHEALTHY (refused)',
  },
  'a cluster for rollouts is kept out': {
    fleet: { etl: { e1: 'apart', e2: 'ok' } },
    policy: spill,
    to: 'e2',
    steps: null,
  },
  'a cluster for rollouts is no fallback, no default and no best effort': {
    fleet: { etl: { e1: 'apart' }, spill: { s1: 'apart' }, adhoc: { a: 'apart' } },
    policy: bestEffort,
    to: null,
    steps:
      'No healthy cluster in routing group "etl" nor in its fallback "spill" nor in the default routing group "adhoc": e1 takes only queries of rollouts (rolloutOnly); s1 takes only queries of rollouts (rolloutOnly); a takes only queries of rollouts (rolloutOnly)',
  },
  'a rule may name a cluster for rollouts': {
    fleet: { etl: { e1: 'apart', e2: 'ok' } },
    policy: spill,
    decision: { cluster: 'e1' },
    to: 'e1',
    steps: null,
  },
  'best effort does not try inactive clusters': {
    fleet: { etl: { e1: 'off' } },
    policy: bestEffort,
    decision: { onUnavailable: 'reject' },
    to: null,
    steps: 'No healthy cluster in routing group "etl": e1 is inactive',
  },
};

describe.each(Object.entries(cases))('%s', (_what, { fleet, policy, decision: more = {}, to, steps }) => {
  const table = tableOf(fleet, [policy]);
  const decision = wish(more);

  test('is what happens', () => {
    const choice = chooseCluster(table, decision, 'adhoc', null, first, roomIn(fleet));
    expect(choice.cluster?.name ?? null).toBe(to);
    if (choice.cluster === null) expect(explainNoCluster(decision, choice)).toBe(steps);
    else expect(choice.steps === null ? null : stepsText(choice.steps)).toBe(steps);
  });

  test('is explained', () => {
    const routing = { decision: { ...decision, decidedBy: 'header' as const }, refused: null };
    const explained = explainRouting(table, routing, 'adhoc', null, roomIn(fleet));
    expect(explained.outcome).toBe(to === null ? 'noCluster' : 'routed');
    expect(explained.clusters.find(({ taken }) => taken)?.cluster ?? null).toBe(to);
    if (to !== null) expect(explained.steps.join('; ')).toBe(steps ?? '');
  });
});

test('the sentences of the explanation', () => {
  const messageOf = (fleet: Fleet, policy: GroupPolicy, more: Partial<GroupDecision> = {}) => {
    const routing = { decision: { ...wish(more), decidedBy: 'header' as const }, refused: null };
    return explainRouting(tableOf(fleet, [policy]), routing, 'adhoc', null, roomIn(fleet)).message;
  };
  expect([
    messageOf({ etl: { e1: 'sick' }, spill: { s1: 'ok', s2: 'ok' } }, spill),
    messageOf({ etl: { e1: 'full' }, spill: { s1: 'ok' } }, whenFull),
    messageOf({ etl: { e1: 'sick' }, adhoc: { a: 'ok' } }, spill),
    messageOf({ etl: { e1: 'sick' } }, bestEffort),
    messageOf({ etl: { e1: 'sick' }, adhoc: { a: 'ok' } }, waits),
  ]).toEqual([
    's1 or s2: routing group etl by header, which has none; its fallback spill serves',
    's1: routing group etl by header, which is full; its fallback spill serves',
    'a: routing group etl by header, which has none; the default group adhoc serves',
    'e1: routing group etl by header, which has no healthy one; best effort',
    'no cluster can take it: routing group etl by header; a query waits for one, at most 600 s',
  ]);
});

test('the explanation says which clusters are full', () => {
  const reasonsOf = (fleet: Fleet, policy: GroupPolicy) => {
    const routing = { decision: { ...wish(), decidedBy: 'header' as const }, refused: null };
    const { clusters } = explainRouting(tableOf(fleet, [policy]), routing, 'adhoc', null, roomIn(fleet));
    return clusters.map(({ cluster, taken, reason }) => `${cluster} ${taken ? 'taken' : 'not'}: ${reason}`);
  };
  const full = 'full (5 queries, maxRunningQueries)';
  const others = { adhoc: { a: 'full' } } as const;
  expect(reasonsOf({ etl: { e1: 'full', e2: 'ok' }, ...others }, spill)).toEqual([
    'a not: belongs to the group adhoc',
    `e1 not: ${full}`,
    'e2 taken: active and healthy',
  ]);
  expect(reasonsOf({ etl: { e1: 'full' }, spill: { s1: 'ok' } }, whenFull)).toEqual([
    `e1 not: ${full}`,
    's1 taken: active and healthy',
  ]);
  expect(reasonsOf({ etl: { e1: 'full' } }, spill)).toEqual([`e1 taken: active and healthy, ${full}`]);
});

test('a group of hundreds of clusters leaves a short text', () => {
  const members = Object.fromEntries(Array.from({ length: 300 }, (_, index) => [`e${index}`, 'sick' as const]));
  const { steps } = chooseCluster(
    tableOf({ etl: members, spill: { s: 'ok' } }, [spill]),
    wish(),
    'adhoc',
    null,
    first,
  ) as {
    steps: readonly ChoiceStep[];
  };
  expect(stepsText(steps)).toMatch(/; 295 more\); fallback spill: s$/);
  expect(stepsText(steps).length).toBeLessThan(500);
});

const condition = fc.constantFrom<Condition>('ok', 'apart', 'full', 'sick', 'sick3', 'new', 'off');
const groupName = fc.constantFrom('etl', 'spill', 'more', 'adhoc', 'gone');

test('whatever is declared: an end, no cluster that may not take it, and none refused while a healthy one may', () => {
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.constantFrom('etl', 'spill', 'more', 'adhoc'), condition), { maxLength: 8 }),
      fc.array(
        fc.record({
          name: groupName,
          fallbacks: fc.array(groupName, { maxLength: 5 }),
          fallbackWhen: fc.constantFrom('unavailable' as const, 'full' as const),
          bestEffort: fc.boolean(),
        }),
        { maxLength: 3 },
      ),
      groupName,
      fc.boolean(),
      (clusters, declared, group, rejects) => {
        const fleet: Record<string, Record<string, Condition>> = {};
        clusters.forEach(([of, how], index) => {
          fleet[of] = { ...fleet[of], [`c${index}`]: how };
        });
        const policies = declared.map(({ name, ...more }) => groupPolicy(name, more));
        const table = tableOf(fleet, policies);
        const decision = wish({ group, onUnavailable: rejects ? 'reject' : 'fallback' });
        const { cluster } = chooseCluster(table, decision, 'adhoc', null, first, roomIn(fleet));
        const allowed = rejects ? [group] : [group, ...(table.admission.groups.get(group)?.fallbacks ?? []), 'adhoc'];
        const healthy = allowed.flatMap((name) =>
          Object.entries(fleet[name] ?? {}).flatMap(([name, how]) => (how === 'ok' || how === 'full' ? [name] : [])),
        );
        if (cluster === null) expect(healthy).toEqual([]);
        else {
          expect(cluster.active).toBe(true);
          expect(allowed).toContain(cluster.routingGroup);
          if (healthy.length > 0) expect(healthy).toContain(cluster.name);
        }
      },
    ),
  );
});
