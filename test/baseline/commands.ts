import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { parse } from 'yaml';
import { manifestsFor } from './manifests.ts';
import { type Program, runCommand } from './program.ts';
import { scrub } from './scrub.ts';

const api = 'apiVersion: enginegateway.dev/v1';
const cluster = (spec: string, name = 'a'): string =>
  `${api}\nkind: EngineCluster\nmetadata: {name: ${name}}\nspec: ${spec}\n`;
const rule = (spec: string, name = 'r'): string =>
  `${api}\nkind: RoutingRule\nmetadata: {name: ${name}}\nspec: ${spec}\n`;

/** Files in the folder of the commands. */
const files: Readonly<Record<string, string>> = {
  'rules.yaml': `name: airflow
description: queries of airflow
priority: 1
condition: 'request.getHeader("X-Trino-Source") == "airflow"'
actions: ['result.put("routingGroup", "etl")']
---
name: tables
description: queries of a table
priority: 2
condition: 'trinoQueryProperties.tablesContains("hive.sales.orders")'
actions: ['result.put("routingGroup", "sales")']
`,
  'broken-rules.yaml': `name: broken
description: d
condition: 'request.getHeader('
actions: ['x']
`,
  'unknown-field.yaml': `name: r\ndescription: d\ncondition: 'true'\naction: ['x']\n`,
  'manifests/clusters.yaml': `${cluster('{proxyTo: "http://a.example:8080", routingGroup: adhoc}')}---\n${cluster('{proxyTo: "http://b.example:8080", routingGroup: etl, active: false}', 'b')}`,
  'manifests/rules.yaml': rule(
    `{priority: 1, condition: 'request.getHeader("X-Engine-Source") == "airflow"', routeTo: {group: etl}}`,
  ),
  'bad/url.yaml': cluster('{proxyTo: "ftp://a", routingGroup: adhoc}'),
  'bad/field.yaml': cluster('{proxyTo: "http://a", routingGroups: adhoc}'),
  'bad/kind.yaml': `${api}\nkind: EngineClusters\nmetadata: {name: a}\nspec: {}\n`,
  'bad/condition.yaml': rule(`{condition: 'request.', routeTo: {group: etl}}`),
  'bad/syntax.yaml': 'apiVersion: [\n',
  'bad/duplicate.yaml': `${cluster('{proxyTo: "http://a", routingGroup: adhoc}')}---\n${cluster('{proxyTo: "http://b", routingGroup: adhoc}')}`,
  'groups.json': JSON.stringify({
    rootGroups: [{ name: 'global', softMemoryLimit: '80%', hardConcurrencyLimit: 10, maxQueued: 100 }],
    selectors: [{ user: 'ann', group: 'global' }],
  }),
  'bad-groups.json': JSON.stringify({
    rootGroups: [{ name: 'global', hardConcurrencyLimit: 10 }],
    selectors: [{ group: 'other' }],
  }),
  'request.json': JSON.stringify({
    method: 'POST',
    path: '/v1/statement',
    headers: { 'X-Trino-Source': 'airflow', 'X-Trino-User': 'ann' },
    body: 'SELECT 1 FROM hive.sales.orders',
  }),
  'engine-request.json': JSON.stringify({
    method: 'POST',
    path: '/v1/statement',
    headers: { 'X-Engine-Source': 'airflow', 'X-Engine-User': 'ann' },
    body: 'SELECT 1',
  }),
  'requests.jsonl': `${JSON.stringify({ id: '1', method: 'POST', path: '/v1/statement', headers: { 'X-Trino-Source': 'airflow' }, body: 'SELECT 1' })}\n${JSON.stringify({ id: '2', method: 'POST', path: '/v1/statement', headers: {}, body: 'SELECT 1' })}\n`,
  'new-rules.yaml': `name: airflow\ndescription: d\ncondition: 'false'\nactions: ['result.put("routingGroup", "etl")']\n`,
  'empty.yaml': '',
  'full.yaml': `routing: {defaultRoutingGroup: main}
routingRules: {rulesEngineEnabled: true, rulesConfigPath: rules.yaml, rulesRefreshPeriod: 30s}
requestAnalyzerConfig: {analyzeRequest: true, maxBodySize: 1000}
dataStore: {jdbcUrl: "jdbc:postgresql://db.example:5432/gateway", user: gateway, password: secret}
`,
  'sqlite.yaml': 'dataStore: {jdbcUrl: "jdbc:sqlite:gateway.db"}\n',
  'sqlite-rules.yaml': 'dataStore: {jdbcUrl: "jdbc:sqlite:gateway.db"}\nroutingRules: {rulesConfigPath: rules.yaml}\n',
  'unknown-key.yaml': 'routing: {defaultRoutingGrup: main}\n',
  'bad-duration.yaml': 'routingRules: {rulesRefreshPeriod: soon}\n',
  'bad-port.yaml': 'serverConfig: {http-server.http.port: 99999}\n',
  'bad-yaml.yaml': 'routing: [\n',
  'missing-env.yaml': 'dataStore: {password: "${ENV:BASELINE_NOT_SET}"}\n',
  'missing-file.yaml': 'dataStore: {password: "${FILE:not-there}"}\n',
  'external.yaml': 'routingRules: {rulesType: EXTERNAL}\n',
  'trino.yaml': 'protocol: {productName: Trino}\n',
};

const statements: readonly string[] = [
  'SELECT 1',
  'SELECT * FROM t',
  'SELECT * FROM a.b.c JOIN d.e.f USING (x)',
  'WITH w AS (SELECT * FROM t) SELECT * FROM w',
  'INSERT INTO t SELECT 1',
  'CREATE TABLE x.y.z AS SELECT * FROM t',
  'DROP TABLE t',
  'EXPLAIN ANALYZE SELECT * FROM t',
  'EXECUTE p',
  'SHOW TABLES FROM a.b',
  'MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN DELETE',
  "CALL system.runtime.kill_query(query_id => 'x')",
  'SELECT FROM',
  'SELECT * FROM a.b.c.d',
  'GRANT SELECT ON t TO u',
  'ALTER TABLE t EXECUTE optimize',
];

/** Commands with the name of each. */
const commands: readonly (readonly string[])[] = [
  [],
  ['--help'],
  ['--version'],
  ['srve'],
  ...'serve config analyze evaluate compare export migrate validate'.split(' ').map((name) => [name, '--help']),
  ['config', '--unknown'],
  ['config', '--config', 'not-there.yaml'],
  ...'empty full sqlite unknown-key bad-duration bad-port bad-yaml missing-env missing-file external trino'
    .split(' ')
    .map((name) => ['config', '--config', `${name}.yaml`]),
  ['config', '--config', 'full.yaml', '--config', 'trino.yaml'],
  ...statements.map((statement) => ['analyze', '--catalog', 'cat', '--schema', 'sch', statement]),
  ...statements.slice(0, 6).map((statement) => ['analyze', '--json', statement]),
  ['evaluate', '--rules', 'rules.yaml', '--request', 'request.json'],
  ['evaluate', '--rules', 'rules.yaml', '--request', 'request.json', '--json'],
  ['evaluate', '--rules', 'rules.yaml', '--request', 'request.json', '--no-analysis'],
  ['evaluate', '--rules', 'manifests', '--request', 'engine-request.json'],
  ['evaluate', '--rules', 'manifests', '--request', 'engine-request.json', '--default-group', 'main', '--json'],
  ['evaluate', '--rules', 'broken-rules.yaml', '--request', 'request.json'],
  ['evaluate', '--rules', 'not-there.yaml', '--request', 'request.json'],
  ['evaluate', '--rules', 'rules.yaml', '--request', 'not-there.json'],
  ['evaluate', '--resource-groups', 'groups.json', '--request', 'request.json'],
  ['evaluate', '--request', 'request.json'],
  ['compare', '--rules', 'new-rules.yaml', '--requests', 'requests.jsonl'],
  ['compare', '--config', 'sqlite-rules.yaml', '--rules', 'new-rules.yaml', '--requests', 'requests.jsonl'],
  ['compare', '--config', 'sqlite-rules.yaml', '--rules', 'new-rules.yaml', '--requests', 'requests.jsonl', '--json'],
  ['compare', '--config', 'sqlite-rules.yaml', '--requests', 'requests.jsonl'],
  ['migrate', '--config', 'sqlite.yaml'],
  ['migrate', '--config', 'sqlite.yaml'],
  ['migrate', '--config', 'unknown-key.yaml'],
  ['export', '--config', 'sqlite.yaml'],
  ['export', '--config', 'sqlite-rules.yaml', '--namespace', 'team'],
  ['export', '--config', 'sqlite.yaml', '--resource-groups', 'test'],
  ['export', '--rules', 'rules.yaml', '--config', 'sqlite.yaml', '--all'],
  ['validate', 'manifests'],
  ['validate', 'rules.yaml'],
  ['validate', 'rules.yaml', '--no-differences'],
  ['validate', 'rules.yaml', '--no-analysis'],
  ['validate', 'broken-rules.yaml'],
  ['validate', 'unknown-field.yaml'],
  ...['url', 'field', 'kind', 'condition', 'syntax', 'duplicate'].map((name) => ['validate', `bad/${name}.yaml`]),
  ['validate', 'bad'],
  ['validate', 'groups.json'],
  ['validate', 'bad-groups.json'],
  ['validate', 'manifests', '--strict', '--class', 'other'],
  ['validate'],
];

/** Records exit code and output of commands, which run one after the other in one folder. */
export async function recordCommands(program: Program): Promise<Record<string, unknown>> {
  const folder = mkdtempSync(join(tmpdir(), 'baseline-commands-'));
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), manifestsFor(program, text));
  }
  const recording: Record<string, unknown> = {};
  try {
    for (const args of commands) {
      const { exitCode, stdout, stderr } = await runCommand(program, folder, args);
      const lines = (text: string) => scrub(text, { [folder]: 'FOLDER', [program.root]: 'ROOT' }).split('\n');
      const name = ['engine-gateway', ...args].join(' ');
      // The effective configuration is compared key by key: a new key is no difference.
      const output =
        args[1] === '--config' && args[0] === 'config' && exitCode === 0
          ? (parse(lines(stdout).join('\n')) as unknown)
          : lines(stdout);
      recording[name in recording ? `${name} (again)` : name] = { exitCode, stdout: output, stderr: lines(stderr) };
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
  return recording;
}
