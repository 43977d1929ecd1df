import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { stringify } from 'yaml';
import { runProgram } from '../../support/commandLine.ts';
import { type GatewayProcess, startGatewayWithFile } from '../../support/gatewayProcess.ts';

/** A rule that means something else in Trino Gateway, and what is said of it. */
interface Difference {
  readonly name: string;
  readonly priority?: number;
  readonly condition?: string;
  readonly action?: string;
  readonly message: string;
  /** Left out: Trino Gateway runs but a part of it. */
  readonly isLeftOut?: true;
}

const differences: readonly Difference[] = [
  { name: 'without-priority', message: 'Trino Gateway takes it as 0 and asks this rule before "plain-0"' },
  {
    name: 'only-here',
    priority: 5,
    condition: 'trinoQueryProperties.errorMessage() == null',
    message: 'errorMessage() does not exist in Trino Gateway',
  },
  {
    name: 'only-there',
    priority: 6,
    condition: 'request.getHeader("X").codePoints() == null',
    message: 'String has no method codePoints here',
  },
  { name: 'local', priority: 7, condition: 'x = 5; x == 5', message: 'the variable x is outside of a block' },
  { name: 'lists', priority: 8, condition: '(["a"] + ["b"]).size() == 2', message: '+ between a list and a list' },
  {
    name: 'booleans',
    priority: 9,
    condition: 'request.isSecure() < true',
    message: '< between a boolean and a boolean',
  },
  {
    name: 'character',
    priority: 10,
    condition: '"abc".charAt(0) + 1 == "a1"',
    message: '+ between a character and a number',
  },
  {
    name: 'lines',
    priority: 11,
    action: 'state.put("a", 1)\nresult.put("routingGroup", "etl")',
    message: 'Trino Gateway runs only what stands before it, without a word',
    isLeftOut: true,
  },
];
/** Of these alone it is said that they have no description, and they are more than the log names. */
const plain = Array.from({ length: 30 }, (_, index) => ({
  name: `plain-${index}`,
  priority: 100 + index,
  condition: 'false',
  actions: ['result.put("routingGroup", "etl")'],
}));

const rules = [
  ...plain,
  ...differences.map(({ name, priority, condition, action }) => ({
    name,
    description: name,
    ...(priority === undefined ? {} : { priority }),
    condition: condition ?? 'true',
    actions: [action ?? 'result.put("routingGroup", "etl")'],
  })),
]
  .map((rule) => stringify(rule))
  .join('---\n');

describe('what rules of a file mean here and not in Trino Gateway', () => {
  let folder: string;
  let path: string;
  let gateway: GatewayProcess;
  let listing: {
    readonly file: { readonly problems: readonly Said[]; readonly warnings: readonly Said[] };
    readonly rules: readonly {
      readonly name: string;
      readonly warnings: readonly Said[];
      readonly problems: readonly Said[];
    }[];
  };
  interface Said {
    readonly message: string;
  }

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'differences-'));
    path = join(folder, 'rules.yaml');
    writeFileSync(path, rules);
    const config = join(folder, 'gateway.yaml');
    const configuration = {
      protocol: { productName: 'Trino' },
      serverConfig: { 'http-server.http.port': 0 },
      dataStore: { jdbcUrl: `jdbc:sqlite:${join(folder, 'gateway.db')}` },
      requestAnalyzerConfig: { analyzeRequest: true },
      routingRules: { rulesEngineEnabled: true, rulesConfigPath: path },
    };
    writeFileSync(config, stringify(configuration));
    gateway = await startGatewayWithFile(config);
    listing = (await (await fetch(`${gateway.url}/api/rules`)).json()) as typeof listing;
  });
  afterAll(async () => {
    await gateway?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  test('validate', async () => {
    const { stdout, stderr, code } = await runProgram(['validate', '--product', 'Trino', path]);
    const lines = `${stdout}${stderr}`.split('\n');
    const unsaid = differences.filter(
      ({ name, message, isLeftOut }) =>
        !lines.some((line) => line.includes(`${isLeftOut ? 'error' : 'warning'}: ${name}: `) && line.includes(message)),
    );
    expect(unsaid).toEqual([]);
    expect(code).toBe(1);
  });

  test.each(differences)('the log of the start: $name', ({ name, message, isLeftOut }) => {
    const said = gateway.log.filter((line) => line.rule === name && String(line.msg).includes(message));
    expect(said.map(({ level }) => level)).toEqual([isLeftOut ? 'error' : 'warn']);
  });

  test('the log names twenty, what rules do before what they lack, and how many more there are', () => {
    const said = gateway.log.filter(({ file, rule }) => file === path && rule !== undefined);
    expect(said).toHaveLength(20);
    const rest = gateway.log.find(({ more }) => more !== undefined);
    expect(rest).toMatchObject({ more: plain.length + differences.length - 20, level: 'warn' });
  });

  test.each(differences)('GET /api/rules: $name', ({ name, message, isLeftOut }) => {
    const inFile = isLeftOut ? listing.file.problems : listing.file.warnings;
    expect(inFile).toContainEqual(expect.objectContaining({ rule: name, message: expect.stringContaining(message) }));
    const listed = listing.rules.find((rule) => rule.name === name);
    const ofRule = isLeftOut ? listed?.problems : listed?.warnings;
    expect(ofRule).toEqual([expect.objectContaining({ message: expect.stringContaining(message) })]);
  });
});
