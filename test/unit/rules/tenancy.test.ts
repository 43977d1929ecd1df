import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { EngineTenantSpec } from '../../../src/kinds/engineTenant/spec.ts';
import type { RoutingRule, RoutingRuleSpec } from '../../../src/kinds/routingRule/spec.ts';
import type { RuleRequest } from '../../../src/rules/decision.ts';
import { rightsOfVersion, ruleRights, Tenancy } from '../../../src/rules/tenancy.ts';
import { defaultRuleCompiler, resourceRule } from '../../support/resourceRules.ts';
import { clusterAt } from '../../support/routableCluster.ts';
import { sampleRequest } from '../../support/ruleAttempt.ts';

const everyName = [{ type: 'RegularExpression', value: '.*' }] as const;
const grants: Partial<EngineTenantSpec> = {
  names: [...everyName],
  routingGroups: [{ value: 'bi' }, { type: 'Prefix', value: 'bi-' }],
  decides: { users: [{ value: 'alice' }] },
};
const tenancyOf = (tenants: Readonly<Record<string, Partial<EngineTenantSpec>>>) =>
  new Tenancy({
    platform: 'platform',
    tenants: Object.entries(tenants).map(([name, spec]) => {
      const namespaces = spec.namespaces?.names ?? [name];
      return { name, namespaces, spec: { namespaces: { names: namespaces }, ...grants, ...spec } };
    }),
  });
const clusters = [clusterAt('b1', 'http://b1', { routingGroup: 'bi' }), clusterAt('a1', 'http://a1')];
const rightsOf = (tenants: Parameters<typeof tenancyOf>[0] = { team: {} }, routed = clusters) =>
  ruleRights(tenancyOf(tenants), routed, 'adhoc');
const ruleOf = (namespace: string, name: string, spec: Partial<RoutingRuleSpec>): RoutingRule => {
  const rule = resourceRule(name, spec);
  return { ...rule, metadata: { ...rule.metadata, namespace } };
};
const to = (routingGroup: string, more: Partial<RoutingRuleSpec> = {}) => ({ routeTo: { routingGroup }, ...more });
const puts = (text: string, more: Partial<RoutingRuleSpec> = {}) => ({
  ...more,
  actions: [`result.put("routingGroup", ${text})`],
});
const deny = (more: Partial<RoutingRuleSpec> = {}) => ({ deny: { message: 'no' }, ...more });
const by = (user: string): RuleRequest => ({ ...sampleRequest, sender: { user, userInfo: null } });
const alice = by('alice');

function decide(rules: readonly RoutingRule[], request = alice, tenants?: Parameters<typeof tenancyOf>[0]) {
  const { ruleSet } = defaultRuleCompiler().compile(rules, null, rightsOf(tenants));
  if (ruleSet === null) throw new Error('there is no rule set');
  return ruleSet.decide(request);
}
const traced = (decision: ReturnType<typeof decide>) =>
  decision.trace.rules.map(({ rule, outcome }) => `${rule} ${outcome}`);

describe('grants of rules', () => {
  test.each<[string, string, Partial<RoutingRuleSpec>, string | null, string]>([
    ['a granted group', 'team', to('bi'), null, ''],
    ['a group by its prefix', 'team', to('bi-2'), null, ''],
    ['another group', 'team', to('etl'), 'RoutingGroupNotGranted', 'spec.routeTo.routingGroup: the routing group etl'],
    ['a cluster of a granted group', 'team', { routeTo: { cluster: 'b1' } }, null, ''],
    ['a cluster of another group', 'team', { routeTo: { cluster: 'a1' } }, 'RoutingGroupNotGranted', 'adhoc'],
    ['a cluster that does not exist', 'team', { routeTo: { cluster: 'later' } }, null, ''],
    ['the stage Final', 'team', to('bi', { stage: 'Final' }), 'StageNotGranted', 'in the namespace platform'],
    ['a namespace without a tenant', 'other', to('bi'), 'NoTenant', 'have it added to spec.namespaces of one'],
    ['the platform', 'platform', to('anything', { stage: 'Final' }), null, ''],
  ])('%s', (_what, namespace, spec, reason, message) => {
    const { reports } = defaultRuleCompiler().compile([ruleOf(namespace, 'r', spec)], null, rightsOf());
    const report = reports.get(`RoutingRule/${namespace}/r`);
    if (reason === null) expect(report).toMatchObject({ accepted: true, inForce: 'current' });
    else {
      expect(report).toMatchObject({ accepted: false, acceptedReason: reason, inForce: 'none' });
      expect(report?.message).toContain(message);
    }
  });

  test('a missing grant names the tenant and the field', () => {
    const without = { team: { decides: undefined as never, routingGroups: undefined as never } };
    const report = (spec: Partial<RoutingRuleSpec>, tenants: Parameters<typeof rightsOf>[0]) =>
      defaultRuleCompiler()
        .compile([ruleOf('team', 'r', spec)], null, rightsOf(tenants))
        .reports.get('RoutingRule/team/r');
    expect(report(to('bi'), without)).toMatchObject({
      acceptedReason: 'DecidesNotGranted',
      message: expect.stringContaining('have spec.decides added to the EngineTenant team'),
    });
    expect(report(to('etl'), undefined)?.message).toMatch(/added to spec\.routingGroups of the EngineTenant team$/);
  });

  test('a rule does not take a name that its namespace may not use', () => {
    const named = { team: { names: [{ type: 'Prefix' as const, value: '{namespace}-' }] } };
    const older = ruleOf('team', 'all', to('bi'));
    const rules = [older, resourceRule('all', to('etl'), '2027-01-01T00:00:00Z')];
    const platform = { ...(rules[1] as RoutingRule) };
    const own = { ...platform, metadata: { ...platform.metadata, namespace: 'platform', uid: 'u2' } };
    const { reports, ruleSet } = defaultRuleCompiler().compile([older, own], null, rightsOf(named));
    expect(reports.get('RoutingRule/team/all')).toMatchObject({ acceptedReason: 'NameNotGranted' });
    expect(reports.get('RoutingRule/platform/all')).toMatchObject({ accepted: true });
    expect(ruleSet?.decide(alice).routingGroup).toBe('etl');
  });

  test.each([
    ['team-a-1', false],
    ['team-1', true],
    ['team-ab', true],
  ])('a name of a longer namespace of another tenant, %s', (name, isGranted) => {
    const names = [{ type: 'Prefix' as const, value: '{namespace}-' }];
    const tenancy = tenancyOf({ team: { names }, other: { names, namespaces: { names: ['team-a'] } } });
    expect(tenancy.nameRejection('team', name) === null).toBe(isGranted);
  });

  test('a change of a tenant or of clusters counts for rules that did not change', () => {
    const compiler = defaultRuleCompiler();
    const rules = [ruleOf('team', 'pin', { routeTo: { cluster: 'b1' } })];
    const rule = (...more: Parameters<typeof rightsOf>) =>
      compiler.compile(rules, null, rightsOf(...more)).ruleSet?.decide(alice).rule;
    expect(rule()).toBe('pin');
    expect(rule(undefined, [clusterAt('b1', 'http://b1', { routingGroup: 'etl' })])).toBeNull();
    expect(rule({ team: { routingGroups: [{ value: 'etl' }] } })).toBeNull();
    expect(rule({ another: {} })).toBeNull();
    expect(rule()).toBe('pin');
  });
});

describe('three stages', () => {
  const first = (spec: Partial<RoutingRuleSpec> = {}) => ruleOf('platform', 'first', { ...to('etl'), ...spec });
  const final = (spec: Partial<RoutingRuleSpec>) => ruleOf('platform', 'final', { ...spec, stage: 'Final' });
  const own = (spec: Partial<RoutingRuleSpec> = {}) => ruleOf('team', 'own', { ...to('bi'), ...spec });

  test('a tenant replaces the group of the platform for the queries that it decides, whatever the priorities are', () => {
    const rules = [first({ priority: 100 }), own({ priority: 1 })];
    expect(decide(rules)).toMatchObject({ routingGroup: 'bi', rule: 'own' });
    const others = decide(rules, by('bob'));
    expect(others).toMatchObject({ routingGroup: 'etl', rule: 'first' });
    expect(others.trace.rules[1]).toEqual({
      ...{ rule: 'own', origin: 'resource', priority: 1, stage: 'tenant', tenant: 'team', outcome: 'skipped' },
      error: 'no tenant decides this query',
    });
  });

  test('stop of the platform ends the stage of tenants, not the final one', () => {
    const decision = decide([first({ stop: true }), own(), final(puts('result.get("routingGroup") + "-x"'))]);
    expect(decision.routingGroup).toBe('etl-x');
    expect(traced(decision)).toEqual(['first fired', 'own skipped', 'final fired']);
  });

  test('stop of a tenant ends its own stage', () => {
    const rules = [own({ stop: true }), ruleOf('team', 'z-later', to('bi-2')), final(to('last'))];
    expect(traced(decide(rules))).toEqual(['own fired', 'z-later skipped', 'final fired']);
  });

  test.each([
    ['of the platform', [ruleOf('platform', 'd', deny()), own()]],
    ['of the tenant', [own({ priority: 1 }), ruleOf('team', 'd', deny({ priority: 2 })), final(to('x'))]],
    ['of the final stage', [own({ stop: true }), ruleOf('platform', 'd', deny({ stage: 'Final' }))]],
  ])('deny %s is final', (_what, rules) => {
    expect(decide(rules).denied).toEqual({ rule: 'd', message: 'no' });
  });

  test('a deny rule of a tenant rejects no query of others', () => {
    const rules = [first(), ruleOf('team', 'd', deny())];
    expect(decide(rules, by('bob'))).toMatchObject({ denied: null, routingGroup: 'etl' });
    expect(decide(rules, { ...sampleRequest }).denied).toBeNull();
  });

  test('a deny rule of a tenant that fails rejects no query of others', () => {
    const rules = [first(), ruleOf('team', 'd', deny({ condition: 'unknown.x' }))];
    expect(decide(rules, by('bob')).denied).toBeNull();
    expect(decide(rules).denied).toMatchObject({ rule: 'd' });
  });

  test('state of a tenant is its own, both ways', () => {
    const rules = [
      ruleOf('platform', 'a', { actions: ['state.put("x", "platform")'] }),
      ruleOf('team', 'b', { actions: ['result.put("routingGroup", "bi-" + state.get("x")); state.put("x", "team")'] }),
      final({ actions: ['result.put("routingGroup", result.get("routingGroup") + "/" + state.get("x"))'] }),
    ];
    expect(decide(rules).routingGroup).toBe('bi-null/platform');
  });

  test.each([
    ['another group', '"etl2"'],
    ['the default group', 'null'],
    ['the default group by an empty text', '""'],
  ])('an action that chooses %s fails, and the group of the platform stays', (_what, group) => {
    const decision = decide([first(), own({ routeTo: undefined as never, ...puts(group) })]);
    expect(decision).toMatchObject({ routingGroup: 'etl', rule: 'first' });
    expect(decision.trace.rules[1]).toMatchObject({
      outcome: 'failed',
      error: expect.stringContaining('added to spec.routingGroups of the EngineTenant team'),
    });
  });

  test('a rule of a tenant that uses up its budget does not keep the final stage from being asked', () => {
    const endless = { condition: 'int i = 0; while (true) { i = i + 1; } true', ...to('bi') };
    const decision = decide([first(), ruleOf('team', 'own', endless), final(to('last'))]);
    expect(traced(decision)).toEqual(['first fired', 'own failed', 'final fired']);
    expect(decision.routingGroup).toBe('last');
  });

  test('two tenants that match decide nothing, and are reported', () => {
    const conflicts: (readonly string[])[] = [];
    const compiler = defaultRuleCompiler({
      onTenantConflict: (names) => conflicts.push(names),
    });
    const rules = [first(), own(), ruleOf('sales', 'theirs', deny())];
    const { ruleSet } = compiler.compile(rules, null, rightsOf({ team: {}, sales: {} }));
    const decision = ruleSet?.decide(alice);
    expect(decision).toMatchObject({ routingGroup: 'etl', denied: null });
    expect(decision?.trace.rules[1]?.error).toBe(
      'the tenants team, sales decide this query, so that none of them does',
    );
    ruleSet?.decide(alice);
    expect(conflicts).toEqual([
      ['team', 'sales'],
      ['team', 'sales'],
    ]);
  });

  test.each<[string, EngineTenantSpec['decides'], boolean]>([
    ['user', { users: [{ value: 'alice' }] }, true],
    ['prefix of the user', { users: [{ type: 'Prefix', value: 'ali' }] }, true],
    ['another user', { users: [{ value: 'bob' }] }, false],
    ['group', { userGroups: [{ value: 'analysts' }] }, true],
    ['source', { sources: [{ value: 'airflow' }] }, true],
    ['user and another source', { users: [{ value: 'alice' }], sources: [{ value: 'x' }] }, false],
  ])('decides by %s', (_what, decides, isDecided) => {
    const membership = { groups: ['analysts'], sources: [], digest: 'd' };
    const request = { ...sampleRequest, sender: { user: 'alice', userInfo: null, membership } };
    expect(decide([own()], request, { team: { decides: decides as never } }).rule).toBe(isDecided ? 'own' : null);
  });

  test('a user of a very long name is decided by no tenant', () => {
    const decides = { users: [{ type: 'RegularExpression' as const, value: 'x' }] };
    expect(decide([own()], by('y'.repeat(5_000)), { team: { decides } }).rule).toBeNull();
  });

  test('a decision that is remembered is that of its tenant', () => {
    const more = Array.from({ length: 6 }, (_, index) => ruleOf('platform', `p${index}`, to('etl')));
    const sales = { sales: { decides: { users: [{ value: 'bob' }] }, routingGroups: [{ value: 'bi' }] } };
    const { ruleSet } = defaultRuleCompiler().compile(
      [...more, own(), ruleOf('sales', 'theirs', deny())],
      null,
      rightsOf({ team: {}, ...sales }),
    );
    const results = ['alice', 'bob', 'carol', 'alice', 'bob', 'carol'].map((user) => ruleSet?.decide(by(user)));
    const shown = results.map((each) => each?.denied?.rule ?? each?.routingGroup);
    expect(shown).toEqual(['bi', 'theirs', 'etl', 'bi', 'theirs', 'etl']);
  });

  test('a draft in place of a rule has the rights and the stage of that rule', () => {
    const compiler = defaultRuleCompiler();
    compiler.compile([own(), final(to('last', { condition: 'false' }))], null, rightsOf());
    const tried = (name: string, group: string) => {
      const result = compiler.tryRule({ name, condition: 'true', actions: [`result.put("routingGroup", "${group}")`] });
      if (result === null || !('ruleSet' in result)) throw new Error('the draft does not compile');
      return result.ruleSet.decide(alice);
    };
    expect(tried('own', 'etl').routingGroup).toBeNull();
    expect(tried('final', 'x').trace.rules.at(-1)).toMatchObject({ rule: 'final', stage: 'final', outcome: 'fired' });
  });

  test('rights are restored from their version', () => {
    const rights = rightsOf();
    if (rights === null) throw new Error('there are no rights');
    expect(rightsOfVersion(rights.version).version).toBe(rights.version);
  });
});

test('without tenants rules fire by priority, those of the file first, then by name', () => {
  const one = fc.record({
    name: fc.stringMatching(/^[a-z]{1,3}$/),
    priority: fc.option(fc.integer({ min: -3, max: 3 }), { nil: undefined }),
    isOfFile: fc.boolean(),
    stop: fc.boolean(),
    namespace: fc.constantFrom('default', 'a', 'b'),
  });
  fc.assert(
    fc.property(fc.uniqueArray(one, { selector: ({ name }) => name, maxLength: 12 }), (drafts) => {
      const priorityOf = ({ priority }: (typeof drafts)[number]) => priority ?? 2_147_483_647;
      const ofFile = drafts.filter(({ isOfFile }) => isOfFile);
      const text = ofFile
        .map(({ name, priority }) => {
          const line = priority === undefined ? '' : `priority: ${priority}\n`;
          return `---\nname: "${name}"\ndescription: d\n${line}condition: "true"\nactions: ['state.put("x", 1)']\n`;
        })
        .join('');
      const resources = drafts
        .filter(({ isOfFile }) => !isOfFile)
        .map(({ name, priority, stop, namespace }) =>
          ruleOf(namespace, name, { ...to(name), ...(priority === undefined ? {} : { priority }), stop }),
        );
      const byName = drafts.filter(({ isOfFile }) => !isOfFile).toSorted((a, b) => (a.name < b.name ? -1 : 1));
      const expected = [...ofFile, ...byName].toSorted((a, b) => priorityOf(a) - priorityOf(b));
      const compiled = defaultRuleCompiler().compile(resources, { path: 'rules.yaml', text }, null);
      expect(compiled.order.map(({ rule }) => rule)).toEqual(expected.map(({ name }) => name));
      const end = expected.findIndex(({ stop, isOfFile }) => stop && !isOfFile);
      const decision = compiled.ruleSet?.decide(alice);
      expect(decision?.trace.rules.map(({ outcome }) => outcome)).toEqual(
        expected.map((_, index) => (end >= 0 && index > end ? 'skipped' : 'fired')),
      );
      expect(decision?.trace.rules.some(({ stage, tenant }) => stage !== undefined || tenant !== undefined)).toBe(
        false,
      );
      const asked = expected.slice(0, end < 0 ? undefined : end + 1).filter(({ isOfFile }) => !isOfFile);
      expect(decision?.routingGroup).toBe(asked.at(-1)?.name ?? null);
    }),
  );
});
