import { pino } from 'pino';
import { beforeAll, describe, expect, test } from 'vitest';
import { parse, parseAllDocuments, stringify } from 'yaml';
import manifest from '../../../package.json' with { type: 'json' };
import { openStore } from '../../../src/store/openStore.ts';
import { runCommand, runProgram } from '../../support/commandLine.ts';
import { freePort } from '../../support/freePort.ts';
import { manifest as declared } from '../../support/manifest.ts';
import { worldOf } from '../../support/world.ts';

const world = worldOf('suite');
const file = (name: string, text: string): string => world.file(name, text);
const config = (name: string, content: object): string => file(name, stringify({ authentication: 'none', ...content }));

test('--version', async () => {
  expect(await runProgram(['--version'])).toEqual({ code: 0, stdout: `${manifest.version}\n`, stderr: '' });
});

test('--help names the commands', async () => {
  const { code, stdout } = await runProgram(['--help']);
  expect(code).toBe(0);
  for (const command of ['serve', 'config']) expect(stdout).toContain(command);
});

test.each([
  ['no command', [], 'Usage: engine-gateway'],
  ['an unknown command', ['confg'], "unknown command 'confg'"],
  ['an unknown option', ['config', '--confg', 'x'], "unknown option '--confg'"],
  ['an option without its value', ['config', '--config'], "option '-c, --config <file>' argument missing"],
])('%s is a mistake of usage', async (_, args, message) => {
  const { code, stdout, stderr } = await runCommand(args);
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  expect(stderr).toContain(message);
});

describe('config', () => {
  test('prints the effective configuration, masked', async () => {
    const path = file(
      'good.yaml',
      'dataStore:\n  password: ${ENV:DB_PASSWORD}\nrouting: {asyncTimeout: 90s}\nmodules: [x.Y]\n',
    );
    const { code, stdout, stderr } = await runCommand(['config', '--config', path], { DB_PASSWORD: 'hunter2' });
    expect(code).toBe(0);
    expect(parse(stdout)).toMatchObject({ dataStore: { password: '***' }, routing: { asyncTimeout: '90s' } });
    expect(stderr).toMatch(
      /^\S+: authentication: is not configured, so the gateway listens on this machine alone .*\n/,
    );
    expect(stderr.split('\n').slice(1).join('\n')).toBe(
      `${path}:4: modules[0]: accepted, without effect: classes cannot be loaded here ("x.Y")\n`,
    );
    expect(stdout + stderr).not.toContain('hunter2');
  });

  test('without a file prints the defaults', async () => {
    expect(parse((await runCommand(['config'])).stdout)).toMatchObject({ routing: { defaultRoutingGroup: 'adhoc' } });
  });

  test('reports every mistake and fails', async () => {
    const path = file('bad.yaml', 'routing:\n  asyncTimeout: 5\nmonitr: {}\n');
    expect(await runCommand(['config', '-c', path])).toEqual({
      code: 1,
      stdout: '',
      stderr: [
        `${path}:2: routing.asyncTimeout: needs a unit: write 5s (units ns, us, ms, s, m, h, d)`,
        `${path}:3: monitr: is not known; did you mean "monitor"?`,
        `${path} has 2 mistakes`,
        '',
      ].join('\n'),
    });
  });

  test('an unset variable stops it', async () => {
    const path = file('unset.yaml', 'dataStore:\n  password: ${ENV:NOT_SET_ANYWHERE}\n');
    const { code, stderr } = await runCommand(['config', '--config', path]);
    expect(code).toBe(1);
    expect(stderr).toContain(`${path}:2: Configuration references unset environment variable 'NOT_SET_ANYWHERE'`);
  });
});

test('serve does not start with mistakes', async () => {
  const path = file('bad-serve.yaml', 'routing: 5\n');
  const { code, stderr } = await runProgram(['serve', '--config', path]);
  expect(code).toBe(1);
  expect(stderr).toContain(`${path}:1: routing: must be a group of keys`);
});

test.each([
  'manifests/samples/limits',
  'manifests/samples/keda/group.yaml',
  'manifests/samples/resourceGroups.yaml',
  'manifests/samples/discovery',
])('validate finds no mistake in the examples of %s', async (path) => {
  expect(await runCommand(['validate', path])).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('no mistakes'),
  });
});

const rule = (condition: string): string =>
  stringify({
    ...{ apiVersion: 'enginegateway.dev/v1beta1', kind: 'RoutingRule', metadata: { name: 'etl' } },
    spec: { condition, routeTo: { routingGroup: 'etl' } },
  });
const withDirectory = (name: string, directory: string): string =>
  config(`${name}.conf`, { resources: { source: 'directory', directory } });

beforeAll(() => {
  for (const name of ['empty', 'other', 'rules', 'good']) world.subfolder(name);
  file('other/values.yaml', 'replicas: 2\n');
  file('rules/etl.yaml', rule('request.getHeader("X-Trino-Source")'));
  file('good/etl.yaml', rule('request.getHeader("X-Trino-Source") == "etl"'));
});

describe('config and validate exit with 1', () => {
  const never = 'is neither true nor false for any request, so that the rule always fails';
  test.each([
    ['for a missing directory', 'none', 'none: error: there is no such file or directory'],
    ['for an empty directory', 'empty', 'empty: error: no manifests, rules or resource groups are in it'],
    ['for a directory of other files', 'other', 'other: error: no manifests, rules or resource groups are in it'],
    ['for a condition that is never boolean', 'rules', `etl.yaml:6:14: error: etl: spec.condition: ${never}`],
  ])('%s', async (_, directory, message) => {
    const path = world.path(directory);
    const validated = await runCommand(['validate', path]);
    expect([validated.code, validated.stdout]).toEqual([1, expect.stringContaining(message)]);
    const configured = await runCommand(['config', '--config', withDirectory(directory, path)]);
    expect([configured.code, configured.stderr, configured.stdout]).toEqual([1, expect.stringContaining(message), '']);
  });

  test('for a rules file with such a condition, and a missing kubeconfig', async () => {
    const rulesConfigPath = file(
      'rules.yaml',
      'name: a\ncondition: "1 + 1"\nactions: [\'result.put("routingGroup", "a")\']\n',
    );
    const ofRules = await runCommand([
      'config',
      '--config',
      config('rules.conf', { routingRules: { rulesConfigPath } }),
    ]);
    expect([ofRules.code, ofRules.stderr]).toEqual([
      1,
      expect.stringContaining(`rules.yaml:2:13: error: a: condition: ${never}`),
    ]);
    const kubeconfig = world.path('none');
    const resources = { source: 'kubernetes', kubeconfig };
    const ofKubeconfig = await runCommand(['config', '--config', config('kubeconfig.conf', { resources })]);
    const message = `resources.kubeconfig: ${kubeconfig} cannot be read: there is no such file.`;
    expect([ofKubeconfig.code, ofKubeconfig.stderr]).toEqual([1, expect.stringContaining(message)]);
  });

  test('and with 0 for one that can be true', async () => {
    const path = world.path('good');
    expect((await runCommand(['validate', path])).code).toBe(0);
    expect((await runCommand(['config', '--config', withDirectory('good', path)])).code).toBe(0);
  });
});

test('migrate and export name the cause of a database that cannot be used', async () => {
  const jdbcUrl = `jdbc:postgresql://127.0.0.1:${await freePort()}/gateway`;
  const file = config('refused.conf', { dataStore: { jdbcUrl, user: 'gateway' } });
  for (const command of ['migrate', 'export']) {
    const { code, stderr } = await runCommand([command, '--config', file]);
    const message = 'error: The database is unavailable: connection refused; check host and port in dataStore.jdbcUrl';
    expect([code, stderr]).toEqual([1, expect.stringContaining(message)]);
  }
});

const cluster = (name: string, spec: object): string =>
  `---\n${stringify(declared('EngineCluster', name, { proxyTo: `http://${name}:8080`, routingGroup: 'adhoc', ...spec }))}`;

test('validate warns of what a gateway of the class leaves out, and refuses a name that is no class', async () => {
  const path = file(
    'all.yaml',
    cluster('a', { gatewayClassName: 'blue' }) + cluster('b', {}) + cluster('c', { gatewayClassName: 'green' }),
  );
  expect(await runCommand(['validate', path])).toMatchObject({
    code: 0,
    stdout: expect.not.stringContaining('warning'),
  });
  const blue = await runCommand(['validate', '--class', 'blue', path]);
  expect(blue.code).toBe(0);
  expect(blue.stdout).toContain(
    'warning: b: is for gateways without a class; a gateway of the class blue leaves it out',
  );
  expect(blue.stdout).toContain(
    'warning: c: is for the gateway class green; a gateway of the class blue leaves it out',
  );
  expect(blue.stdout.match(/warning/g)).toHaveLength(2);
  expect((await runCommand(['validate', '--class', 'blue', '--strict', path])).code).toBe(1);
  file('all.yaml', cluster('a', { gatewayClassName: 'Blue_1' }));
  expect(await runCommand(['validate', path])).toMatchObject({
    code: 1,
    stdout: expect.stringContaining('spec.gatewayClassName'),
  });
});

test('export writes the class of the configuration', async () => {
  const jdbcUrl = `jdbc:sqlite:${world.path('gateway.db')}`;
  const store = await openStore({ jdbcUrl, runMigrations: true, logger: pino({ enabled: false }) });
  await store.close();
  const path = config('class.conf', { dataStore: { jdbcUrl }, resources: { class: 'blue' } });
  const rules = file(
    'class.rules.yaml',
    'name: r\ncondition: "true"\nactions:\n  - result.put("routingGroup", "etl")\n',
  );
  const { code, stdout } = await runCommand(['export', '--config', path, '--rules', rules]);
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
  [{ webhook: { enabled: true } }, 'resources.webhook.enabled', 'needs resources.source: kubernetes'],
])('the configuration refuses %j', async (resources, key, message) => {
  const path = config('gateway.yaml', { resources });
  const { code, stderr } = await runCommand(['config', '--config', path]);
  expect(code).not.toBe(0);
  expect(stderr).toContain(key);
  expect(stderr).toContain(message);
});
