import fc from 'fast-check';
import { expect, test } from 'vitest';
import { productNames } from '../../src/model/names.ts';
import { Evaluation, EvaluationError, type RuleObjects } from '../../src/rules/evaluation.ts';
import { compileProgram, type Program } from '../../src/rules/language/program.ts';
import { twoSidedOperators } from '../../src/rules/language/vocabulary.ts';
import { classNames, kindsWithMethods, libraryClass, methodsOfKind } from '../../src/rules/library/library.ts';
import {
  invoke,
  type Method,
  type MethodTable,
  type Overloads,
  type Parameter,
} from '../../src/rules/library/methodTable.ts';
import { defaultRuleLimits } from '../../src/rules/limits.ts';
import { QueryObject, RequestObject, UserObject } from '../../src/rules/requestObjects.ts';
import { JavaArray, JavaCollection, JavaList, JavaMap, JavaSet } from '../../src/rules/values/collections.ts';
import { isNumber, JavaChar, kindOf, Mutable, type Value } from '../../src/rules/values/value.ts';
import { byKind, largeRequest, largeTexts, largeValues, shortTexts } from '../support/largeValues.ts';
import { processorTime, slowness } from '../support/processorTime.ts';

/** Milliseconds of processor time in which every decision ends. */
const MOST = 100;
/** Combinations of operands that are tried of each overload and operator; more find more. */
const RUNS = Number(process.env.RULES_BUDGET_RUNS ?? 2);
/** The same combinations each time, unless more are asked for. */
const SEED = process.env.RULES_BUDGET_RUNS === undefined ? { seed: 17 } : {};
/** A decision that took too long is made again this often: only what is slow each time is slow. */
const TRIES = 4;

const names = productNames('Engine');
const limit = MOST * slowness();
const unlimited = { ...defaultRuleLimits, steps: 1e9, memory: 1e9, time: 1e9 };
const values = largeValues(new Evaluation({} as RuleObjects, unlimited));
const kinds = byKind(values);

function objects(): RuleObjects {
  return {
    request: new RequestObject(largeRequest, names),
    state: new JavaMap(),
    result: new JavaMap(),
    user: new UserObject(largeRequest.user ?? { user: null, userInfo: null }),
    query: largeRequest.queryProperties === null ? undefined : new QueryObject(largeRequest.queryProperties),
  };
}

/** Makes a decision that does something again and again until a budget ends it: within the limit, and nothing else gets out. */
function decide(what: string, once: (e: Evaluation) => unknown): void {
  let best = Number.POSITIVE_INFINITY;
  for (let tries = 0; tries < TRIES && best > limit; tries += 1) {
    for (const value of values) if (value instanceof Mutable) value.savedEpoch = 0;
    const e = new Evaluation(objects());
    const time = processorTime(() => {
      try {
        for (let calls = 0; calls < 200_000; calls += 1) once(e);
      } catch (error) {
        if (!(error instanceof EvaluationError)) throw error;
      }
    });
    e.undo();
    best = Math.min(best, time);
  }
  if (best > limit)
    expect.fail(`${what} took ${Math.round(best)} ms of processor time, more than ${Math.round(limit)}`);
}

const isElements = (value: Value): boolean =>
  value instanceof JavaList ||
  value instanceof JavaSet ||
  value instanceof JavaArray ||
  value instanceof JavaCollection;

/** Arguments that fit a parameter. */
function fitting(parameter: Parameter): readonly Value[] {
  switch (parameter) {
    case 'any':
      return values;
    case 'string':
    case 'string?':
      return [...largeTexts, ...shortTexts];
    case 'char':
      return values.filter((value) => value instanceof JavaChar);
    case 'boolean':
      return [true, false];
    case 'elements':
      return values.filter(isElements);
    case 'map':
      return values.filter((value) => value instanceof JavaMap);
    default:
      return values.filter((value) => isNumber(value));
  }
}

/** A value by its number: fast-check would print a value itself, however large, when a property fails. */
interface Chosen {
  readonly number: number;
  readonly of: () => readonly Value[];
}

const chosen = ({ number, of }: Chosen): Value => of()[number] ?? null;

function oneOf(choices: readonly Value[]): fc.Arbitrary<Chosen> {
  const of = (): readonly Value[] => choices;
  return fc.nat({ max: choices.length - 1 }).map((number) => ({ number, of }));
}

function argumentsOf({ parameters, variadic }: Method): fc.Arbitrary<readonly Chosen[]> {
  const fixed = fc.tuple(...parameters.map((parameter) => oneOf(fitting(parameter))));
  if (!variadic) return fixed;
  return fc.tuple(fixed, fc.array(oneOf(values), { maxLength: 3 })).map(([some, more]) => [...some, ...more]);
}

function shown(value: Value): string {
  if (typeof value === 'string') return `${JSON.stringify(value.slice(0, 12))}… (${value.length})`;
  return typeof value === 'object' && value !== null ? kindOf(value) : String(value);
}

function tryAll(table: MethodTable, receivers: readonly Value[]): void {
  for (const { name, methods } of table.all()) {
    for (const method of methods) tryMethod(table.owner, { name, methods: [method] }, method, receivers);
  }
}

function tryMethod(owner: string, overloads: Overloads, method: Method, receivers: readonly Value[]): void {
  const operands = fc.tuple(oneOf(receivers), argumentsOf(method));
  fc.assert(
    fc.property(operands, ([receiver, given]) => {
      const self = chosen(receiver);
      const args = given.map(chosen);
      decide(`${owner}.${overloads.name}(${args.map(shown).join(', ')}) of ${shown(self)}`, (e) =>
        invoke(overloads, e, self, args),
      );
    }),
    { numRuns: RUNS, endOnFailure: true, ...SEED },
  );
}

test.each(kindsWithMethods())('calling any method of a %s ends in time', (kind) => {
  const receivers = kinds.get(kind) ?? [];
  expect(receivers, `test/support/largeValues.ts has no value of the kind ${kind}`).not.toEqual([]);
  const table = methodsOfKind(kind);
  if (table === undefined) throw new Error(kind);
  tryAll(table, receivers);
});

test.each(classNames())('calling any static method or constructor of %s ends in time', (name) => {
  const known = libraryClass(name);
  if (known === undefined) throw new Error(name);
  tryAll(known.statics, [null]);
  tryAll(known.constructors, [null]);
});

/** Loops that use an operator or statement on `state.a` and `state.b` until a budget ends them. */
const loops: readonly string[] = [
  ...twoSidedOperators()
    .filter((operator) => !['is', 'instanceof', '&&', 'and', '||'].includes(operator))
    .map((operator) => `a ${operator} b`),
  ...['a is String', 'a == empty', 'a != empty', '-a', '!a', 'a[b]', 'a.size', '[a, b]', '[a : b]', 'a ? b : a'],
  ...['n = 0; foreach (x : a) { n = n + 1 }', 'int n = a', 'double d = a', 'String s = a', 'a += b', 'a[0] = b'],
  ...['state.c = state.c + a', 'state.put("c", [state.get("c"), a])', 'state.put(a, b)', 'result.put("routingGroup", a)'],
  ...['m = [:]; m.put(a, b); m == state.get("b")', 's = new HashSet(); s.add(a); s.add(b); s.contains(a)'],
  ...['[a, b] contains b', '[a : 1] contains b', '[[a], [b]] == [[a], [b]]', 'a contains [b]', '(a + b).hashCode()'],
  ...['a.equals(b) || b.equals(a)', '[a, [a, b]].hashCode()', '[a, [a, b]].toString()', 'String.valueOf(a) ~= "(a|b)*c"'],
  ...['String.valueOf(a).replaceAll(".*x|a", "$0$0")', 'String.valueOf(b).split("(a|)b")', '(a + "").matches(b + "")'],
]; // biome-ignore format: a table

const operand = oneOf(values);

test.each(loops)('%s ends in time', (loop) => {
  const program: Program = compileProgram(`a = state.get("a"); b = state.get("b"); while (true) { ${loop}; }`, {
    names,
    analyzeRequest: true,
  });
  fc.assert(
    fc.property(operand, operand, (first, second) => {
      const [a, b] = [chosen(first), chosen(second)];
      decide(`${loop} of ${shown(a)} and ${shown(b)}`, (e) => {
        e.objects.state.put('a', a, e);
        e.objects.state.put('b', b, e);
        e.objects.state.put('c', '', e);
        program.run(e);
      });
    }),
    { numRuns: 4 * RUNS, endOnFailure: true, ...SEED },
  );
});
