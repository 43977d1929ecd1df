import { describe, expect, test } from 'vitest';
import { productNames } from '../../../src/model/names.ts';
import { chooseCluster, explainNoCluster, type PickCluster } from '../../../src/routing/clusterChoice.ts';
import type { GroupDecision } from '../../../src/routing/groupDecision.ts';
import { GroupRouter } from '../../../src/routing/groupRouter.ts';
import { emptyTable, neverChecked, type RoutableCluster } from '../../../src/routing/routingTable.ts';
import { pickByWeight } from '../../../src/routing/strategies/weightedRandom.ts';
import { RoutingTableHolder } from '../../../src/routing/tableHolder.ts';
import { noTrace, type RuleDecision } from '../../../src/rules/decision.ts';
import { clusterAt } from '../../support/routableCluster.ts';
import { sampleRequest } from '../../support/ruleAttempt.ts';
import { decided } from '../../support/ruleDecision.ts';

const at =
  (random: number): PickCluster =>
  (candidates) =>
    pickByWeight(candidates, () => random);

describe('the group', () => {
  test.each<[string, RuleDecision | null, string | undefined, string, GroupDecision['decidedBy']]>([
    ['no rules, header', null, 'etl', 'etl', 'header'],
    ['no rules, no header', null, undefined, 'adhoc', 'default'],
    ['no rules, empty header', null, '', 'adhoc', 'default'],
    ['a rule sets it', decided({ routingGroup: 'bi', rule: 'r' }), 'etl', 'bi', 'rule'],
    ['no rule sets it: the header is not consulted', decided({}), 'etl', 'adhoc', 'default'],
    ['a rule sets it to ""', decided({ routingGroup: '', rule: 'r' }), 'etl', 'adhoc', 'default'],
    ['no rules could be loaded', decided({ useHeader: true }), 'etl', 'etl', 'header'],
    ['no rules could be loaded, no header', decided({ useHeader: true }), undefined, 'adhoc', 'default'],
    [
      'a resource rule beside a broken file',
      decided({ useHeader: true, routingGroup: 'bi', rule: 'r' }),
      'etl',
      'bi',
      'rule',
    ],
    ['a pinned cluster', decided({ cluster: 'a', rule: 'r' }), 'etl', 'adhoc', 'rule'],
  ])('%s', (_what, decision, header, group, decidedBy) => {
    const chain = new GroupRouter(productNames('Engine'), 'adhoc');
    const rules = decision === null ? null : { needsAnalysis: false, decide: () => decision };
    const table = { ...emptyTable, version: 1, rules };
    const headers = header === undefined ? [] : ['x-ENGINE-routing-group', header];
    expect(chain.decide({ ...sampleRequest, headers }, table)).toMatchObject({ decision: { group, decidedBy } });
  });
});

describe('the cluster', () => {
  const cluster = (name: string, routingGroup: string, more: Partial<RoutableCluster> = {}): RoutableCluster =>
    clusterAt(name, `http://${name}:8080`, { routingGroup, ...more });
  const tableOf = (clusters: readonly RoutableCluster[], sick: Record<string, 'UNHEALTHY' | 'PENDING'> = {}) => {
    const holder = new RoutingTableHolder();
    holder.setInputs({ clusters });
    for (const { name, proxyTo } of clusters) {
      const status = sick[name] ?? 'HEALTHY';
      holder.setHealth(name, proxyTo, { ...neverChecked, status, reason: 'why', checkedAt: 1 });
    }
    return holder.current;
  };
  const wish = (more: Partial<GroupDecision> = {}): GroupDecision => ({
    group: 'etl',
    cluster: null,
    rule: null,
    decidedBy: 'header',
    onUnavailable: 'fallback',
    trace: noTrace,
    ...more,
  });
  const all = [cluster('a', 'adhoc'), cluster('e1', 'etl'), cluster('e2', 'etl'), cluster('E', 'ETL')];

  test.each<[string, ReturnType<typeof tableOf>, GroupDecision, number, string | null, boolean]>([
    ['low random', tableOf(all), wish(), 0, 'e1', false],
    ['high random', tableOf(all), wish(), 0.999, 'e2', false],
    ['groups are case-sensitive', tableOf(all), wish({ group: 'ETL' }), 0.5, 'E', false],
    ['unhealthy left out', tableOf(all, { e1: 'UNHEALTHY' }), wish(), 0, 'e2', false],
    ['pending left out', tableOf(all, { e2: 'PENDING' }), wish(), 0.999, 'e1', false],
    ['inactive left out', tableOf([...all, cluster('e0', 'etl', { active: false })]), wish(), 0, 'e1', false],
    [
      'weights',
      tableOf([cluster('x', 'etl', { weight: 1 }), cluster('y', 'etl', { weight: 9 })]),
      wish(),
      0.2,
      'y',
      false,
    ],
    ['weight 0', tableOf([cluster('x', 'etl', { weight: 0 }), cluster('y', 'etl')]), wish(), 0, 'y', false],
    [
      'weights all 0',
      tableOf([cluster('x', 'etl', { weight: 0 }), cluster('y', 'etl', { weight: 0 })]),
      wish(),
      0.9,
      'y',
      false,
    ],
    ['fallback', tableOf(all, { e1: 'UNHEALTHY', e2: 'UNHEALTHY' }), wish(), 0, 'a', true],
    ['unknown group', tableOf(all), wish({ group: 'none' }), 0, 'a', true],
    ['no fallback', tableOf(all), wish({ group: 'none', onUnavailable: 'reject' }), 0, null, false],
    ['pinned', tableOf(all), wish({ cluster: 'e2' }), 0, 'e2', false],
    ['pinned, sick', tableOf(all, { e2: 'UNHEALTHY' }), wish({ cluster: 'e2' }), 0, 'a', true],
    [
      'pinned, sick, no fallback',
      tableOf(all, { e2: 'UNHEALTHY' }),
      wish({ cluster: 'e2', onUnavailable: 'reject' }),
      0,
      null,
      false,
    ],
    ['pinned, unknown, no fallback', tableOf(all), wish({ cluster: 'z', onUnavailable: 'reject' }), 0, null, false],
  ])('%s', (_what, table, decision, random, expected, fallback) => {
    const choice = chooseCluster(table, decision, 'adhoc', null, at(random));
    expect(choice.cluster?.name ?? null).toBe(expected);
    if (choice.cluster !== null) expect(choice.fallback).toBe(fallback);
  });

  test('clusters that failed the request are left out, and named', () => {
    const excluded = new Map([
      ['e1', 'connection refused'],
      ['e2', 'connection reset'],
    ]);
    const one = chooseCluster(tableOf(all), wish(), 'adhoc', new Map([['e1', 'x']]), at(0));
    expect(one.cluster?.name).toBe('e2');
    const decision = wish({ onUnavailable: 'reject', rule: 'to "etl"' });
    const none = chooseCluster(tableOf(all), decision, 'adhoc', excluded, at(0));
    expect(none.cluster === null && explainNoCluster(decision, none)).toBe(
      'No healthy cluster in routing group "etl" (chosen by rule "to \\"etl\\""): e1 failed (connection refused); e2 failed (connection reset)',
    );
  });

  test.each([
    [{ e1: 'UNHEALTHY', e2: 'PENDING', a: 'UNHEALTHY' } as const, true],
    [{ e1: 'UNHEALTHY', e2: 'UNHEALTHY', a: 'UNHEALTHY' } as const, false],
  ])('with %j pending is %s', (sick, pending) => {
    expect(chooseCluster(tableOf(all, sick), wish(), 'adhoc', null, at(0))).toMatchObject({ cluster: null, pending });
  });
});
