import { describe, expect, test } from 'vitest';
import type { RoutingRule } from '../../../src/kinds/routingRule/spec.ts';
import { productNames } from '../../../src/model/names.ts';
import { createRuleCompiler } from '../../../src/rules/compiler.ts';
import type { RuleDecision } from '../../../src/rules/decision.ts';
import { type Sources, systemSources } from '../../../src/rules/evaluation.ts';
import type { RuleCompilerOptions, RuleFailure } from '../../../src/rules/ruleCompiler.ts';
import { processorTime, slowness } from '../../support/processorTime.ts';
import { resourceRule as rule } from '../../support/resourceRules.ts';
import { attempt, sampleRequest } from '../../support/ruleAttempt.ts';

const options: RuleCompilerOptions = {
  names: productNames('Engine'),
  rulesEngineEnabled: true,
  rulesType: 'FILE',
  analyzeRequest: true,
  onRuleError: 'skip',
  onFileError: 'header',
  monotonic: () => 0,
};

/** A clock that goes on by so many milliseconds each time that it is read. */
function ticking(by: number): Sources {
  let time = 1_000_000;
  return {
    ...systemSources,
    processorTime: () => {
      time += by;
      return time;
    },
  };
}

/** Counts 10,000 steps, so that the clock is read a few dozen times. */
const busy = 'n = 0; while (n < 10000) { n = n + 1 } state.put("busy", 1); true';
const routes = (group: string): string[] => [`result.put("routingGroup", "${group}")`];
const first = rule('first', { priority: 1, actions: [...routes('first'), 'state.put("first", 1)'] });
const slow = rule('slow', { priority: 2, condition: busy, actions: routes('slow') });
const later = rule('later', { priority: 3, condition: 'state.get("busy") == null', actions: routes('later') });
const denies = (whenError?: 'Reject' | 'Skip'): RoutingRule =>
  rule('denies', { priority: 3, condition: 'false', deny: { message: 'no', ...(whenError && { whenError }) } });

interface Decided {
  readonly decision: RuleDecision;
  readonly failures: readonly RuleFailure[];
  readonly counted: readonly string[];
}

function decide(rules: readonly RoutingRule[], more: Partial<RuleCompilerOptions> = {}): Decided {
  const failures: RuleFailure[] = [];
  const counted: string[] = [];
  const { ruleSet } = createRuleCompiler({
    ...options,
    ...more,
    onRuleFailure: (failure) => failures.push(failure),
    countFailure: (name) => counted.push(name),
  }).compile(rules, null);
  if (ruleSet === null) throw new Error('there is no rule set');
  return { decision: ruleSet.decide(sampleRequest), failures, counted };
}

describe('a rule that uses up the time of its decision', () => {
  const used = "the decision's time of 50 ms is used up (routingRules.decisionTimeout)";
  const notAsked = "not asked: rule slow used up the decision's time of 50 ms";

  test('is rolled back and skipped with the reason; later rules are not asked and say which rule it was', () => {
    const { decision, failures, counted } = decide([first, slow, later], { sources: ticking(10) });
    expect(decision).toMatchObject({ routingGroup: 'first', rule: 'first', denied: null, rejected: null });
    expect(decision.trace.rules).toMatchObject([
      { rule: 'first', outcome: 'fired' },
      { rule: 'slow', outcome: 'failed', error: `condition, line 1, column 8: ${used}` },
      { rule: 'later', outcome: 'failed', error: notAsked },
    ]);
    expect(failures).toMatchObject([{ rule: 'slow', origin: 'resource', count: 1 }]);
    expect(failures[0]?.message).toContain(used);
    expect(counted).toEqual(['slow', 'later']);
  });

  test.each([undefined, 'Reject'] as const)('a deny that was not asked denies with whenError %s', (whenError) => {
    const { decision } = decide([first, slow, denies(whenError)], { sources: ticking(10) });
    expect(decision.denied).toEqual({ rule: 'denies', message: 'no' });
    expect(decision.trace.rules[2]).toMatchObject({ outcome: 'denied', error: notAsked });
  });

  test('a deny that was not asked lets pass with whenError Skip', () => {
    const { decision } = decide([first, slow, denies('Skip')], { sources: ticking(10) });
    expect(decision).toMatchObject({ denied: null, routingGroup: 'first' });
  });

  test('a deny that uses it up itself follows its whenError', () => {
    const own = (whenError: 'Reject' | 'Skip') =>
      rule('own', { condition: busy, deny: { message: 'busy', whenError } });
    expect(decide([own('Reject')], { sources: ticking(10) }).decision.denied).toEqual({ rule: 'own', message: 'busy' });
    expect(decide([own('Skip')], { sources: ticking(10) }).decision.denied).toBeNull();
  });

  test('rejects the request where onRuleError says so', () => {
    const { decision } = decide([first, slow, later], { sources: ticking(10), onRuleError: 'reject' });
    expect(decision.rejected).toMatchObject({ rule: 'slow' });
  });

  test('the next decision has all of the time again', () => {
    const { ruleSet } = createRuleCompiler({ ...options, sources: ticking(1) }).compile([first, slow, later], null);
    for (let round = 0; round < 3; round += 1) {
      expect(ruleSet?.decide(sampleRequest)).toMatchObject({ rule: 'slow' });
    }
  });

  test('the time is configured', () => {
    const limited = (time: number) =>
      createRuleCompiler({ ...options, sources: ticking(10), limits: { time } }).compile([first, slow], null).ruleSet;
    expect(limited(1000)?.decide(sampleRequest).rule).toBe('slow');
    const { rule: decided, trace } = limited(20)?.decide(sampleRequest) ?? {};
    expect(decided).toBe('first');
    expect(trace?.rules[1]?.error).toContain("the decision's time of 20 ms is used up");
  });

  test('rules of few steps never read the clock', () => {
    const sources = { ...systemSources, processorTime: () => expect.fail('the clock was read') };
    expect(decide([first, later], { sources }).decision.rule).toBe('later');
  });

  test('a rule that is tried keeps to the same time', () => {
    const compiler = createRuleCompiler({ ...options, sources: ticking(10) });
    compiler.compile([first], null);
    const tried = compiler.tryRule({ name: 'tried', priority: 2, condition: busy, actions: routes('tried') });
    const decision = tried !== null && 'ruleSet' in tried ? tried.ruleSet.decide(sampleRequest) : null;
    expect(decision).toMatchObject({ rule: 'first' });
    expect(decision?.trace.rules[1]).toMatchObject({ rule: 'tried', outcome: 'failed' });
  });
});

describe('what a decision leaves behind', () => {
  test('a group of more than 1,024 characters fails the rule', () => {
    const long = rule('long', { priority: 2, actions: ['result.put("routingGroup", "g".repeat(1025))'] });
    const { decision } = decide([first, long]);
    expect(decision).toMatchObject({ routingGroup: 'first', rule: 'first' });
    expect(decision.trace.rules[1]?.error).toContain('longer than 1024 characters');
  });

  test('traces of large values take no more memory than what they show', { retry: 2 }, () => {
    const puts = rule('puts', { actions: ['result.put("body", engineQueryProperties.getBody())'] });
    const { ruleSet } = createRuleCompiler(options).compile([puts], null);
    const properties = sampleRequest.queryProperties;
    if (ruleSet === null || properties === null) throw new Error('there is no rule set');
    const traces: unknown[] = [];
    const before = process.memoryUsage().heapUsed;
    for (let index = 0; index < 200; index += 1) {
      const body = Buffer.alloc(1_000_000, `${index} `).toString('latin1');
      traces.push(ruleSet.decide({ ...sampleRequest, queryProperties: { ...properties, body } }).trace);
    }
    // Two hundred bodies are 200 MB.
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(100_000_000);
    expect(traces).toHaveLength(200);
  });
});

/** Texts that take long to compile where that is not bounded: as long as a text may be. */
const repeated = (text: string, length = 65_500): string => text.repeat(Math.trunc(length / text.length));
const hostile: readonly (readonly [string, string])[] = [
  ['alternatives', `${repeated('a||')}true`],
  ['a list', `[${repeated('1,')}1] == null`],
  ['statements', repeated('x;\n')],
  ['a long chain in many', repeated(`${repeated('a.', 498)}b;`)],
  ['blocks', repeated(`${'if(true){'.repeat(90)}x=1;${'}'.repeat(90)}`)],
  ['parentheses', repeated(`${'('.repeat(90)}1${')'.repeat(90)};`)],
  ['operators', repeated('!')],
  ['a number', `${'1'.repeat(65_000)}L == 1`],
  ['comments', repeated('/*')],
  ['small patterns', `${repeated('"a"~="b"||')}true`],
  ['large patterns', `${repeated(`"a"~="${'x{900}'.repeat(10)}"||`)}true`],
  ['patterns of wide classes', `${repeated(`"a"~="${'(?i)[\\\\W]'.repeat(20)}"||`)}true`],
  ['patterns of properties', `${repeated('"a"~="(?i)[^\\\\p{L}x]\\\\p{Lu}[\\\\p{N}]"||')}true`],
  ['a counted repetition', '"a" ~= "(a{1000}){1000}"'],
  ['nested repetitions', '"a" ~= "((((a{9}){9}){9}){9}){9}"'],
  ['counted repetitions', `"a" ~= "${'a{1000}'.repeat(500)}"`],
  ['a pattern of properties', `"a" ~= "${'\\\\p{L}'.repeat(600)}"`],
  ['optional characters', `"a" ~= "${Array.from({ length: 2000 }, (_, i) => `${String.fromCharCode(0x400 + 2 * i)}?`).join('')}"`],
  ['possessive quantifiers', `"a" ~= "${'a*+b*+'.repeat(600)}"`],
  ['intersections', `"a" ~= "[${Array.from({ length: 1900 }, (_, i) => String.fromCharCode(0x400 + 2 * i)).join('')}${'&&[^x]'.repeat(340)}]"`],
  ['look-aheads', `"a" ~= "${'(?=a)'.repeat(800)}"`],
  ['nested classes', `"a" ~= "${'[\\\\W'.repeat(49)}${']'.repeat(49)}"`],
]; // biome-ignore format: a table

test.each(hostile)('a rule of %s compiles or is refused within 100 ms of processor time', (_what, condition) => {
  const limit = 100 * slowness();
  const compile = (): void => {
    const compiler = createRuleCompiler(options);
    compiler.compile([rule('hostile', { condition, actions: routes('g') })], null).ruleSet?.decide(sampleRequest);
  };
  // The first one is translated to machine code; what is slow is slow each time.
  const times = [1, 2, 3, 4].map(() => processorTime(compile));
  expect(Math.min(...times)).toBeLessThan(limit);
});

/** Operations that took seconds, or never ended, where their cost was not counted. */
const attacks: readonly string[] = [
  'Double.parseDouble("1".repeat(4000000) + "x")',
  'double d = "1".repeat(4000000) + "x"',
  '"a".repeat(4000000).lastIndexOf("a".repeat(20000) + "b")',
  '"a".repeat(4000000).indexOf("a".repeat(1000000) + "b" + "a".repeat(1000000))',
  '"a".repeat(4000000).replace("a", "b")',
  '"a".repeat(8000).replaceAll(".*x|a", "b")',
  '("\u00e9" + "x").repeat(30000).matches("(\\\\p{L}{1,900})*[0-9]")',
  'new HashSet("a".repeat(4000000).split("a"))',
  's = "\u0130".repeat(4000000); while (true) { s.equalsIgnoreCase(s + "") }',
  's = "k".repeat(20000); l = new HashSet(); i = 0; while (true) { l.add(s + i); i = i + 1 }',
  's = " ".repeat(4000000); while (true) { s == empty }',
];

test.each(attacks)('a decision with %s ends within 100 ms of processor time', (source) => {
  const times = [1, 2, 3].map(() => processorTime(() => attempt(source)));
  expect(Math.min(...times)).toBeLessThan(100 * slowness());
});
