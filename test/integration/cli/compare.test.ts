import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { stringify } from 'yaml';
import { runProgram } from '../../support/commandLine.ts';

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'cli-compare-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function file(name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

const rule = (name: string, group: string, condition: string, priority?: number) => ({
  ...{ name, condition, actions: [`result.put("routingGroup", "${group}")`] },
  ...(priority === undefined ? {} : { priority }),
});
const rulesFile = (...rules: readonly object[]) => rules.map((one) => stringify(one)).join('---\n');
const source = (name: string) => `request.getHeader("X-Trino-Source") == "${name}"`;

/** Before: a rule without priority is asked first there, so that the one of priority 1 decides. */
const oldRules = rulesFile(rule('base', 'adhoc2', source('airflow')), rule('late', 'etl', source('airflow'), 1));
const configuration = () =>
  file('old.yaml', stringify({ routingRules: { rulesConfigPath: file('rules.yaml', oldRules) } }));
const requests = () =>
  file(
    'requests.json',
    JSON.stringify([
      { id: 'q1', headers: { 'X-Trino-Source': 'airflow' }, body: 'SELECT 1' },
      { id: 'q2', headers: { 'X-Trino-Source': 'cli' }, body: 'SELECT 1' },
    ]),
  );

test('a rule without priority moves queries, and the output says why', async () => {
  const { code, stdout } = await runProgram(['compare', '--config', configuration(), '--requests', requests()]);
  expect({ code, stdout }).toEqual({
    code: 1,
    stdout: [
      'q1: routing group etl -> routing group adhoc2',
      '  rules fire in the order base (priority 0), late (priority 1) before, late (priority 1), base (priority 2147483647) now; the last one decides',
      '2 requests: 1 alike, 1 would move',
      '',
    ].join('\n'),
  });
});

test('manifests as the new rules, which decide alike', async () => {
  const manifest = ({ name, ...spec }: { readonly name: string }) =>
    stringify({ apiVersion: 'enginegateway.dev/v1', kind: 'RoutingRule', metadata: { name }, spec });
  const rules = file(
    'manifests.yaml',
    [rule('base', 'adhoc2', source('airflow'), 0), rule('late', 'etl', source('airflow'), 1)]
      .map(manifest)
      .join('---\n'),
  );
  const compared = ['compare', '--config', configuration(), '--rules', rules];
  expect(await runProgram([...compared, '--requests', requests()])).toMatchObject({
    code: 0,
    stdout: '2 requests: 2 alike, 0 would move\n',
  });
  const request = file('one.json', JSON.stringify({ headers: { 'X-Trino-Source': 'airflow' } }));
  const evaluated = await runProgram(['evaluate', '--product', 'Trino', '--rules', rules, '--request', request]);
  expect(evaluated).toMatchObject({ code: 0, stdout: expect.stringContaining('routing group etl (rule late)') });
  const evaluatedFolder = await runProgram(['evaluate', '--product', 'Trino', '--rules', folder, '--request', request]);
  expect(evaluatedFolder).toMatchObject({ code: 0, stdout: expect.stringContaining('routing group etl (rule late)') });
});

test('the last queries of the history', async () => {
  const path = join(folder, 'gateway.db');
  const database = new DatabaseSync(path);
  database.exec(`create table query_history (query_id varchar(256) primary key, query_text text, created bigint,
    backend_url varchar(256), user_name varchar(256), source varchar(256));
    insert into query_history values ('old', 'select 1', 1, '', 'ann', 'airflow');
    insert into query_history values ('a', 'select 1', 2, '', 'ann', 'airflow');
    insert into query_history values ('b', 'select 1', 3, '', 'ann', 'cli');`);
  database.close();
  const config = file(
    'history.yaml',
    stringify({
      dataStore: { jdbcUrl: `jdbc:sqlite:${path}` },
      routingRules: { rulesConfigPath: file('rules.yaml', oldRules) },
    }),
  );
  const { code, stdout } = await runProgram(['compare', '--config', config, '--history', '2', '--json']);
  expect(code).toBe(1);
  expect(JSON.parse(stdout)).toMatchObject({ id: 'a', from: 'routing group etl', to: 'routing group adhoc2' });
});

test.each([
  ['neither requests nor history', [], 'give one of --requests FILE and --history N'],
  ['a history of no queries', ['--history', '0'], '--history must be a whole number'],
  ['requests that are not there', ['--requests', '/nowhere.json'], 'ENOENT'],
  ['rules that are not there', ['--requests', '/nowhere.json', '--rules', '/nowhere.yaml'], '/nowhere.yaml: error'],
])('%s: exit code 2', async (_, args, message) => {
  const { code, stderr } = await runProgram(['compare', '--config', configuration(), ...args]);
  expect(code).toBe(2);
  expect(stderr).toContain(message);
});
