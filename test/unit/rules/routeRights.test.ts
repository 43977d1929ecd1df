import { describe, expect, test } from 'vitest';
import type { RoutingRule, RoutingRuleSpec } from '../../../src/kinds/routingRule/spec.ts';
import { GroupBindings, type GroupRights } from '../../../src/model/groupBindings.ts';
import type { RuleDecision } from '../../../src/rules/decision.ts';
import { routeRights } from '../../../src/rules/routeRights.ts';
import type { CompiledRules, RuleFailure } from '../../../src/rules/ruleCompiler.ts';
import { defaultRuleCompiler, resourceRule } from '../../support/resourceRules.ts';
import { clusterAt } from '../../support/routableCluster.ts';
import { sampleRequest } from '../../support/ruleAttempt.ts';

const onlyEtl = { etl: { join: null, route: ['team-etl'] } };
const clusters = [clusterAt('e1', 'http://e1', { routingGroup: 'etl' }), clusterAt('a1', 'http://a1')];
const rights = (groups: Readonly<Record<string, GroupRights>> = onlyEtl, routed = clusters) =>
  routeRights(new GroupBindings(groups), routed, 'adhoc');

/** A rule of a namespace. */
const ruleOf = (namespace: string, name: string, spec: Partial<RoutingRuleSpec>): RoutingRule => {
  const rule = resourceRule(name, spec);
  return { ...rule, metadata: { ...rule.metadata, namespace } };
};
const puts = (...groups: string[]) => ({ actions: groups.map((group) => `result.put("routingGroup", ${group})`) });

function decide({ ruleSet }: CompiledRules): RuleDecision {
  if (ruleSet === null) throw new Error('there is no rule set');
  return ruleSet.decide(sampleRequest);
}

describe('what routeTo names', () => {
  test.each<[string, string, Partial<RoutingRuleSpec>, string | null]>([
    ['its own group', 'team-etl', { routeTo: { routingGroup: 'etl' } }, null],
    ['a group without an entry', 'other', { routeTo: { routingGroup: 'adhoc' } }, null],
    [
      'a group of others',
      'other',
      { routeTo: { routingGroup: 'etl' } },
      'spec.routeTo.routingGroup: namespace other may not route to',
    ],
    ['a cluster of its own group', 'team-etl', { routeTo: { cluster: 'e1' } }, null],
    [
      'a cluster of a group of others',
      'other',
      { routeTo: { cluster: 'e1' } },
      'spec.routeTo.cluster: cluster e1: namespace other',
    ],
    ['a cluster of an open group', 'other', { routeTo: { cluster: 'a1' } }, null],
    ['a cluster that does not exist', 'other', { routeTo: { cluster: 'later' } }, null],
  ])('%s', (_what, namespace, spec, refusal) => {
    const compiled = defaultRuleCompiler().compile([ruleOf(namespace, 'r', spec)], null, rights());
    const report = compiled.reports.get(`RoutingRule/${namespace}/r`);
    if (refusal === null) {
      expect(report).toMatchObject({ accepted: true, inForce: 'current', programmed: true });
      expect(decide(compiled).rule).toBe('r');
      return;
    }
    expect(report).toMatchObject({
      accepted: false,
      acceptedReason: 'GroupNotAllowed',
      message: expect.stringContaining(refusal),
      inForce: 'none',
      programmed: false,
    });
    expect(report?.message).toContain('resources.groups["etl"].route');
    expect(decide(compiled).rule).toBeNull();
  });

  test('a change of clusters or of the configuration counts for rules that did not change', () => {
    const compiler = defaultRuleCompiler();
    const rules = [ruleOf('other', 'pin', { routeTo: { cluster: 'a1' } })];
    const rule = (groups: Readonly<Record<string, GroupRights>>, routed = clusters) =>
      decide(compiler.compile(rules, null, rights(groups, routed))).rule;
    expect(rule(onlyEtl)).toBe('pin');
    expect(rule(onlyEtl, [clusterAt('a1', 'http://a1', { routingGroup: 'etl' })])).toBeNull();
    expect(rule({ adhoc: { join: null, route: [] } })).toBeNull();
    expect(rule({})).toBe('pin');
  });
});

describe('what actions and conditions set', () => {
  test.each<[string, Partial<RoutingRuleSpec>, string | null]>([
    ['a group by name', puts('"etl"'), null],
    ['a group that is put together', puts('"e" + "tl"'), null],
    ['an allowed group at last', puts('"etl"', '"adhoc"'), 'adhoc'],
    [
      'a group by a condition that is false',
      { condition: 'result.put("routingGroup", "etl") != null', ...puts('"adhoc"') },
      null,
    ],
    ['a group of its own', puts('"mine"'), 'mine'],
  ])('%s', (_what, spec, group) => {
    const failures: RuleFailure[] = [];
    let counted = 0;
    const compiler = defaultRuleCompiler({
      onRuleFailure: (failure) => failures.push(failure),
      countFailure: () => {
        counted++;
      },
    });
    const compiled = compiler.compile([ruleOf('other', 'r', spec)], null, rights());
    expect(compiled.reports.get('RoutingRule/other/r')).toMatchObject({ accepted: true });
    const decision = decide(compiled);
    expect(decision.routingGroup).toBe(group);
    if (group !== null) return;
    expect(decision).toMatchObject({ rule: null, rejected: null });
    expect(decision.trace.rules[0]).toMatchObject({
      outcome: 'failed',
      error: expect.stringContaining('namespace other may not route to the routing group etl'),
    });
    expect(failures).toMatchObject([{ rule: 'r', message: expect.stringContaining('resources.groups["etl"].route') }]);
    expect(counted).toBe(1);
  });

  test('the group that another rule set before stays, and what the rule left for later rules is rolled back', () => {
    const rules = [
      ruleOf('team-etl', 'first', { priority: 1, ...puts('"etl"') }),
      ruleOf('other', 'second', { priority: 2, actions: ['state.put("seen", true)', ...puts('"etl"').actions] }),
      ruleOf('other', 'third', { priority: 3, condition: 'state.get("seen") == true', ...puts('"adhoc"') }),
    ];
    const decision = decide(defaultRuleCompiler().compile(rules, null, rights()));
    expect(decision).toMatchObject({ routingGroup: 'etl', rule: 'first' });
    expect(decision.trace.rules.map(({ outcome }) => outcome)).toEqual(['fired', 'failed', 'not-matched']);
  });

  test('a decision that is remembered ends with the right that it was made by', () => {
    const compiler = defaultRuleCompiler();
    const rules = [ruleOf('other', 'r', puts('"etl"'))];
    const group = (groups: Readonly<Record<string, GroupRights>>) =>
      decide(compiler.compile(rules, null, rights(groups))).routingGroup;
    expect([group({}), group({}), group(onlyEtl), group({})]).toEqual(['etl', 'etl', null, 'etl']);
  });

  test('rules of the file belong to the operator of the gateway and route everywhere', () => {
    const text =
      '---\nname: f\ndescription: d\ncondition: "true"\nactions:\n  - \'result.put("routingGroup", "etl")\'\n';
    const compiled = defaultRuleCompiler().compile([], { path: 'rules.yaml', text }, rights());
    expect(decide(compiled)).toMatchObject({ routingGroup: 'etl', rule: 'f' });
  });

  test('a draft in place of a rule has the rights of that rule', () => {
    const compiler = defaultRuleCompiler();
    compiler.compile([ruleOf('other', 'r', puts('"adhoc"'))], null, rights());
    const tried = compiler.tryRule({ name: 'r', condition: 'true', ...puts('"etl"') });
    if (tried === null || !('ruleSet' in tried)) throw new Error('the draft does not compile');
    expect(tried.ruleSet.decide(sampleRequest).routingGroup).toBeNull();
  });
});

describe('a deny rule', () => {
  const groups = {
    etl: { join: null, route: null, deny: ['team-etl'] },
    '*': { join: null, route: null, deny: ['ops'] },
  };
  const deny = (message: string) => ({ deny: { message } });
  const to = (routingGroup: string) => ({ routeTo: { routingGroup } });
  const decided = (rules: readonly RoutingRule[], ...more: Parameters<typeof defaultRuleCompiler>) =>
    decide(defaultRuleCompiler(...more).compile(rules, null, rights(groups)));

  test.each<[string, readonly RoutingRule[], string | null]>([
    ['refuses queries to its group', [ruleOf('any', 'r', to('etl')), ruleOf('team-etl', 'd', deny('no'))], 'd'],
    ['refuses none to a group of others', [ruleOf('any', 'r', to('bi')), ruleOf('team-etl', 'd', deny('no'))], null],
    ['refuses none without a group: that is the default group', [ruleOf('team-etl', 'd', deny('no'))], null],
    [
      'refuses queries pinned to a cluster of its group',
      [ruleOf('team-etl', 'd', deny('no')), ruleOf('any', 'r', { routeTo: { cluster: 'e1' } })],
      'd',
    ],
    [
      'refuses none pinned to another',
      [ruleOf('team-etl', 'd', deny('no')), ruleOf('any', 'r', { routeTo: { cluster: 'a1' } })],
      null,
    ],
    [
      'is decided by the group in the end, whichever comes later',
      [
        ruleOf('any', 'a', { priority: 1, ...to('etl') }),
        ruleOf('team-etl', 'd', { priority: 2, ...deny('no') }),
        ruleOf('any', 'z', { priority: 3, ...to('bi') }),
      ],
      null,
    ],
    [
      'refuses also where a later one routes into its group',
      [ruleOf('team-etl', 'd', { priority: 1, ...deny('no') }), ruleOf('any', 'z', { priority: 2, ...to('etl') })],
      'd',
    ],
    [
      'of a namespace with the right to the others refuses those',
      [ruleOf('any', 'r', to('bi')), ruleOf('ops', 'd', deny('no'))],
      'd',
    ],
    [
      'of a namespace with the right to the others leaves a group with an entry',
      [ruleOf('any', 'r', to('etl')), ruleOf('ops', 'd', deny('no'))],
      null,
    ],
  ])('%s', (_what, rules, by) => {
    const decision = decided(rules);
    expect(decision.denied).toEqual(by === null ? null : { rule: by, message: 'no' });
    const own = decision.trace.rules.find(({ rule }) => rule === 'd');
    if (by === null) expect(own).toMatchObject({ outcome: 'skipped', error: expect.stringContaining('.deny') });
    else expect(own).toMatchObject({ outcome: 'denied' });
  });

  test('of a namespace without any right is not accepted, and says which key to change', () => {
    const compiled = defaultRuleCompiler().compile([ruleOf('guest', 'd', deny('no'))], null, rights(groups));
    expect(compiled.reports.get('RoutingRule/guest/d')).toMatchObject({
      accepted: false,
      acceptedReason: 'GroupNotAllowed',
      message: expect.stringContaining('spec.deny: namespace guest may not deny queries to any routing group'),
    });
    expect(decide(compiled).denied).toBeNull();
  });

  test('that fails denies within the same bounds', () => {
    const failing = { condition: 'unknown.x', ...deny('no') };
    expect(decided([ruleOf('any', 'r', to('etl')), ruleOf('team-etl', 'd', failing)]).denied).toMatchObject({
      rule: 'd',
    });
    expect(decided([ruleOf('any', 'r', to('bi')), ruleOf('team-etl', 'd', failing)]).denied).toBeNull();
  });

  test('beside an external rules service only those that may refuse every query do', () => {
    const rules = [ruleOf('team-etl', 'd', deny('no'))];
    expect(decided(rules, { rulesType: 'EXTERNAL' }).denied).toBeNull();
    const all = {
      etl: { join: null, route: null, deny: ['team-etl'] },
      '*': { join: null, route: null, deny: ['team-etl'] },
    };
    const compiled = defaultRuleCompiler({ rulesType: 'EXTERNAL' }).compile(rules, null, rights(all));
    expect(decide(compiled).denied).toMatchObject({ rule: 'd' });
  });

  test('is open where nothing is said of deny', () => {
    const compiled = defaultRuleCompiler().compile([ruleOf('other', 'd', deny('no'))], null, rights());
    expect(decide(compiled).denied).toEqual({ rule: 'd', message: 'no' });
  });
});
