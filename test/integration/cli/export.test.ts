import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { promisify } from 'node:util';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { parseAllDocuments, stringify } from 'yaml';
import { startGateway } from '../../support/gatewayProcess.ts';
import { programArguments } from '../../support/program.ts';

const run = promisify(execFile);
let folder: string;
let config: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'export-'));
  config = join(folder, 'gateway.yaml');
  const database = new DatabaseSync(join(folder, 'gateway.db'));
  database.exec(
    'CREATE TABLE gateway_backend (name varchar(256) PRIMARY KEY, routing_group varchar(256), backend_url varchar(256), external_url varchar(256), active boolean)',
  );
  database.exec("INSERT INTO gateway_backend VALUES ('Old One', 'etl', 'http://127.0.0.1:9', 'http://127.0.0.1:9', 1)");
  database.close();
});
afterEach(() => rm(folder, { recursive: true, force: true }));

const settings = () => ({
  dataStore: { jdbcUrl: `jdbc:sqlite:${join(folder, 'gateway.db')}` },
  queryHistory: { spillDirectory: join(folder, 'spill') },
});
const exported = async (...args: readonly string[]) => {
  await writeFile(config, stringify(settings()));
  return run(process.execPath, [...(await programArguments()), 'export', '--config', config, ...args]);
};

test('rows of a gateway that ran before and a rules file become manifests', async () => {
  const rules = join(folder, 'rules.yaml');
  await writeFile(
    rules,
    stringify({ name: 'air', description: 'd', condition: 'true', actions: ['result.put("routingGroup", "etl")'] }),
  );
  const { stdout } = await exported('--rules', rules, '--namespace', 'queries');
  const objects = parseAllDocuments(stdout).map((document) => document.toJS() as Record<string, unknown>);
  expect(objects).toMatchObject([
    {
      kind: 'EngineCluster',
      metadata: { namespace: 'queries' },
      spec: { name: 'Old One', proxyTo: 'http://127.0.0.1:9', active: true, routingGroup: 'etl' },
    },
    { kind: 'RoutingRule', metadata: { name: 'air', namespace: 'queries' }, spec: { condition: 'true' } },
  ]);
});

test('mistakes of a rules file are reported with file and line, and nothing is printed', async () => {
  const rules = join(folder, 'rules.yaml');
  await writeFile(rules, 'name: a\nconditoin: x\n');
  const failed = (await exported('--rules', rules).catch((error: unknown) => error)) as {
    code: number;
    stderr: string;
    stdout: string;
  };
  expect(failed).toMatchObject({ code: 1, stdout: '', stderr: expect.stringMatching(/rules\.yaml:2:1: .*conditoin/) });
});

test('such rows are routed, listed and marked as unmanaged', async () => {
  const gateway = await startGateway(settings());
  try {
    const listed = await (await fetch(`${gateway.url}/gateway/backend/all`)).json();
    expect(listed).toMatchObject([{ name: 'Old One', routingGroup: 'etl', active: true }]);
    const verbose = await (await fetch(`${gateway.url}/readyz?verbose`)).text();
    expect(verbose).toMatch(/unmanaged clusters: Old One: .*engine-gateway export/);
  } finally {
    await gateway.stop();
  }
});
