import { mkdtempSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { runCommand } from '../../support/commandLine.ts';
import { startGatewayWithFile } from '../../support/gatewayProcess.ts';
import { sessionKeyPaths } from '../../support/sessionKeyPair.ts';
import { worldOf } from '../../support/world.ts';

interface Example {
  readonly of: string;
  readonly config: string;
  /** File of the LDAP server that the configuration names. */
  readonly ldap?: string;
  /** What the product name is inferred as; Engine where nothing says more. */
  readonly product?: string;
  readonly serves?: boolean;
}

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

const fixtures = fileURLToPath(new URL('../../fixtures', import.meta.url));
const examples = parse(readFileSync(join(fixtures, 'config/referenceExamples.yaml'), 'utf8')) as readonly Example[];
const read = (path: string): string => readFileSync(new URL(`../../../${path}`, import.meta.url), 'utf8');
const values = parse(read('test/fixtures/config/referenceValues.yaml')) as readonly Value[];
const refusals = parse(read('test/fixtures/config/referenceRefusals.yaml')) as readonly Refusal[];
/** The table of keys, and no other. */
const listed = /\n## Keys of the configuration\n(.*?)\n##/s.exec(read('docs/migration.md'))?.[1] ?? '';
const keys = sessionKeyPaths();

const world = worldOf('suite');

/** The files of an example, and what its placeholders stand for. */
function prepare({ config, ldap }: Example) {
  const path = world.file('config.yaml', config);
  const ldapFile = world.file('ldap.yaml', ldap ?? '');
  const environment = {
    ...{ PORT: '0', DB_USER: 'gateway', DB_PASSWORD: 'abc', FIXTURES: fixtures, LDAP_FILE: ldapFile },
    JDBC_URL: `jdbc:sqlite:${join(mkdtempSync(world.path('database-')), 'gateway.db')}`,
    ...{ PRIVATE_KEY: keys.privateKeyRsa, PUBLIC_KEY: keys.publicKeyRsa },
  };
  return { path, environment };
}

describe("keys of Trino Gateway's examples are accepted as they are", () => {
  test.each(examples)('config: $of', async (example) => {
    const { path, environment } = prepare(example);
    const { code, stdout, stderr } = await runCommand(['config', '--config', path], environment);
    expect({ code, stderr }).toMatchObject({ code: 0 });
    expect(parse(stdout).protocol.productName).toBe(example.product ?? 'Engine');
  });

  test.each(examples.filter(({ serves }) => serves === true))('serve: $of', async (example) => {
    const { path, environment } = prepare(example);
    const gateway = await startGatewayWithFile(path, environment);
    world.gateways.push(gateway);
    expect((await fetch(`${gateway.url}/livez`)).status).toBe(200);
    await world.kill();
  });
});

const valueAt = (tree: unknown, path: string): unknown =>
  path.split('.').reduce<unknown>((inner, key) => (inner as Record<string, unknown> | undefined)?.[key], tree);

describe('values that Trino Gateway starts with mean the same here, and are named', () => {
  test.each(values)('$of', async ({ file, notes, effective = {} }) => {
    const path = world.file('gateway.yaml', file);
    const { code, stdout, stderr } = await runCommand(['config', '--config', path], {
      ...{ PRIVATE_KEY: keys.privateKeyRsa, PUBLIC_KEY: keys.publicKeyRsa },
    });
    expect({ code, stderr }).toMatchObject({ code: 0 });
    const said = stderr.split('\n').filter((line) => line !== '');
    expect(said).toEqual(notes.map((note) => expect.stringContaining(note)));
    const tree = parse(stdout);
    expect(Object.fromEntries(Object.keys(effective).map((key) => [key, valueAt(tree, key)]))).toEqual(effective);
  });
});

describe('values that Trino Gateway starts with and that are refused here are named, and listed for those who move', () => {
  test.each(refusals)('$of', async ({ file, problem, listed: row }) => {
    const path = world.file('gateway.yaml', file);
    const { code, stderr } = await runCommand(['config', '--config', path]);
    expect(stderr).toContain(problem);
    expect(code).toBe(1);
    expect(listed).toContain(row);
  });
});
