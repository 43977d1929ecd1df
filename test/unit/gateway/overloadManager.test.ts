import type { IncomingMessage, ServerResponse } from 'node:http';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import { expect, test } from 'vitest';
import { memoryShare, OverloadManager } from '../../../src/gateway/server/overloadManager.ts';

/** An overload manager with a memory and a clock of the test, and what it did. */
function world() {
  const state = { share: 0.5, open: 1_000, time: 0, closedIdle: 0, evicted: 0 };
  const log: Record<string, unknown>[] = [];
  const registry = new Registry();
  const manager = new OverloadManager(
    () => state.share,
    {
      get count() {
        return state.open;
      },
    },
    { now: () => 0, monotonic: () => state.time },
    pino({ base: null }, { write: (line: string) => void log.push(JSON.parse(line)) }),
    registry,
  );
  const stop = manager.start({ closeIdle: () => state.closedIdle++, evictBusiest: () => state.evicted++ });
  stop();
  const responses: { readonly status: number; readonly headers: readonly string[]; readonly body: string }[] = [];
  /** Whether a request is rejected now. */
  const rejects = (method: string, url: string, isProxied: boolean) => {
    let head: { status: number; headers: readonly string[] } | null = null;
    const response = {
      headersSent: false,
      destroyed: false,
      req: { complete: true },
      writeHead: (status: number, headers: readonly string[]) => {
        head = { status, headers };
      },
      end: (body: string) => void responses.push({ ...head!, body }),
    };
    return manager.rejects({ method, url } as IncomingMessage, response as unknown as ServerResponse, isProxied);
  };
  return {
    state,
    log,
    responses,
    registry,
    rejects,
    /** Checks the memory; what is rejected then. */
    check: (share: number) => {
      state.share = share;
      state.time += 100;
      manager.check();
      return {
        list: rejects('GET', '/api/clusters', false),
        submission: rejects('POST', '/v1/statement', true),
        followUp: rejects('GET', '/v1/statement/executing/a/b/1', true),
      };
    },
  };
}

const none = { list: false, submission: false, followUp: false };
const lists = { list: true, submission: false, followUp: false };
const submissions = { list: true, submission: true, followUp: false };
const all = { list: true, submission: true, followUp: true };

test('sheds idle connections, then lists, above the second threshold submissions, and at last follow-ups', () => {
  const { check, state } = world();
  expect(check(0.64)).toEqual(none);
  expect(state.closedIdle).toBe(0);
  expect(check(0.7)).toEqual(none);
  expect(state.closedIdle).toBe(1);
  expect(check(0.7)).toEqual(lists);
  expect(check(0.8)).toEqual(submissions);
  expect(state.evicted).toBe(0);
  expect(check(0.8)).toEqual(all);
  expect([state.evicted, state.closedIdle]).toEqual([1, 4]);
});

test('with few open requests, which the memory in use cannot belong to, queries are served', () => {
  const { check, state } = world();
  for (let count = 0; count < 4; count++) check(0.95);
  state.open = 10;
  for (let count = 0; count < 4; count++) expect(check(0.94)).toEqual(lists);
  expect(check(0.96)).toEqual(submissions);
});

test('a sudden load is shed with the first check', () => {
  const { check } = world();
  expect(check(0.95)).toEqual(submissions);
  expect(check(0.95)).toEqual(all);
});

test('below the second threshold it sheds no queries', () => {
  const { check } = world();
  for (let count = 0; count < 10; count++) check(0.74);
  expect(check(0.74)).toEqual(lists);
});

test('a level ends five points below its threshold, so that it does not flap', () => {
  const { check, state } = world();
  for (let count = 0; count < 4; count++) check(0.81);
  for (let count = 0; count < 10; count++) expect(check(0.76)).toEqual(all);
  expect(check(0.74)).toEqual(submissions);
  expect(check(0.74)).toEqual(lists);
  for (let count = 0; count < 10; count++) expect(check(0.66)).toEqual(lists);
  expect(check(0.64)).toEqual(none);
  expect(check(0.64)).toEqual(none);
  const closed = state.closedIdle;
  expect(check(0.64)).toEqual(none);
  expect(state.closedIdle).toBe(closed);
});

test('it responds 503 with Retry-After, and states what it sheds in log and metrics', async () => {
  const { check, responses, log, registry } = world();
  for (let count = 0; count < 4; count++) check(0.95);
  const { status, headers, body } = responses.at(-1)!;
  expect([status, headers.slice(-4, -2), body]).toEqual([
    503,
    ['retry-after', '1'],
    'This gateway is short of memory; send the request again in a second.\n',
  ]);
  expect(JSON.parse(responses[0]!.body)).toMatchObject({ error: { code: 'EG_BUSY' } });
  const text = await registry.metrics();
  expect(text).toContain('engine_gateway_overload_level 4');
  expect(text).toContain('engine_gateway_overload_rejections_total{load="submissions"} 4');
  for (let count = 0; count < 4; count++) check(0.1);
  expect(log.map(({ msg, sheds }) => [msg, sheds])).toEqual([
    ['memory short', 'submissions'],
    ['memory short', 'follow-ups'],
    ['memory available again', undefined],
  ]);
});

test.each([
  ['GET', '/api/queries?limit=5', true],
  ['GET', '/api/queries/export', true],
  ['GET', '/gateway/backend/all', true],
  ['GET', '/entity/GATEWAY_BACKEND', true],
  ['GET', '/engine/resourcegroup/read', true],
  ['GET', '/engine-gateway/api/queryHistory', true],
  ['POST', '/webapp/findQueryHistory', true],
  ['GET', '/api/clusters/a', false],
  ['POST', '/gateway/backend/modify/add', false],
  ['POST', '/api/explain', false],
  ['GET', '/readyz', false],
  ['GET', '/engine-gateway/readyz', false],
  ['GET', '/metrics', false],
  ['GET', '/', false],
])('of the API, %s %s is shed: %s', (method, url, isShed) => {
  const { check, rejects } = world();
  for (let count = 0; count < 5; count++) check(0.95);
  expect(rejects(method, url, false)).toBe(isShed);
});

test('the memory in use is compared with the limit', () => {
  const before = memoryShare(1024 ** 3)();
  const buffer = Buffer.alloc(300 * 1024 ** 2, 1);
  expect(memoryShare(1024 ** 3)() - before).toBeGreaterThan(buffer.length / 1024 ** 3 / 2);
});
