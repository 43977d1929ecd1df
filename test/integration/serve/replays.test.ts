/** Replays of recorded queries between simulated engines: selection, holds, reports, the command (docs/replay.md). */
import { readFileSync } from 'node:fs';
import { pino } from 'pino';
import { Agent } from 'undici';
import { expect, test } from 'vitest';
import type { SimulatedEngine } from '../../../demo/simulatedEngine.ts';
import { systemClock } from '../../../src/model/clock.ts';
import { productNames } from '../../../src/model/names.ts';
import { PageThread } from '../../../src/replay/pageThread.ts';
import { ReplayJobs, type ReplayPlan, type ReplayProgress } from '../../../src/replay/replayJobs.ts';
import { StatementRuns } from '../../../src/replay/statementRuns.ts';
import type { KnexStore } from '../../../src/store/openStore.ts';
import { runCommand } from '../../support/commandLine.ts';
import type { GatewayProcess } from '../../support/gatewayProcess.ts';
import { manifest } from '../../support/manifest.ts';
import { runQuery } from '../../support/statementClient.ts';
import { call, worldOf } from '../../support/world.ts';

const world = worldOf('test');
const HOUR = 3_600_000;
const NATION = 'SELECT name FROM tpch.tiny.nation WHERE nationkey < 7';
const NODES = 'SELECT node_id FROM system.runtime.nodes';
const WRITE = 'CREATE TABLE lake.web.copy AS SELECT 1 AS n';

let gateway: GatewayProcess;
let candidate: SimulatedEngine;

/** Starts two clusters and a gateway, and records queries. */
async function record(...statements: readonly string[]): Promise<void> {
  const control = await world.engine({ name: 'blue' });
  candidate = await world.engine({ name: 'green', record: true });
  await world.declare(
    manifest('EngineCluster', 'blue', { proxyTo: control.url, routingGroup: 'adhoc' }),
    manifest('EngineCluster', 'green', { proxyTo: candidate.url, routingGroup: 'adhoc', active: false }),
  );
  gateway = await world.startReady({ authentication: 'none', requestAnalyzerConfig: { analyzeRequest: true } });
  for (const sql of statements) {
    const { id } = await runQuery(gateway.url, sql);
    const query = async () => (await call(gateway, 'GET', `/api/queries/${id}`)).json;
    await expect.poll(async () => (await query()).outcome?.state, { timeout: 30_000 }).toMatch(/^FINISHED|FAILED$/);
  }
}

const spec = (more: object = {}) => ({
  ...{ control: 'blue', candidate: 'green', from: { history: {} }, replayAs: { username: 'replay' }, minCoverage: 0 },
  ...more,
});
const put = (more: object = {}) => call(gateway, 'PUT', '/api/replays/default/upgrade', spec(more));
const replay = async () => (await call(gateway, 'GET', '/api/replays/default/upgrade')).json;
const state = (expected: string) =>
  expect.poll(async () => (await replay()).progress?.state, { timeout: 60_000 }).toBe(expected);
const report = (format: string) => call(gateway, 'GET', `/api/replays/default/upgrade/report?format=${format}`);
/** Statements that the candidate got. */
const sent = () => candidate.requests.filter(({ method }) => method === 'POST').map(({ body }) => body);

test('reads are compared in read-only transactions; reports have differences by shape; writes are never sent', async () => {
  await record(NATION, WRITE, NODES);
  expect((await put()).status).toBe(200);
  await state('done');
  const { progress } = await replay();
  expect(progress).toMatchObject({ verified: false, message: '1 Different: the report lists them' });
  expect(progress.verdicts).toMatchObject({ Same: 1, Different: 1 });
  expect(progress.excluded).toMatchObject({ notRead: { queries: 1 } });
  expect(sent()).toEqual(expect.arrayContaining(['START TRANSACTION READ ONLY', NATION, NODES, 'ROLLBACK']));
  expect(sent().join()).not.toContain('CREATE');
  const { digests } = (await report('json')).json;
  expect(digests).toMatchObject([
    { verdict: 'Different', reason: 'other values in node_id' },
    { verdict: 'Same', reason: '7 equal rows' },
  ]);
  expect((await report('junit')).text).toContain('<testsuite name="default/upgrade" tests="2" failures="1"');
  expect((await report('markdown')).text).toContain('# Replay default/upgrade: not verified');
  // The replay itself is in no history.
  expect((await call(gateway, 'POST', '/api/history/search', {})).text).not.toContain('engine-gateway-replay');
});

test('the command shows the cost without sending, then verifies, and its exit code has the result', async () => {
  await record(NATION);
  const file = world.file('replay.txt', manifest('QueryReplay', 'upgrade', spec()));
  const options = ['replay', '-f', file, '--server', gateway.url];
  const planned = await runCommand([...options, '--plan']);
  expect(planned).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^a replay sends 1 queries with \d+ s of CPU/),
  });
  expect((await replay()).progress).toMatchObject({ state: 'held', message: 'spec.suspend is true' });
  expect(sent()).not.toContain(NATION);
  const junit = world.path('junit.xml');
  const verified = await runCommand([...options, '--junit', junit]);
  expect(verified).toMatchObject({ code: 0, stdout: expect.stringContaining('# Replay default/upgrade: verified') });
  expect(readFileSync(junit, 'utf8')).toContain('failures="0"');
  candidate.setState({ failingStatements: 500 });
  world.file('replay.txt', manifest('QueryReplay', 'upgrade', spec({ minCoverage: 1 })));
  const failed = await runCommand(options);
  expect(failed).toMatchObject({ code: 1, stdout: expect.stringContaining('green responded with status 500') });
  expect((await runCommand(['replay', '-f', junit, '--server', gateway.url])).code).toBe(2);
});

/** A plan of a replay on the clusters, and its clock. */
function jobsOf(store: KnexStore, control: string, target: string, queries: number, clock: { time: number }) {
  const pages = world.closing(new PageThread());
  const dispatcher = new Agent();
  const limits = { time: 60_000, cpu: 60_000 };
  const none = {
    routingGroups: null,
    users: null,
    excludeCatalogs: [],
    perDigest: 1,
    max: 1,
    decider: null,
    percent: 100,
  };
  const plan: ReplayPlan = {
    ...{ uid: 'u', revision: 'r', namespace: 'n', name: 'a', control: 'blue', candidate: 'green', mode: 'run' },
    ...{
      isSuspended: false,
      isLive: false,
      last: HOUR,
      filter: none,
      limits,
      concurrency: 1,
      minCoverage: 0,
      every: HOUR,
      window: null,
    },
  };
  const share = { queries: 1, cpuMillis: 1 };
  const select = async () => ({
    queries: Array.from({ length: queries }, (_, n) => ({
      ...{ queryId: `q${n}`, digest: 'd', cpuMillis: 1, error: null, standsFor: share },
      statement: { text: 'SELECT 1', user: null, headers: {}, prepared: null },
    })),
    ...{ recorded: { queries, cpuMillis: queries }, excluded: {} },
  });
  const account = { username: 'replay', password: '', impersonates: false };
  const clusters = {
    control: { name: 'blue', proxyTo: control },
    candidate: { name: 'green', proxyTo: target },
  };
  const noted: ReplayProgress[] = [];
  const jobs = new ReplayJobs(
    {
      ...{ repository: store.replays, select, targets: async () => ({ ...clusters, account }) },
      ...{ shadow: () => Promise.reject(new Error('no replay is live')), shortage: () => null },
      runs: () => new StatementRuns(productNames('Engine'), account, dispatcher, pages),
      ...{ isLeader: () => true, plans: () => [plan], uids: () => new Set(['u']) },
      note: (_plan, progress) => noted.push(progress),
    },
    { ...systemClock, now: () => clock.time },
    pino({ level: 'silent' }),
  );
  world.closing({ close: () => jobs.stop().then(() => dispatcher.destroy()) });
  jobs.start();
  return noted;
}

test('a replay starts again after its interval, continues after a restart, and fails if a cluster does not respond', async () => {
  const [blue, green] = [await world.engine({ name: 'blue' }), await world.engine({ name: 'green', record: true })];
  const store = await world.store();
  const clock = { time: 1_800_000_000_000 };
  const noted = jobsOf(store, blue.url, green.url, 12, clock);
  const last = () => noted.at(-1);
  await expect.poll(() => last()?.state, { timeout: 30_000 }).toBe('done');
  expect(last()).toMatchObject({ verified: true, started: clock.time, replayed: { queries: 12 } });
  clock.time += HOUR;
  green.setState({ failingStatements: 500 });
  await expect.poll(() => last()?.state, { timeout: 30_000 }).toBe('failed');
  expect(last()).toMatchObject({ verified: false, started: clock.time, verdicts: { FailedOnCandidate: 10 } });
  // Another leader continues with what has no result.
  green.setState({ failingStatements: 0 });
  await store.replays.put('u', JSON.stringify({ ...last(), state: 'running', verified: null }));
  const others = jobsOf(store, blue.url, green.url, 12, clock);
  await expect.poll(() => others.at(-1)?.state, { timeout: 30_000 }).toBe('done');
  expect(others.at(-1)?.verdicts).toMatchObject({ FailedOnCandidate: 10, Same: 2 });
});

test('outside of its window a replay is held, and REST cannot name a file with a password', async () => {
  await record(NATION);
  const hour = (offset: number) => `${String((new Date().getUTCHours() + offset) % 24).padStart(2, '0')}:00`;
  await put({ window: { from: hour(6), to: hour(8) } });
  await state('held');
  expect((await replay()).progress).toMatchObject({
    message: 'its window (spec.window) is closed',
    selected: { queries: 1 },
  });
  expect(sent()).not.toContain(NATION);
  await put({ window: { from: hour(22), to: hour(2) } });
  await state('done');
  const replayAs = { username: 'replay', password: '${FILE:/etc/passwd}' };
  expect(await put({ replayAs })).toMatchObject({ status: 400, json: { error: { field: 'replayAs.password' } } });
  await call(gateway, 'DELETE', '/api/replays/default/upgrade');
  const results = await (await world.store()).replays.all();
  expect([results.size, (await report('json')).status]).toEqual([expect.any(Number), 404]);
});
