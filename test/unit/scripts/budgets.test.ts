import { mkdirSync, readFileSync, rmSync } from 'node:fs';
import { beforeEach, expect, test } from 'vitest';
import { scriptFolder } from '../../support/scriptFolder.ts';

const { write, pathOf, run } = scriptFolder('budgets.ts');

const help =
  'Remove as much elsewhere. If the change needs it, write the new figures in scripts/budgets.json in the same commit; its message states why.\n';

const wideBag = `export interface RouterOptions {\n${[...'abcdefghi'].map((name) => `  ${name}: number;\n`).join('')}}\n`;

beforeEach(() => {
  write('src/main.ts', "import './model/time.ts';\n");
  write('src/model/time.ts', '/** A time. */\nexport type Time = number;\n');
  write('src/model/name.ts', 'export type Name = string;\n');
  write('src/rules/parser.ts', 'export type Parser = string;\n');
  write('demo/fleet.ts', '// Ports.\n\nconst port = 1;\n');
  write('test/unit/time.test.ts', "import '../../src/model/time.ts';\nimport '../../src/rules/parser.ts';\n");
  write('docs/routing.md', 'The cluster is active.\n');
  write('test/surfaces.json', '["src/main.ts"]');
});

function budgets(...args: string[]): { status: number | null; output: string; problems: string } {
  const { status, stdout, stderr } = run(...args);
  return { status, output: stdout, problems: stderr };
}

function readBudgets(): Record<string, Record<string, number>> {
  return JSON.parse(readFileSync(pathOf('scripts/budgets.json'), 'utf8'));
}

let figuresOfTree: string | undefined;

/** Writes the figures of the tree as budgets. @param isChanged true if the tree is not the one of all tests */
function start(isChanged = false): void {
  mkdirSync(pathOf('scripts'), { recursive: true });
  if (isChanged || figuresOfTree === undefined) {
    expect(budgets('--lower')).toEqual({ status: 0, output: '', problems: '' });
    if (!isChanged) figuresOfTree = readFileSync(pathOf('scripts/budgets.json'), 'utf8');
  } else write('scripts/budgets.json', figuresOfTree);
}

test('without budgets, --lower writes all figures', () => {
  start();
  expect(readBudgets()).toMatchObject({
    'src/main.ts': { codeLines: 1, bytes: 26, files: 1 },
    'src/model': { codeLines: 2, bytes: 69, files: 2 },
    'src/rules': { codeLines: 1, bytes: 29, files: 1 },
    demo: { codeLines: 1, bytes: 27, files: 1 },
    src: { commentLines: 1, questionComments: 0, wideBags: 0, wideBagMembers: 0, duplicateExports: 0 },
    test: { lines: 2, importedModules: 1 },
    words: { nobody: 0, 'of its own': 0 },
  });
  expect(budgets()).toEqual({ status: 0, output: '', problems: '' });
});

test('code lines are neither blank nor comment, also where a comment shares a line or a text looks like one', () => {
  write('src/model/time.ts', "/* a */ const url = 'https://a'; // b\n\n/*\n c\n\n d */\nconst text = `\n// text\n`;\n");
  start(true);
  expect(readBudgets()).toMatchObject({ 'src/model': { codeLines: 5 }, src: { commentLines: 3 } });
});

test('each figure that rises is reported, with what to do', () => {
  start();
  write('src/model/more.ts', '/**\n * Whether it is active.\n */\nconst a = 1;\n');
  write('src/store/db.ts', 'const a = 1;\n');
  write('demo/fleet.yaml', 'a: 1\n');
  write('test/unit/b.test.ts', "import type { Name } from '../../src/model/name.ts';\n");
  write('test/unit/c.test.ts', "await import('../../src/model/bag.ts');\n");
  write('src/model/bag.ts', wideBag);
  write('src/rules/a.ts', 'export class Time {}\n');
  write('docs/routing.md', 'Nobody asks.\n');
  const { status, problems } = budgets();
  for (const problem of [
    'src/model: "codeLines" rises from 2 to 14\n',
    'src/store: "codeLines" rises from 0 to 1\n',
    'demo: "bytes" rises from 27 to 32\n',
    'test: "lines" rises from 2 to 4\n',
    'test: "importedModules" rises from 1 to 3',
    'src: "questionComments" rises from 0 to 1',
    'src: "wideBags" rises from 0 to 1',
    'src: "wideBagMembers" rises from 0 to 9\n',
    'src: "duplicateExports" rises from 0 to 1',
    'words: "nobody" rises from 0 to 1: write no user, or no client',
  ])
    expect(problems).toContain(problem);
  expect(problems.endsWith(help)).toBe(true);
  expect(status).toBe(1);
});

test('comments that continue, re-exports, bags of eight, and modules that tests may import cost no more than their size', () => {
  start();
  write('src/model/a.ts', '// Returns the time\n// Where it is known.\n');
  write('src/rules/a.ts', "export { Time } from '../model/time.ts';\n");
  write('src/model/b.ts', wideBag.replace('  a: number;\n', ''));
  write('test/unit/b.test.ts', "import '../../src/rules/a.ts';\nimport '../../src/main.ts';\n");
  expect(budgets().problems).not.toMatch(/questionComments|wideBag|duplicateExports|importedModules/);
});

test('--list prints where a figure comes from', () => {
  write('src/model/a.ts', '\nconst heir = 1;\n// Whose heir.\n');
  write('src/rules/a.ts', 'export class Time {}\n');
  expect(budgets('--list', 'heir').output).toBe('src/model/a.ts:2\nsrc/model/a.ts:3\n');
  expect(budgets('--list', 'duplicateExports').output).toBe('Time: src/model/time.ts, src/rules/a.ts\n');
});

test('--lower writes falls, leaves rises and hops, and forgets rooms that were removed', () => {
  start();
  const before = readBudgets();
  write('scripts/budgets.json', JSON.stringify({ ...before, 'hops poll': { files: 9 } }));
  rmSync(pathOf('src/model/name.ts'));
  rmSync(pathOf('src/rules'), { recursive: true });
  write('test/unit/b.test.ts', '\n');
  const { status, output } = budgets('--lower');
  expect(output).toContain('src/model: "codeLines" falls from 2 to 1\n');
  expect(status).toBe(1);
  expect(readBudgets()).toEqual({
    ...Object.fromEntries(Object.entries(before).filter(([section]) => section !== 'src/rules')),
    'src/model': { codeLines: 1, bytes: 42, files: 1 },
    'hops poll': { files: 9 },
  });
});
