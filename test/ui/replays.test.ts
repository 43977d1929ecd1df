import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { until } from '../support/gateway.ts';
import { runQuery } from '../support/statementClient.ts';
import { basic } from '../support/world.ts';
import { canBrowse, openWindow } from './support/browser.ts';
import { logIn } from './support/login.ts';
import { formAccess, type Rig, startRig } from './support/rig.ts';
import { expectReadable, expectSoundInBothWidths } from './support/soundness.ts';

const asAda = basic('ada', 'ada');
const SAME = 'SELECT name FROM tpch.tiny.nation WHERE nationkey = 7';
const MISSING = 'SELECT n FROM memory.default.numbers';

describe.skipIf(!canBrowse)('Replays', () => {
  let rig: Rig;
  beforeAll(async () => {
    rig = await startRig(formAccess());
    await fetch(`${rig.gateway.url}/gateway/backend/deactivate/adhoc-2`, { method: 'POST', headers: asAda });
    // Only the control has the table.
    await runQuery(rig.engines[0]?.url ?? '', 'CREATE TABLE memory.default.numbers AS SELECT 1 AS n', { user: 'ada' });
    const ids: string[] = [];
    for (const sql of [SAME, SAME.replace('7', '8'), MISSING])
      ids.push((await runQuery(rig.gateway.url, sql, { user: 'grace' })).id);
    const hasEnded = async (id: string) => {
      const response = await fetch(`${rig.gateway.url}/api/queries/${id}`, { headers: asAda });
      return response.ok && ((await response.json()) as { outcome: unknown }).outcome !== null;
    };
    await until(async () => (await Promise.all(ids.map(hasEnded))).every(Boolean), 'the queries in the history');
  });
  afterAll(async () => await rig?.[Symbol.asyncDispose]());

  test('an administrator starts replays and reads a report', async () => {
    await using window = await openWindow(`${rig.pages}/replays`);
    await logIn(window, 'ada');
    const { page } = window;
    await page.getByText('There is no replay.').waitFor();
    const form = page.getByRole('dialog', { name: 'New replay' });
    const start = form.getByRole('button', { name: 'Start' });
    await page.getByRole('button', { name: 'New replay' }).click();
    await start.click();
    await form.getByText('This field is required.').first().waitFor();
    await page.keyboard.press('Escape');
    /** Fills the form of a replay, with one more field. */
    const fillNew = async (replay: string, label: string, value: string) => {
      await page.getByRole('button', { name: 'New replay' }).click();
      await form.getByRole('textbox', { name: 'Name', exact: true }).fill(replay);
      for (const [field, name] of [
        ['Control', 'adhoc-1'],
        ['Candidate', 'adhoc-2'],
      ] as const) {
        await form.getByRole('combobox', { name: field }).click();
        await page.getByRole('option', { name, exact: true }).click();
      }
      await form.getByLabel('Or its user name').fill('replay');
      await form.getByLabel(label).fill(value);
      await start.click();
    };
    await fillNew('upgrade', 'Queries of the last', 'soon');
    await form.getByText(/must be a duration/).waitFor();
    await expectReadable(window);
    await form.getByLabel('Queries of the last').fill('1h');
    await start.click();
    await form.waitFor({ state: 'hidden' });
    const row = page.getByRole('table', { name: 'Replays' }).getByRole('row').filter({ hasText: 'default/upgrade' });
    await expect.poll(() => row.textContent(), { timeout: 90_000 }).toContain('not verified');
    expect(await row.textContent()).toMatch(/done, 3 of 3 queries.*1 failed on the candidate, 2 same/);
    await expectSoundInBothWidths(window);
    await row.getByRole('link', { name: 'default/upgrade' }).click();
    await page.getByRole('heading', { level: 1, name: 'Replay default/upgrade' }).waitFor();
    const verdicts = page.getByRole('table', { name: 'Verdicts' }).getByRole('row');
    await expect.poll(() => verdicts.count()).toBe(3);
    // The control's error is left of the candidate's.
    const cells = await verdicts.nth(1).getByRole('cell').allTextContents();
    expect(cells[0]).toBe('failed on the candidate');
    expect(cells[3]).not.toContain('TABLE_NOT_FOUND');
    expect(cells[4]).toContain('TABLE_NOT_FOUND');
    expect(await verdicts.nth(2).textContent()).toMatch(/^same.*1 equal rows/);
    await page.getByText('100 % of these queries, 100 % of their CPU time').waitFor();
    await expectSoundInBothWidths(window);
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('link', { name: 'Markdown' }).click(),
    ]);
    expect(await new Response(await download.createReadStream()).text()).toContain('not verified');
    await page.goto(`${rig.pages}/replays/default/gone`);
    await page.getByText('There is no replay default/gone.').waitFor();
    await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Replays' }).click();
    await fillNew('live', 'Or percent of live reads', '50');
    await page.getByRole('row').filter({ hasText: 'default/live' }).filter({ hasText: 'running' }).waitFor();
    expect(window.defects).toEqual([]);
  });

  test('a replay is stopped and continued; users without ADMIN see its progress, without users and buttons', async () => {
    // No cluster has the name: it waits.
    const spec = { control: 'adhoc-1', candidate: 'nowhere', from: { history: {} }, replayAs: { username: 'replay' } };
    const put = await fetch(`${rig.gateway.url}/api/replays/default/waits`, {
      ...{ method: 'PUT', headers: { ...asAda, 'content-type': 'application/json' } },
      body: JSON.stringify(spec),
    });
    expect(put.status).toBe(200);
    {
      await using window = await openWindow(`${rig.pages}/replays/default/waits`);
      await logIn(window, 'ada');
      const { page } = window;
      for (const [action, next] of [
        ['Stop', 'Continue'],
        ['Continue', 'Stop'],
      ] as const) {
        await page.getByRole('button', { name: action, exact: true }).click();
        await page.getByRole('dialog').getByRole('button', { name: action, exact: true }).click();
        await page.getByRole('button', { name: next, exact: true }).waitFor();
      }
      await page.getByText('there is no cluster nowhere').first().waitFor();
      await expectReadable(window);
    }
    await using window = await openWindow(`${rig.pages}/replays`);
    await logIn(window, 'ursula');
    const { page } = window;
    await page.getByRole('link', { name: 'default/waits' }).click();
    await page.getByText('Only administrators see the report, as it names users.').waitFor();
    expect(await page.getByRole('main').getByRole('button').count()).toBe(0);
    await page.goto(`${rig.pages}/replays?new=`);
    await page.getByText('A replay cannot be changed here').waitFor();
    expect(await page.getByRole('dialog').count()).toBe(0);
    await expectReadable(window);
  });
});
