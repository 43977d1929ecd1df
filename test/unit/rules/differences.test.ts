import { globSync, readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { checkManifests } from '../../../src/cli/manifestCheck.ts';
import { holdsManifests } from '../../../src/cli/offlineRules.ts';
import { productNames } from '../../../src/model/names.ts';
import { checkRulesFile } from '../../../src/rules/compile/checkRules.ts';
import { textDifferences } from '../../../src/rules/differences/textDifferences.ts';
import { Evaluation, EvaluationError } from '../../../src/rules/evaluation.ts';
import { CompileBudget } from '../../../src/rules/language/compileBudget.ts';
import { parse } from '../../../src/rules/language/parser.ts';
import { compileProgram } from '../../../src/rules/language/program.ts';
import { CompileError } from '../../../src/rules/language/source.ts';
import { javaText } from '../../../src/rules/values/text.ts';

const names = productNames('Engine');
const context = { names, analyzeRequest: true };

const differences = (text: string, part: 'condition' | 'action' = 'action'): readonly string[] =>
  textDifferences(parse(text, new CompileBudget(), names), part, names).map(({ message }) => message);

/** What an expression gives here as text; null where it fails. */
function resultOf(text: string): string | null {
  const e = new Evaluation({} as Evaluation['objects']);
  try {
    return javaText(compileProgram(text, context).run(e), e);
  } catch (error) {
    if (error instanceof CompileError || error instanceof EvaluationError) return null;
    throw error;
  }
}

const verdicts = JSON.parse(readFileSync('test/fixtures/routing-rules/operators.json', 'utf8')) as readonly (readonly [
  expression: string,
  there: string | null,
])[];

test(`of ${verdicts.length} pairs of types those are warned of that the reference gateway calculates otherwise`, () => {
  const wrong = verdicts.flatMap(([expression, there]) => {
    const here = resultOf(expression);
    const isWarned = differences(expression).length > 0;
    return isWarned === (here !== there) ? [] : [{ expression, there, here, isWarned }];
  });
  expect(wrong).toEqual([]);
  expect(verdicts.some(([expression]) => differences(expression).length > 0)).toBe(true);
});

test.each([
  ['state.get("a") + ["b"]', 'where the left one is a list or set'],
  ['["a"] + state.get("b")', 'where that is a list or set'],
  ['request.getHeader("X").charAt(0) + state.get("n")', 'where that is a number'],
  ['request.isSecure() < state.get("x")', 'unless the value is null'],
  ['engineQueryProperties.getCatalogs() + "x"', "Trino Gateway makes a list of the set's elements"],
  ['if (true) { c = "abc".charAt(1); c + 1 }', 'Trino Gateway fails there, here the result is text'],
  ['engineQueryProperties.errorMessage() == null', 'getErrorMessage() is an Optional in both'],
  ['new ArrayList().poll()', 'new LinkedList() or new ArrayDeque() has it in both'],
  ['["a"].peek()', 'ArrayList has no method peek in Trino Gateway'],
  ['new HashSet().first()', 'new TreeSet() has it in both'],
  ['state.firstKey()', 'HashMap has no method firstKey in Trino Gateway'],
  ['state.get("x").codePoints()', 'no value has a method codePoints here'],
  ['request.getHeader("X").codePoints()', 'String has no method codePoints here'],
  ['x = 5; x == 5', 'the variable x is outside of a block'],
  ['int x = 5', 'the variable x is outside of a block'],
])('%s is warned of: %s', (text, message) => {
  expect(differences(text)).toEqual([expect.stringContaining(message)]);
});

test('result is warned of in conditions alone', () => {
  expect(differences('result.get("routingGroup") == "etl"', 'condition')).toEqual([
    'result in a condition: Trino Gateway has it in actions only and fails; use state',
  ]);
  expect(differences('result.get("routingGroup") == "etl"', 'action')).toEqual([]);
});

test.each([
  'state.get("a") + "b"',
  'state.get("a") + state.get("b")',
  '["a", "b"] + "c"',
  '"abc".charAt(0) + "b"',
  '"" + "abc".charAt(0) + 1',
  'request.isSecure() == true',
  'state.get("x") == false',
  'state.get("n") < 3',
  'request.getHeader("X") < "b"',
  'state.get("l").poll()',
  'new LinkedList().poll()',
  'new TreeSet().first()',
  'if (true) { x = 5; x == 5 }',
  'foreach (x : [1, 2]) { y = x; state.put("y", y) }',
  'for (i = 0; i < 3; i++) { state.put("i", i) }',
  'state.k = 5',
  'engineQueryProperties.getDefaultCatalog().orElse("x") == "hive"',
  'engineQueryProperties.getErrorMessage().isPresent()',
  'java.util.Optional.of("a").isPresent()',
  'if (true) { x = "a"; x = 1; x < true == false }',
])('nothing is said of %s', (text) => {
  // The last one has a variable of two types: what is known of it is unknown.
  expect(differences(text).filter((message) => !message.startsWith('< between a value'))).toEqual([]);
});

test('the texts of the cases that both gateways decide alike are not warned of', () => {
  interface Case {
    readonly id: string;
    readonly expr: string;
    readonly vars: { readonly result?: unknown };
    readonly expect: { readonly error?: boolean };
    readonly expectSpec?: unknown;
    readonly quirk?: boolean;
  }
  const known = JSON.parse(readFileSync('test/fixtures/routing-rules/known-differences.json', 'utf8')) as object;
  const cases = readFileSync('test/fixtures/routing-rules/expressions.jsonl', 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Case)
    .filter(({ id, expect: verdict, expectSpec, quirk }) => !verdict.error && !expectSpec && !quirk && !(id in known));
  const warned = cases.flatMap(({ id, expr, vars }) => {
    try {
      compileProgram(expr, context);
      const messages = differences(expr, vars.result === undefined ? 'condition' : 'action');
      return messages.length === 0 ? [] : [{ id, expr, messages }];
    } catch (error) {
      if (error instanceof CompileError) return [];
      throw error;
    }
  });
  expect(cases.length).toBeGreaterThan(1000);
  expect(warned).toEqual([]);
});

describe('rules of docs and manifests', () => {
  const files = [
    ...globSync('docs/**/*.md').flatMap((path) =>
      [...readFileSync(path, 'utf8').matchAll(/^ *```yaml\n([\s\S]*?)^ *```/gm)].map(
        (match) => [path, match[1] ?? ''] as const,
      ),
    ),
    ...globSync('manifests/**/*.yaml').map((path) => [path, readFileSync(path, 'utf8')] as const),
    ...globSync('demo/**/*.yaml').map((path) => [path, readFileSync(path, 'utf8')] as const),
  ].filter(([, text]) => /^\s*condition:/m.test(text) && !text.includes('{{'));

  test.each(files)('%s has none of the differences', (path, text) => {
    expect(parseAllDocuments(text).length).toBeGreaterThan(0);
    for (const product of ['Engine', 'Trino']) {
      const of = { names: productNames(product), analyzeRequest: true };
      const { warnings } = holdsManifests(text) ? checkManifests(path, text, of) : checkRulesFile({ path, text }, of);
      expect(warnings.filter(({ message }) => message.includes('Trino Gateway'))).toEqual([]);
    }
  });
});

/** A rules file of rules with these priorities; null: none. */
const rulesFile = (...priorities: readonly (number | null)[]): string =>
  priorities
    .map((priority, index) =>
      [
        `name: r${index + 1}`,
        'description: text',
        ...(priority === null ? [] : [`priority: ${priority}`]),
        'condition: "true"',
        'actions: []',
        '',
      ].join('\n'),
    )
    .join('---\n');

describe('priorities', () => {
  /** Order of asking by a missing priority. */
  const order = (priorities: readonly (number | null)[], missing: number): readonly number[] =>
    priorities
      .map((priority, index) => ({ index, priority: priority ?? missing }))
      .toSorted((a, b) => a.priority - b.priority)
      .map(({ index }) => index);

  const levels = [null, -5, 0, 7, 2_147_483_647];
  const combinations = levels.flatMap((a) => levels.flatMap((b) => levels.map((c) => [a, b, c])));

  test('are warned of exactly where the order is another one', () => {
    const wrong = combinations.filter((priorities) => {
      const text = rulesFile(...priorities);
      const { warnings } = checkRulesFile({ path: 'rules.yaml', text }, context);
      const isMoved = String(order(priorities, 0)) !== String(order(priorities, 2_147_483_647));
      return warnings.length > 0 !== isMoved;
    });
    expect(wrong).toEqual([]);
  });

  test('name rule, place, what both do and what to write', () => {
    const { warnings } = checkRulesFile({ path: 'rules.yaml', text: rulesFile(10, null) }, context);
    expect(warnings).toEqual([
      {
        effect: 'warning',
        path: 'rules.yaml',
        document: 2,
        line: 7,
        column: 1,
        rule: 'r2',
        message:
          'priority is missing while "r1" has 10: Trino Gateway takes it as 0 and asks this rule before "r1", here it is 2147483647 and asked after it, and the last rule that sets a group decides; write a priority, or set routingRules.defaultPriority',
      },
    ]);
  });

  test('are left alone with routingRules.defaultPriority, and without differences', () => {
    const text = rulesFile(10, null);
    expect(checkRulesFile({ path: 'rules.yaml', text, defaultPriority: 0 }, context).warnings).toEqual([]);
    expect(checkRulesFile({ path: 'rules.yaml', text }, { ...context, differenceWarnings: false }).warnings).toEqual(
      [],
    );
  });
});

test.each([
  ['result.put("a", "1")\nresult.put("b", "2")', true],
  ['result.put("a", "1") result.put("b", "2")', true],
  ['state.get("a") + state.get("b")\nresult.put("b", "2")', true],
  ['result.put("a", "1")\n"x"', true],
  ['state.get("a") + 1\nresult.put("b", "2")', false],
  ['(true)\nresult.put("b", "2")', false],
  ['state.k = 3\nresult.put("b", "2")', false],
])('%j: left out alone where the reference gateway runs only the first: %s', (action, isLeftOut) => {
  const text = `name: r\ndescription: d\ncondition: "true"\nactions:\n  - ${JSON.stringify(action)}\n`;
  const { problems } = checkRulesFile({ path: 'rules.yaml', text }, context);
  expect(problems.map(({ effect }) => effect)).toEqual([isLeftOut ? 'ruleLeftOut' : 'fileNotLoaded']);
  expect(problems[0]?.message.includes('Trino Gateway runs only what stands before it')).toBe(isLeftOut);
});
