import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { runQuery, submit } from '../support/statementClient.ts';
import { canBrowse, openWindow } from './support/browser.ts';
import { expectWithin, stopTime } from './support/pageTime.ts';
import { type Rig, startRig } from './support/rig.ts';
import { expectSound } from './support/soundness.ts';

describe.skipIf(!canBrowse)('the dashboard', () => {
  let rig: Rig;
  beforeAll(async () => {
    rig = await startRig();
    for (let i = 0; i < 12; i += 1) await runQuery(rig.gateway.url, `SELECT ${i}`);
    // No cluster of this group: the default group serves. An unknown query: refused.
    await submit(rig.gateway.url, 'SELECT 1', { headers: { 'X-Engine-Routing-Group': 'etl' } });
    await fetch(`${rig.gateway.url}/v1/statement/executing/20260101_000000_00000_zzzzz/y/1`);
  });
  afterAll(async () => await rig?.[Symbol.asyncDispose]());

  /** Sum of a metric's values. */
  const metric = async (name: string): Promise<number> => {
    const text = await (await fetch(`${rig.gateway.url}/metrics`)).text();
    const lines = text.split('\n').filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `));
    return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' ') + 1)), 0);
  };

  test.each(['light', 'dark'] as const)('its numbers agree with the metrics, %s', async (colorScheme) => {
    await using window = await openWindow(rig.pages, { colorScheme });
    const { page } = window;
    const figure = (name: string) =>
      page
        .locator('dl > *')
        .filter({ has: page.locator('dt', { hasText: name }) })
        .locator('dd');
    await expect.poll(() => figure('Submitted').textContent()).toMatch(/^13/);
    expect(await metric('engine_gateway_statement_submissions_total')).toBe(13);
    const refusals = await metric('engine_gateway_refusals_total');
    expect(refusals).toBeGreaterThan(0);
    await expect.poll(() => figure('Refused').textContent()).toMatch(new RegExp(`^${refusals}requests`));
    expect(await figure('Health').textContent()).toMatch(/^3 of 3 healthy/);
    expect(await figure('Backends').textContent()).toBe('33 active, 0 inactive');
    const shares = page.getByRole('table', { name: 'Distribution of the queries' }).getByRole('row');
    await expect.poll(() => shares.count()).toBe(4);
    const counts = await page
      .getByRole('table', { name: 'Distribution of the queries' })
      .getByRole('cell')
      .allTextContents();
    expect(counts.filter((_, index) => index % 3 === 1).reduce((sum, count) => sum + Number(count), 0)).toBe(13);
    await page.getByText('13 queries; queries per minute').waitFor();
    await page.getByRole('img', { name: /^Queries per minute of/ }).waitFor();
    const state = page.getByRole('region', { name: 'This gateway' });
    await expect
      .poll(() => state.textContent())
      .toMatch(/ready: takes requests.*database: .*leader: .*13 queries written/);
    await expectSound(window);
  });

  test('another range, and a cluster’s way to its queries', async () => {
    await using window = await openWindow(rig.pages, { width: 420 });
    const { page } = window;
    await page.getByRole('radiogroup', { name: 'Range' }).getByText('24 h').click();
    await page.getByText('averaged over 6 minutes').waitFor();
    await expectSound(window);
    await page.getByRole('table', { name: 'Distribution of the queries' }).getByRole('link', { name: 'etl-1' }).click();
    await page.getByText('1 query', { exact: true }).waitFor();
    expect(window.defects).toEqual([]);
  });

  test('a cluster that fails shows within two seconds of the gateway knowing it', async () => {
    await using window = await openWindow(rig.pages, { hasOwnClock: true });
    const { page } = window;
    await page.getByText('3 of 3 healthy').waitFor();
    await stopTime(window);
    rig.engines[0]?.setState({ failing: 503 });
    try {
      await rig.gateway.logged((line) => line.cluster === 'adhoc-1' && /unhealthy/i.test(JSON.stringify(line)));
      await expectWithin(window, 2_000, async () => (await page.getByText('2 of 3 healthy').count()) === 1);
      await page.clock.resume();
      await expectSound(window);
    } finally {
      rig.engines[0]?.setState({ failing: 0 });
    }
  });
});
