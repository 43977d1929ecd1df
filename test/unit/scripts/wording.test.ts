import { expect, test } from 'vitest';
import { findWords } from '../../../scripts/wording.ts';

const script = join(import.meta.dirname, '../../../scripts/wording.ts');

const noun = 'write a noun for the value, or a verb for the function\n';

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'wording-'));
  execFileSync('git', ['init', '--quiet'], { cwd: folder });
});
afterEach(() => rmSync(folder, { recursive: true }));

const numbered = (text: string, row: number) => text.replace(/(?<!CHANGELOG)\.(?=(?:test\.ts|ts|md|txt)\b)/, `${row}.`);

/** Each text in a file of its own, and what is found in all of them. */
function check(rows: readonly (readonly [path: string, text: string, ...unknown[]])[]) {
  for (const [row, [name, text]] of rows.entries()) {
    const path = numbered(name, row);
    mkdirSync(join(folder, dirname(path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
  const { status, stderr } = spawnSync(process.execPath, [script], { cwd: folder, encoding: 'utf8' });
  return { status, problems: stderr.split('\n').filter((line) => line !== '') };
}

const wrong: readonly [string, string, string][] = [
  ['src/a.ts', '\n// Says how to mend it.', 'src/a.ts:2: "mend": write fix\n'],
  ['docs/a.md', 'It is started anew.', 'docs/a.md:1: "anew": write again, or a verb with re-\n'],
  ['docs/a.md', 'The database is away.', 'docs/a.md:1: "is away": write unavailable, or missing\n'],
  ['src/a.ts', "fail('proxyTo is no HTTP URL')", 'src/a.ts:1: "is no HTTP URL": write "is not a …"\n'],
  ['test/a.test.ts', '// The other has the lead.', 'test/a.test.ts:1: "has the lead": write is the leader\n'],
  ['src/a.ts', "'Begin again.'", 'src/a.ts:1: "Begin again": write start again\n'],
  ['src/a.ts', '/** Needs of the page. */', 'src/a.ts:1: "Needs of the": write dependencies of\n'],
  ['src/a.ts', '/** Tells the caller. */', 'src/a.ts:1: "Tells": write reports, returns, states or shows\n'],
  ['docs/a.md', 'The client is told.', 'docs/a.md:1: "told": write reports, returns, states or shows\n'],
  ['src/a.ts', 'const told = 1;', 'src/a.ts:1: "told": write reports, returns, states or shows\n'],
  ['docs/a.md', 'Whoever asks.', 'docs/a.md:1: "Whoever": write a user who, or anyone who\n'],
  ['docs/a.md', 'It is undone.', 'docs/a.md:1: "undone": write rolled back, or cleaned up\n'],
  ['src/a.ts', 'const lacking = 1;', 'src/a.ts:1: "lacking": write missing, or without\n'],
  ['src/a.ts', '// It is, as it were, late.', 'src/a.ts:1: "as it were": write nothing\n'],
  ['src/a.ts', '// Closes of its own accord.', 'src/a.ts:1: "of its own accord": write by itself\n'],
  ['src/a.ts', '  const known = 1;', `src/a.ts:1: "const known": ${noun}`],
  ['src/a.ts', '  readonly #held = new Set();', `src/a.ts:1: "  readonly #held": ${noun}`],
  ['src/a.ts', '  this.#seen(text);', `src/a.ts:1: "this.#seen": ${noun}`],
  ['src/a.ts', 'rows.find((found) => found.isNew);', `src/a.ts:1: "(found": ${noun}`],
];
test('each word that has a plain replacement is reported with file and line', () => {
  const { status, problems } = check(wrong);
  expect(problems.toSorted()).toEqual(wrong.map(([, , problem], row) => numbered(problem.trim(), row)).toSorted());
  expect(status).toBe(1);
});

const accepted: readonly [string, string][] = [
  ['test/fixtures/a.txt', 'anew'],
  ['demo/a.yaml', '# nobody answers'],
  ['docs/a.md', 'A role that is taken away; a client that goes away; it is away from here. There is no URL.'],
  ['docs/a.md', 'amendment, newer, leads'],
  ['CHANGELOG.md', 'The log tells why.'],
  ['src/a.ts', '// Names that are known (given by the client) are sent; see docs/a.md#known.'],
  ['src/a.ts', 'return { held: 1, message: `(found ${count})` };'],
  ['test/a.test.ts', 'const found = 1;'],
];
test('other words, recorded texts and the changelog are accepted', () => {
  expect(check(accepted)).toEqual({ status: 0, problems: [] });
});
