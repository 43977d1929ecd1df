/** Rollouts between two clusters: the split, verdicts, promotion, rollback, actions (docs/rollouts.md). */
import { afterEach, describe, expect, test } from 'vitest';
import { closeAll, startServer } from '../../support/gateway.ts';
import type { GatewayProcess } from '../../support/gatewayProcess.ts';
import { manifest } from '../../support/manifest.ts';
import { submit } from '../../support/statementClient.ts';
import { call, worldOf } from '../../support/world.ts';

const world = worldOf('test');
afterEach(closeAll);

const WAIT = { timeout: 90_000 };
/** A statement that the candidate rejects in some tests. */
const CORRESPONDING = 'SELECT 1 UNION CORRESPONDING SELECT 2';
const users = Array.from({ length: 60 }, (_, index) => `user-${index}`);

/** A cluster that ends each query in its first response. */
class Cluster {
  readonly suffix: string;
  version = '476';
  starts = 0;
  queries: { user: string; sql: string }[] = [];
  rejects: (sql: string) => boolean = () => false;
  isDown = false;
  url = '';

  constructor(suffix: string) {
    this.suffix = suffix;
  }

  async start(): Promise<this> {
    const server = await startServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        response.setHeader('content-type', 'application/json');
        response.statusCode = this.isDown ? 503 : 200;
        const { version, suffix } = this;
        const coordinatorId = suffix;
        if (request.method !== 'POST')
          return response.end(JSON.stringify({ starting: false, nodeVersion: { version }, coordinatorId }));
        const sql = Buffer.concat(chunks).toString();
        this.queries.push({ user: String(request.headers['x-engine-user']), sql });
        const isFailed = this.rejects(sql);
        const id = `20261127_000000_${String(++this.starts).padStart(5, '0')}_${suffix}`;
        const error = { message: 'no', errorCode: 1, errorName: 'SYNTAX_ERROR', errorType: 'USER_ERROR' };
        const stats = {
          state: isFailed ? 'FAILED' : 'FINISHED',
          cpuTimeMillis: 5,
          elapsedTimeMillis: 9,
          queuedTimeMillis: 0,
        };
        return response.end(JSON.stringify({ id, infoUri: '', stats, ...(isFailed && { error }) }));
      });
    });
    this.url = server.url;
    return this;
  }
}

let gateway: GatewayProcess;
let [blue, green] = [new Cluster('blue0'), new Cluster('green')];

const cluster = ({ url }: Cluster, more: object = {}) => ({
  ...{ proxyTo: url, routingGroup: 'adhoc', healthCheck: { interval: '200ms', timeout: '200ms', failureThreshold: 2 } },
  ...more,
});
const steps = [
  { weight: 50, duration: '1s', minQueries: 30 },
  { weight: 80, duration: '1s', minQueries: 200 },
];
/** A step that does not pass before a difference is found. */
const strict = { steps: [{ weight: 40, duration: '1h' }] };
const rollout = (more: object = {}) => ({
  ...{ routingGroup: 'adhoc', stable: 'blue', candidate: 'green', steps, warmUp: '0s' },
  ...more,
});

async function declare(ofBlue: object, ofGreen: object, more: object | null = {}): Promise<void> {
  await world.declare(
    manifest('EngineCluster', 'blue', cluster(blue, ofBlue)),
    manifest('EngineCluster', 'green', cluster(green, ofGreen)),
    ...(more === null ? [] : [manifest('EngineRollout', 'upgrade', rollout(more))]),
  );
}

async function begin(more: object = {}, config: object = {}): Promise<void> {
  blue = await new Cluster('blue0').start();
  green = await new Cluster('green').start();
  await declare({}, { rolloutOnly: true }, more);
  gateway = await world.startReady({ authentication: 'none', ...config });
}

const read = async (of: GatewayProcess = gateway) => (await call(of, 'GET', '/api/rollouts/default/upgrade')).json;
const progress = async () => (await read()).progress ?? {};
const phase = (expected: string) => expect.poll(async () => (await progress()).phase, WAIT).toBe(expected);
const act = (action: string, of = gateway) => call(of, 'POST', `/api/rollouts/default/upgrade/${action}`);
/** Runs a statement as every user. */
const all = async (sql: string, of = gateway) => {
  for (const user of users) await submit(of.url, sql, { user });
};
/** Runs statements of all users until a condition holds. */
const traffic = (until: () => Promise<boolean>, ...statements: readonly string[]) =>
  expect
    .poll(async () => {
      for (const sql of statements) await all(sql);
      return await until();
    }, WAIT)
    .toBe(true);
const isIn = (name: string) => async () => (await progress()).phase === name;

test('an equal candidate is promoted step by step; users only enter; then the specs follow', async () => {
  await begin();
  await phase('Progressing');
  await traffic(
    async () => (await progress()).step === 2 || (await progress()).phase === 'Promoted',
    'SELECT 1',
    CORRESPONDING,
  );
  const early = new Set(green.queries.map(({ user }) => user));
  await traffic(isIn('Promoted'), 'SELECT 1', 'SELECT 2');
  expect(early.size).toBeGreaterThan(15);
  expect(early.size).toBeLessThan(60);
  const [toBlue, toGreen] = [blue.queries.length, green.queries.length];
  await all('SELECT 3');
  expect([blue.queries.length - toBlue, green.queries.length - toGreen]).toEqual([0, 60]);
  const { verdicts, weight } = await progress();
  expect(weight).toBe(100);
  expect(verdicts).toMatchObject([{ verdict: 'Pass' }, { verdict: 'Pass' }]);

  await declare({ active: false }, {});
  await phase('Succeeded');
  await all('SELECT 4');
  expect(green.queries.length - toGreen).toBe(120);
  expect((await read()).resource.conditions).toEqual(
    expect.arrayContaining([
      expect.objectContaining({ type: 'Progressing' }),
      expect.objectContaining({ type: 'Ready' }),
    ]),
  );
});

test('a statement that the candidate rejects rolls it back, and the verdict names it', async () => {
  await begin(strict);
  green.rejects = (sql) => sql === CORRESPONDING;
  await phase('Progressing');
  await traffic(isIn('RolledBack'), 'SELECT 1', CORRESPONDING);
  const { reason, message, verdicts, weight } = await progress();
  expect({ reason, weight }).toEqual({ reason: 'MoreErrors', weight: 0 });
  expect(message).toMatch(/ 0 of \d+ on stable; blue takes all new queries$/);
  const [digest] = verdicts.at(-1).digests;
  expect(digest).toMatchObject({ criterion: 'errors', error: 'SYNTAX_ERROR', stable: { events: 0 } });
  expect(digest.examples[0]).toMatch(/_green$/);
  const before = green.queries.length;
  await all('SELECT 5');
  expect(green.queries.length).toBe(before);
  expect((await act('resume')).status).toBe(409);
});

test('what only observes does not roll back, and what is manual pauses', async () => {
  await begin({ ...strict, mode: 'Observe' });
  green.rejects = () => true;
  await phase('Progressing');
  await traffic(async () => (await progress()).verdicts[0]?.verdict === 'Fail', 'SELECT 1', CORRESPONDING);
  expect((await progress()).phase).not.toBe('RolledBack');
  await declare({}, { rolloutOnly: true }, { ...strict, attempt: 2, rollback: 'Manual' });
  await traffic(isIn('Paused'), 'SELECT 1', CORRESPONDING);
  expect(await progress()).toMatchObject({ reason: 'MoreErrors', weight: 40 });
});

describe('a rollout in progress', () => {
  test('pauses, resumes, is promoted and rolled back by calls, on all replicas', async () => {
    await begin({ steps: [{ weight: 50, duration: '1h' }] });
    const second = await world.startReady({ authentication: 'none' });
    await phase('Progressing');
    const shares = async (of: GatewayProcess) => {
      const before = green.queries.length;
      await all('SELECT 1', of);
      return green.queries.slice(before).map(({ user }) => user);
    };
    await expect.poll(async () => (await shares(second)).length, WAIT).toBeGreaterThan(0);
    expect(await shares(second)).toEqual(await shares(gateway));
    expect(await act('pause')).toMatchObject({ status: 200, json: { progress: { phase: 'Paused', weight: 50 } } });
    expect((await act('pause')).status).toBe(409);
    expect((await act('resume', second)).json.progress).toMatchObject({ phase: 'Progressing', step: 1 });
    expect((await act('promote', second)).json.progress).toMatchObject({ phase: 'Promoted', weight: 100 });
    await expect.poll(async () => (await shares(gateway)).length, WAIT).toBe(60);
    expect((await act('rollback')).json.progress).toMatchObject({ phase: 'RolledBack', weight: 0 });
    await expect.poll(async () => (await shares(second)).length, WAIT).toBe(0);
    expect((await act('unknown')).status).toBe(400);
    const audit = (await call(gateway, 'GET', '/api/audit')).text;
    expect(audit).toContain('rollout default/upgrade');
  });

  test('rolls back if the candidate is unhealthy, and pauses with an override or a deleted stable', async () => {
    await begin({ steps: [{ weight: 50, duration: '1h' }] });
    await phase('Progressing');
    await call(gateway, 'PUT', '/api/clusters/blue/active', { active: false });
    await phase('Paused');
    expect(await progress()).toMatchObject({ reason: 'Overridden', weight: 50 });
    await call(gateway, 'PUT', '/api/clusters/blue/active', { active: true });
    await act('resume');
    await phase('Progressing');
    green.isDown = true;
    await phase('RolledBack');
    expect(await progress()).toMatchObject({ reason: 'CandidateUnhealthy', weight: 0 });
  });

  test('ends with its resource: stable takes all queries', async () => {
    await begin({ steps: [{ weight: 99, duration: '1h' }] });
    await phase('Progressing');
    await declare({}, { rolloutOnly: true }, null);
    const queries = async () => {
      const before = green.queries.length;
      await all('SELECT 1');
      return green.queries.length - before;
    };
    await expect.poll(queries, WAIT).toBe(0);
    expect(await (await world.store()).rollouts.all()).toEqual([]);
  });
});

test('a rollout waits for its preflight, and states what is missing', async () => {
  await begin({ suspend: true });
  const missing = (text: string) => expect.poll(async () => (await progress()).message, WAIT).toContain(text);
  await missing('spec.suspend is true');
  await declare({}, { rolloutOnly: false });
  await missing('green takes ordinary queries; set spec.rolloutOnly: true');
  await declare({}, { rolloutOnly: true, routingGroup: 'etl' });
  await missing('green belongs to the routing group etl');
  await declare({ active: false }, { rolloutOnly: true });
  await missing('blue is not active');
  await declare({}, { rolloutOnly: true }, { candidate: 'gone', attempt: 2 });
  await missing('there is no EngineCluster gone');
  await declare({}, { rolloutOnly: true });
  await phase('Progressing');
});
