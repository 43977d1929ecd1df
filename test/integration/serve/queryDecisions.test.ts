import { beforeAll, expect, test } from 'vitest';
import type { QueryPage } from '../../../src/api/responses/queries.ts';
import type { RoutedQuery } from '../../../src/api/responses/routing.ts';
import type { GatewayProcess } from '../../support/gatewayProcess.ts';
import { manifest } from '../../support/manifest.ts';
import { sessionKeyPaths } from '../../support/sessionKeyPair.ts';
import { runQuery, submit } from '../../support/statementClient.ts';
import { basic, worldOf } from '../../support/world.ts';

const rules: Readonly<Record<string, object>> = {
  early: { condition: 'request.getHeader("X-Team") == "blue"', priority: 10, routeTo: { routingGroup: 'etl' } },
  forbidden: {
    condition: [
      'engineRequestUser.userExistsAndEquals("mallory")',
      'request.getHeader("X-Team") == "red"',
      'request.getHeader("X-Api-Key") == "sesame"',
    ].join(' && '),
    priority: 20,
    deny: { message: 'red is closed' },
  },
  broken: {
    condition: 'engineRequestUser.userExistsAndEquals("sue") && Integer.parseInt(request.getHeader("X-Size")) > 5',
    priority: 30,
    routeTo: { routingGroup: 'etl' },
  },
};

const world = worldOf('suite');
let gateway: GatewayProcess;

const as = (user: string) => basic(user, 'x');
const read = async <T>(path: string, user = 'boss'): Promise<T> => {
  const response = await fetch(`${gateway.url}${path}`, { headers: as(user) });
  const text = await response.text();
  expect(response.status, text).toBe(200);
  return JSON.parse(text) as T;
};
/** A query once its outcome or its decision is stored. */
const stored = async (id: string, user = 'boss'): Promise<RoutedQuery> => {
  await expect
    .poll(async () => (await fetch(`${gateway.url}/api/queries/${id}`, { headers: as(user) })).status)
    .toBe(200);
  return await read<RoutedQuery>(`/api/queries/${id}`, user);
};

beforeAll(async () => {
  const engine = await world.engine({ name: 'engine' });
  const cluster = (name: string, routingGroup: string, more: object = {}) =>
    manifest('EngineCluster', name, { proxyTo: engine.url, routingGroup, ...more });
  await world.declare(
    cluster('first', 'adhoc'),
    cluster('second', 'adhoc'),
    cluster('resting', 'adhoc', { active: false }),
    cluster('only', 'etl'),
    ...Object.entries(rules).map(([name, spec]) => manifest('RoutingRule', name, spec)),
  );
  gateway = await world.startReady({
    monitor: { taskDelay: '500ms' },
    requestAnalyzerConfig: { analyzeRequest: true },
    routingRules: { onRuleError: 'reject' },
    authentication: { form: { selfSignKeyPair: sessionKeyPaths() } },
    presetUsers: {
      boss: { password: 'x', privileges: 'ADMIN_USER_API' },
      mallory: { password: 'x', privileges: 'USER' },
    },
    authorization: { admin: '.*ADMIN.*', user: '.*USER.*', api: '.*API.*' },
  });
});

test('a denied query names the rule that denied it, and what its condition read, without secrets', async () => {
  const headers = { 'X-Team': 'red', 'X-Api-Key': 'sesame', 'X-Engine-Source': 'cli' };
  const denied = await submit(gateway.url, 'SELECT 1', { user: 'mallory', headers });
  const query = await stored(denied.id);
  expect(query).toMatchObject({
    ...{ rule: 'forbidden', routingGroup: null, cluster: '', outcome: { state: 'DENIED' } },
    decision: {
      ...{ group: '', cluster: '', decidedBy: 'rule', rule: 'forbidden', refused: 'denied' },
      request: { headers: { 'x-engine-user': 'mallory', 'x-team': 'red' } },
      rules: [
        { rule: 'early', outcome: 'not-matched' },
        { rule: 'forbidden', outcome: 'denied' },
        { rule: 'broken', outcome: 'skipped' },
      ],
    },
  });
  expect(query.decision?.conditions).toEqual([
    {
      ...{ rule: 'forbidden', origin: 'resource', condition: (rules.forbidden as { condition: string }).condition },
      values: [
        { expression: 'engineRequestUser.userExistsAndEquals("mallory")', value: 'true', source: 'user' },
        { expression: 'request.getHeader("X-Team")', value: '"red"', source: 'header:x-team' },
      ],
    },
  ]);
  expect(JSON.stringify(query.decision?.request)).not.toContain('sesame');

  // Conditions are for those who may list rules.
  const own = await stored(denied.id, 'mallory');
  expect([own.rule, own.decision?.conditions]).toEqual(['forbidden', undefined]);

  // The list has what is in the database already.
  const listed = async () => (await read<QueryPage>('/api/queries?state=DENIED')).queries;
  await expect.poll(listed).toMatchObject([{ queryId: denied.id, rule: 'forbidden' }]);
  const csv = await fetch(`${gateway.url}/api/queries/export?state=DENIED`, { headers: as('boss') });
  expect(await csv.text()).toMatch(
    /^queryId,.*,firstRowMillis,rule,queryText,.*,dashboard,bypassed\r\n.*,DENIED,.*,forbidden,SELECT 1,,,,,f8ae09aedd50f21d,ed6d245dd8c3a2f1,,,,false\r\n/,
  );
});

test('a query that is refused as a rule fails has the same', async () => {
  const headers = { 'X-Size': 'many' };
  const refused = await submit(gateway.url, 'SELECT 1', { user: 'sue', headers });
  expect(await stored(refused.id)).toMatchObject({
    ...{ rule: 'broken', outcome: { state: 'REFUSED' } },
    decision: {
      ...{ refused: 'rule_failed', rule: 'broken', request: { headers: { 'x-size': 'many' } } },
      conditions: [{ rule: 'broken', values: [{ source: 'user' }, { source: 'header:x-size', value: '"many"' }] }],
    },
  });
});

test('a query has the times of its steps, and when its first rows came', async () => {
  const before = Date.now();
  const { id } = await runQuery(gateway.url, 'SELECT 1', { user: 'ann' });
  await expect.poll(async () => (await stored(id)).outcome?.state).toBe('FINISHED');
  const { decision, outcome, rule } = await stored(id);
  expect([rule, decision?.decidedBy]).toEqual([null, 'default']);
  const { receivedAt = 0, analysed = -1, decided = -1, submitted = -1 } = decision?.times ?? {};
  expect(receivedAt).toBeGreaterThanOrEqual(before - 1);
  expect(receivedAt).toBeLessThanOrEqual(Date.now());
  const steps = [0, analysed, decided, submitted];
  expect(steps).toEqual([...steps].sort((a, b) => a - b));
  const firstRow = outcome?.firstRowMillis ?? -1;
  expect(firstRow).toBeGreaterThanOrEqual(0);
  expect(firstRow).toBeLessThanOrEqual(Date.now() - receivedAt);

  const denied = await submit(gateway.url, 'SELECT 1', {
    user: 'mallory',
    headers: { 'X-Team': 'red', 'X-Api-Key': 'sesame' },
  });
  const refused = await stored(denied.id);
  expect(Object.keys(refused.decision?.times ?? {})).toEqual(['receivedAt', 'analysed', 'decided']);
  expect(refused.outcome?.firstRowMillis).toBeNull();
});

test('a query has the clusters that were there for it, and why one was picked', async () => {
  const { id } = await submit(gateway.url, 'SELECT 1', { user: 'ann' });
  const { decision, cluster } = await stored(id);
  const other = cluster === 'first' ? 'second' : 'first';
  expect(decision?.strategy).toBe('weightedRandom');
  const candidates = new Map(decision?.candidates?.map((each) => [each.cluster, each]));
  expect(candidates.get(cluster)).toMatchObject({
    ...{ taken: true, chosen: true, routingGroup: 'adhoc', reason: 'active and healthy; picked: at random by weight' },
  });
  expect(candidates.get(other)).toMatchObject({ taken: true, reason: 'active and healthy' });
  expect(candidates.get('resting')).toMatchObject({ taken: false, reason: 'is inactive' });
  expect(candidates.size).toBe(3);

  const blue = await submit(gateway.url, 'SELECT 1', { user: 'ann', headers: { 'X-Team': 'blue' } });
  expect((await stored(blue.id)).decision).toMatchObject({
    strategy: 'only',
    candidates: [
      { cluster: 'only', chosen: true, reason: 'active and healthy; picked: the only one that could take it' },
    ],
  });
});
