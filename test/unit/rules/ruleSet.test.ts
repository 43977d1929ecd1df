import { describe, expect, test } from 'vitest';
import type { RuleDecision, RuleRequest } from '../../../src/rules/decision.ts';
import type { CompiledRules, RuleCompilerOptions, RuleFailure } from '../../../src/rules/ruleCompiler.ts';
import type { QueryProperties } from '../../../src/sql/queryProperties.ts';
import { defaultRuleCompiler, resourceRule as rule } from '../../support/resourceRules.ts';
import { sampleRequest } from '../../support/ruleAttempt.ts';

const createRuleCompiler = (options: Partial<RuleCompilerOptions> = {}) =>
  defaultRuleCompiler({ analyzeRequest: true, monotonic: () => 0, ...options });

const routes = (group: string): readonly string[] => [`result.put("routingGroup", "${group}")`];

function file(text: string | null): { path: string; text: string | null } {
  return { path: 'rules.yaml', text };
}

const fileRule = (name: string, group: string, more = '', condition = 'true'): string =>
  `---\nname: ${name}\ndescription: d\n${more}condition: '${condition}'\nactions:\n  - 'result.put("routingGroup", "${group}")'\n`;

/** Facts of a statement that was not analysed. */
const unanalysed: QueryProperties = {
  ...{ ...sampleRequest.queryProperties!, queryType: '', resourceGroupQueryType: '', defaultSchema: null, body: '' },
  ...{ tables: [], catalogs: [], schemas: [], catalogSchemas: [] },
};

function decide(compiled: CompiledRules, request: Partial<RuleRequest> = {}): RuleDecision {
  if (compiled.ruleSet === null) throw new Error('there is no rule set');
  return compiled.ruleSet.decide({ ...sampleRequest, ...request });
}

describe('order', () => {
  test('priority first, then the file before resources, resources by name', () => {
    const compiled = createRuleCompiler().compile(
      [
        rule('b', { actions: [...routes('b')] }),
        rule('a', { actions: [...routes('a')] }),
        rule('late', { priority: 5, actions: [...routes('l')] }),
      ],
      file(fileRule('z', 'z') + fileRule('y', 'y', 'priority: 7\n')),
    );
    expect(compiled.order.map(({ rule }) => rule)).toEqual(['late', 'y', 'z', 'a', 'b']);
    expect(decide(compiled)).toMatchObject({ routingGroup: 'b', rule: 'b' });
  });
});

describe('declarative rules', () => {
  test('routeTo chooses a group or pins a cluster; a later group overrules a pin', () => {
    const compiler = createRuleCompiler();
    const pinned = rule('pin', { priority: 1, routeTo: { cluster: 'blue' }, whenUnavailable: 'Reject' });
    expect(decide(compiler.compile([pinned], null))).toMatchObject({
      cluster: 'blue',
      rule: 'pin',
      onUnavailable: 'reject',
    });
    const group = rule('group', { priority: 2, routeTo: { routingGroup: 'etl' } });
    expect(decide(compiler.compile([pinned, group], null))).toMatchObject({
      cluster: null,
      routingGroup: 'etl',
      rule: 'group',
      onUnavailable: 'fallback',
    });
  });

  test('the group of routeTo is visible to later rules', () => {
    const compiled = createRuleCompiler().compile(
      [
        rule('first', { priority: 1, routeTo: { routingGroup: 'one' } }),
        rule('second', {
          priority: 2,
          condition: 'result.get("routingGroup") == "one"',
          routeTo: { routingGroup: 'two' },
        }),
      ],
      null,
    );
    expect(decide(compiled).routingGroup).toBe('two');
  });

  test('deny is final, for submissions only', () => {
    const compiled = createRuleCompiler().compile(
      [
        rule('no', { priority: 1, deny: { message: 'not today' } }),
        rule('later', { priority: 2, actions: [...routes('x')] }),
      ],
      null,
    );
    const denied = decide(compiled);
    expect(denied.denied).toEqual({ rule: 'no', message: 'not today' });
    expect(denied.trace.rules.map(({ outcome }) => outcome)).toEqual(['denied', 'skipped']);
    const followUp = decide(compiled, { isSubmission: false, method: 'GET' });
    expect(followUp.denied).toBeNull();
    expect(followUp.trace.rules.map(({ outcome }) => outcome)).toEqual(['skipped', 'fired']);
  });

  test.each([
    ['deny', 'request.getHeader("X-Absent").length() > 1', undefined, true],
    ['skip', 'request.getHeader("X-Absent").length() > 1', 'Skip', false],
    ['deny, body not analysed', 'engineQueryProperties.tablesContains("hive.web.events")', undefined, true],
    ['skip, body not analysed', 'engineQueryProperties.getCatalogs() contains "hive"', 'Skip', false],
  ] as const)('a deny whose condition fails follows whenError: %s', (_what, condition, whenError, isDenied) => {
    const compiled = createRuleCompiler({ onRuleError: 'reject' }).compile(
      [rule('no', { condition, deny: { message: 'no', ...(whenError === undefined ? {} : { whenError }) } })],
      null,
    );
    const decision = decide(compiled, { queryProperties: unanalysed });
    expect(decision.denied !== null).toBe(isDenied);
    expect(decision.rejected).toBeNull();
    expect(decision.trace.rules[0]?.error).toBeDefined();
  });

  test('a deny that reads a statement that the engine may not run denies, whatever its whenError is', () => {
    const condition = 'request.getMethod() == "PUT" || engineQueryProperties.tablesContains("a.b.c")';
    const compiled = createRuleCompiler().compile(
      [
        rule('reads', { condition, deny: { message: 'no', whenError: 'Skip' } }),
        rule('others', { priority: 1, condition: 'false', deny: { message: 'never' } }),
      ],
      null,
    );
    const queryProperties = { ...unanalysed, queryType: 'Execute', defaultCatalog: null, body: 'EXECUTE p' };
    expect(decide(compiled, { queryProperties }).denied).toBeNull();
    // Neither decision is remembered for the other request.
    for (let round = 0; round < 2; round += 1) {
      const decision = decide(compiled, { queryProperties: { ...queryProperties, unreadable: 'no such statement' } });
      expect(decision.denied).toEqual({ rule: 'reads', message: 'no' });
      expect(decision.trace.rules.at(-1)?.error).toMatch(
        /: it is not certain what the engine runs: no such statement$/,
      );
    }
    expect(decide(compiled, { queryProperties }).denied).toBeNull();
  });

  test('stop ends the asking, suspended rules are not asked', () => {
    const compiled = createRuleCompiler().compile(
      [
        rule('off', { priority: 1, suspend: true, actions: [...routes('off')] }),
        rule('end', { priority: 2, stop: true, actions: [...routes('end')] }),
        rule('never', { priority: 3, actions: [...routes('never')] }),
      ],
      null,
    );
    const decision = decide(compiled);
    expect(decision.routingGroup).toBe('end');
    expect(decision.trace.rules.map(({ rule: name, outcome }) => [name, outcome])).toEqual([
      ['end', 'fired'],
      ['never', 'skipped'],
    ]);
    expect(compiled.reports.get('RoutingRule/default/off')).toMatchObject({
      accepted: true,
      programmedReason: 'Suspended',
    });
  });
});

test.each([
  ['result.remove("routingGroup")', null],
  ['result.clear()', null],
  ['result.put("routingGroup", null)', null],
  ['result.put("routingGroup", "")', null],
  ['result.putAll(["routingGroup" : "c"])', 'c'],
  ['result.replace("routingGroup", "d")', 'd'],
  ['result.putIfAbsent("routingGroup", "e")', 'a'],
  ['result.routingGroup = "f"', 'f'],
  ['result["routingGroup"] = result.routingGroup + "g"', 'ag'],
  ['i = 0; while (i < 300) { result.put("k" + i, i); i = i + 1 } result.put("routingGroup", "h")', 'h'],
])('the group is what result holds in the end: %s', (action, group) => {
  const compiled = createRuleCompiler().compile(
    [rule('first', { priority: 1, actions: [...routes('a')] }), rule('second', { priority: 2, actions: [action] })],
    null,
  );
  expect(decide(compiled).routingGroup).toBe(group);
});

describe('a rule that fails at evaluation', () => {
  const failing = rule('fails', {
    priority: 2,
    actions: [
      'state.get("list").add("x"); state.put("k", "changed"); state.remove("gone"); result.put("routingGroup", "half")',
      'request.getHeader("X-Absent").length()',
    ],
  });
  const before = rule('before', {
    priority: 1,
    actions: ['state.put("list", ["a"]); state.put("k", "v"); state.put("gone", 1)', ...routes('first')],
  });
  const after = rule('after', {
    priority: 3,
    condition: 'state.get("list") == ["a"] && state.k == "v" && state.gone == 1',
    actions: ['state.put("seen", true)'],
  });

  test('is rolled back and skipped; the others go on', () => {
    const failures: RuleFailure[] = [];
    const compiled = createRuleCompiler({ onRuleFailure: (failure) => failures.push(failure) }).compile(
      [before, failing, after],
      null,
    );
    const decision = decide(compiled);
    expect(decision).toMatchObject({ routingGroup: 'first', rule: 'before', rejected: null });
    expect(decision.trace.rules.map(({ outcome }) => outcome)).toEqual(['fired', 'failed', 'fired']);
    expect(decision.trace.rules[1]?.error).toBe('actions[1], line 1, column 31: length() on null');
    expect(failures).toEqual([
      { rule: 'fails', origin: 'resource', message: decision.trace.rules[1]?.error, count: 1 },
    ]);
  });

  test('is reported at most once an interval, with the count since', () => {
    let now = 0;
    const failures: RuleFailure[] = [];
    const compiled = createRuleCompiler({
      monotonic: () => now,
      failureIntervalMs: 1000,
      onRuleFailure: (failure) => failures.push(failure),
    }).compile([failing], null);
    for (let index = 0; index < 5; index += 1) decide(compiled);
    now = 1500;
    decide(compiled);
    expect(failures.map(({ count }) => count)).toEqual([1, 5]);
  });

  test('rejects the request where onRuleError says so', () => {
    const compiled = createRuleCompiler({ onRuleError: 'reject' }).compile([before, failing, after], null);
    expect(decide(compiled).rejected).toEqual({
      rule: 'fails',
      message: 'actions[1], line 1, column 31: length() on null',
    });
  });

  test.each(['5', '["a"]', '"a".charAt(0)', 'true'])('a group that is not a String fails the rule: %s', (value) => {
    const compiled = createRuleCompiler().compile(
      [rule('r', { actions: [`result.put("routingGroup", ${value})`] })],
      null,
    );
    const decision = decide(compiled);
    expect(decision.routingGroup).toBeNull();
    expect(decision.trace.rules[0]).toMatchObject({ outcome: 'failed' });
  });
});

describe('what turns rules on and off', () => {
  const etl = rule('etl', { actions: [...routes('etl')] });
  const denies = rule('no', { deny: { message: 'no' } });

  test('nothing at all: no rule set, the header decides', () => {
    expect(createRuleCompiler().compile([], null).ruleSet).toBeNull();
    expect(createRuleCompiler({ rulesEngineEnabled: true }).compile([], null).ruleSet).not.toBeNull();
  });

  test('rulesEngineEnabled: false', () => {
    const compiled = createRuleCompiler({ rulesEngineEnabled: false }).compile([etl], file(fileRule('f', 'f')));
    expect(compiled.ruleSet).toBeNull();
    expect(compiled.reports.get('RoutingRule/default/etl')).toMatchObject({
      programmed: false,
      programmedReason: 'RulesEngineDisabled',
    });
  });

  test('EXTERNAL: only deny rules are asked', () => {
    const compiled = createRuleCompiler({ rulesType: 'EXTERNAL' }).compile([etl, denies], file(fileRule('f', 'f')));
    expect(compiled.order.map(({ rule: name }) => name)).toEqual(['no']);
    expect(compiled.reports.get('RoutingRule/default/etl')?.programmedReason).toBe('ExternalRules');
    expect(decide(compiled).denied?.rule).toBe('no');
  });

  test('without request analysis rules that need it are not accepted', () => {
    const needs = rule('needs', {
      condition: 'engineQueryProperties.getQueryType() == "Query"',
      actions: [...routes('q')],
    });
    const compiled = createRuleCompiler({ analyzeRequest: false }).compile(
      [needs, etl],
      file(fileRule('f', 'f', '', 'engineRequestUser == null')),
    );
    expect(compiled.reports.get('RoutingRule/default/needs')).toMatchObject({
      accepted: false,
      acceptedReason: 'AnalysisDisabled',
      inForce: 'none',
    });
    expect(compiled.fileProblems).toMatchObject([{ document: 1, line: 4, rule: 'f' }]);
    expect(compiled.ruleSet?.needsAnalysis).toBe(false);
    expect(decide(compiled, { user: null, queryProperties: null }).routingGroup).toBe('etl');
    expect(createRuleCompiler().compile([needs], null).ruleSet?.needsAnalysis).toBe(true);
  });

  test('a file that does not load: its rules are absent, resource rules run, otherwise the header decides', () => {
    const compiler = createRuleCompiler();
    const broken = file('---\nname: a\ncolour: red\ndescription: d\ncondition: "("\nactions: []\n');
    const alone = compiler.compile([], broken);
    expect(alone.fileState).toBe('failed');
    expect(alone.fileProblems).toEqual([
      {
        effect: 'fileNotLoaded',
        path: 'rules.yaml',
        document: 1,
        line: 3,
        column: 1,
        rule: 'a',
        message: 'unknown field colour; a rule has name, description, priority, condition, actions',
      },
    ]);
    expect(decide(alone)).toMatchObject({ useHeader: true, routingGroup: null });
    expect(decide(compiler.compile([etl], broken))).toMatchObject({ useHeader: false, routingGroup: 'etl' });
    expect(decide(compiler.compile([], file(null)))).toMatchObject({ useHeader: true });
    expect(decide(compiler.compile([], file('# nothing\n')))).toMatchObject({ useHeader: false, routingGroup: null });
  });

  test('onRuleError: skip or reject', () => {
    const failing = [rule('fails', { condition: 'nosuch' })].map((one) => ({
      ...one,
      spec: { ...one.spec, actions: ['1'] },
    }));
    const decided = (onRuleError: 'skip' | 'reject') => {
      const compiler = createRuleCompiler({ onRuleError });
      const compiled = compiler.compile(failing, null);
      expect(compiler.compile(failing, null).ruleSet).toBe(compiled.ruleSet);
      return decide(compiled).rejected?.rule;
    };
    expect([decided('skip'), decided('reject')]).toEqual([undefined, 'fails']);
  });

  test('onFileError: keepLast', () => {
    const compiler = createRuleCompiler({ onFileError: 'keepLast' });
    compiler.compile([], file(fileRule('f', 'kept')));
    const kept = compiler.compile([], file('---\nname: x\n'));
    expect(kept.fileState).toBe('keptLast');
    expect(kept.fileProblems).not.toEqual([]);
    expect(decide(kept)).toMatchObject({ useHeader: false, routingGroup: 'kept' });
  });
});

describe('resources', () => {
  test('one that does not compile affects only itself and keeps its last good version', () => {
    const compiler = createRuleCompiler();
    compiler.compile([rule('a', { actions: [...routes('good')] })], null);
    const broken = rule('a', { actions: ['result.put('] });
    const other = rule('b', { condition: 'false', actions: [...routes('b')] });
    const compiled = compiler.compile([broken, other], null);
    expect(compiled.reports.get('RoutingRule/default/a')).toMatchObject({
      accepted: false,
      acceptedReason: 'CompileError',
      inForce: 'previous',
      programmedReason: 'PreviousVersion',
      message: 'actions[0], line 1, column 12: a value is missing; found the end',
    });
    expect(decide(compiled).routingGroup).toBe('good');
    const recompiled = createRuleCompiler().compile([broken], null);
    expect(recompiled.reports.get('RoutingRule/default/a')).toMatchObject({
      inForce: 'none',
      programmedReason: 'NotAccepted',
    });
  });

  test('of two that claim one name the older one has it', () => {
    const older = rule('older', { name: 'team', actions: [...routes('older')] }, '2025-01-01T00:00:00Z');
    const newer = rule('newer', { name: 'team', actions: [...routes('newer')] });
    const compiled = createRuleCompiler().compile([newer, older], null);
    expect(decide(compiled).routingGroup).toBe('older');
    expect(compiled.reports.get('RoutingRule/default/newer')).toMatchObject({
      accepted: false,
      acceptedReason: 'NameConflict',
    });
  });

  test('the rule set is the same object while nothing changes', () => {
    const compiler = createRuleCompiler();
    const compile = (condition: string) =>
      compiler.compile([rule('a', { condition, actions: [...routes('a')] })], file(fileRule('f', 'f'))).ruleSet;
    const first = compile('true');
    expect(compile('true')).toBe(first);
    expect(compile('false')).not.toBe(first);
  });
});

describe('a rule of the file that the reference gateway loads, but this one cannot run, is left out alone', () => {
  const cases: readonly (readonly [condition: string, message: string])[] = [
    ["'request.nosuch() == 1'", 'has no method nosuch'],
    ["'Nosuch.foo() == 1'", 'the class Nosuch is not available'],
    ["'Math.nosuch(1) == 1'", 'Math has no static method nosuch'],
    ['\'new java.math.BigInteger("5") == 5\'', 'BigInteger'],
    ["'(5 | 3) == 7'", 'bit operators do not exist'],
    ["'2 ** 3 == 8'", 'there is no power operator'],
    ["'(int) 7 == 7'", 'casts do not exist'],
    ["'($ in [1]).size() == 1'", 'projections do not exist'],
    ["'assert true'", 'assert does not exist'],
    ['\'request.getMethod() ~= "(?<=a)b"\'', 'look-behind is not available'],
    ['true', 'condition must be a text; put it in quotes'],
  ];

  test.each(cases)('%s', (condition, message) => {
    const text = `${fileRule('good', 'g')}---\nname: bad\ndescription: d\ncondition: ${condition}\nactions: ["1"]\n`;
    const compiled = createRuleCompiler().compile([], file(text));
    expect(compiled.fileState).toBe('loaded');
    expect(compiled.fileProblems).toMatchObject([{ effect: 'ruleLeftOut', document: 2, rule: 'bad' }]);
    expect(compiled.fileProblems[0]?.message).toContain(message);
    expect(decide(compiled)).toMatchObject({ useHeader: false, routingGroup: 'g' });
  });

  test('with request analysis off, so is one that needs it', () => {
    const text = `${fileRule('good', 'g')}---\nname: bad\ndescription: d\ncondition: 'engineRequestUser.userExistsAndEquals("a")'\nactions: ["1"]\n`;
    const compiled = createRuleCompiler({ analyzeRequest: false }).compile([], file(text));
    expect(compiled.fileState).toBe('loaded');
    expect(compiled.fileProblems).toMatchObject([{ effect: 'ruleLeftOut', rule: 'bad' }]);
    expect(decide(compiled, { user: null, queryProperties: null })).toMatchObject({ routingGroup: 'g' });
  });
});

test.each(['', 'description:\n', 'description: ~\n', 'description: null\n'])(
  'a rule of the file with %j runs, with a warning',
  (description) => {
    const text = `name: a\n${description}condition: "true"\nactions: ['result.put("routingGroup", "g")']\n`;
    const compiled = createRuleCompiler().compile([], file(text));
    expect(compiled).toMatchObject({ fileState: 'loaded', fileProblems: [] });
    expect(compiled.fileWarnings).toMatchObject([{ effect: 'warning', document: 1, rule: 'a' }]);
    expect(compiled.fileWarnings[0]?.message).toContain('description is missing and taken as ""');
    expect(decide(compiled).routingGroup).toBe('g');
  },
);

test('a compile error in the file names path, document, line and column', () => {
  const text = `${fileRule('good', 'g')}---\nname: bad\ndescription: d\ncondition: |\n  true &&\n    nosuch(\nactions:\n  - "1 +"\n`;
  const { fileProblems } = createRuleCompiler().compile([], file(text));
  expect(fileProblems.map(({ document, line, column, rule: name }) => [document, line, column, name])).toEqual([
    [2, 12, 5, 'bad'],
    [2, 14, 9, 'bad'],
  ]);
});
