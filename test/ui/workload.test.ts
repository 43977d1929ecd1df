import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { DigestList } from '../../src/api/responses/queries.ts';
import { openStore } from '../../src/store/openStore.ts';
import { until } from '../support/gateway.ts';
import { runQuery, submit } from '../support/statementClient.ts';
import { canBrowse, openWindow } from './support/browser.ts';
import { type Rig, startRig } from './support/rig.ts';
import { expectSoundInBothWidths } from './support/soundness.ts';

const NATION = 'SELECT name FROM tpch.tiny.nation WHERE nationkey = 7';

describe.skipIf(!canBrowse)('Workload', () => {
  let rig: Rig;
  let latest: string;
  beforeAll(async () => {
    rig = await startRig({ requestAnalyzerConfig: { analyzeRequest: true } });
    await runQuery(rig.gateway.url, 'SELECT 1', { user: 'ada' });
    for (const key of [1, 2]) await runQuery(rig.gateway.url, NATION.replace('7', String(key)), { user: 'grace' });
    latest = (await runQuery(rig.gateway.url, NATION, { user: 'katherine' })).id;
    const counts = async () => {
      const { digests } = (await (await fetch(`${rig.gateway.url}/api/digests?top=count`)).json()) as DigestList;
      return digests.map(({ figures }) => figures.queries).join();
    };
    await until(async () => (await counts()) === '3,1', 'the figures of all queries');
  });
  afterAll(async () => await rig?.[Symbol.asyncDispose]());

  test('shows the shapes of statements, and one of them with its queries; a query links to its shape', async () => {
    await using window = await openWindow(`${rig.pages}/workload?top=count`);
    const { page } = window;
    const row = page.getByRole('table', { name: 'Statements' }).getByRole('row').nth(1);
    await expect.poll(() => row.textContent()).toContain('SELECT name FROM tpch.tiny.nation WHERE nationkey = ?3 new');
    await expectSoundInBothWidths(window);
    await row.getByRole('link').click();
    await page.getByRole('heading', { level: 1, name: /^Statement [0-9a-f]{16}$/ }).waitFor();
    const rows = (name: string) => page.getByRole('table', { name }).getByRole('row').allTextContents();
    expect(await rows('User')).toEqual(['UserQueries', 'grace2', 'katherine1']);
    expect(await rows('Latest queries')).toHaveLength(4);
    await expectSoundInBothWidths(window);
    await page.getByRole('link', { name: latest }).click();
    await page.getByRole('link', { name: /^[0-9a-f]{16}$/ }).click();
    await page.getByRole('heading', { level: 1, name: /^Statement/ }).waitFor();
  });

  test('lists quarantined statements, and releases one', async () => {
    const lost = { group: 'adhoc', user: 'ann', qualifier: 'c.s', digest: '00000000000000d1' };
    const database = { jdbcUrl: `jdbc:sqlite:${rig.database}` };
    const store = await openStore({ ...database, runMigrations: false, logger: pino({ level: 'silent' }) });
    for (const cluster of ['a', 'b'])
      await store.quarantine.note({ ...lost, exactDigest: '00000000000000e1', cluster, queryId: `of ${cluster}` });
    await store.close();
    await using window = await openWindow(`${rig.pages}/workload`);
    const { page } = window;
    const row = page.getByRole('table', { name: 'Quarantined statements' }).getByRole('row').nth(1);
    await expect.poll(() => row.textContent()).toMatch(/^00000000000000e1adhoca, bann.*Release$/);
    await expectSoundInBothWidths(window);
    await row.getByRole('button', { name: 'Release 00000000000000e1' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Release' }).click();
    await page.getByText('00000000000000e1 is accepted again.').waitFor();
    await expect.poll(() => row.count()).toBe(0);
  });

  test('compares expected sizes with what ran, for other borders as well', async () => {
    await using window = await openWindow(`${rig.pages}/workload?until=${Date.now() + 60_000}`);
    const { page } = window;
    const rows = () => page.getByRole('table', { name: 'Expected sizes' }).getByRole('row').allTextContents();
    const none = ['S', 'M', 'L'].map((name) => `${name}000–`);
    await expect.poll(rows).toEqual(['ExpectedWas SWas MWas LAs expected', ...none, 'Not known400–']);
    await page.getByText('By duration: M from 10.0 s, L from 2 min 0 s.').waitFor();
    await page.getByLabel('Class M from (s)').fill('0.001');
    await page.getByLabel('Class L from (s)').fill('0.002');
    await page.getByRole('button', { name: 'Filter', exact: true }).click();
    await page.getByText('By duration: M from 1 ms, L from 2 ms.').waitFor();
    await expectSoundInBothWidths(window);
    await page.getByLabel('Class L from (s)').fill('0');
    await page.getByRole('button', { name: 'Filter', exact: true }).click();
    await page.getByText('Must be more than "Class M from".').waitFor();
  });

  test('rejects a statement after its impact was shown', async () => {
    await using window = await openWindow(`${rig.pages}/workload?top=count`);
    const { page } = window;
    await page.getByRole('table', { name: 'Statements' }).getByRole('link').first().click();
    await page.getByRole('button', { name: 'Reject this query' }).click();
    const dialog = page.getByRole('dialog', { name: 'Add a rule' });
    await dialog.getByText('3 of 4 queries would move').waitFor();
    await dialog.getByRole('button', { name: 'Add', exact: true }).click();
    await dialog.waitFor({ state: 'hidden' });
    const error = async (sql: string) => (await submit(rig.gateway.url, sql, { user: 'ada' })).error?.message;
    await expect.poll(() => error(NATION.replace('7', '99'))).toContain('rejected by the administrators');
    expect(await error('SELECT 2')).toBeUndefined();
  });
});
