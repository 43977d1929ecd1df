/** Live replays between simulated engines: reads of clients are repeated at candidates, whatever these do (docs/replay.md#live-reads). */
import { expect, test } from 'vitest';
import type { SimulatedEngine } from '../../../demo/simulatedEngine.ts';
import { until } from '../../support/gateway.ts';
import type { GatewayProcess } from '../../support/gatewayProcess.ts';
import { manifest } from '../../support/manifest.ts';
import { runQuery } from '../../support/statementClient.ts';
import { call, worldOf } from '../../support/world.ts';

const world = worldOf('test');
/** Each wait has a bound of its own. */
const TEST_MS = 600_000;
const NATION = 'SELECT name FROM tpch.tiny.nation WHERE nationkey < 7';
const MISSING = 'SELECT n FROM memory.default.missing';
const WRITE = 'CREATE TABLE memory.default.copied AS SELECT 1 AS n';

let gateway: GatewayProcess;
let control: SimulatedEngine;
let candidates: readonly SimulatedEngine[];

/** Starts the cluster of the clients, candidates, and a gateway. */
async function start(...names: readonly string[]): Promise<void> {
  control = await world.engine({ name: 'blue', record: true });
  candidates = await Promise.all(names.map((name) => world.engine({ name, record: true })));
  const cluster = ({ name, url }: SimulatedEngine, active: boolean) =>
    manifest('EngineCluster', name, { proxyTo: url, routingGroup: 'adhoc', active });
  await world.declare(cluster(control, true), ...candidates.map((each) => cluster(each, false)));
  gateway = await world.startReady({ authentication: 'none', requestAnalyzerConfig: { analyzeRequest: true } });
}

/** Declares a live replay at a candidate of its name, and waits until it watches. */
async function follow(candidate: string, live: object, more: object = {}): Promise<void> {
  const spec = { control: 'blue', candidate, replayAs: { username: 'replay' }, from: { live }, ...more };
  expect(await call(gateway, 'PUT', `/api/replays/default/${candidate}`, spec)).toMatchObject({ status: 200 });
  await expect.poll(async () => (await progress(candidate))?.state, { timeout: 60_000 }).toBe('running');
}

const progress = async (name: string) => (await call(gateway, 'GET', `/api/replays/default/${name}`)).json.progress;
const digestsOf = async (name: string) =>
  (await call(gateway, 'GET', `/api/replays/default/${name}/report`)).json.digests as {
    readonly verdict: string;
    readonly reason: string;
    readonly example: Readonly<Record<string, string | null>>;
  }[];
const sentTo = (engine: SimulatedEngine | undefined) =>
  engine?.requests.filter(({ method }) => method === 'POST').map(({ body }) => body) ?? [];

/** Repeats a client's query until something holds: reads are left out while the machine is busy. */
const queryUntil = async (sql: string, isReached: () => unknown): Promise<void> => {
  const query = async () => {
    await runQuery(gateway.url, sql, { user: 'ann' });
    return Boolean(await isReached());
  };
  // An engine remembers its last 1000 requests.
  await expect.poll(query, { interval: 1_000, timeout: 120_000 }).toBe(true);
};

test(
  'reads of clients are repeated in read-only transactions and compared with their records',
  async () => {
    await start('green');
    await follow('green', { percent: 100 });
    const verdicts = async () => (await progress('green')).verdicts;
    const sent = () => sentTo(candidates[0]);
    await queryUntil(NATION, async () => (await verdicts()).Same > 2);
    expect(sent()).toContain(NATION);
    await queryUntil(WRITE, async () => (await progress('green')).excluded.notRead?.queries > 0);
    const fails = async () => (await digestsOf('green')).find(({ example }) => example.controlError !== null);
    await queryUntil(MISSING, fails);
    expect(await fails()).toMatchObject({
      ...{ verdict: 'Same', reason: expect.stringContaining('both fail: TABLE_NOT_FOUND') },
    });
    // Only the clients' cluster has the table that they made.
    await queryUntil('SELECT n FROM memory.default.copied', async () => (await verdicts()).FailedOnCandidate > 0);
    expect((await digestsOf('green'))[0]).toMatchObject({
      ...{ verdict: 'FailedOnCandidate', example: { candidateError: expect.stringContaining('TABLE_NOT_FOUND') } },
    });
    expect(sent().join()).not.toContain('CREATE');
    const count = (kind: string) => sent().filter((sql) => sql.startsWith(kind)).length;
    await expect.poll(() => count('ROLLBACK') - count('START'), { timeout: 60_000 }).toBe(0);
    // A sample runs once more on the clients' cluster.
    expect(sentTo(control)).toContain('START TRANSACTION READ ONLY');
    expect((await call(gateway, 'POST', '/api/history/search', {})).text).not.toContain('engine-gateway-replay');
  },
  TEST_MS,
);

test(
  'a candidate that hangs, resets, rejects or dies concerns no client',
  async () => {
    await start('hanging', 'resetting', 'rejecting', 'dead');
    const [hanging, resetting, rejecting, dead] = candidates;
    hanging?.setState({ hanging: true });
    resetting?.setState({ resetting: true });
    rejecting?.setState({ failing: 503 });
    await dead?.close();
    const limits = { time: '1s', concurrency: 4 };
    for (const { name } of candidates) await follow(name, { percent: 100, max: 3 }, { limits });
    let queries = 0;
    await until(
      async () => {
        const { error, rows } = await runQuery(gateway.url, NATION, { user: 'ann' });
        expect([error, rows]).toEqual([undefined, expect.any(Array)]);
        queries += 1;
        const states = await Promise.all(candidates.map(async ({ name }) => (await progress(name)).state));
        return states.every((state) => state === 'done');
      },
      'the end of all replays',
      200_000,
    );
    for (const { name } of candidates) {
      expect((await progress(name)).verdicts).toMatchObject({ FailedOnCandidate: 3, Same: 0 });
      expect(await digestsOf(name)).toMatchObject([{ verdict: 'FailedOnCandidate' }]);
    }
    // Users are charged for their own queries only.
    const charged = async () => (await call(gateway, 'GET', '/api/statistics?by=user')).json.values;
    await expect.poll(charged, { timeout: 30_000 }).toMatchObject([{ value: 'ann', queries }]);
  },
  TEST_MS,
);

test(
  'a held replay repeats nothing, and ends its queries at the candidate',
  async () => {
    await start('green');
    const [green] = candidates;
    await follow('green', { percent: 100 });
    green?.setState({ maxRunning: 0 });
    const running = () => green?.queries.filter(({ state }) => !/FINISHED|FAILED/.test(state)) ?? [];
    await queryUntil(NATION, () => running().length > 0);
    const { spec } = (await call(gateway, 'GET', '/api/replays/default/green')).json;
    await call(gateway, 'PUT', '/api/replays/default/green', { ...spec, suspend: true });
    await expect.poll(running, { timeout: 60_000 }).toHaveLength(0);
    await expect.poll(async () => (await progress('green')).state, { timeout: 60_000 }).toBe('held');
  },
  TEST_MS,
);
