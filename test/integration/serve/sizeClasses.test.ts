import { beforeEach, expect, test } from 'vitest';
import { statementDigests } from '../../../src/sql/statementDigests.ts';
import type { KnexStore } from '../../../src/store/openStore.ts';
import type { GatewayProcess } from '../../support/gatewayProcess.ts';
import { manifest } from '../../support/manifest.ts';
import { queryOutcome } from '../../support/queryRecords.ts';
import { sessionKeyPaths } from '../../support/sessionKeyPair.ts';
import { follow, runQuery, submit } from '../../support/statementClient.ts';
import { basic, call, worldOf } from '../../support/world.ts';

const world = worldOf('test');
let store: KnexStore;

const REPORT = "SELECT count(*) FROM lake.web.events WHERE day = '2026-11-01'";
const NATION = 'SELECT name FROM tpch.tiny.nation WHERE nationkey = 7';

/** Writes runs of a statement. */
async function past(sql: string, seconds: number, count: number, hoursAgo = 1): Promise<void> {
  const { exact: exactDigest, shape: digest } = statementDigests(sql, null);
  const columns = { digest, exactDigest, tool: null, model: null, dashboard: null, shapeText: null, replay: '{}' };
  const created = Date.now() - hoursAgo * 3_600_000;
  const figures = { elapsedMillis: seconds * 1_000, cpuMillis: seconds * 500, created, lastSeen: created };
  const ids = Array.from({ length: count }, (_, number) => `20261127_${exactDigest}_${seconds}_${hoursAgo}_${number}`);
  await store.outcomes.put(ids.map((id) => queryOutcome(id, { ...figures, statement: { columns } })));
}

beforeEach(async () => {
  const engine = await world.engine({ name: 'engine' });
  await world.declare(
    manifest('EngineCluster', 'small', { proxyTo: engine.url, routingGroup: 'adhoc' }),
    manifest('EngineCluster', 'large', { proxyTo: engine.url, routingGroup: 'large' }),
    manifest('RoutingRule', 'large-queries', {
      condition: 'engineQueryProperties.estimate.sizeClass == "L"',
      routeTo: { routingGroup: 'large' },
    }),
  );
  store = await world.store();
});

const start = (more: object = {}): Promise<GatewayProcess> =>
  world.startReady({
    ...{ authentication: 'none', requestAnalyzerConfig: { analyzeRequest: true } },
    sizeClasses: { mediumFrom: '10s', largeFrom: '2m', refreshInterval: '1s' },
    ...more,
  });

/** The decision of a query, once it is stored. */
async function decisionOf(gateway: GatewayProcess, sql: string) {
  const { id } = await runQuery(gateway.url, sql);
  const read = async () => (await call(gateway, 'GET', `/api/queries/${id}`)).json;
  await expect.poll(async () => (await read()).decision?.group).toBeTruthy();
  return (await read()).decision;
}
const explained = async (gateway: GatewayProcess, sql: string) =>
  (await call(gateway, 'POST', '/api/explain', { headers: { 'X-Engine-User': 'ann' }, body: sql })).json;

test('rules route by the estimate of the exact statement, else of its shape; trace and explanation show it', async () => {
  await past(REPORT, 300, 5);
  await past(REPORT.replace('01', '02'), 1, 3);
  const gateway = await start();
  const [large, small, other] = [REPORT, REPORT.replace('01', '02'), REPORT.replace('01', '03')];
  const estimate = { sizeClass: 'L', source: 'exact', runs: 5, confidence: 0.71 };
  expect(await decisionOf(gateway, large)).toMatchObject({ group: 'large', rule: 'large-queries', estimate });
  const ofSmall = { sizeClass: 'S', source: 'exact', runs: 3, seconds: expect.closeTo(1, 1) };
  expect(await decisionOf(gateway, small)).toMatchObject({ group: 'adhoc', estimate: ofSmall });
  expect(await decisionOf(gateway, other)).toMatchObject({ group: 'large', estimate: { source: 'shape', runs: 8 } });
  const explanation = await explained(gateway, other);
  expect(explanation).toMatchObject({ routingGroup: 'large', request: { query: { estimate: { sizeClass: 'L' } } } });
  const unknown = await decisionOf(gateway, NATION);
  expect(unknown).toMatchObject({ group: 'adhoc', estimate: { sizeClass: 'unknown', seconds: null, runs: 0 } });
});

test('a remembered decision follows the next refresh', async () => {
  await past(NATION, 1, 3);
  const gateway = await start();
  for (let count = 0; count < 3; count += 1) expect((await decisionOf(gateway, NATION)).group).toBe('adhoc');
  await past(NATION, 400, 30);
  await expect.poll(async () => (await explained(gateway, NATION)).routingGroup).toBe('large');
  expect(await decisionOf(gateway, NATION)).toMatchObject({
    group: 'large',
    estimate: { sizeClass: 'L', source: 'exact' },
  });
});

test('nothing is stored of an estimate that no rule reads', async () => {
  await world.declare(
    manifest('EngineCluster', 'small', { proxyTo: (await world.engine({ name: 'x' })).url, routingGroup: 'adhoc' }),
  );
  await past(NATION, 1, 3);
  const gateway = await start();
  expect((await decisionOf(gateway, NATION)).estimate).toBeUndefined();
  expect((await explained(gateway, NATION)).request.query.estimate).toMatchObject({ sizeClass: 'S', runs: 3 });
  expect((await decisionOf(gateway, NATION)).estimate).toBeUndefined();
});

test('the impact of a rule is that of the estimates of now', async () => {
  const gateway = await start();
  await decisionOf(gateway, NATION);
  await past(NATION, 400, 30);
  await expect.poll(async () => (await explained(gateway, NATION)).routingGroup).toBe('large');
  const impact = async (condition: string) => {
    const rule = { condition, routeTo: { routingGroup: 'large' } };
    const { json } = await call(gateway, 'POST', '/api/rules/impact', { changes: [{ name: 'large-queries', rule }] });
    return json;
  };
  const first = await impact('engineQueryProperties.getEstimate().get("cpuSeconds") > 1000.0');
  expect(first).toMatchObject({ moved: 1, unknown: 0, estimatesOf: expect.stringMatching(/^2\d{3}-.*Z$/) });
  expect(first.moves[0]).toMatchObject({ from: { name: 'large' }, to: { name: 'adhoc' } });
  const same = await impact('engineQueryProperties.getEstimate().get("seconds") > 300.0');
  expect(same).toMatchObject({ moved: 0, unknown: 0 });
});

test('a limit of a class bounds queries of the class, with the request analysis off', async () => {
  const engine = await world.engine({ name: 'limited' });
  const limit = { per: 'All', maxRunningQueries: 1 };
  await world.declare(
    manifest('EngineCluster', 'small', { proxyTo: engine.url, routingGroup: 'adhoc' }),
    manifest('QueryLimit', 'large', { ...limit, match: { estimate: ['M', 'L'] } }),
    manifest('QueryLimit', 'unknown', { ...limit, match: { estimate: ['Unknown'], users: [{ value: 'new' }] } }),
  );
  await past(REPORT, 300, 5);
  await past(NATION, 1, 5);
  const gateway = await start({ requestAnalyzerConfig: { analyzeRequest: false } });
  const waits = async (sql: string, user = 'ann') => {
    const described = { headers: { 'X-Engine-User': user }, body: sql };
    return (await call(gateway, 'POST', '/api/explain', described)).json.waitsFor;
  };
  const first = await submit(gateway.url, REPORT);
  const unknown = await submit(gateway.url, 'SELECT 1', { user: 'new' });
  expect(await waits(REPORT.replace('01', '09'))).toContain('limit default/large');
  expect(await waits(NATION)).toBeNull();
  expect(await waits('SELECT 2', 'new')).toContain('limit default/unknown');
  expect(await waits('SELECT 2', 'ann')).toBeNull();
  for (const [sql, { nextUri }, user] of [
    [REPORT, first, 'test'],
    ['SELECT 1', unknown, 'new'],
  ] as const) {
    for (let uri = nextUri; uri !== undefined; ) ({ nextUri: uri } = await follow(uri, { user }));
    await expect.poll(() => waits(sql, user)).toBeNull();
  }
  expect(await decisionOf(gateway, REPORT)).toMatchObject({ estimate: { sizeClass: 'L', source: 'exact' } });
});

test('predictions are compared with what ran, with the borders of the configuration and with others', async () => {
  await past(REPORT, 200, 5, 48);
  await past(NATION, 1, 5, 48);
  await past(REPORT, 45, 3);
  await past(NATION, 1, 4);
  await past('SELECT 1', 1, 2);
  const presetUsers = {
    boss: { password: 'x', privileges: 'ADMIN_USER' },
    ann: { password: 'x', privileges: 'USER' },
  };
  const gateway = await start({
    ...{ authentication: { form: { selfSignKeyPair: sessionKeyPaths() } }, presetUsers },
    authorization: { admin: '.*ADMIN.*', user: '.*USER.*', api: '.*API.*' },
  });
  const calibration = (query = '', user = 'boss') =>
    call(gateway, 'GET', `/api/estimates${query}`, undefined, basic(user, 'x'));
  const counts = async (query?: string) => {
    const all = (await calibration(query)).json.counts as readonly Record<string, string | number>[];
    return all.filter(({ queries }) => queries !== 0).map((pair) => `${pair.predicted}${pair.actual} ${pair.queries}`);
  };
  expect(await counts()).toEqual(['SS 4', 'LM 3', 'unknownS 2']);
  expect(await counts('?mediumFrom=5000&largeFrom=30000')).toEqual(['SS 4', 'LL 3', 'unknownS 2']);
  expect(await counts('?mediumFrom=500&largeFrom=900')).toEqual(['LL 7', 'unknownL 2']);
  expect(await counts(`?since=${Date.now() - 50 * 3_600_000}&until=${Date.now() - 40 * 3_600_000}`)).toEqual([
    ...['unknownS 5', 'unknownL 5'],
  ]);
  const { counts: pairs, ...rest } = (await calibration()).json;
  expect(rest).toMatchObject({ measure: 'elapsed', mediumFrom: 10_000, largeFrom: 120_000 });
  expect(pairs[0]).toEqual({ predicted: 'S', actual: 'S', queries: 4, cpuMillis: 2_000 });
  expect(await calibration('?mediumFrom=5&largeFrom=5')).toMatchObject({
    ...{ status: 400, json: { error: { field: 'largeFrom' } } },
  });
  expect((await calibration('?since=5&until=5')).json.error.field).toBe('since');
  expect((await calibration('', 'ann')).status).toBe(403);
});

test('borders that leave no class M are a mistake of the configuration', async () => {
  const gateway = world.start({ sizeClasses: { mediumFrom: '2m', largeFrom: '1m' } });
  await expect(gateway).rejects.toThrow(/sizeClasses\.largeFrom: must be longer than sizeClasses\.mediumFrom/);
});
