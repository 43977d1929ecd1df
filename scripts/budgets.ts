/**
 * Compares figures of the sources with `scripts/budgets.json` and fails if one rises: size of each room, comments, option
 * bags, names that are exported twice, what tests import, and words that have a plain replacement
 * ([CONTRIBUTING](../CONTRIBUTING.md#budgets)).
 *
 * `--lower` writes figures that fell; without the file it writes all. `--list FIGURE` prints where a figure comes from.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import process from 'node:process';
import { parseArgs } from 'node:util';
import type { ESTree } from 'rolldown/utils';
import { parseSync } from 'rolldown/utils';
import { findWords, wording } from './wording.ts';

/** Figures by section: a room, `src`, `test`, `words`; and sections of hops, which their test compares. */
type Figures = Record<string, Record<string, number>>;

/** A TypeScript file with what the parser found. */
interface Module {
  readonly path: string;
  readonly text: string;
  readonly comments: readonly Comment[];
  /** Lines that are neither blank nor comment. */
  readonly codeLines: number;
  /** Lines of comments, without code. */
  readonly commentLines: number;
  /** Names that the module declares and exports. */
  readonly exports: readonly string[];
  /** Paths of the modules that it imports, from the project's root. */
  readonly imports: readonly string[];
  readonly bags: readonly Bag[];
}

interface Comment {
  readonly type: 'Block' | 'Line';
  readonly value: string;
  readonly start: number;
  readonly end: number;
}

/** An exported interface of the arguments of a constructor or function. */
interface Bag {
  readonly name: string;
  readonly members: number;
}

const BUDGETS = 'scripts/budgets.json';
/** Sections that `test/integration/serve/hops.test.ts` compares. */
const HOPS_SECTION = /^hops /;
const MAX_BAG_MEMBERS = 8;
/** Interfaces that are bags of arguments. */
const BAG_NAME = /(?:Options|Dependencies|Settings)$/;
const QUESTION = /^[\s*]*(?:What|Whether|How|Where|Who|Why)\b/;
/** Unit tests of these folders may import any of their modules. */
const TESTED_INSIDE = /^src\/(?:sql|rules)\//;

/** Where each figure of `src`, `test` and `words` comes from, by the figure's name. */
const places = new Map<string, string[]>();

function addPlace(figure: string, place: string): void {
  const list = places.get(figure);
  if (list === undefined) places.set(figure, [place]);
  else list.push(place);
}

/** Returns the room of a file: a folder right below `src` (or a file there), or another folder of programs. */
function roomOf(path: string): string | undefined {
  const [top = '', name] = path.split('/');
  if (top === 'src') return `src/${name}`;
  return ['demo', 'scripts', 'bench'].includes(top) ? top : undefined;
}

function readModule(path: string): Module {
  const text = readFileSync(path, 'utf8');
  const parsed = parseSync(path, text);
  const requests = [
    ...parsed.module.staticImports.map(({ moduleRequest }) => moduleRequest.value),
    ...parsed.module.staticExports.flatMap(({ entries }) => entries.map((entry) => entry.moduleRequest?.value ?? '')),
    ...parsed.module.dynamicImports.map(({ moduleRequest: { start, end } }) => text.slice(start + 1, end - 1)),
  ];
  const declared = parsed.module.staticExports.flatMap(({ entries }) =>
    entries.filter((entry) => entry.moduleRequest === null).map(({ exportName }) => exportName.name),
  );
  return {
    path,
    text,
    comments: parsed.comments,
    ...countLines(text, parsed.comments),
    exports: [...new Set(declared.filter((name) => name !== null))],
    imports: requests.filter((to) => to.startsWith('.')).map((to) => normalize(join(dirname(path), to))),
    // The tree is large: it is read only where it is needed.
    bags: /interface \w+(?:Options|Dependencies|Settings)\b/.test(text) ? bagsOf(parsed.program) : [],
  };
}

function countLines(text: string, comments: readonly Comment[]): Pick<Module, 'codeLines' | 'commentLines'> {
  let code = '';
  let position = 0;
  for (const { start, end } of comments) {
    code += text.slice(position, start) + text.slice(start, end).replace(/[^\n]/g, '');
    position = end;
  }
  code += text.slice(position);
  const withoutComments = filledLines(code);
  return { codeLines: withoutComments, commentLines: filledLines(text) - withoutComments };
}

function filledLines(text: string): number {
  return text.split('\n').filter((line) => line.trim() !== '').length;
}

function bagsOf(program: ESTree.Program): readonly Bag[] {
  return program.body.flatMap((statement) => {
    const declaration = statement.type === 'ExportNamedDeclaration' ? statement.declaration : null;
    if (declaration?.type !== 'TSInterfaceDeclaration' || !BAG_NAME.test(declaration.id.name)) return [];
    return [{ name: declaration.id.name, members: declaration.body.body.length }];
  });
}

/** Returns the line of a position of a text, from 1. */
function lineOf(text: string, position: number): number {
  return text.slice(0, position).split('\n').length;
}

/** Lists comments that begin with a question word; line comments that follow each other are one. */
function addQuestionComments({ path, text, comments }: Module): void {
  comments.forEach(({ type, value, start }, index) => {
    const before = comments[index - 1];
    const isContinued = type === 'Line' && before?.type === 'Line' && text.slice(before.end, start).trim() === '';
    if (!isContinued && QUESTION.test(value)) addPlace('questionComments', `${path}:${lineOf(text, start)}`);
  });
}

function addDuplicateExports(modules: readonly Module[]): void {
  const files = new Map<string, string[]>();
  for (const { path, exports } of modules) {
    for (const name of exports) files.set(name, [...(files.get(name) ?? []), path]);
  }
  for (const [name, paths] of files) {
    if (name !== 'default' && paths.length > 1) addPlace('duplicateExports', `${name}: ${paths.join(', ')}`);
  }
}

/** Measures the files of the project that Git knows or would add. */
function measure(): Figures {
  const files = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], { encoding: 'utf8' })
    .split('\n')
    .filter((path) => path !== BUDGETS && existsSync(path));
  const modules = files.filter((path) => /\.tsx?$/.test(path)).map(readModule);
  const figures: Figures = {};
  for (const path of files.toSorted()) {
    const room = roomOf(path);
    if (room === undefined) continue;
    figures[room] ??= { codeLines: 0, bytes: 0, files: 0 };
    increase(figures[room], 'bytes', readFileSync(path).length);
    increase(figures[room], 'files', 1);
  }
  for (const { path, codeLines } of modules) increase(figures[roomOf(path) ?? ''] ?? {}, 'codeLines', codeLines);

  const sources = modules.filter(({ path }) => path.startsWith('src/'));
  const tests = modules.filter(({ path }) => path.startsWith('test/'));
  sources.forEach(addQuestionComments);
  addDuplicateExports(sources);
  const wide = sources.flatMap(({ path, bags }) => bags.map((bag) => ({ path, ...bag })));
  for (const { path, name, members } of wide) {
    if (members > MAX_BAG_MEMBERS) addPlace('wideBags', `${path}: ${name} has ${members} members`);
  }
  const imported = new Set(tests.flatMap(({ imports }) => imports.filter((path) => path.startsWith('src/'))));
  const surfaces = JSON.parse(readFileSync('test/surfaces.json', 'utf8')).slice(0, 40);
  const inner = [...imported].filter((path) => !TESTED_INSIDE.test(path) && !surfaces.includes(path));
  for (const path of inner) addPlace('importedModules', path);
  for (const path of files) {
    const read = () => readFileSync(path, 'utf8');
    findWords(path, read, (word, line) => addPlace(word, `${path}:${line}`));
  }

  const count = (figure: string) => places.get(figure)?.length ?? 0;
  figures.src = {
    commentLines: sum(sources.map(({ commentLines }) => commentLines)),
    questionComments: count('questionComments'),
    wideBags: count('wideBags'),
    wideBagMembers: sum(wide.filter(({ members }) => members > MAX_BAG_MEMBERS).map(({ members }) => members)),
    duplicateExports: count('duplicateExports'),
  };
  figures.test = {
    lines: sum(tests.map(({ text }) => text.split('\n').length - 1)),
    importedModules: count('importedModules'),
  };
  figures.words = Object.fromEntries(Object.keys(wording).map((word) => [word, count(word)]));
  return figures;
}

function increase(section: Record<string, number>, figure: string, by: number): void {
  section[figure] = (section[figure] ?? 0) + by;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0);
}

const { values: options } = parseArgs({ options: { lower: { type: 'boolean' }, list: { type: 'string' } } });
const figures = measure();
const budgets = existsSync(BUDGETS) ? (JSON.parse(readFileSync(BUDGETS, 'utf8')) as Figures) : undefined;
const changes = Object.entries(figures).flatMap(([section, values]) =>
  Object.entries(values).map(([figure, value]) => ({
    section,
    figure,
    value,
    budget: budgets === undefined ? value : (budgets[section]?.[figure] ?? 0),
  })),
);

if (options.list !== undefined) {
  for (const place of places.get(options.list) ?? []) console.log(place);
} else {
  for (const { section, figure, value, budget } of changes) {
    if (value <= budget) continue;
    const list = places.has(figure) ? `; npm run budgets -- --list '${figure}' shows where` : '';
    const instead = section === 'words' ? `: write ${wording[figure]?.instead}` : '';
    console.error(`${section}: "${figure}" rises from ${budget} to ${value}${instead}${list}`);
    process.exitCode = 1;
  }
  if (process.exitCode === 1) {
    console.error(
      `Remove as much elsewhere. If the change needs it, write the new figures in ${BUDGETS} in the same commit; its message states why.`,
    );
  }
}

if (options.lower === true) {
  const hops = Object.entries(budgets ?? {}).filter(([section]) => HOPS_SECTION.test(section));
  const lowered: Figures = {};
  for (const { section, figure, value, budget } of changes) {
    if (value < budget) console.log(`${section}: "${figure}" falls from ${budget} to ${value}`);
    lowered[section] = { ...lowered[section], [figure]: Math.min(value, budget) };
  }
  writeFileSync(BUDGETS, `${JSON.stringify({ ...lowered, ...Object.fromEntries(hops) }, null, 2)}\n`);
}
