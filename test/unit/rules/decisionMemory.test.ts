import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { RoutingRuleSpec } from '../../../src/kinds/routingRule/spec.ts';
import type { RuleRequest, RuleSet } from '../../../src/rules/decision.ts';
import type { QueryProperties } from '../../../src/sql/queryProperties.ts';
import { defaultRuleCompiler, resourceRule } from '../../support/resourceRules.ts';
import { sampleRequest } from '../../support/ruleAttempt.ts';

const put = (group: string): Pick<RoutingRuleSpec, 'actions'> => ({
  actions: [`result.put("routingGroup", ${group})`],
});

/** Rules that read values of each kind, put what they read, depend on earlier ones, fail, deny and stop. */
const specs: readonly Partial<RoutingRuleSpec>[] = [
  { condition: 'request.getHeader("X-Tag") == "a"', ...put('"tagged"') },
  { condition: 'request.getHeader("X-Tag") != null', ...put('request.getHeader("X-Tag") + "-group"') },
  { condition: 'request.method == "GET" || request.getRequestURI().startsWith("/v1/b")', ...put('"path"') },
  { condition: 'engineRequestUser.getUser().orElse("").endsWith("b")', ...put('"user"') },
  { condition: 'engineRequestUser.userExistsAndEquals("a")', ...put('engineRequestUser.getUser().get()') },
  { condition: 'engineRequestUser.getUser().get() != "b"', routeTo: { cluster: 'pinned' } },
  { condition: 'engineQueryProperties.getCatalogs() contains "a"', ...put('"catalog"') },
  { condition: 'engineQueryProperties.catalogs.size() == 2', ...put('"two"') },
  { condition: 'engineQueryProperties.tablesContains("a.b.c")', ...put('"table"') },
  { condition: 'engineQueryProperties.getDefaultSchema() == "a"', actions: ['state.put("schema", 1)'] },
  { condition: 'engineQueryProperties.getDefaultSchema().isPresent()', ...put('"some"') },
  { condition: 'engineQueryProperties.defaultSchema.orElse("b").equals("b")', ...put('"schema b"') },
  { condition: 'state.get("schema") != null', ...put('result.get("routingGroup") + "-schema"') },
  { condition: 'result.get("routingGroup") == "tagged"', stop: true, routeTo: { routingGroup: 'stopped' } },
  { condition: 'engineQueryProperties.getQueryType() == "Insert"', deny: { message: 'no writes' } },
  { condition: 'request.getHeader("X-Tag") == "b"', deny: { message: 'no b' } },
  { condition: 'request.getHeader("X-Tag").length() > 3', ...put('"long"') },
  {
    condition: 'request.getHeader("X-Tag") ~= "[a-c]+"',
    actions: ['if (request.method == "POST") { state.put("r", 1) }'],
  },
  // What is not remembered by its values.
  { condition: 'request.getRemoteAddr() == "10.0.0.2"', ...put('"far"') },
  { condition: 'engineQueryProperties.getBody().contains("x")', ...put('"body"') },
  { condition: 'request.getHeaderNames().hasMoreElements()', ...put('"names"') },
  { condition: 'foo = request.getHeader("X-Tag"); foo == "c"', ...put('"variable"') },
];

const text = fc.constantFrom('a', 'b', 'c', '', 'long one', `${'x'.repeat(300)}`);
const names = fc.uniqueArray(fc.constantFrom('a', 'b', 'a,b', 'a","b', 'a\0b'), { maxLength: 3 });
const requests = fc.array(
  fc.record({
    ...{
      tag: fc.option(text, { nil: null }),
      user: fc.option(text, { nil: null }),
      schema: fc.option(text, { nil: null }),
    },
    ...{ catalogs: names, tables: fc.uniqueArray(fc.constantFrom('c', 'd'), { maxLength: 2 }) },
    ...{ queryType: fc.constantFrom('Query', 'Insert', ''), isSubmission: fc.boolean(), isNear: fc.boolean() },
    ...{ path: fc.constantFrom('/v1/statement', '/v1/b'), body: fc.constantFrom('', 'select x') },
  }),
  { minLength: 1, maxLength: 6 },
);
type Parts = typeof requests extends fc.Arbitrary<(infer P)[]> ? P : never;

function requestOf(parts: Parts): RuleRequest {
  const { tag, user, schema, catalogs, tables, queryType, isSubmission, isNear, path, body } = parts;
  return {
    ...sampleRequest,
    ...{ isSubmission, path, remoteAddr: isNear ? '10.0.0.1' : '10.0.0.2' },
    headers: ['Host', 'gateway.example', ...(tag === null ? [] : ['x-TAG', tag])],
    user: { user, userInfo: null },
    queryProperties: {
      ...(sampleRequest.queryProperties as QueryProperties),
      ...{ queryType, catalogs, body, defaultSchema: schema, errorMessage: null },
      tables: tables.map((table) => ['a', 'b', table]),
    },
  };
}

function compile(chosen: readonly Partial<RoutingRuleSpec>[], countFailure = (_rule: string) => {}): RuleSet {
  const compiler = defaultRuleCompiler({ rulesEngineEnabled: true, analyzeRequest: true, countFailure });
  const resources = chosen.map((spec, index) => resourceRule(`r${String(index).padStart(2, '0')}`, spec));
  const { ruleSet, verdicts } = compiler.compile(resources, null);
  expect([...verdicts.values()].filter(({ accepted }) => !accepted)).toEqual([]);
  if (ruleSet === null) throw new Error('there is no rule set');
  return ruleSet;
}

const read = ({ trace, ...decision }: ReturnType<RuleSet['decide']>) => ({ ...decision, trace: trace.rules });

test('a request is decided as if it were the first, whatever was remembered of others', () => {
  const rules = fc.array(fc.constantFrom(...specs), { minLength: 1, maxLength: 40 });
  fc.assert(
    fc.property(rules, requests, fc.array(fc.nat(5), { minLength: 1, maxLength: 20 }), (chosen, different, order) => {
      const ruleSet = compile(chosen);
      const asked = different.map(requestOf);
      const expected = asked.map((request) => read(compile(chosen).decide(request)));
      for (const number of order) {
        const at = number % asked.length;
        expect(read(ruleSet.decide(asked[at] as RuleRequest))).toEqual(expected[at]);
      }
    }),
    { numRuns: 150 },
  );
});

test.each(specs.map((spec) => [spec.condition, spec] as const))(
  '%s: each request is decided as if it were the first',
  (_condition, spec) => {
    fc.assert(
      fc.property(requests, (different) => {
        const ruleSet = compile([spec]);
        for (const request of [...different, ...different].map(requestOf)) {
          expect(read(ruleSet.decide(request))).toEqual(read(compile([spec]).decide(request)));
        }
      }),
      { numRuns: 30 },
    );
  },
);

test('requests whose values came before share a decision', () => {
  const ruleSet = compile(specs.slice(0, 4));
  const first = ruleSet.decide({ ...sampleRequest, headers: ['X-Tag', 'a'] });
  expect(ruleSet.decide({ ...sampleRequest, headers: ['Host', 'other', 'x-tag', 'a'] })).toBe(first);
  expect(ruleSet.decide({ ...sampleRequest, headers: ['X-Tag', 'b'] })).not.toBe(first);
});

test.each([
  [['a', 'b'], ['a,b']],
  [['a', 'b'], ['a","b']],
  [[], ['']],
  [['a', 'b'], ['a\0b']],
])('catalogs %j and %j are not taken for each other', (one, other) => {
  const ruleSet = compile([{ condition: 'engineQueryProperties.catalogs.size() == 2', ...put('"two"') }]);
  const groupOf = (catalogs: string[]) =>
    ruleSet.decide({
      ...sampleRequest,
      queryProperties: { ...(sampleRequest.queryProperties as QueryProperties), catalogs },
    }).routingGroup;
  for (const catalogs of [one, other, one]) expect(groupOf(catalogs)).toBe(catalogs.length === 2 ? 'two' : null);
});

test('sets of rules to ask are distinguished where the numbers made of them are equal', () => {
  const unused = { condition: 'request.getHeader("Unused") == "1"', ...put('"unused"') };
  const ruleSet = compile([
    { condition: 'request.getHeader("A") == "1"', ...put('"first"') },
    ...Array.from({ length: 31 }, () => unused),
    // Bits 0 to 4 of the second word, which make the same number as bit 0 of the first.
    ...Array.from({ length: 5 }, (_, index) => ({
      condition: 'request.getHeader("B") == "1" && request.getHeader("C") == "1"',
      ...put(`"later${index}"`),
    })),
  ]);
  const groupOf = (...headers: string[]) => ruleSet.decide({ ...sampleRequest, headers }).routingGroup;
  expect(groupOf('A', '1')).toBe('first');
  expect(groupOf('B', '1', 'C', '1')).toBe('later4');
  expect(groupOf('B', '1', 'C', '2')).toBeNull();
});

test('each failure of a rule is counted', () => {
  const failed: string[] = [];
  const ruleSet = compile([{ condition: 'request.getHeader("X-Tag").length() > 3', ...put('"long"') }], (rule) => {
    failed.push(rule);
  });
  for (let count = 0; count < 5; count += 1) ruleSet.decide({ ...sampleRequest, headers: [] });
  expect(failed).toEqual(Array(5).fill('r00'));
});

test('what depends on chance or time is decided each time', () => {
  const ruleSet = compile([{ condition: 'Math.random() < 0.5', ...put('"half"') }]);
  const groups = new Set(Array.from({ length: 200 }, () => ruleSet.decide(sampleRequest).routingGroup));
  expect([...groups].toSorted()).toEqual(['half', null]);
});

test('values that never come again, and then some that do, are decided by their own values', () => {
  const ruleSet = compile([{ condition: 'request.getHeader("X-Tag") != null', ...put('request.getHeader("X-Tag")') }]);
  for (let count = 0; count < 70_000; count += 1) {
    const tag = count % 3 === 0 || count > 50_000 ? `again${count % 7}` : `once${count}`;
    expect(ruleSet.decide({ ...sampleRequest, headers: ['X-Tag', tag] }).routingGroup).toBe(tag);
  }
});
