import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openStore } from '../../src/store/openStore.ts';
import { attack, send, sendJson } from './attack.ts';
import { startTarget, type Target } from './target.ts';

/** Rows of the history, and of these how many have a text of a megabyte. */
const ROWS = 20_000;
const LONG_TEXTS = 20;

const insertRows = `with recursive n(i) as (select 1 union all select i + 1 from n where i < ${ROWS})
  insert into query_history
    (query_id, query_text, created, backend_url, user_name, source, routing_group, external_url)
  select 'q' || i, 'SELECT column_' || i || ' FROM some_catalog.some_schema.some_table WHERE value = ' || hex(i),
    unixepoch() * 1000 - i * 1000, 'http://c' || (i % 20), 'user' || (i % 50), 'source' || (i % 7), 'adhoc', null from n`;
const insertDecisions = `insert into eg_query_decisions (query_id, cluster, created, decision)
  select query_id, 'c' || (rowid % 20), created, null from query_history`;
const lengthenTexts = `update query_history set query_text = hex(zeroblob(500000)) where rowid <= ${LONG_TEXTS}`;

async function fillHistory(folder: string): Promise<void> {
  const file = join(folder, 'gateway.db');
  const store = await openStore({
    ...{ jdbcUrl: `jdbc:sqlite:${file}`, user: null, password: null, queryTimeoutMs: null },
    ...{ runMigrations: true, logger: pino({ level: 'silent' }) },
  } as unknown as Parameters<typeof openStore>[0]);
  await store.close();
  const database = new DatabaseSync(file);
  for (const sql of [insertRows, insertDecisions, lengthenTexts]) database.exec(sql);
  database.close();
}

describe(`a history of ${ROWS} queries in SQLite`, () => {
  let target: Target;
  beforeAll(async () => {
    target = await startTarget({}, { prepare: fillHistory });
  }, 120_000);
  afterAll(() => target?.close());

  const found = async (filter: object) => {
    const { status, text } = await sendJson(target, 'POST', '/webapp/findQueryHistory', filter);
    expect(status, text.slice(0, 500)).toBe(200);
    return (JSON.parse(text) as { data: { total: number; rows: { queryText: string }[] } }).data;
  };

  test.each([
    ['a part of a text that no query has', { text: 'nowhere_to_be_found' }, 0],
    ['a part of a text that all have', { text: 'some_catalog', size: 2000 }, 19_980],
    ['a cluster among twenty', { cluster: 'c3', size: 2000 }, 1_000],
    ['a late page', { source: 'source3', page: 3, size: 1000 }, 2_857],
  ])('is searched for %s', async (name, filter, total) => {
    const { answer } = await attack(target, `history: ${name}`, () => found(filter));
    expect(answer.total).toBe(total);
  });

  test('is listed although its newest texts have a megabyte each', async () => {
    const { answer } = await attack(target, 'history: long texts', () => found({ size: 2000 }));
    expect(answer.rows).toHaveLength(2000);
    expect(answer.rows.reduce((sum, { queryText }) => sum + queryText.length, 0)).toBeLessThan(4_100_000);
    await attack(target, 'history: view', () => send(target, '/engine-gateway/api/queryHistory'));
  });

  test.each([1, 49, 700])('is counted over %d hours', async (latestHour) => {
    const { answer } = await attack(target, `history: counts of ${latestHour} hours`, () =>
      sendJson(target, 'POST', '/webapp/getDistribution', { latestHour }),
    );
    expect(answer.status).toBe(200);
  });

  test('is searched by many clients at once: those that find no turn are answered 503', async () => {
    const search = (index: number) =>
      sendJson(target, 'POST', '/webapp/findQueryHistory', { text: `nowhere_to_be_found_${index}` });
    const { answer } = await attack(target, 'history: 40 searches at once', () =>
      Promise.all(Array.from({ length: 40 }, (_, index) => search(index))),
    );
    const statuses = answer.map(({ status }) => status);
    expect(statuses.filter((status) => status !== 200 && status !== 503)).toEqual([]);
    expect(statuses).toContain(200);
  });
});
