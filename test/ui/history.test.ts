import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { runQuery } from '../support/statementClient.ts';
import { canBrowse, openWindow, type Window } from './support/browser.ts';
import { type Rig, startRig } from './support/rig.ts';
import { expectSound, expectSoundInBothSchemes } from './support/soundness.ts';

const rules = `name: airflow
description: Scheduled jobs go to the etl clusters
priority: 10
condition: request.getHeader("X-Engine-Source") == "airflow" && request.getHeader("X-Engine-Client-Tags") != "now" && request.getRemoteAddr() != null
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
  let groups: string;
  beforeAll(async () => {
    groups = await mkdtemp(join(tmpdir(), 'history-groups-'));
    const path = join(groups, 'groups.txt');
    await writeFile(path, 'pipelines:katherine\n');
    rig = await startRig(
      {
        userMapping: { pattern: '(.*?)(?:@example\\.com)?' },
        userGroups: { claimedUsers: ['header'], file: { path } },
      },
      rules,
    );
    for (let i = 0; i < 30; i += 1)
      await runQuery(rig.gateway.url, `SELECT ${i}`, { user: i % 2 === 0 ? 'ada' : 'grace' });
    const headers = { 'X-Engine-Source': 'airflow', 'X-Engine-Client-Tags': 'nightly' };
    special = (await runQuery(rig.gateway.url, statement, { user: 'katherine@example.com', headers })).id;
  });
  afterAll(async () => {
    await rig?.[Symbol.asyncDispose]();
    await rm(groups, { recursive: true, force: true });
  });

  const table = ({ page }: Window) => page.getByRole('table', { name: 'Queries' });
  const filter = ({ page }: Window, name: string) => {
    const filters = page.getByRole('search');
    return filters.getByRole('textbox', { name }).or(filters.getByRole('combobox', { name }));
  };
  const unfold = async ({ page }: Window) => {
    const all = page.getByRole('button', { name: 'All filters' });
    if ((await all.count()) > 0) await all.click();
  };
  const open = async (search = '') => {
    const window = await openWindow(`${rig.pages}/history${search}`);
    await table(window).waitFor();
    await unfold(window);
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
    expect(await page.getByRole('link', { name: `The engine's page of ${special}` }).getAttribute('href')).toBe(
      `${rig.engines[2]?.url}/ui/query.html?${special}`,
    );
    expect(await table(window).getByRole('row').count()).toBe(26);
    await page.getByRole('button', { name: 'Page 2' }).click();
    await expect.poll(() => table(window).getByRole('row').count()).toBe(7);
    expect(page.url()).toMatch(/\?page=2$/);
    await page.goBack();
    await expect.poll(() => table(window).getByRole('row').count()).toBe(26);
    await expectSound(window);
    await page.goto(`${rig.pages}/history?page=99999`);
    await expect.poll(() => table(window).getByRole('row').count()).toBe(7);
    expect(page.url()).toMatch(/\?page=2$/);
  });

  test('Back leads to the row that was left, as far down the page', async () => {
    await using window = await openWindow(`${rig.pages}/history`);
    const { page } = window;
    await count(window, '31 queries');
    const link = table(window)
      .getByRole('link', { name: /^\d{8}_/ })
      .nth(24);
    const id = (await link.textContent()) ?? '';
    await link.focus();
    await expect.poll(() => page.evaluate('scrollY')).toBeGreaterThan(300);
    const scrolled = await page.evaluate('scrollY');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { level: 1, name: `Query ${id}` }).waitFor();
    expect(await page.evaluate('scrollY')).toBe(0);
    await page.goBack();
    await expect.poll(() => page.evaluate('document.activeElement.textContent')).toBe(id);
    expect(Math.abs(Number(await page.evaluate('scrollY')) - Number(scrolled))).toBeLessThan(50);
    expect(window.defects).toEqual([]);
  });

  test('ids stand on one line; what was typed is cleared as well', async () => {
    await using window = await open();
    const { page } = window;
    const lines = () => page.evaluate(`document.querySelector('td a[href$="${special}"]').getClientRects().length`);
    const mostLines = `Math.max(...[...document.querySelectorAll('td a[href*="/queries/"]')].map((id) => new Set([...id.getClientRects()].map(({ top }) => top)).size))`;
    for (const [width, expected] of [
      [1440, 1],
      [1280, 1],
      [420, 1],
    ] as const) {
      await page.setViewportSize({ width, height: 900 });
      await expect.poll(lines, { message: `${width}` }).toBe(expected);
      if (width >= 1280) expect(await page.evaluate(mostLines), `${width}`).toBe(1);
      await expectSound(window);
    }
    await filter(window, 'User').fill('nobody');
    await page.getByRole('button', { name: 'Clear' }).click();
    expect(await filter(window, 'User').inputValue()).toBe('');
  });

  test('filters by every field, in an address that can be kept', async () => {
    await using window = await open();
    const { page } = window;
    for (const [name, value, total] of [
      ['Backend', 'etl', '1 query'],
      ['User', 'ada', '15 queries'],
      ['Source', 'airf', '1 query'],
      ['Routing group', 'ad', '30 queries'],
      ['Text of the query', 'tpch.TINY', '1 query'],
      ['Text of the query', 'select 2', '11 queries'],
      ['User', 'a%', '0 queries'],
      ['Query id', '2026', '31 queries'],
    ] as const) {
      await count(window, '31 queries');
      await filter(window, name).fill(value);
      await page.keyboard.press('Enter');
      await count(window, total);
      await page.reload();
      await count(window, total);
      await unfold(window);
      expect(await filter(window, name).inputValue()).toBe(value);
      await page.getByRole('button', { name: 'Clear' }).click();
    }
    expect(window.defects).toEqual([]);
  });

  test('rare filters are folded until asked for; values and ranges are one click away', async () => {
    await using window = await openWindow(`${rig.pages}/history`, { width: 420 });
    const { page } = window;
    await count(window, '31 queries');
    expect(await page.getByRole('search').getByRole('textbox').count()).toBe(1);
    const top = await table(window).getByRole('row').nth(1).boundingBox();
    expect(top?.y).toBeLessThan(900);
    await page.getByRole('button', { name: '15 min', exact: true }).click();
    await page.waitForURL(/history\?from=\d{13}$/);
    expect(await filter(window, 'From').inputValue()).toMatch(/^\d{4}-\d\d-\d\dT/);
    await page.goBack();
    await table(window).getByRole('link', { name: 'airflow', exact: true }).click();
    await page.waitForURL(/history\?source=airflow$/);
    await count(window, '1 query');
    await table(window).getByRole('link', { name: 'katherine', exact: true }).click();
    await page.waitForURL(/history\?user=katherine$/);
    await expectSound(window);
    await table(window).getByRole('link', { name: 'etl', exact: true }).click();
    await page.getByRole('heading', { level: 1, name: 'Routing group etl' }).waitFor();
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
    // It ran within the last minutes, maybe of the hour before.
    const hours = [Date.now(), Date.now() - 600_000].map((time) => wall(time).slice(0, 13).replace('T', ' '));
    expect(await table(window).getByRole('row').nth(1).textContent()).toMatch(new RegExp(`^(${hours.join('|')}):`));
    await page.getByLabel(/^To/).fill(wall(Date.now() - 1_800_000));
    await page.getByRole('button', { name: 'Filter' }).click();
    await page.getByText('No query matches the filters.').waitFor();
    await page.getByLabel(/^To/).fill(wall(Date.now() - 7_200_000));
    await page.getByRole('button', { name: 'Filter' }).click();
    await page.getByText('Must be later than "From".').waitFor();
    await expectSound(window);
    // In another zone the same time has another text.
    const from = Date.UTC(2026, 0, 31, 12);
    await page.goto(`${rig.pages}/history?from=${from}`);
    await expect.poll(() => page.getByLabel(/^From/).inputValue()).toBe('2026-01-31T17:45');
    await page.getByRole('button', { name: /^Display/ }).click();
    await page.getByRole('combobox', { name: 'Time zone' }).fill('UTC');
    await page.getByRole('option', { name: 'UTC', exact: true }).click();
    await page.keyboard.press('Escape');
    await expect.poll(() => page.getByLabel(/^From/).inputValue()).toBe('2026-01-31T12:00');
  });

  test('a query has a page: its text to read and copy, when it was where, and why it went there', async () => {
    await using window = await openWindow(`${rig.pages}/history?queryId=${special}`);
    const { page } = window;
    await table(window).getByRole('link', { name: special, exact: true }).click();
    await page.getByRole('heading', { level: 1, name: `Query ${special}` }).waitFor();
    const text = page.getByRole('region', { name: 'Text of the query' });
    expect(await text.textContent()).toBe(statement);
    expect(await text.locator('[data-kind=keyword]').allTextContents()).toEqual(['SELECT', 'FROM']);
    expect(await text.locator('[data-kind=comment]').textContent()).toBe("-- 'quoted' <b>text</b>");
    await page.getByRole('button', { name: 'Copy SQL' }).click();
    await page.getByRole('button', { name: 'SQL copied' }).waitFor();
    expect(await page.evaluate('navigator.clipboard.readText()')).toBe(statement);
    await page
      .getByText('The rule airflow chose the routing group etl. etl-1 was active and healthy, and took the query.')
      .waitFor();
    const trace = page.getByRole('list', { name: 'Rules in firing order' }).getByRole('listitem');
    const values = page.getByRole('list', { name: 'Values' });
    await values.getByText('request.getHeader("X-Engine-Source"): "airflow"').waitFor();
    // Stored with the query: what the condition saw.
    expect(await values.getByText('request.getHeader("X-Engine-Client-Tags"): "nightly"').count()).toBe(1);
    expect(await values.getByText('request.getRemoteAddr(): not stored').count()).toBe(1);
    await page.getByText(/^Decided by what is stored of the request: .* x-engine-client-tags/).waitFor();
    expect(await trace.first().textContent()).toMatch(/^airflowfiredrules file, priority 10routingGroup = etlrequest/);
    const times = page.getByRole('list', { name: 'Timeline' }).getByRole('listitem');
    expect((await times.allTextContents()).join('; ')).toMatch(
      /decided: etl, by the rule airflow\..*\d{4}-\d\d-\d\d \d\d:\d\d:\d\detl-1 had it\./,
    );
    const then = page.getByRole('list', { name: 'Clusters considered then' }).getByRole('listitem');
    expect(await then.allTextContents()).toEqual([
      expect.stringMatching(/^etl-1: chosen, active and healthy; picked: the only one/),
    ]);
    // Each step with its time, to the millisecond until its cluster had it.
    expect((await times.allTextContents()).join('; ')).toMatch(
      /The gateway received it\.; .*analysed\. \d.* after it was received; .*airflow\. \d.* after it was received; .*had it\. \d.* after it was received; /,
    );
    await expect
      .poll(async () => (await times.allTextContents()).join('; '), { timeout: 15_000 })
      .toMatch(/^(?=.*Its client had the first row, after \d)(?=.*It ended after .*: finished\.)/);
    await expectSoundInBothSchemes(window);
    await page.goBack();
    await expect.poll(() => filter(window, 'Query id').inputValue()).toBe(special);
  });

  test('a query shows the name before the mapping and the groups of its user, by which the history is filtered', async () => {
    await using window = await openWindow(`${rig.pages}/queries/${special}`);
    const { page } = window;
    const about = page.getByRole('definition');
    await about.getByText('katherine@example.com', { exact: true }).waitFor();
    expect(await page.getByRole('term').allTextContents()).toEqual(
      expect.arrayContaining(['User', 'Name before mapping', 'Groups: file']),
    );
    await expectSound(window);
    await about.getByRole('link', { name: 'pipelines' }).click();
    await expect.poll(() => filter(window, 'Member of').inputValue()).toBe('pipelines');
    await expect.poll(() => table(window).getByRole('row').count()).toBe(2);
    expect(await table(window).getByRole('row').nth(1).textContent()).toMatch(/etl-1etlkatherineairflowSELECT name/);
    await filter(window, 'Member of').fill('nobody');
    await page.getByRole('button', { name: 'Filter' }).click();
    await page.getByText('There are no earlier queries.').waitFor();
    expect(await table(window).getByRole('row').count()).toBeLessThan(3);
    await expectSound(window);
  });

  test('what would be decided now is compared with what was decided', async () => {
    await using window = await openWindow(`${rig.pages}/queries/${special}`);
    const { page } = window;
    await page.getByText('The same as then.').waitFor();
    const considered = page.getByRole('list', { name: 'Clusters considered' });
    await considered.getByText('etl-1: may take it, active and healthy').waitFor();
    await writeFile(rig.rulesFile, rules.replaceAll('airflow', 'dbt'));
    const otherwise = page.getByRole('table', { name: 'What is otherwise now' });
    await expect
      .poll(
        async () => {
          await page.getByRole('button', { name: 'Decide again now' }).click();
          return await otherwise.getByRole('row').allTextContents();
        },
        { timeout: 20_000, interval: 500 },
      )
      .toEqual([
        'WhatThenNow',
        'Routing groupetladhoc',
        'Decided bythe rule airflowdefault',
        'Clusteretl-1adhoc-1 or adhoc-2',
        'Rule airflowfired, routingGroup = etlwas not there, or did not match',
      ]);
    await expectSound(window);
    await writeFile(rig.rulesFile, rules);
    await page.goto(`${rig.pages}/queries/20260101_000000_00000_nobod`);
    await page.getByText('No query of this id is in the history that you may see.').waitFor();
    await expectSound(window);
  });

  test('clusters that share an address are distinguished by the stored name', async () => {
    const shared = { name: 'adhoc-twin', proxyTo: rig.engines[0]?.url, active: true, routingGroup: 'twin' };
    const headers = { 'Content-Type': 'application/json' };
    const add = { method: 'POST', headers, body: JSON.stringify(shared) };
    expect((await fetch(`${rig.gateway.url}/gateway/backend/modify/add`, add)).status).toBe(200);
    await using window = await open('?routingGroup=adhoc&user=ada');
    await count(window, '15 queries');
    const cells = await table(window).getByRole('row').nth(1).getByRole('cell').allTextContents();
    expect(['adhoc-1', 'adhoc-2']).toContain(cells[3]);
    await fetch(`${rig.gateway.url}/gateway/backend/modify/delete`, { method: 'POST', body: 'adhoc-twin' });
  });

  test('how queries ended stands beside them, and can be filtered by', async () => {
    const { id } = await runQuery(rig.gateway.url, 'SELECT * FROM tpch.tiny.planets', { user: 'margaret' });
    await using window = await open('?user=marg');
    const { page } = window;
    const row = table(window).getByRole('row').filter({ hasText: id });
    await expect
      .poll(async () => {
        await page.getByRole('button', { name: 'Read the history again' }).click();
        return (await row.count()) === 0 ? '' : await row.textContent();
      })
      .toContain('failedTABLE_NOT_FOUND');
    await page.getByRole('button', { name: 'Clear' }).click();
    await count(window, '32 queries');
    await page.getByRole('combobox', { name: 'Outcome' }).selectOption('failed');
    await page.getByRole('button', { name: 'Filter' }).click();
    await expect.poll(() => table(window).getByRole('row').count()).toBe(2);
    await row.waitFor();
    await page.getByText('There are no earlier queries.').waitFor();
    await page.reload();
    await row.waitFor();
    expect(page.url()).toContain('state=FAILED');
    expect(await page.getByRole('combobox', { name: 'Outcome' }).inputValue()).toBe('FAILED');
    await expectSound(window);
    for (const format of ['csv', 'json']) {
      const [file] = await Promise.all([
        page.waitForEvent('download'),
        page.getByRole('link', { name: `Export as ${format.toUpperCase()}` }).click(),
      ]);
      expect(file.suggestedFilename()).toBe(`queries.${format}`);
      const text = await readFile(await file.path(), 'utf8');
      const rows = format === 'csv' ? text.trim().split('\n').slice(1) : (JSON.parse(text) as object[]);
      expect(rows).toHaveLength(1);
      expect(text).toContain(id);
    }
    await filter(window, 'User').fill('ada');
    await page.keyboard.press('Enter');
    await page.getByText('No query matches the filters.').waitFor();
  });
});
