import { readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pino } from 'pino';
import { beforeEach, expect, test } from 'vitest';
import { stringify } from 'yaml';
import { openStore } from '../../../src/store/openStore.ts';
import type { GatewayProcess } from '../../support/gatewayProcess.ts';
import { declare, manifest as declared } from '../../support/queueing.ts';
import { TransactionClient } from '../../support/transactionClient.ts';
import { call as send, worldOf } from '../../support/world.ts';

const world = worldOf('test');
let manifests: string;
let rulesPath: string;

beforeEach(async () => {
  manifests = world.subfolder('manifests');
  rulesPath = world.path('rules.yaml');
  const engines = await Promise.all(['a', 'b'].map((name) => world.engine({ name })));
  const clusters = engines.map(({ name, url }) =>
    declared('EngineCluster', name, { proxyTo: url, routingGroup: name }),
  );
  await declare(manifests, ...clusters);
});

const start = (more: Readonly<Record<string, unknown>> = {}): Promise<GatewayProcess> =>
  world.startReady({
    resources: { source: 'directory', directory: manifests },
    monitor: { taskDelay: '500ms' },
    routing: { defaultRoutingGroup: 'a', explainHeader: true },
    requestAnalyzerConfig: { analyzeRequest: true },
    routingRules: { rulesConfigPath: rulesPath, rulesRefreshPeriod: '1h' },
    ...more,
  });

/** Writes as careful editors do: beside it, then renamed. */
async function replace(path: string, text: string): Promise<void> {
  await writeFile(`${path}.new`, text);
  await rename(`${path}.new`, path);
}

const rule = (name: string, condition: string, action: string, more = ''): string =>
  `---\n# ${name}, kept by hand\nname: ${name}\ndescription: "d"   # odd   spacing\n${more}condition: '${condition}'\nactions:\n- '${action}'\n`;

const manifest = (name: string, spec: object): string => stringify(declared('RoutingRule', name, spec));

interface Submitted {
  readonly status: number;
  readonly decision: string;
  readonly body: { readonly id: string; readonly error?: { readonly message: string } };
}

async function submit(
  gateway: GatewayProcess,
  sql: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<Submitted> {
  const response = await fetch(`${gateway.url}/v1/statement`, {
    method: 'POST',
    body: sql,
    headers: { 'X-Engine-User': 'ann', 'X-Engine-Catalog': 'hive', 'X-Engine-Schema': 'web', ...headers },
  });
  const body = (await response.json()) as Submitted['body'];
  return { status: response.status, decision: response.headers.get('x-engine-routing-decision') ?? '', body };
}

test('rules route by the digest and the labels of a statement', async () => {
  await writeFile(
    rulesPath,
    rule('orders', 'engineQueryProperties.queryDigest == "c9b40199bcc6dce9"', 'result.put("routingGroup", "b")') +
      rule(
        'dbt',
        'engineQueryProperties.queryLabels.get("model") == "model.shop.sales"',
        'result.put("routingGroup", "b")',
      ) +
      rule('looker', 'engineQueryProperties.queryLabels.get("tool") == "looker"', 'result.put("routingGroup", "b")'),
  );
  const gateway = await start();
  const dbt = (model: string): string => `/* {"app": "dbt", "node_id": "${model}"} */ SELECT 1`;
  const prepared = { 'X-Engine-Prepared-Statement': `o=${encodeURIComponent('SELECT * FROM orders WHERE id = ?')}` };
  for (const [sql, decision, headers] of [
    ['SELECT * FROM orders WHERE id = 7', 'rule=orders'],
    ["select *\nfrom Orders -- yesterday's\nwhere ID = 'x'", 'rule=orders'],
    ['EXECUTE o USING 8', 'rule=orders', prepared],
    ['SELECT * FROM orders WHERE id > 7', 'group=a; by=default'],
    [dbt('model.shop.sales'), 'rule=dbt'],
    [dbt('model.shop.costs'), 'group=a; by=default'],
    ['SELECT 1', 'rule=looker', { 'X-Engine-Source': 'looker-prod' }],
  ] as const) {
    expect((await submit(gateway, sql, headers)).decision, sql).toContain(decision);
  }
  const body = 'SELECT * FROM orders WHERE id = 9';
  const { json } = await send(gateway, 'POST', '/api/explain', { headers: { 'X-Engine-User': 'bob' }, body });
  expect(json).toMatchObject({ decidedBy: 'rule', request: { query: { queryDigest: 'c9b40199bcc6dce9' } } });
});

test('file and resource rules route by header, user and table; what they did is explained and remembered', async () => {
  await writeFile(
    rulesPath,
    rule(
      'events',
      'engineQueryProperties.tablesContains("hive.web.events")',
      'result.put("routingGroup", "b")',
      'priority: 1\n',
    ) +
      rule('broken', 'request.getHeader("X-Absent").length() > 1', 'result.put("routingGroup", "b")', 'priority: 2\n'),
  );
  await writeFile(
    join(manifests, 'rules.yaml'),
    `${manifest('root-not', { condition: 'engineRequestUser.userExistsAndEquals("root")', deny: { message: 'root may not' } })}---\n${manifest('ann-a', { priority: 5, condition: 'request.getHeader("X-Engine-Source") == "a"', routeTo: { cluster: 'a' } })}`,
  );
  const gateway = await start();
  expect((await submit(gateway, 'SELECT 1')).decision).toContain('group=a; by=default');
  const events = await submit(gateway, 'SELECT * FROM events');
  expect(events.decision).toContain('cluster=b; group=b; by=rule; rule=events');
  expect((await submit(gateway, 'SELECT * FROM events', { 'X-Engine-Source': 'a' })).decision).toContain('cluster=a');
  const denied = await submit(gateway, 'SELECT 1', { 'X-Engine-User': 'root' });
  expect(denied.body.error?.message).toContain('root may not');
  // The history has it with its reason, under the id that its client was given.
  const kept = async () => (await send(gateway, 'GET', '/api/queries?state=DENIED')).json.queries;
  await expect.poll(kept).toMatchObject([
    {
      ...{ queryId: denied.body.id, user: 'root', queryText: 'SELECT 1', cluster: null },
      outcome: { state: 'DENIED', errorMessage: expect.stringContaining('root may not') },
    },
  ]);

  const explained = await send(gateway, 'POST', '/api/explain', {
    headers: { 'X-Engine-User': 'bob', 'X-Engine-Catalog': 'hive' },
    body: 'SELECT * FROM web.events',
  });
  expect(explained.status).toBe(200);
  expect(explained.json).toMatchObject({
    outcome: 'routed',
    message: 'b: routing group b by rule events',
    routingGroup: 'b',
    decidedBy: 'rule',
    clusters: [
      { cluster: 'a', taken: false, reason: 'belongs to the group a' },
      { cluster: 'b', taken: true },
    ],
    rules: [
      { rule: 'events', origin: 'file', outcome: 'fired', put: { routingGroup: 'b' } },
      { rule: 'broken', outcome: 'failed', error: 'condition, line 1, column 31: length() on null' },
      { rule: 'ann-a', origin: 'resource', outcome: 'not-matched' },
      { rule: 'root-not', outcome: 'not-matched' },
    ],
    request: { isSubmission: true, user: 'bob', query: { queryType: 'Query', tables: ['hive.web.events'] } },
  });
  const client = new TransactionClient([gateway.url]);
  const begun = await client.run('START TRANSACTION');
  const { cluster } = (await send(gateway, 'GET', `/api/queries/${begun.queryId}`)).json;
  const inTransaction = await send(gateway, 'POST', '/api/explain', {
    headers: { 'X-Engine-User': 'bob', 'X-Engine-Transaction-Id': client.transaction },
    body: 'SELECT 1',
  });
  expect(inTransaction.json).toMatchObject({
    outcome: 'routed',
    message: `${cluster}: it began transaction ${client.transaction}`,
    decidedBy: 'transaction',
    pinnedCluster: cluster,
    routingGroup: cluster,
  });
  expect((await send(gateway, 'POST', '/api/explain', { path: 7 })).json.error).toMatchObject({
    code: 'EG_MALFORMED',
    field: 'path',
  });

  const metrics = await (await fetch(`${gateway.url}/metrics`)).text();
  expect(metrics).toMatch(/engine_gateway_rule_failures_total\{rule="broken",origin="file"\} \d+/);

  const stored = await send(gateway, 'GET', `/api/queries/${events.body.id}`);
  expect(stored.json).toMatchObject({
    queryId: events.body.id,
    user: 'ann',
    routingGroup: 'b',
    cluster: 'b',
    decision: { group: 'b', rule: 'events' },
  });
  expect((await send(gateway, 'GET', '/api/queries/20200101_000000_00000_zzzzz')).status).toBe(404);
});

test('updateRoutingRules replaces a rule where it lives, and nothing else', async () => {
  const first = rule('first', 'request.getHeader("X-Engine-Source") == "etl"', 'result.put("routingGroup", "a")');
  const second = rule(
    'second',
    'request.getHeader("X-Engine-Source") == "bi"',
    'result.put("routingGroup", "a")',
    'priority: 010\n',
  );
  const third = '--- {name: third, description: d, condition: "false", actions: ["1"]}   # odd\n# the end\n';
  await writeFile(rulesPath, first + second + third);
  await writeFile(
    join(manifests, 'rules.yaml'),
    `# by hand\n${manifest('res', { condition: 'request.getHeader("X-Engine-Source") == "res"', actions: ['result.put("routingGroup", "a")'] })}`,
  );
  const gateway = await start();
  const listed = await send(gateway, 'GET', '/webapp/getRoutingRules');
  expect(listed.json).toMatchObject({ code: 200, msg: 'Successful.' });
  expect(
    listed.json.data.map((one: { name: string; priority: number; origin: string }) => [
      one.name,
      one.priority,
      one.origin,
    ]),
  ).toEqual([
    ['first', 2_147_483_647, 'file'],
    ['second', 8, 'file'],
    ['third', 2_147_483_647, 'file'],
    ['res', 2_147_483_647, 'resource'],
  ]);

  const changed = await send(gateway, 'POST', '/webapp/updateRoutingRules', {
    ...listed.json.data[1],
    actions: ['result.put("routingGroup", "b")'],
  });
  expect(changed).toMatchObject({ status: 200, json: { code: 200 } });
  const text = await readFile(rulesPath, 'utf8');
  expect(text.startsWith(`${first}---\n# second, kept by hand\n`)).toBe(true);
  expect(text.endsWith(third)).toBe(true);
  expect(text).toContain('priority: 010');
  expect((await submit(gateway, 'SELECT 1', { 'X-Engine-Source': 'bi' })).decision).toContain('group=b');

  const ofResource = listed.json.data[3];
  expect(
    (
      await send(gateway, 'POST', '/webapp/updateRoutingRules', {
        ...ofResource,
        priority: 7,
        actions: ['result.put("routingGroup", "b")'],
      })
    ).status,
  ).toBe(200);
  expect((await submit(gateway, 'SELECT 1', { 'X-Engine-Source': 'res' })).decision).toContain('rule=res');
  expect(await readFile(join(manifests, 'rules.yaml'), 'utf8')).toMatch(/^# by hand\n/);

  for (const [sent, status, field] of [
    [{ ...ofResource, name: 'nobody' }, 404, 'name'],
    [{ ...ofResource, condition: 'request.getHeader(' }, 400, 'condition'],
    [{ ...ofResource, actions: ['1', '1 +'] }, 400, 'actions[1]'],
    [{ name: 'res', condition: 'true' }, 400, 'actions'],
    [{ ...ofResource, priority: 'high' }, 400, 'priority'],
  ] as const) {
    const answer = await send(gateway, 'POST', '/webapp/updateRoutingRules', sent);
    expect({ status: answer.status, code: answer.json.code, field: answer.json.error.field }).toEqual({
      status,
      code: status,
      field,
    });
  }
});

test('rules are listed in firing order, changed where they live, and tried before they are stored', async () => {
  await writeFile(
    rulesPath,
    rule('late', 'true', 'state.put("x", 1)') +
      rule('early', 'true', 'result.put("routingGroup", "a")', 'priority: 1\n'),
  );
  const resources = [
    manifest('etl', {
      priority: 5,
      condition: 'request.getHeader("X-Engine-Source") == "etl"',
      routeTo: { routingGroup: 'b' },
    }),
    manifest('off', { priority: 6, condition: 'true', deny: { message: 'no' }, suspend: true }),
    manifest('wrong', { priority: 7, condition: 'true &&\n  request.', actions: ['1'] }),
  ];
  await writeFile(join(manifests, 'rules.yaml'), resources.join('---\n'));
  const gateway = await start();
  const list = async () => (await send(gateway, 'GET', '/api/rules')).json;
  const listed = await list();
  expect(listed).toMatchObject({ engine: 'on', file: { path: rulesPath, state: 'loaded', problems: [] } });
  expect(listed.rules.map((one: Record<string, unknown>) => [one.position, one.name, one.origin, one.status])).toEqual([
    [1, 'early', 'file', 'Programmed'],
    [2, 'etl', 'resource', 'Programmed'],
    [null, 'off', 'resource', 'Suspended'],
    [null, 'wrong', 'resource', 'NotAccepted'],
    [3, 'late', 'file', 'Programmed'],
  ]);
  const [early, etl, , wrong] = listed.rules;
  expect(early.place).toBe(`${rulesPath}, document 2`);
  expect(etl).toMatchObject({ resource: 'default/etl', place: `${join(manifests, 'rules.yaml')}, document 1` });
  expect(wrong.problems).toEqual([
    { field: 'condition', line: 2, column: expect.any(Number), message: expect.any(String) },
  ]);

  const etlSpec = { priority: 5, condition: etl.condition, routeTo: { routingGroup: 'b' } };
  const put = (name: string, body: unknown) => send(gateway, 'PUT', `/api/rules/${name}`, body);
  const suspended = await put('etl', { ...etlSpec, suspend: true, version: etl.version });
  expect(suspended).toMatchObject({ status: 200, json: { status: 'Suspended', suspend: true, position: null } });
  expect(await put('etl', { ...etlSpec, version: etl.version })).toMatchObject({
    status: 409,
    json: { error: { code: 'EG_CONFLICT', field: 'version' } },
  });
  expect(await put('etl', { ...etlSpec, routeTo: null, actions: ['result.put("routingGroup", "a")'] })).toMatchObject({
    status: 200,
    json: { status: 'Programmed', suspend: false, routeTo: null, actions: ['result.put("routingGroup", "a")'] },
  });
  expect((await put('early', { condition: 'false', actions: ['1'] })).json).toMatchObject({ priority: 2_147_483_647 });
  expect((await put('early', { condition: 'true', actions: ['1'], stop: true })).json.error).toMatchObject({
    code: 'EG_IMPOSSIBLE',
    field: 'stop',
  });
  expect((await put('early', { condition: 'true', actions: ['1', 'x ='] })).json.error.problems).toEqual([
    { field: 'actions[1]', line: 1, column: expect.any(Number), message: expect.any(String) },
  ]);

  const tryIt = (tried: unknown) =>
    send(gateway, 'POST', '/api/explain', { body: 'SELECT 1', headers: { 'X-Engine-Source': 'x' }, rule: tried });
  expect((await tryIt(null)).json).toMatchObject({ routingGroup: 'a', decidedBy: 'default' });
  const changed = await tryIt({ name: 'etl', priority: 9, condition: 'true', routeTo: { routingGroup: 'b' } });
  expect(changed.json).toMatchObject({ routingGroup: 'b', rule: 'etl' });
  expect(changed.json.rules).toHaveLength(3);
  const added = await tryIt({ name: 'new', condition: 'true', deny: { message: 'not today' } });
  expect(added.json).toMatchObject({ outcome: 'denied', message: 'new: not today' });
  expect(added.json.rules).toHaveLength(4);
  expect((await tryIt({ name: 'new', condition: 'true &&', actions: ['1'] })).json.error).toMatchObject({
    field: 'rule.condition',
    problems: [{ field: 'rule.condition', line: 1 }],
  });
  expect((await tryIt({ name: 'new', condition: 'true' })).json.error.field).toBe('rule.actions');
  expect((await tryIt({ name: 'r', condition: 'while (true) {}', actions: ['1'] })).status).toBeLessThan(500);
  expect((await list()).rules.map(({ name }: { name: string }) => name)).not.toContain('new');
  expect((await submit(gateway, 'SELECT 1', { 'X-Engine-Source': 'x' })).decision).toContain('by=default');
});

test('a rule is created as a resource and deleted where it lives, each with an entry of the audit', async () => {
  const kept = rule('kept', 'false', '1', 'priority: 1\n');
  const gone = rule('gone', 'false', '2', 'priority: 2\n');
  await writeFile(rulesPath, `# All rules\n${kept}# the last one\n${gone}`);
  const gateway = await start();
  const call = (method: string, path: string, body?: unknown) => send(gateway, method, `/api/rules${path}`, body);
  const names = async () => (await call('GET', '')).json.rules.map(({ name }: { name: string }) => name);
  const wanted = {
    name: 'Team B: loads',
    condition: 'request.getHeader("X-Engine-Source") == "load"',
    routeTo: { routingGroup: 'b' },
    stop: true,
  };
  const created = await call('POST', '', wanted);
  expect(created).toMatchObject({ status: 200, json: { ...wanted, origin: 'resource', status: 'Programmed' } });
  expect((await submit(gateway, 'SELECT 1', { 'X-Engine-Source': 'load' })).decision).toContain('group=b; by=rule');
  expect(await names()).toEqual(['kept', 'gone', 'Team B: loads']);
  const auditOf = async (object: string) =>
    (await gateway.logged(({ audit }) => (audit as { object?: string } | undefined)?.object === object)).audit;
  expect(await auditOf('routing rule Team B: loads')).toMatchObject({
    before: null,
    after: { name: 'Team B: loads', stop: true },
  });

  for (const [method, path, body, status, field] of [
    ['POST', '', wanted, 409, 'name'],
    ['POST', '', { ...wanted, name: 'kept' }, 409, 'name'],
    ['POST', '', { ...wanted, name: 'x', condition: 'true &&' }, 400, 'condition'],
    ['POST', '', { name: 'x', condition: 'true' }, 400, 'actions'],
    ['POST', '', { ...wanted, name: '' }, 400, 'name'],
    ['DELETE', '/nobody', undefined, 404, 'name'],
    ['DELETE', '/Team%20B%3A%20loads?version=old', undefined, 409, 'version'],
    ['DELETE', '/kept?version=old', undefined, 409, 'version'],
  ] as const) {
    const answer = await call(method, path, body);
    expect([method, path, answer.status, answer.json.error.field]).toEqual([method, path, status, field]);
  }

  const { version } = created.json;
  expect((await call('DELETE', `/Team%20B%3A%20loads?version=${version}`)).status).toBe(200);
  expect((await submit(gateway, 'SELECT 1', { 'X-Engine-Source': 'load' })).decision).toContain('by=default');
  expect((await call('DELETE', '/gone')).status).toBe(200);
  expect(await readFile(rulesPath, 'utf8')).toBe(`# All rules\n${kept}# the last one\n`);
  expect(await names()).toEqual(['kept']);
  const only = await call('DELETE', '/kept');
  expect([only.status, only.json.error.code]).toEqual([422, 'EG_IMPOSSIBLE']);
  expect(await auditOf('routing rule gone')).toMatchObject({ before: { name: 'gone', origin: 'file' }, after: null });
});

test('the queries that rules decided in the last hour and day are counted on all replicas', async () => {
  await writeFile(rulesPath, rule('all', 'true', 'result.put("routingGroup", "b")'));
  const gateway = await start();
  // As another replica writes them.
  const settings = { jdbcUrl: `jdbc:sqlite:${world.path('gateway.db')}`, runMigrations: false, logger: pino() };
  const store = await openStore(settings);
  const outcome = (id: number, decidedBy: string | null, minutesAgo: number) => ({
    ...{ queryId: `q${id}`, created: Date.now() - minutesAgo * 60_000, rule: decidedBy, lastSeen: 0, refused: false },
    ...{ state: 'FINISHED', certainty: 3, cluster: 'b', routingGroup: 'b', user: null, source: null, errorName: null },
    ...{ errorType: null, errorCode: null, errorMessage: null, elapsedMillis: 1, queuedMillis: 0, cpuMillis: 0 },
    ...{ gatewayQueuedMillis: null, processedRows: 0, processedBytes: 0, peakMemoryBytes: 0, resultBytes: 0, pages: 1 },
    ...{ queryText: null, decision: null },
  });
  const outcomes = [
    ...[outcome(1, 'all', 1), outcome(2, 'all', 59), outcome(3, 'all', 61), outcome(4, 'all', 1_439)],
    ...[outcome(5, 'all', 1_441), outcome(6, 'gone', 120), outcome(7, null, 1)],
  ] as Parameters<typeof store.outcomes.put>[0];
  await store.outcomes.put(outcomes);
  await store.close();
  const counted = await send(gateway, 'GET', '/api/ruleHits');
  expect(counted).toMatchObject({ status: 200, json: { asOf: expect.stringMatching(/Z$/) } });
  expect(counted.json.hits).toEqual([
    { rule: 'all', lastHour: 2, lastDay: 4 },
    { rule: 'gone', lastHour: 0, lastDay: 1 },
  ]);
});

test('a broken file leaves routing to the header until it is fixed; a file that is being written changes nothing', async () => {
  const good = rule('all', 'true', 'result.put("routingGroup", "b")');
  await writeFile(rulesPath, good);
  const gateway = await start();
  const decision = async () => (await submit(gateway, 'SELECT 1', { 'X-Engine-Routing-Group': 'a' })).decision;
  expect(await decision()).toContain('group=b; by=rule');
  await replace(rulesPath, `${good}---\nname: x\ncolour: red\n`);
  await expect.poll(decision).toContain('group=a; by=header');
  const line = await gateway.logged((entry) => String(entry.msg).includes('unknown field colour'));
  expect(line).toMatchObject({ file: rulesPath, document: 2, line: 10 });
  await replace(rulesPath, good);
  await expect.poll(decision).toContain('group=b; by=rule');
  // An editor that empties the file first: nothing is taken from what it is for a moment.
  await writeFile(rulesPath, '');
  expect(await decision()).toContain('group=b; by=rule');
  await writeFile(rulesPath, rule('all', 'true', 'result.put("routingGroup", "a")'));
  await expect.poll(decision).toContain('group=a; by=rule');
});

test('rules change in file and resources while 32 connections submit: no request sees half a set, none fails', async () => {
  // Each version of the file is consistent in itself only: a mixture of two would choose a group without clusters.
  const version = (number: number): string =>
    rule(`note${number % 3}`, 'true', `state.put("version", ${number})`, 'priority: 1\n') +
    rule('filler', 'state.version != null', 'state.put("seen", state.version)', 'priority: 2\n') +
    rule(
      'choose',
      'true',
      `result.put("routingGroup", state.version == ${number} && state.seen == ${number} ? "${number % 2 === 0 ? 'a' : 'b'}" : "half")`,
      'priority: 3\n',
    );
  const resource = (number: number): string =>
    manifest('tag', {
      priority: 9,
      condition: `state.seen == state.version && ${number} > 0`,
      actions: [`state.put("resource", ${number})`],
    });
  await writeFile(rulesPath, version(0));
  await writeFile(join(manifests, 'rules.yaml'), resource(1));
  const gateway = await start();
  const decisions = new Map<string, number>();
  const failures: string[] = [];
  let running = true;
  const connections = Array.from({ length: 32 }, async () => {
    while (running) {
      const { status, decision, body } = await submit(gateway, 'SELECT 1');
      if (status !== 200 || body.error !== undefined) failures.push(body.error?.message ?? String(status));
      const group = /group=(\w+)/.exec(decision)?.[1] ?? decision;
      decisions.set(group, (decisions.get(group) ?? 0) + 1);
    }
  });
  for (let number = 1; number <= 30; number += 1) {
    await replace(rulesPath, version(number));
    await replace(join(manifests, 'rules.yaml'), resource(number + 1));
    const expectedGroup = number % 2 === 0 ? 'a' : 'b';
    await expect.poll(async () => (await submit(gateway, 'SELECT 1')).decision).toContain(`group=${expectedGroup}`);
  }
  running = false;
  await Promise.all(connections);
  expect(failures).toEqual([]);
  expect([...decisions.keys()].sort()).toEqual(['a', 'b']);
  expect([...decisions.values()].reduce((sum, count) => sum + count, 0)).toBeGreaterThan(100);
});

test('what rules mean here and not in Trino Gateway is in the log and in the listing', async () => {
  await writeFile(
    rulesPath,
    rule('first', 'true', 'result.put("routingGroup", "b")', 'priority: 3\n') +
      rule('last', 'true', 'x = "a"; result.put("routingGroup", x)'),
  );
  await writeFile(
    join(manifests, 'rules.yaml'),
    manifest('sum', { priority: 1, condition: '"abc".charAt(0) + 1 == "a2"', routeTo: { routingGroup: 'b' } }),
  );
  const warningsOf = async (gateway: GatewayProcess) =>
    Object.fromEntries(
      (await send(gateway, 'GET', '/api/rules')).json.rules.map((one: { name: string; warnings: unknown }) => [
        one.name,
        one.warnings,
      ]),
    );
  const gateway = await start();
  const priority = { field: 'priority', message: expect.stringContaining('Trino Gateway takes it as 0') };
  expect(await warningsOf(gateway)).toEqual({
    sum: [{ field: 'condition', line: 1, column: 17, message: expect.stringMatching(/^\+ between a character and a/) }],
    first: [],
    last: [
      priority,
      { field: 'actions[0]', line: 1, column: 1, message: expect.stringContaining('outside of a block') },
    ],
  });
  const logged = gateway.log.filter(({ msg }) => /Trino Gateway/.test(String(msg)));
  expect(logged.map(({ rule: name }) => name)).toEqual(['last', 'last', 'sum']);
  expect((await send(gateway, 'POST', '/api/explain', { body: 'SELECT 1' })).json).toMatchObject({ routingGroup: 'a' });
  await gateway.stop();

  const chosen = await start({
    routingRules: { rulesConfigPath: rulesPath, defaultPriority: 0, differenceWarnings: false },
  });
  expect(await warningsOf(chosen)).toEqual({ sum: [], first: [], last: [] });
  expect((await send(chosen, 'POST', '/api/explain', { body: 'SELECT 1' })).json).toMatchObject({ routingGroup: 'b' });
  const put = await send(chosen, 'PUT', '/api/rules/first', { condition: 'false', actions: ['1'] });
  expect(put.json).toMatchObject({ priority: 0 });
  expect(await readFile(rulesPath, 'utf8')).not.toContain('priority');
});
