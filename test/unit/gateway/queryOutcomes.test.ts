import { pino } from 'pino';
import { Registry } from 'prom-client';
import { expect, test } from 'vitest';
import type { FinalPage } from '../../../src/gateway/outcomes/finalPage.ts';
import { OutcomeMetrics } from '../../../src/gateway/outcomes/outcomeMetrics.ts';
import { QueryOutcomes } from '../../../src/gateway/outcomes/queryOutcomes.ts';
import type { QueryOutcomeRecord, QueryState, UnendedQuery } from '../../../src/store/queryOutcome.ts';

const id = '20261121_015745_00007_kvhrm';
const start = Date.UTC(2026, 10, 21, 1, 57, 45);
const MINUTE = 60_000;
const facts = { cluster: 'a', routingGroup: 'etl', user: 'ann', source: 'cli', rule: 'r', gatewayQueuedMillis: 40 };
const page: FinalPage = {
  ...{
    elapsedMillis: 900,
    queuedMillis: 5,
    cpuMillis: 70,
    processedRows: 8,
    processedBytes: 80,
    peakMemoryBytes: 1024,
  },
  error: null,
};
const failed = (name: string): FinalPage => ({ ...page, error: { name, type: 'USER_ERROR', code: 3, message: 'why' } });

function replica(
  seenElsewhere: ReadonlyMap<string, number> = new Map(),
  unended: ReadonlyMap<string, UnendedQuery> = new Map(),
  ends: ReadonlyMap<string, QueryState> = new Map(),
) {
  let now = start;
  const rows: QueryOutcomeRecord[] = [];
  const registry = new Registry();
  const outcomes = new QueryOutcomes({
    writer: { add: (record) => void rows.push(record) },
    running: { lastSeen: async () => seenElsewhere },
    stored: { unended: async () => unended, ends: async () => ends },
    counts: new OutcomeMetrics(registry),
    clock: { now: () => now, monotonic: () => now },
    logger: pino({ level: 'silent' }),
  });
  const after = (milliseconds: number) => {
    now += milliseconds;
  };
  return { outcomes, rows, registry, after };
}

test.each<[string, FinalPage | null, string]>([
  ['success', page, 'FINISHED'],
  ['an error', failed('SYNTAX_ERROR'), 'FAILED'],
  ['a kill', failed('ADMINISTRATIVELY_KILLED'), 'FAILED'],
  ['a cancellation', failed('USER_CANCELED'), 'CANCELLED'],
  ['silence, as the engine says', failed('ABANDONED_QUERY'), 'ABANDONED'],
  ['what cannot be read', null, 'FINISHED'],
])('ends with %s, once', (_name, last, state) => {
  const { outcomes, rows, after } = replica();
  outcomes.begin(id, facts);
  outcomes.page(id, 'a', 100);
  after(1500);
  outcomes.end(id, 'a', 50, last);
  outcomes.end(id, 'a', 50, last);
  expect(rows).toHaveLength(last === null ? 2 : 1);
  expect(rows[0]).toMatchObject({
    ...{ queryId: id, ...facts, created: start, lastSeen: start + 1500, state, refused: false },
    ...{ pages: 2, resultBytes: 150, elapsedMillis: last === null ? 1500 : 900, cpuMillis: last?.cpuMillis ?? null },
    ...{ errorName: last?.error?.name ?? null, errorMessage: last?.error?.message ?? null },
  });
});

test('an end that another replica says is kept without what was submitted', () => {
  const { outcomes, rows, after } = replica();
  after(2000);
  outcomes.end(id, 'a', 50, page);
  expect(rows).toMatchObject([{ queryId: id, created: start, cluster: 'a', user: null, state: 'FINISHED', pages: 1 }]);
});

test('the first answer with rows is timed, and others are not looked into', () => {
  const { outcomes, rows, after } = replica();
  outcomes.begin(id, facts);
  after(300);
  outcomes.page(id, 'a', 100);
  expect(outcomes.awaitsRows(id)).toBe(true);
  after(400);
  outcomes.page(id, 'a', 100, true);
  expect(outcomes.awaitsRows(id)).toBe(false);
  after(400);
  outcomes.page(id, 'a', 100, true);
  outcomes.end(id, 'a', 50, page, true);
  expect(rows).toMatchObject([{ firstRowMillis: 700 }]);
});

test('its cancellation ends a query, and what its engine says of it later is not lost', () => {
  const { outcomes, rows, after } = replica();
  outcomes.begin(id, facts);
  after(700);
  outcomes.cancel(id, 'a');
  expect(rows).toMatchObject([{ state: 'CANCELLED', elapsedMillis: 700 }]);
});

test('one that goes on for seconds has a row, and one that nobody asks for is abandoned', async () => {
  const { outcomes, rows, after } = replica();
  outcomes.begin(id, facts);
  await outcomes.sweep();
  expect(rows).toEqual([]);
  after(6000);
  await outcomes.sweep();
  await outcomes.sweep();
  expect(rows).toMatchObject([{ state: 'RUNNING', ...facts }]);
  after(4 * MINUTE);
  outcomes.page(id, 'a', 1);
  after(4 * MINUTE);
  await outcomes.sweep();
  expect(rows).toHaveLength(1);
  after(2 * MINUTE);
  await outcomes.sweep();
  expect(rows.slice(1)).toMatchObject([{ state: 'ABANDONED', pages: 1, elapsedMillis: null }]);
});

test('one that ended at another replica is neither written nor counted again', async () => {
  const { outcomes, rows, registry, after } = replica(new Map(), new Map(), new Map([[id, 'FINISHED']]));
  outcomes.begin(id, facts);
  after(6 * MINUTE);
  await outcomes.sweep();
  await outcomes.sweep();
  expect(rows).toEqual([]);
  expect(await registry.metrics()).not.toContain('state="ABANDONED"');
});

test('one that another replica follows is left to that', async () => {
  const { outcomes, rows, after } = replica(new Map([[id, start + 5 * MINUTE]]));
  outcomes.begin(id, facts);
  after(6 * MINUTE);
  await outcomes.sweep();
  expect(rows).toMatchObject([{ state: 'RUNNING' }]);
});

test.each([true, false])('one that its cluster does not know is lost, unless it answers again: %s', async (answers) => {
  const { outcomes, rows, after } = replica();
  outcomes.begin(id, facts);
  outcomes.lose(id, 'a');
  outcomes.lose('20261121_015745_00008_kvhrm', 'a');
  after(10_000);
  if (answers) outcomes.page(id, 'a', 1);
  after(25_000);
  await outcomes.sweep();
  expect(rows.map(({ state }) => state)).toEqual([answers ? 'RUNNING' : 'LOST']);
});

test('one that another replica followed is lost where its end is not stored, and an id that nobody knows is nothing', async () => {
  const { outcomes, rows, registry, after } = replica(
    new Map(),
    new Map([[id, { created: start - MINUTE, ...facts }]]),
  );
  for (const each of [id, id, 'nobody', 'answers']) outcomes.lose(each, 'a');
  after(10_000);
  outcomes.page('answers', 'a', 1);
  await outcomes.sweep();
  expect(rows).toEqual([]);
  after(25_000);
  await outcomes.sweep();
  await outcomes.sweep();
  const lost = rows.filter(({ state }) => state === 'LOST');
  expect(lost).toEqual([expect.objectContaining({ queryId: id, ...facts, created: start - MINUTE, lastSeen: start })]);
  expect(await registry.metrics()).toContain('engine_gateway_queries_ended_total{state="lost"} 1');
});

test('those that go on when it stops have rows', async () => {
  const { outcomes, rows } = replica();
  outcomes.begin(id, facts);
  await outcomes.stop();
  expect(rows).toMatchObject([{ state: 'RUNNING', ...facts }]);
});

test('remembers a bounded number of queries, and leaves the oldest to their rows', () => {
  const { outcomes, rows } = replica();
  for (let index = 0; index < 100_001; index++) outcomes.begin(`q${index}`, facts);
  expect(rows).toHaveLength(1000);
  expect(rows[0]).toMatchObject({ queryId: 'q0', state: 'RUNNING' });
});

test('counts ends with a bounded set of labels', async () => {
  const { outcomes, registry } = replica();
  for (let index = 0; index < 300; index++) {
    outcomes.begin(`q${index}`, { ...facts, routingGroup: `g${index}` });
    outcomes.end(`q${index}`, 'a', 1, { ...failed(`E${index}`), error: { ...failed('x').error!, type: `T${index}` } });
  }
  const text = await registry.metrics();
  expect(text).toContain('engine_gateway_queries_ended_total{state="failed"} 300');
  expect(text).toContain('engine_gateway_query_failures_total{type="other"} 300');
  expect(text).toContain('engine_gateway_query_duration_seconds_count{group="g199",state="failed"} 1');
  expect(text).toContain('engine_gateway_query_duration_seconds_count{group="",state="failed"} 100');
});
