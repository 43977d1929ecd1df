import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, describe, expect, test } from 'vitest';
import { stringify } from 'yaml';
import type { GatewayConfig } from '../../../src/config/gatewayConfig.ts';
import { type LoadResult, loadConfig, parseConfig, parseConfigTexts } from '../../../src/config/loadConfig.ts';

function configOf(result: LoadResult): GatewayConfig {
  if ('problems' in result) throw new Error(JSON.stringify(result.problems));
  return result.config;
}

const read = (text: string, environment = {}) => configOf(parseConfig(text, environment));

const referenceEnvironment = {
  KEYSTORE_KEY: 'keystore-secret',
  DB_HOST: 'db.example.com',
  DB_PASSWORD: 'p"a: s#s\\w',
  SECRET_HEADER: 'X-Secret',
  MONITOR_PASSWORD: 'monitor-secret',
  CLIENT_SECRET: 'client-secret',
  ADMIN_PASSWORD: 'admin-secret',
  COOKIE_SECRET: 'cookie-secret',
};

describe('defaults', () => {
  test.each(['', '# nothing but a comment\n', '---\n', '{}', 'routing:\n'])('of %j', (text) => {
    const config = read(text);
    expect(config.routing.defaultRoutingGroup).toBe('adhoc');
    expect(config.routingRules).toMatchObject({
      rulesEngineEnabled: null,
      rulesType: 'FILE',
      rulesConfigPath: null,
      rulesRefreshPeriod: 60_000,
      rulesExternalConfiguration: { urlPath: null, excludeHeaders: [], propagateErrors: false },
    });
    expect(config.requestAnalyzerConfig).toMatchObject({
      analyzeRequest: false,
      maxBodySize: 1_000_000,
      isClientsUseV2Format: false,
      tokenUserField: 'email',
      oauthTokenInfoUrl: null,
    });
    expect(config.dataStore.jdbcUrl).toBe('jdbc:sqlite:data/gateway.db');
    expect(config.serverConfig['http-server.http.port']).toBe(8080);
    expect(config.authentication).toBeNull();
  });

  test('need no file', async () => {
    expect(configOf(await loadConfig([], {})).protocol.productName).toBe('Engine');
  });

  test('cannot be changed', () => {
    const { routing } = read('routing: {groups: {etl: {strategy: leastLoaded}}}');
    expect(() => Object.assign(routing, { defaultRoutingGroup: 'b' })).toThrow(TypeError);
    expect(() => Object.assign(routing.groups, { b: {} })).toThrow(TypeError);
  });
});

describe("an existing gateway's file", () => {
  const text = readFileSync('test/fixtures/config/reference.yaml', 'utf8');
  const result = parseConfig(text, referenceEnvironment);
  const config = configOf(result);

  test('gives its values in the units of the program', () => {
    expect(config.serverConfig['http-server.http.port']).toBe(8081);
    expect(config.serverConfig['http-server.process-forwarded']).toBe(true);
    expect(config.serverConfig['http-server.max-request-header-size']).toBe(32 * 1024);
    expect(config.dataStore).toMatchObject({
      jdbcUrl: 'jdbc:postgresql://db.example.com:5432/engine_gateway_db',
      queryHistoryHoursRetention: 24,
    });
    expect(config.dataStore.password?.text).toBe('p"a: s#s\\w');
    expect(config.routing).toMatchObject({ asyncTimeout: 180_000, forwardedHeadersEnabled: true });
    expect(config.routingRules.rulesExternalConfiguration.excludeHeaders).toEqual([
      'Authorization',
      'Accept-Encoding',
      'X-Secret',
    ]);
    expect(config.requestAnalyzerConfig).toMatchObject({ isClientsUseV2Format: true, maxBodySize: 1_000_000 });
    expect(config.monitor.metricMinimumValues).toEqual({
      engine_metadata_name_DiscoveryNodeManager_ActiveNodeCount: 2,
    });
    expect(config.monitor.metricMaximumValues).toEqual({ engine_execution_name_QueryManager_QueuedQueries: 150 });
    expect(config.presetUsers.api1).toEqual({ password: '0123', privileges: 'API' });
    expect(config.oauth2GatewayCookieConfiguration.lifetime).toBe(600_000);
    expect(config.serverConfig).toMatchObject({
      'proxy.http-client.request-timeout': 420_000,
      'proxy.http-client.https.hostname-verification': false,
      'proxy.http-client.trust-store-path': 'ca.pem',
    });
  });

  test("its HTTP client's time limit of checks keeps its meaning", () => expect(config.monitor.timeout).toBe(20_000));

  test('keys without effect are noted with their lines', () => {
    const notes =
      'notes' in result ? result.notes.map(({ field, line, message }) => `${line} ${field}: ${message}`) : [];
    const server = notes.filter((note) => / serverConfig: /.test(note));
    expect(server).toHaveLength(1);
    expect(server[0]).toMatch(
      /^3 serverConfig: accepted, without effect: node\.environment \(line 3\), .*http-server\.threads\.max \(line 12\).*: it has no meaning in this server; /,
    );
    expect(server[0]).toContain(
      'http-server.stop-timeout (line 16): server.drainTimeout says how long a clean stop waits',
    );
    expect(notes).toContain('35 dataStore.driver: accepted, without effect: the driver follows from jdbcUrl');
    expect(notes).toContain(
      '39 databaseCache: accepted, without effect: routing reads its table from memory, whatever the database does',
    );
    expect(notes.some((note) => note.includes('modules[0]: accepted, without effect: classes cannot be loaded'))).toBe(
      true,
    );
    expect(notes.some((note) => note.includes('modules[1]'))).toBe(false);
    expect(notes.some((note) => note.includes('dataStore.jdbcUrl'))).toBe(false);
  });

  test('values of features that are missing are noted, and the default stands for them', () => {
    const { strategy } = config.routing;
    const { monitorType } = config.clusterStatsConfiguration;
    const notes = 'notes' in result ? result.notes.map(({ message }) => message) : [];
    const noted = (value: string) => notes.some((note) => note.startsWith(`${value} is accepted, without effect: `));
    expect({ strategy, noted: noted('leastLoaded') }).toEqual(
      strategy === 'leastLoaded' ? { strategy, noted: false } : { strategy: 'weightedRandom', noted: true },
    );
    expect({ monitorType, noted: noted('METRICS') }).toEqual(
      monitorType === 'METRICS' ? { monitorType, noted: false } : { monitorType: 'INFO_API', noted: true },
    );
  });
});

describe('references to the environment', () => {
  test.each([
    ['in quotes', 'dataStore: {password: "${ENV:P}"}', 'a"b'],
    ['that would end the line', 'dataStore:\n  password: ${ENV:P}', 'a\nuser: root'],
    ['that would start a comment', 'dataStore:\n  password: ${ENV:P}', 'a # b'],
    ['that would be a map', 'dataStore:\n  password: ${ENV:P}', 'a: b'],
    ['that would be a number', 'dataStore:\n  password: ${ENV:P}', '0012'],
    ['that looks like a reference', 'dataStore:\n  password: ${ENV:P}', '${ENV:P}'],
    ['in a flow map', 'dataStore: {user: a, password: ${ENV:P}}', '}, x: {'],
    ['in a block scalar', 'dataStore:\n  password: |-\n    ${ENV:P}', "it's"],
  ])('a value %s stays in its scalar', (_, text, value) => {
    expect(read(text, { P: value }).dataStore.password?.text).toBe(value);
  });

  test('stand within texts and keys, more than once', () => {
    const config = read('routing:\n  defaultRoutingGroup: a-${ENV:A}-${ENV:B}\n  groups:\n    ${ENV:A}: {}', {
      A: '1',
      B: '2',
    });
    expect(config.routing.defaultRoutingGroup).toBe('a-1-2');
    expect(Object.keys(config.routing.groups)).toEqual(['1']);
  });

  test('take numbers, truth values, durations and choices', () => {
    const config = read(
      'serverConfig: {http-server.http.port: ${ENV:PORT}}\nrouting: {asyncTimeout: "${ENV:T}", explainHeader: ${ENV:F}}\nlogging: {level: ${ENV:L}}',
      { PORT: '0', T: '5s', F: 'TRUE', L: 'debug' },
    );
    expect(config.serverConfig['http-server.http.port']).toBe(0);
    expect(config.routing).toMatchObject({ asyncTimeout: 5000, explainHeader: true });
    expect(config.logging.level).toBe('debug');
  });

  test('unquoted and whole, hold a list or a group of keys', () => {
    const config = read('server:\n  trustedProxies: ${ENV:LIST}\nrouting: ${ENV:GROUP}', {
      LIST: '[10.0.0.0/8, "::1"]',
      GROUP: 'defaultRoutingGroup: x\nasyncTimeout: 1s',
    });
    expect(config.server.trustedProxies).toEqual(['10.0.0.0/8', '::1']);
    expect(config.routing).toMatchObject({ defaultRoutingGroup: 'x', asyncTimeout: 1000 });
  });

  test('set to nothing and unquoted, mean that the key is not set', () => {
    expect(read('routingRules:\n  rulesConfigPath: ${ENV:NONE}', { NONE: '' }).routingRules.rulesConfigPath).toBeNull();
  });

  test('in comments need not be set', () => expect(() => read('# ${ENV:NOT_SET}\nrouting: {}')).not.toThrow());

  test('any value of a password reads back as it is', () =>
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', minLength: 1 }), (password) => {
        expect(read('dataStore:\n  password: "${ENV:P}"', { P: password }).dataStore.password?.text).toBe(password);
      }),
    ));
});

describe('references to files', () => {
  const folder = mkdtempSync(join(tmpdir(), 'eg-config-'));
  afterAll(() => rmSync(folder, { recursive: true }));

  test.each([
    ['as mounted', 'secret', 'secret'],
    ['with the line end of an editor', 'secret\n', 'secret'],
    ['of Windows', 'secret\r\n', 'secret'],
    ['with blanks and further line ends', ' a\nb \n\n', ' a\nb \n'],
    ['that would be a map', 'a: b', 'a: b'],
    ['that would be a list', '[a, b]', '[a, b]'],
    ['that looks like a reference', '${ENV:P}', '${ENV:P}'],
  ])('a text %s stays one text', (_, text, value) => {
    const path = join(folder, 'password');
    writeFileSync(path, text);
    const { user, password } = read(`dataStore: {user: "u-\${FILE:${path}}", password: \${FILE:${path}}}`).dataStore;
    expect([user, password?.text]).toEqual([`u-${value}`, value]);
  });

  test('their texts are in no message', () => {
    const path = join(folder, 'level');
    writeFileSync(path, 'top-secret');
    const result = parseConfig(`logging: {level: \${FILE:${path}}}`, {});
    expect(JSON.stringify(result)).toContain(`\${FILE:${path}}`);
    expect(JSON.stringify(result)).not.toContain('top-secret');
  });
});

test.each([
  ['250ms', 250],
  ['30s', 30_000],
  ['1.5m', 90_000],
  ['2.00m', 120_000],
  ['2h', 7_200_000],
  ['1d', 86_400_000],
  ['" 5 s "', 5000],
])('a duration of %s', (text, milliseconds) => {
  expect(read(`routing: {asyncTimeout: ${text}}`).routing.asyncTimeout).toBe(milliseconds);
});

test.each([
  ['2048B', 2048],
  ['16kB', 16_384],
  ['1.5MB', 1.5 * 1024 ** 2],
  ['2 MB', 2 * 1024 ** 2],
])('a size of %s', (text, bytes) => {
  expect(read(`queryHistory: {maxTextSize: ${text}}`).queryHistory.maxTextSize).toBe(bytes);
});

test('YAML anchors stand for their value', () => {
  const config = read('routing: {asyncTimeout: &time 5s}\nmonitor: {taskDelay: *time}');
  expect(config.monitor.taskDelay).toBe(5000);
});

test('metric names follow the product name', () => {
  const { monitor } = read('protocol: {productName: Trino}');
  expect(monitor.runningQueriesMetricName).toBe('trino_execution_name_QueryManager_RunningQueries');
  expect(monitor.metricMinimumValues).toEqual({ trino_metadata_name_DiscoveryNodeManager_ActiveNodeCount: 1 });
});

describe("what becomes of engines' pages", () => {
  const kubernetes = 'resources: {source: kubernetes}\n';
  const directory = 'resources: {source: directory, directory: x}\n';
  test.each([
    ['a file of the reference', '', 'proxy'],
    ['a directory', directory, 'proxy'],
    ['Kubernetes with one host', kubernetes, 'redirect'],
    ['Kubernetes with a port for the API, which shares the host', `${kubernetes}server: {adminPort: 8081}`, 'redirect'],
    ['Kubernetes with hosts for the API', `${kubernetes}server: {adminHosts: [admin.example]}`, 'proxy'],
    ['Kubernetes, where it is asked for', `${kubernetes}server: {enginePages: proxy}`, 'proxy'],
    ['a directory, where it is asked for', `${directory}server: {enginePages: off}`, 'off'],
    ['a directory, as a writer of YAML 1.1 has it', `${directory}server: {enginePages: false}`, 'off'],
  ])('with %s', (_, text, expected) => {
    expect(read(text).server.enginePages).toBe(expected);
  });

  test('every configuration of the reference has them at the address of the API', () => {
    const text = readFileSync('test/fixtures/config/reference.yaml', 'utf8');
    expect(read(text, referenceEnvironment).server).toMatchObject({ enginePages: 'proxy', adminHosts: [] });
  });
});

test('names of free keys find nothing that the file does not hold', () => {
  const { presetUsers, routing } = read('routing: {groups: {__proto__: {strategy: leastLoaded}}}');
  expect('constructor' in presetUsers).toBe(false);
  expect(Object.keys(routing.groups)).toEqual(['__proto__']);
});

test('no text makes it throw', () =>
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), (text) => {
      parseConfig(text, {});
    }),
  ));

test('no tree of values makes it throw', () =>
  fc.assert(
    fc.property(
      fc.dictionary(
        fc.constantFrom('routing', 'serverConfig', 'presetUsers', 'authentication', 'modules'),
        fc.jsonValue(),
      ),
      (tree) => {
        parseConfig(stringify(tree), {});
      },
    ),
  ));

test.each([
  ['/nonexistent/gateway.yaml', 'cannot be read: there is no such file'],
  ['/', 'cannot be read: it is a directory'],
])('%s %s', async (path, message) => {
  expect(await loadConfig([path], {})).toEqual({ problems: [{ field: '', line: null, message, file: path }] });
});

describe('several files', () => {
  const texts = (...all: readonly string[]) => all.map((text, index) => ({ path: `${index}.yaml`, text }));

  test('are laid over each other: keys of maps one by one, lists whole, and no value is the default', () => {
    const below = [
      'server:',
      '  trustedProxies: [10.0.0.0/8, 172.16.0.0/12]',
      '  drainDelay: 9s',
      'routing: {defaultRoutingGroup: a}',
      'protocol: {productName: Trino}',
    ];
    const { server, routing, protocol } = configOf(
      parseConfigTexts(
        texts(
          below.join('\n'),
          '# nothing but a comment\n',
          'server: {trustedProxies: [192.168.0.0/16], drainTimeout: 7s}\nrouting: {defaultRoutingGroup:}\n',
        ),
        {},
      ),
    );
    expect(server).toMatchObject({ trustedProxies: ['192.168.0.0/16'], drainDelay: 9_000, drainTimeout: 7_000 });
    expect([routing.defaultRoutingGroup, protocol.productName]).toEqual(['adhoc', 'Trino']);
  });

  test('have each mistake at its file and line', () => {
    const result = parseConfigTexts(
      texts(
        'server:\n  drainDelay: soon\n',
        'routing: {}\n\nserver:\n  drainTimeout: late\nservers: {}\n',
        'a: 1\na: 2',
      ),
      {},
    );
    expect('problems' in result && result.problems.map(({ file, line, field }) => `${file}:${line} ${field}`)).toEqual([
      '0.yaml:2 server.drainDelay',
      '1.yaml:4 server.drainTimeout',
      '1.yaml:5 servers',
      '2.yaml:1 a',
      '2.yaml:2 a',
    ]);
  });

  test('which are not YAML are named', () => {
    const result = parseConfigTexts(texts('server: {}\n', 'x: [1\n'), {});
    expect('problems' in result && result.problems.map(({ file, line }) => `${file}:${line}`)).toEqual(['1.yaml:2']);
  });
});
