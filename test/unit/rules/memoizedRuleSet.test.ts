import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { RoutingRuleSpec } from '../../../src/kinds/routingRule/spec.ts';
import { membershipOf } from '../../../src/model/membership.ts';
import { MemoizedRuleSet } from '../../../src/rules/decide/memoizedRuleSet.ts';
import { readTrace, type StoredTrace } from '../../../src/rules/decide/trace.ts';
import type { RuleRequest, RuleSet } from '../../../src/rules/decision.ts';
import { systemSources } from '../../../src/rules/evaluation.ts';
import type { RuleCompiler } from '../../../src/rules/ruleCompiler.ts';
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
  { condition: 'engineRequestUser.isInGroup("a")', ...put('"in a"') },
  { condition: 'engineRequestUser.getGroups().size() == 2', ...put('"in two"') },
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
    ...{ catalogs: names, groups: names, tables: fc.uniqueArray(fc.constantFrom('c', 'd'), { maxLength: 2 }) },
    ...{ queryType: fc.constantFrom('Query', 'Insert', ''), isSubmission: fc.boolean(), isNear: fc.boolean() },
    ...{ path: fc.constantFrom('/v1/statement', '/v1/b'), body: fc.constantFrom('', 'select x') },
  }),
  { minLength: 1, maxLength: 6 },
);
type Parts = typeof requests extends fc.Arbitrary<(infer P)[]> ? P : never;

function requestOf(parts: Parts): RuleRequest {
  const { tag, user, groups, schema, catalogs, tables, queryType, isSubmission, isNear, path, body } = parts;
  return {
    ...sampleRequest,
    ...{ isSubmission, path, remoteAddr: isNear ? '10.0.0.1' : '10.0.0.2' },
    headers: ['Host', 'gateway.example', ...(tag === null ? [] : ['x-TAG', tag])],
    user: { user, userInfo: null, membership: membershipOf([{ source: 'file', groups }]) },
    queryProperties: {
      ...(sampleRequest.queryProperties as QueryProperties),
      ...{ queryType, catalogs, body, defaultSchema: schema, errorMessage: null },
      tables: tables.map((table) => ['a', 'b', table]),
    },
  };
}

/** Enough rules to remember decisions by, which never match. */
const fillers: readonly Partial<RoutingRuleSpec>[] = Array.from({ length: 100 }, (_, index) => ({
  condition: `request.getHeader("Unused") == "${index}"`,
  ...put('"unused"'),
}));

/** What decides beside the request: both rule sets of a comparison get the same. */
const surroundings = { time: 0, chance: 0 };

function testCompiler(countFailure = (_rule: string) => {}): RuleCompiler {
  return defaultRuleCompiler({
    rulesEngineEnabled: true,
    analyzeRequest: true,
    countFailure,
    sources: { ...systemSources, now: () => surroundings.time, random: () => surroundings.chance },
  });
}

/** Rules that never match keep their names, so that a compiler makes them once. */
function ruleSetOf(compiler: RuleCompiler, specs: readonly Partial<RoutingRuleSpec>[]): RuleSet {
  const number = (spec: Partial<RoutingRuleSpec>, index: number) =>
    fillers.includes(spec) ? `z${fillers.indexOf(spec)}` : `r${String(index).padStart(3, '0')}`;
  const resources = specs.map((spec, index) => resourceRule(number(spec, index), spec));
  const { ruleSet, reports } = compiler.compile(resources, null);
  expect([...reports.values()].filter(({ accepted }) => !accepted)).toEqual([]);
  if (ruleSet === null) throw new Error('there is no rule set');
  return ruleSet;
}

/** A rule set that remembers its decisions. */
function compile(chosen: readonly Partial<RoutingRuleSpec>[], countFailure = (_rule: string) => {}): RuleSet {
  return ruleSetOf(testCompiler(countFailure), [...chosen, ...fillers]);
}

const read = ({ trace, ...decision }: ReturnType<RuleSet['decide']>) => ({ ...decision, trace: trace.rules });

/** Conditions of each kind, over what each kind of value gives; those of one operator combine any two. */
const texts = fc.constantFrom(
  'request.getHeader("X-Tag")',
  'request.getHeader("X-Tag" + "")',
  'request.getHeaders("X-Tag").nextElement()',
  'request.method',
  'request.getRequestURI()',
  'request.pathInfo',
  'request.getRemoteAddr()',
  'engineRequestUser.getUser().orElse("")',
  'engineRequestUser.user.get()',
  'engineQueryProperties.queryType',
  'engineQueryProperties.getResourceGroupQueryType()',
  'engineQueryProperties.getDefaultSchema().orElse("a")',
  'engineQueryProperties.getBody()',
  'engineQueryProperties.queryDigest',
  'engineQueryProperties.estimate.sizeClass',
  'String.valueOf(engineQueryProperties.getEstimate().get("seconds"))',
  'String.valueOf(engineQueryProperties.queryLabels.get("tool"))',
  'engineQueryProperties.errorMessage()',
  'engineQueryProperties.getQueryId().orElse("b")',
  'state.get("t")',
  'result.get("routingGroup")',
  '"b".concat("c")',
  'String.valueOf(Math.random() < 0.5)',
  'UUID.randomUUID().toString().substring(0, 1)',
  'new Date().toString()',
  'String.valueOf(Calendar.getInstance().getTimeInMillis() % 2)',
  'new StringBuilder("a").append("b").toString()',
  '"a,b".split(",")[0]',
);
const wholes = fc.oneof(
  texts.map((value) => `${value}.length()`),
  fc.constantFrom(
    'engineQueryProperties.getCatalogs().size()',
    'engineQueryProperties.tables.size()',
    'Math.abs(-1)',
    'Integer.parseInt("2")',
    'Math.round(Math.random() * 3)',
    'new Date().getTime() % 3',
    'request.getServerPort()',
    'state.size()',
  ),
);
const literals = fc.constantFrom('"a"', '"b"', '"c"', '"true"', '"1"', 'null');
const plainConditions = fc.oneof(
  texts.map((value) => `${value} != "none"`),
  fc.tuple(texts, fc.constantFrom('==', '!=', 'contains', '~='), literals).map((parts) => parts.join(' ')),
  fc.tuple(texts, fc.constantFrom('==', '!='), texts).map((parts) => parts.join(' ')),
  fc.tuple(wholes, fc.constantFrom('<', '<=', '>', '>=', '==', '!='), fc.nat(3)).map((parts) => parts.join(' ')),
  fc
    .tuple(texts, fc.constantFrom('equals', 'startsWith', 'endsWith', 'contains', 'matches'), literals)
    .map(([value, method, literal]) => `${value}.${method}(${literal})`),
  texts.map((value) => `${value} is String`),
  texts.map((value) => `["a", "b"] contains ${value}`),
  texts.map((value) => `${value}.empty`),
  fc.constantFrom(
    'engineRequestUser.userExistsAndEquals("a")',
    'engineRequestUser.getUser().isPresent()',
    'engineQueryProperties.tablesContains("a.b.c")',
    'engineQueryProperties.getTables().isEmpty()',
    'engineQueryProperties.getCatalogs() contains "a"',
    'engineQueryProperties.schemas.contains("web")',
    'engineQueryProperties.isQueryParsingSuccessful()',
    'request.getHeaderNames().hasMoreElements()',
    'request.isSecure()',
    'new ArrayList().isEmpty()',
    'foo = request.getHeader("X-Tag"); foo == "c"',
    'if (request.method == "POST") { return true; } return false',
  ),
);
const conditions = fc.oneof(
  { weight: 3, arbitrary: plainConditions },
  {
    weight: 1,
    arbitrary: fc
      .tuple(texts, literals, fc.constantFrom('&&', '||'), texts, literals)
      .map(([a, b, operator, c, d]) => `(${a} == ${b}) ${operator} !(${c} == ${d})`),
  },
  {
    weight: 1,
    arbitrary: fc.tuple(texts, wholes, literals).map(([a, b, c]) => `(${a} == ${c} ? ${b} : 1) > 0`),
  },
);
const generatedRules: fc.Arbitrary<Partial<RoutingRuleSpec>> = fc
  .tuple(
    conditions,
    fc.oneof(
      texts.map((value): Partial<RoutingRuleSpec> => put(`"g-" + ${value}`)),
      texts.map((value): Partial<RoutingRuleSpec> => ({ actions: [`state.put("t", ${value})`] })),
      fc.constantFrom<Partial<RoutingRuleSpec>>(
        { routeTo: { routingGroup: 'fixed' } },
        { routeTo: { cluster: 'pinned' }, stop: true },
        { deny: { message: 'no' } },
        { deny: { message: 'no', whenError: 'Skip' } },
      ),
    ),
  )
  .map(([condition, outcome]) => ({ condition, ...outcome }));

/** Requests that differ from the first in one value each, the values that no rule may be remembered by among them. */
function neighbours(parts: Parts): readonly RuleRequest[] {
  const { tag, user, schema, catalogs, tables, queryType, isNear, path, body } = parts;
  const other = (value: string | null): string => (value === 'a' ? 'b' : 'a');
  const changed: readonly Parts[] = [
    parts,
    { ...parts, tag: other(tag) },
    { ...parts, tag: null },
    { ...parts, user: other(user) },
    { ...parts, user: null },
    { ...parts, schema: other(schema) },
    { ...parts, schema: null },
    { ...parts, catalogs: catalogs.length === 1 ? [] : ['a'] },
    { ...parts, tables: tables.length === 1 ? ['c', 'd'] : ['c'] },
    { ...parts, queryType: queryType === 'Query' ? 'Insert' : 'Query' },
    { ...parts, isNear: !isNear },
    { ...parts, path: path === '/v1/b' ? '/v1/statement' : '/v1/b' },
    { ...parts, body: body === '' ? 'select x' : '' },
  ];
  const made = changed.map((each) => requestOf({ ...each, isSubmission: true }));
  const first = made[0] as RuleRequest;
  const properties = first.queryProperties as QueryProperties;
  return [
    ...made,
    { ...first, method: 'PUT' },
    { ...first, serverPort: 2 },
    { ...first, scheme: first.scheme === 'http' ? 'https' : 'http' },
    { ...first, headers: [...first.headers, 'X-Tag', 'second'] },
    { ...first, queryProperties: { ...properties, resourceGroupQueryType: 'INSERT' } },
    { ...first, queryProperties: { ...properties, errorMessage: 'wrong', queryId: 'a' } },
    { ...first, queryProperties: { ...properties, schemas: ['web', 'a'] } },
  ];
}

test('a memoized rule set decides as one without memory does, whatever it was asked before, at any time and by any chance', () => {
  // Compiles the rules that never match once.
  const memoizing = testCompiler();
  const rules = fc.array(fc.oneof({ weight: 4, arbitrary: generatedRules }, fc.constantFrom(...specs)), {
    minLength: 1,
    maxLength: 2,
  });
  const one = requests.map(([parts]) => parts as Parts);
  fc.assert(
    fc.property(rules, one, (chosen, parts) => {
      const memoized = ruleSetOf(memoizing, [...chosen, ...fillers]);
      const plain = ruleSetOf(testCompiler(), chosen);
      expect(memoized).toBeInstanceOf(MemoizedRuleSet);
      expect(plain).not.toBeInstanceOf(MemoizedRuleSet);
      const decide = (ruleSet: RuleSet, request: RuleRequest) => {
        const { trace, ...decision } = read(ruleSet.decide(request));
        return { ...decision, trace: trace.slice(0, chosen.length) };
      };
      for (const [time, chance] of [
        [0, 0],
        [1, 0.9],
        [1_000_000_000_000, 0.4],
        [0, 0],
      ] as const) {
        Object.assign(surroundings, { time, chance });
        for (const request of neighbours(parts)) expect(decide(memoized, request)).toEqual(decide(plain, request));
      }
    }),
    { numRuns: 120 },
  );
}, 60_000);

test.each(specs.map((spec) => [spec.condition, spec] as const))(
  '%s: each request is decided as if it were the first',
  (_condition, spec) => {
    fc.assert(
      fc.property(requests, (different) => {
        const ruleSet = compile([spec]);
        const earlier: [trace: unknown, text: string][] = [];
        for (const request of [...different, ...different].map(requestOf)) {
          const decision = ruleSet.decide(request);
          expect(read(decision)).toEqual(read(compile([spec]).decide(request)));
          const stored = readTrace(JSON.parse(decision.trace.stored ?? '[]') as StoredTrace);
          expect(stored).toEqual(decision.trace.rules.filter(({ outcome }) => outcome !== 'not-matched'));
          earlier.push([decision.trace.rules, JSON.stringify(decision.trace.rules)]);
        }
        // Later requests change nothing of earlier traces.
        for (const [trace, text] of earlier) expect(JSON.stringify(trace)).toBe(text);
      }),
      { numRuns: 2 },
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
  expect(failed).toEqual(Array(5).fill('r000'));
});

test('values that never come again, and then some that do, are decided by their own values', () => {
  const ruleSet = compile([{ condition: 'request.getHeader("X-Tag") != null', ...put('request.getHeader("X-Tag")') }]);
  for (let count = 0; count < 70_000; count += 1) {
    const tag = count % 3 === 0 || count > 50_000 ? `again${count % 7}` : `once${count}`;
    expect(ruleSet.decide({ ...sampleRequest, headers: ['X-Tag', tag] }).routingGroup).toBe(tag);
  }
});
