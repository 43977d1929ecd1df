import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { parseAllDocuments, stringify } from 'yaml';
import { runCli } from '../../../src/cli/program.ts';
import { openStore } from '../../../src/store/openStore.ts';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'eg-class-cli-'));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

/** Runs a command; answers its exit code, standard output and error output. */
const run = async (...args: readonly string[]) => {
  const output = { stdout: '', stderr: '' };
  const io = {
    stdout: { write: (text: string) => (output.stdout += text) },
    stderr: { write: (text: string) => (output.stderr += text) },
    environment: {},
  };
  const code = await runCli(args, io as unknown as Parameters<typeof runCli>[1]);
  return { code, ...output };
};
const cluster = (name: string, spec: object): string =>
  `---\n${stringify({
    apiVersion: 'enginegateway.dev/v1',
    kind: 'EngineCluster',
    metadata: { name },
    spec: { proxyTo: `http://${name}:8080`, routingGroup: 'adhoc', ...spec },
  })}`;

test('validate warns of what a gateway of the class leaves out, and refuses a name that is no class', async () => {
  const file = join(folder, 'all.yaml');
  await writeFile(
    file,
    cluster('a', { gatewayClassName: 'blue' }) + cluster('b', {}) + cluster('c', { gatewayClassName: 'green' }),
  );
  expect(await run('validate', file)).toMatchObject({ code: 0, stdout: expect.not.stringContaining('warning') });
  const blue = await run('validate', '--class', 'blue', file);
  expect(blue.code).toBe(0);
  expect(blue.stdout).toContain(
    'warning: b: is for gateways without a class; a gateway of the class blue leaves it out',
  );
  expect(blue.stdout).toContain(
    'warning: c: is for the gateway class green; a gateway of the class blue leaves it out',
  );
  expect(blue.stdout.match(/warning/g)).toHaveLength(2);
  expect((await run('validate', '--class', 'blue', '--strict', file)).code).toBe(1);
  await writeFile(file, cluster('a', { gatewayClassName: 'Blue_1' }));
  expect(await run('validate', file)).toMatchObject({
    code: 1,
    stdout: expect.stringContaining('spec.gatewayClassName'),
  });
});

test('export writes the class of the configuration', async () => {
  const jdbcUrl = `jdbc:sqlite:${join(folder, 'gateway.db')}`;
  const store = await openStore({ jdbcUrl, runMigrations: true, logger: pino({ enabled: false }) });
  await store.close();
  const config = join(folder, 'gateway.yaml');
  await writeFile(config, JSON.stringify({ dataStore: { jdbcUrl }, resources: { class: 'blue' } }));
  const rules = join(folder, 'rules.yaml');
  await writeFile(rules, 'name: r\ncondition: "true"\nactions:\n  - result.put("routingGroup", "etl")\n');
  const { code, stdout } = await run('export', '--config', config, '--rules', rules);
  expect(code).toBe(0);
  expect(parseAllDocuments(stdout).map((document) => document.toJS())).toMatchObject([
    { metadata: { name: 'r' }, spec: { gatewayClassName: 'blue', condition: 'true' } },
  ]);
});

test.each([
  [{ class: 'Blue' }, 'resources.class', 'lower-case letters, digits'],
  [{ labelSelector: 'team = = x' }, 'resources.labelSelector', 'must be a label selector such as team=etl'],
  [{ leaseName: 'A b' }, 'resources.leaseName', 'a name of an object of Kubernetes'],
  [{ namespace: 'a', namespaces: ['b'] }, 'resources.namespaces', 'must be left out where resources.namespace is set'],
  [{ namespaces: ['*'] }, 'resources.namespaces', 'set resources.namespace to *'],
  [{ namespaces: ['a'], writeNamespace: 'b' }, 'resources.writeNamespace', 'must be one of resources.namespaces'],
])('the configuration refuses %j', async (resources, key, message) => {
  const config = join(folder, 'gateway.yaml');
  await writeFile(config, JSON.stringify({ resources }));
  const { code, stderr } = await run('config', '--config', config);
  expect(code).not.toBe(0);
  expect(stderr).toContain(key);
  expect(stderr).toContain(message);
});
