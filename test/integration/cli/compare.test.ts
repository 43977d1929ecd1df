import { DatabaseSync } from 'node:sqlite';
import { pino } from 'pino';
import { expect, test } from 'vitest';
import { stringify } from 'yaml';
import { openStore } from '../../../src/store/openStore.ts';
import type { QueryRecord } from '../../../src/store/store.ts';
import { runCommand } from '../../support/commandLine.ts';
import { worldOf } from '../../support/world.ts';

const world = worldOf('suite');
const file = (name: string, text: string): string => world.file(name, text);

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
  const { code, stdout } = await runCommand(['compare', '--config', configuration(), '--requests', requests()]);
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
    stringify({ apiVersion: 'enginegateway.dev/v1beta1', kind: 'RoutingRule', metadata: { name }, spec });
  const rules = file(
    'manifests.yaml',
    [rule('base', 'adhoc2', source('airflow'), 0), rule('late', 'etl', source('airflow'), 1)]
      .map(manifest)
      .join('---\n'),
  );
  const compared = ['compare', '--config', configuration(), '--rules', rules];
  expect(await runCommand([...compared, '--requests', requests()])).toMatchObject({
    code: 0,
    stdout: '2 requests: 2 alike, 0 would move\n',
  });
  const request = file('one.json', JSON.stringify({ headers: { 'X-Trino-Source': 'airflow' } }));
  const evaluated = await runCommand(['evaluate', '--product', 'Trino', '--rules', rules, '--request', request]);
  expect(evaluated).toMatchObject({ code: 0, stdout: expect.stringContaining('routing group etl (rule late)') });
  const evaluatedFolder = await runCommand([
    'evaluate',
    '--product',
    'Trino',
    '--rules',
    world.folder,
    '--request',
    request,
  ]);
  expect(evaluatedFolder).toMatchObject({ code: 0, stdout: expect.stringContaining('routing group etl (rule late)') });
});

test('a configuration with userMapping: rules see the mapped user here, and the name as it was sent there', async () => {
  const users = file(
    'users.json',
    JSON.stringify({ rules: [{ pattern: '(.*)@example\\.com' }, { pattern: '(bob)' }] }),
  );
  const rules = file('by-user.yaml', rulesFile(rule('team', 'etl', 'trinoRequestUser.userExistsAndEquals("ann")', 1)));
  const config = {
    routingRules: { rulesConfigPath: rules },
    requestAnalyzerConfig: { analyzeRequest: true },
    userMapping: { file: users },
  };
  const sent = ['ann@example.com', 'bob', 'eve'].map((user) => ({
    id: user,
    headers: { 'X-Trino-User': user },
    body: 'SELECT 1',
  }));
  const compared = ['compare', '--config', file('mapped.yaml', stringify(config)), '--requests'];
  const { code, stdout } = await runCommand([...compared, file('sent.json', JSON.stringify(sent))]);
  expect({ code, stdout }).toEqual({
    code: 1,
    stdout: [
      'ann@example.com: routing group adhoc -> routing group etl',
      '  user ann@example.com before, ann now',
      '  rule team: not-matched before, fired {"routingGroup":"etl"} now',
      'eve: routing group adhoc -> refused by the user mapping',
      '  The user "eve" is refused by the user mapping of the gateway: no rule for users matches it.',
      '3 requests: 1 alike, 2 would move',
      '',
    ].join('\n'),
  });
});

test('the last queries of the history', async () => {
  const path = world.path('gateway.db');
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
  const { code, stdout } = await runCommand(['compare', '--config', config, '--history', '2', '--json']);
  expect(code).toBe(1);
  expect(JSON.parse(stdout)).toMatchObject({ id: 'a', from: 'routing group etl', to: 'routing group adhoc2' });
});

test('edited rules: the history of a gateway by its rules and by edited ones', async () => {
  const path = world.path('edited.db');
  const store = await openStore({
    jdbcUrl: `jdbc:sqlite:${path}`,
    runMigrations: true,
    logger: pino({ level: 'silent' }),
  });
  const query = (queryId: string, user: string, source: string, tags: string | null): QueryRecord => ({
    ...{ queryId, queryText: 'select 1', user, source, created: Date.now(), routingGroup: 'etl', cluster: 'a' },
    ...{ backendUrl: 'http://a:8080', externalUrl: null },
    decision: JSON.stringify({
      ...{ group: 'etl', decidedBy: 'rule', cluster: 'a' },
      ...(tags === null ? {} : { request: { text: 8, headers: { 'x-engine-client-tags': tags } } }),
    }),
  });
  await store.history.insert([
    query('20261123_000000_00001_aaaaa', 'ann', 'airflow', 'x'),
    query('20261123_000000_00002_aaaaa', 'bob', 'cli', 'x'),
    query('20261123_000000_00003_aaaaa', 'cid', 'cli', null),
  ]);
  await store.close();
  const header = (name: string, value: string) => `request.getHeader("X-Engine-${name}") == "${value}"`;
  const present = rulesFile(rule('etl', 'etl', header('Source', 'airflow')), rule('idle', 'etl', 'false'));
  const config = file(
    'edited.yaml',
    stringify({
      dataStore: { jdbcUrl: `jdbc:sqlite:${path}` },
      routingRules: { rulesConfigPath: file('present.yaml', present) },
    }),
  );
  const edits = file('edits.yaml', rulesFile(rule('etl', 'batch', header('Source', 'airflow'))));
  const moved = await runCommand(['compare', '--config', config, '--edits', edits, '--delete', 'idle']);
  expect(moved).toMatchObject({
    code: 1,
    stdout: [
      '20261123_000000_00001_aaaaa of ann: routing group etl -> routing group batch',
      '  before: rule etl fired {"routingGroup":"etl"}',
      '  now: rule etl fired {"routingGroup":"batch"}',
      'routing group etl -> routing group batch: 1',
      'user ann: 1 of 1',
      'source airflow: 1 of 1',
      '3 queries: 2 alike, 1 would move, 0 unknown',
      '',
    ].join('\n'),
  });
  const byTags = file('tags.yaml', rulesFile(rule('tags', 'batch', header('Client-Tags', 'y'))));
  const unknown = await runCommand(['compare', '--config', config, '--edits', byTags, '--json', '--since', '1h']);
  expect(unknown.code).toBe(1);
  expect(JSON.parse(unknown.stdout)).toMatchObject({
    ...{ queries: 3, moved: 0, unmoved: 2, unknown: 1 },
    unreplayed: [{ rule: 'tags', reads: ['header x-engine-client-tags'], queries: 1, unknown: 1 }],
  });
  const alike = await runCommand(['compare', '--config', config, '--delete', 'idle']);
  expect(alike).toMatchObject({ code: 0, stdout: '3 queries: 3 alike, 0 would move, 0 unknown\n' });
});

test.each([
  ['a rule to delete that is not there', ['--delete', 'nosuch'], '--delete nosuch names no rule'],
  ['edits that are not there', ['--edits', '/nowhere.yaml'], '/nowhere.yaml: error'],
  ['a range of no length', ['--delete', 'base', '--since', 'ever'], '--since'],
  ['edits beside other rules', ['--delete', 'base', '--rules', '/nowhere.yaml'], 'take no --rules'],
  ['neither requests nor history', [], 'give one of --requests FILE and --history N'],
  ['a history of no queries', ['--history', '0'], '--history must be a whole number'],
  ['requests that are not there', ['--requests', '/nowhere.json'], 'ENOENT'],
  ['rules that are not there', ['--requests', '/nowhere.json', '--rules', '/nowhere.yaml'], '/nowhere.yaml: error'],
])('%s: exit code 2', async (_, args, message) => {
  const { code, stderr } = await runCommand(['compare', '--config', configuration(), ...args]);
  expect(code).toBe(2);
  expect(stderr).toContain(message);
});
