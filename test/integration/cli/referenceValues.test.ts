import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { runProgram } from '../../support/commandLine.ts';
import { sessionKeyPair } from '../../support/sessionKeyPair.ts';

interface Value {
  readonly of: string;
  readonly file: string;
  /** Each as `key: what is said of it`. */
  readonly notes: readonly string[];
  readonly effective?: Readonly<Record<string, unknown>>;
}

interface Refusal {
  readonly of: string;
  readonly file: string;
  readonly problem: string;
  readonly listed: string;
}

const read = (path: string): string => readFileSync(new URL(`../../../${path}`, import.meta.url), 'utf8');
const values = parse(read('test/fixtures/config/referenceValues.yaml')) as readonly Value[];
const refusals = parse(read('test/fixtures/config/referenceRefusals.yaml')) as readonly Refusal[];
/** The table of keys, and no other. */
const listed = /\n## Keys of the configuration\n(.*?)\n##/s.exec(read('docs/migration.md'))?.[1] ?? '';
const keys = sessionKeyPair();
const environment = { PRIVATE_KEY: keys.privateKeyRsa, PUBLIC_KEY: keys.publicKeyRsa };

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'reference-values-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const valueAt = (tree: unknown, path: string): unknown =>
  path.split('.').reduce<unknown>((inner, key) => (inner as Record<string, unknown> | undefined)?.[key], tree);

describe('values that Trino Gateway starts with mean the same here, and are named', () => {
  test.each(values)('$of', async ({ file, notes, effective = {} }) => {
    const path = join(folder, 'gateway.yaml');
    writeFileSync(path, file);
    const { code, stdout, stderr } = await runProgram(['config', '--config', path], environment);
    expect({ code, stderr }).toMatchObject({ code: 0 });
    const said = stderr.split('\n').filter((line) => line !== '');
    expect(said).toEqual(notes.map((note) => expect.stringContaining(note)));
    const tree = parse(stdout);
    expect(Object.fromEntries(Object.keys(effective).map((key) => [key, valueAt(tree, key)]))).toEqual(effective);
  });
});

describe('values that Trino Gateway starts with and that are refused here are named, and listed for those who move', () => {
  test.each(refusals)('$of', async ({ file, problem, listed: row }) => {
    const path = join(folder, 'gateway.yaml');
    writeFileSync(path, file);
    const { code, stderr } = await runProgram(['config', '--config', path]);
    expect(stderr).toContain(problem);
    expect(code).toBe(1);
    expect(listed).toContain(row);
  });
});
