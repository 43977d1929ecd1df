import { existsSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { runCommand } from '../../support/commandLine.ts';
import { declare, manifest as declared } from '../../support/queueing.ts';
import { describeReferenceDatabases } from '../../support/referenceDatabases.ts';
import { worldOf } from '../../support/world.ts';

const world = worldOf('suite');
const file = (name: string, content: string | object): string => world.file(name, content);

const rule = (condition: string) => ({ name: 'r', condition, actions: [`result.put("routingGroup", "etl")`] });

describe('the product name of a configuration that does not give it', () => {
  test.each([
    ['rules that name an object of Trino', 'trinoQueryProperties.getTables().isEmpty()', 'Trino'],
    ['rules that name a header of Trino', 'request.getHeader("X-Trino-Source") == "a"', 'Trino'],
    ['rules that name a header of Trino in lower case', 'request.getHeader("x-trino-source") == "a"', 'Trino'],
    ['rules that name an object of the default product', 'engineRequestUser.userExistsAndEquals("a")', 'Engine'],
    ['rules that name both', 'request.getHeader("X-Engine-A") == request.getHeader("X-Trino-A")', 'Engine'],
    ['rules that name neither', 'request.getMethod() == "POST"', 'Engine'],
  ])('%s', async (name, condition, product) => {
    const rulesConfigPath = file('rules.yaml', rule(condition));
    const path = file('gateway.yaml', { routingRules: { rulesConfigPath } });
    const { code, stdout, stderr } = await runCommand(['config', '--config', path]);
    expect({ code, product: parse(stdout).protocol.productName }, name).toEqual({ code: 0, product });
    if (product === 'Trino')
      expect(stderr).toMatch(/protocol\.productName: is taken as Trino, as \S+rules\.yaml names/);
    else expect(stderr).not.toContain('productName');
  });

  test('a name in the file is kept, whatever rules name', async () => {
    const rulesConfigPath = file('rules.yaml', rule('request.getHeader("X-Trino-Source") == "a"'));
    const path = file('gateway.yaml', { protocol: { productName: 'Engine' }, routingRules: { rulesConfigPath } });
    const { stdout, stderr } = await runCommand(['config', '--config', path]);
    expect(parse(stdout).protocol.productName).toBe('Engine');
    expect(stderr).not.toContain('productName');
  });

  test('is inferred at the start, and the log says so', async () => {
    const rulesConfigPath = file('rules.yaml', rule('request.getHeader("X-Trino-Source") == "a"'));
    const gateway = await world.start({ resources: { source: 'database' }, routingRules: { rulesConfigPath } });
    const line = await gateway.logged((entry) => entry.key === 'protocol.productName');
    expect(line).toMatchObject({ level: 'warn', msg: expect.stringContaining('is taken as Trino') });
    expect((await fetch(`${gateway.url}/trino-gateway/livez`)).status).toBe(200);
  });
});

describe('the product name of rules that are looked at alone', () => {
  const trino = 'trinoQueryProperties.tablesContains("a.b.c") && request.getHeader("X-Trino-Source") == "x"';
  const noted = 'note: the rules name objects or headers of Trino, so --product is taken as Trino\n';

  test('validate infers it, from directories of manifests as well', async () => {
    const rules = file('rules.yaml', rule(trino));
    expect(await runCommand(['validate', rules])).toMatchObject({ code: 0, stderr: noted });
    const directory = world.subfolder('manifests');
    const actions = ['result.put("routingGroup", "etl")'];
    await declare(directory, declared('RoutingRule', 'r', { description: '', condition: trino, actions }));
    expect(await runCommand(['validate', directory])).toMatchObject({ code: 0, stderr: noted });
    const asEngine = await runCommand(['validate', '--product', 'Engine', rules]);
    // Objects of either name are read with every product name.
    expect(asEngine).toMatchObject({ code: 0, stderr: '' });
    expect(asEngine.stdout).toContain('1 rules: no mistakes');
    const engine = file('engine.yaml', rule('engineRequestUser.userExistsAndEquals("a")'));
    expect(await runCommand(['validate', engine])).toMatchObject({ code: 0, stderr: '' });
  });

  test('evaluate infers it', async () => {
    const request = file(
      'request.json',
      JSON.stringify({ headers: { 'X-Trino-Source': 'x' }, body: 'SELECT * FROM a.b.c' }),
    );
    const evaluated = await runCommand(['evaluate', '--rules', file('rules.yaml', rule(trino)), '--request', request]);
    expect(evaluated).toMatchObject({ code: 0, stderr: noted });
    expect(evaluated.stdout).toMatch(/^routing group etl \(rule r\)/);
  });
});

test('compare reports an unavailable database without empty lines', async () => {
  const rulesConfigPath = file('rules.yaml', rule('request.getHeader("X-Trino-Source") == "x"'));
  const path = file('gateway.yaml', {
    protocol: { productName: 'Trino' },
    routingRules: { rulesConfigPath },
    dataStore: { jdbcUrl: 'jdbc:postgresql://127.0.0.1:1/none', user: 'nobody' },
  });
  const { code, stderr } = await runCommand(['compare', '--config', path, '--history', '2']);
  expect(code).toBe(2);
  expect(stderr.split('\n').slice(0, -1)).not.toContain('');
  expect(stderr).toMatch(/^error: /m);
});

describe('config', () => {
  test('reads the key files that the configuration names, as serve does', async () => {
    const selfSignKeyPair = { privateKeyRsa: world.path('no.pem'), publicKeyRsa: world.path('no.pub') };
    const path = file('gateway.yaml', {
      authentication: { form: { selfSignKeyPair } },
      presetUsers: { a: { password: 'b', privileges: 'ADMIN' } },
      authorization: { admin: 'ADMIN', ldapConfigPath: world.path('no.ldap.yaml') },
      serverConfig: {
        'http-server.https.enabled': true,
        'http-server.https.port': 0,
        'http-server.https.keystore.path': file('broken.pem', 'no certificate'),
        'proxy.http-client.trust-store-path': world.path('no-trust.pem'),
      },
    });
    const { code, stdout, stderr } = await runCommand(['config', '--config', path]);
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    for (const key of [
      'serverConfig.http-server.https.keystore.path: ',
      'serverConfig.proxy.http-client.trust-store-path: ',
      'authentication.form.selfSignKeyPair.privateKeyRsa: ',
      'authorization.ldapConfigPath: ',
    ]) {
      expect(stderr).toContain(`${path}: ${key}`);
    }
  });
});

test('on SQLite nothing is made by export and migrate --print-sql', async () => {
  const database = world.path('absent.db');
  const path = file('gateway.yaml', { dataStore: { jdbcUrl: `jdbc:sqlite:${database}` } });
  expect(await runCommand(['export', '--config', path])).toMatchObject({ code: 0 });
  const printed = await runCommand(['migrate', '--config', path, '--print-sql']);
  expect(printed.stdout).toMatch(/^-- table gateway_backend\ncreate table if not exists gateway_backend \(/);
  expect(existsSync(database)).toBe(false);
  expect((await runCommand(['migrate', '--config', path])).stdout).toMatch(
    /made: table eg_leader\n[\s\S]*is migrated\n$/,
  );
  expect((await runCommand(['migrate', '--config', path])).stdout).toBe('nothing to do: the database is migrated\n');
});

describeReferenceDatabases(({ fixture, schema, create }) => {
  test('names the product, is only read by export, and runs migrated by hand', async () => {
    const { settings, run } = await create();
    await run(fixture);
    const tables = () =>
      run([`select table_name as name from information_schema.tables where table_schema = ${schema} order by 1`]);
    const before = await tables();
    const config = {
      dataStore: { ...settings, runMigrationsEnabled: false },
      queryHistory: { spillDirectory: world.path('spill') },
      server: { address: '127.0.0.1' },
      serverConfig: { 'http-server.http.port': 0 },
    };
    const path = file('gateway.yaml', config);

    const exported = await runCommand(['export', '--config', path]);
    expect(exported).toMatchObject({ code: 0, stdout: expect.stringContaining('kind: EngineCluster') });
    const refused = await runCommand(['serve', '--config', path]);
    expect(refused).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('engine-gateway migrate --config FILE'),
    });
    const printed = await runCommand(['migrate', '--config', path, '--print-sql']);
    expect(await tables()).toEqual(before);

    // The body of a function has statements of its own.
    const statements = printed.stdout.replace(/^--.*$/gm, '').match(/([^;$]|\$body\$[\s\S]*?\$body\$)+/g) ?? [];
    await run(statements.map((statement) => statement.trim()).filter((statement) => statement !== ''));
    const again = await runCommand(['migrate', '--config', path, '--print-sql']);
    expect(again.stdout).toBe('');
    const gateway = await world.start({ ...config, resources: { source: 'database' } });
    const line = await gateway.logged((entry) => entry.key === 'protocol.productName');
    expect(line.msg).toContain('the database holds the migrations of Trino Gateway');
    expect((await fetch(`${gateway.url}/trino-gateway/livez`)).status).toBe(200);
  });
});
