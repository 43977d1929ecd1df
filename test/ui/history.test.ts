import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { runQuery } from '../support/statementClient.ts';
import { canBrowse, openWindow, type Window } from './support/browser.ts';
import { type Rig, startRig } from './support/rig.ts';
import { expectSound } from './support/soundness.ts';

const rules = `name: airflow
description: Scheduled jobs go to the etl clusters
priority: 10
condition: request.getHeader("X-Engine-Source") == "airflow"
actions:
  - result.put("routingGroup", "etl")
---
name: never
description: Matches nothing
priority: 20
condition: "false"
actions:
  - result.put("routingGroup", "none")
`;

const statement = "SELECT name\n  FROM tpch.tiny.nation -- 'quoted' <b>text</b>";

describe.skipIf(!canBrowse)('Query History', () => {
  let rig: Rig;
  let special: string;
  beforeAll(async () => {
    rig = await startRig({}, rules);
    for (let i = 0; i < 30; i += 1)
      await runQuery(rig.gateway.url, `SELECT ${i}`, { user: i % 2 === 0 ? 'ada' : 'grace' });
    const headers = { 'X-Engine-Source': 'airflow' };
    special = (await runQuery(rig.gateway.url, statement, { user: 'katherine', headers })).id;
  });
  afterAll(async () => await rig?.[Symbol.asyncDispose]());

  const table = ({ page }: Window) => page.getByRole('table', { name: 'Queries' });
  const filter = ({ page }: Window, name: string) => {
    const filters = page.getByRole('search');
    return filters.getByRole('textbox', { name }).or(filters.getByRole('combobox', { name }));
  };
  const open = async (search = '') => {
    const window = await openWindow(`${rig.pages}/history${search}`);
    await table(window).waitFor();
    return window;
  };
  /** Waits until the history's rows are as many. */
  const count = async ({ page }: Window, total: string) => await page.getByText(total, { exact: true }).waitFor();

  test('pages through all queries, newest first, with their cluster and the link to the engine', async () => {
    await using window = await open();
    const { page } = window;
    await count(window, '31 queries');
    const first = table(window).getByRole('row').nth(1);
    expect(await first.textContent()).toMatch(/etl-1etlkatherineairflowSELECT name/);
    expect(await page.getByRole('link', { name: special }).getAttribute('href')).toBe(
      `${rig.engines[2]?.url}/ui/query.html?${special}`,
    );
    expect(await table(window).getByRole('row').count()).toBe(26);
    await page.getByRole('button', { name: 'Page 2' }).click();
    await expect.poll(() => table(window).getByRole('row').count()).toBe(7);
    expect(page.url()).toMatch(/\?page=2$/);
    await page.goBack();
    await expect.poll(() => table(window).getByRole('row').count()).toBe(26);
    await expectSound(window);
  });

  test('filters by every field, in an address that can be kept', async () => {
    await using window = await open();
    const { page } = window;
    for (const [name, value, total] of [
      ['Backend', 'etl-1', '1 query'],
      ['User', 'ada', '15 queries'],
      ['Source', 'airflow', '1 query'],
      ['Routing group', 'adhoc', '30 queries'],
      ['Text of the query', 'tpch.TINY', '1 query'],
      ['Text of the query', 'select 2', '11 queries'],
      ['User', 'nobody', '0 queries'],
    ] as const) {
      await count(window, '31 queries');
      await filter(window, name).fill(value);
      await page.keyboard.press('Enter');
      await count(window, total);
      await page.reload();
      await count(window, total);
      expect(await filter(window, name).inputValue()).toBe(value);
      await page.getByRole('button', { name: 'Clear' }).click();
    }
    expect(window.defects).toEqual([]);
  });

  test('filters by query id and by time, in the time zone that was chosen', async () => {
    await using window = await open(`?queryId=${special}`);
    const { page } = window;
    await count(window, '1 query');
    await page.getByRole('button', { name: 'Clear' }).click();
    await count(window, '31 queries');
    await page.getByRole('button', { name: 'Display: UTC' }).click();
    await page.getByRole('combobox', { name: 'Time zone' }).fill('Kat');
    await page
      .getByRole('option', { name: 'Asia/Kathmandu' })
      .or(page.getByRole('option', { name: 'Asia/Katmandu' }))
      .click();
    await page.keyboard.press('Escape');
    // 5 h 45 min ahead: a query of now lies later on the clocks there than any of UTC.
    const wall = (time: number) => new Date(time + 345 * 60_000).toISOString().slice(0, 16);
    await page.getByLabel(/^From/).fill(wall(Date.now() - 3_600_000));
    await page.getByLabel(/^To/).fill(wall(Date.now() + 120_000));
    // As many queries as before: that the filter is in force shows by what is asked.
    const filterRequest = page.waitForRequest((request) => /"from":\d/.test(request.postData() ?? ''));
    await page.getByRole('button', { name: 'Filter' }).click();
    await filterRequest;
    await count(window, '31 queries');
    expect(await table(window).getByRole('row').nth(1).textContent()).toContain(
      wall(Date.now()).slice(0, 13).replace('T', ' '),
    );
    await page.getByLabel(/^To/).fill(wall(Date.now() - 1_800_000));
    await page.getByRole('button', { name: 'Filter' }).click();
    await page.getByText('No query matches the filters.').waitFor();
    await page.getByLabel(/^To/).fill(wall(Date.now() - 7_200_000));
    await page.getByRole('button', { name: 'Filter' }).click();
    await page.getByText('Must be later than "From".').waitFor();
    await expectSound(window);
  });

  test.each(['light', 'dark'] as const)(
    'shows the text to read and copy, and why the query went there, %s',
    async (colorScheme) => {
      await using window = await openWindow(`${rig.pages}/history?queryId=${special}`, { colorScheme });
      const { page } = window;
      await page.getByRole('button', { name: `Show query ${special}` }).click();
      const dialog = page.getByRole('dialog', { name: `Query ${special}` });
      expect(await dialog.getByRole('region', { name: 'SQL' }).textContent()).toBe(statement);
      await dialog.getByRole('button', { name: 'Copy SQL' }).click();
      await dialog.getByRole('button', { name: 'SQL copied' }).waitFor();
      expect(await page.evaluate('navigator.clipboard.readText()')).toBe(statement);
      await expectSound(window);
      await dialog.getByRole('tab', { name: 'Why it went there' }).click();
      await dialog
        .getByText('The rule airflow chose the routing group etl. etl-1 was active and healthy, and took the query.')
        .waitFor();
      const trace = dialog.getByRole('list', { name: 'Rules in firing order' }).getByRole('listitem');
      expect(await trace.allTextContents()).toEqual([
        'airflowfiredrules file, priority 10routingGroup = etl',
        'neverdid not matchrules file, priority 20',
      ]);
      await expectSound(window);
      await page.keyboard.press('Escape');
      await dialog.waitFor({ state: 'detached' });
    },
  );

  test('clusters that share an address are distinguished by the stored name', async () => {
    const shared = { name: 'adhoc-twin', proxyTo: rig.engines[0]?.url, active: true, routingGroup: 'twin' };
    const headers = { 'Content-Type': 'application/json' };
    const add = { method: 'POST', headers, body: JSON.stringify(shared) };
    expect((await fetch(`${rig.gateway.url}/gateway/backend/modify/add`, add)).status).toBe(200);
    await using window = await open('?routingGroup=adhoc&user=ada');
    await count(window, '15 queries');
    const cells = await table(window).getByRole('row').nth(1).getByRole('cell').allTextContents();
    expect(['adhoc-1', 'adhoc-2']).toContain(cells[2]);
    await fetch(`${rig.gateway.url}/gateway/backend/modify/delete`, { method: 'POST', body: 'adhoc-twin' });
  });
});
