import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { stringify } from 'yaml';
import { manifest as resourceManifest } from '../support/manifest.ts';
import { runQuery, submit } from '../support/statementClient.ts';
import { canBrowse, openWindow, type Window } from './support/browser.ts';
import { expectPushed, stopTime } from './support/pageTime.ts';
import { type Rig, startRig } from './support/rig.ts';
import { expectSound, expectSoundInBothSchemes } from './support/soundness.ts';

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

  const figure = (page: Window['page'], name: string) =>
    page
      .locator('dl > *')
      .filter({ has: page.locator('dt', { hasText: name }) })
      .locator('dd');

  test('its numbers are those of the range, on all replicas', async () => {
    await using window = await openWindow(rig.pages);
    const { page } = window;
    await expect.poll(() => figure(page, 'Queries').textContent()).toMatch(/^1[34]in the last hour/);
    expect(await metric('engine_gateway_statement_submissions_total')).toBe(13);
    await expect.poll(() => figure(page, 'Backends').textContent()).toMatch(/^3 of 3 healthy3 active, 0 inactive/);
    await expect.poll(() => figure(page, 'Failed or refused').textContent()).toMatch(/^\d+\.\d %0 failed/);
    const shares = page.getByRole('table', { name: 'Distribution of the queries' }).getByRole('row');
    await expect.poll(() => shares.count()).toBe(4);
    const counts = await page
      .getByRole('table', { name: 'Distribution of the queries' })
      .getByRole('cell')
      .allTextContents();
    expect(counts.filter((_, index) => index % 3 === 1).reduce((sum, count) => sum + Number(count), 0)).toBe(13);
    await page.getByText('13 queries; queries per minute').waitFor();
    const chart = page.getByRole('img', { name: /^Queries per minute of adhoc-[12], / });
    await chart.waitFor();
    // The interval that is not over yet is marked in each chart, and named on it.
    expect(await page.getByText('not over yet', { exact: true }).count()).toBe(3);
    await page.getByRole('region', { name: 'Now' }).getByText('0 backends take no queries').waitFor();
    const box = await chart.boundingBox();
    await chart.hover({ position: { x: (box?.width ?? 0) - 14, y: 100 } });
    await page.getByText(/, not over yet$/).waitFor();
    await page.getByRole('img', { name: /^Queries per minute that failed/ }).waitFor();
    await page.getByRole('img', { name: /^Duration of queries/ }).waitFor();
    const state = page.getByRole('region', { name: 'This gateway' });
    await expect
      .poll(() => state.textContent())
      .toMatch(/ready: takes requests.*database: .*leader: .*13 queries written/);
    await expectSoundInBothSchemes(window);
  });

  test('the range is in the address, says how long queries are kept, and keeps the colours', async () => {
    await using window = await openWindow(rig.pages, { width: 420 });
    const { page } = window;
    await page.getByText('Queries are kept for 30 days.').waitFor();
    const color = () =>
      page
        .getByRole('table', { name: 'Distribution of the queries' })
        .getByRole('row')
        .filter({ hasText: 'etl-1' })
        .locator('div[style]')
        .evaluate((bar) => (bar as unknown as { style: { background: string } }).style.background);
    const before = await color();
    await page.getByRole('radiogroup', { name: 'Range' }).getByText('24 h').click();
    await page.getByText('averaged over 6 minutes').waitFor();
    expect([await color(), new URL(page.url()).searchParams.get('minutes')]).toEqual([before, '1440']);
    await expectSound(window);
    // As long as queries are kept.
    await page.getByRole('radiogroup', { name: 'Range' }).getByText('30 d').click();
    await page.getByText('averaged over 3 hours').waitFor();
    await page.getByText('in the last 30 days').first().waitFor();
    expect([await color(), new URL(page.url()).searchParams.get('minutes')]).toEqual([before, '43200']);
    await expectSound(window);
    await page.getByRole('table', { name: 'Distribution of the queries' }).getByRole('link', { name: 'etl-1' }).click();
    await page.getByText('1 query', { exact: true }).waitFor();
    expect(window.defects).toEqual([]);
  });

  test('ranges that are longer than queries are kept cannot be chosen', async () => {
    await rig.configure({ dataStore: { jdbcUrl: `jdbc:sqlite:${rig.database}`, queryHistoryHoursRetention: 4 } });
    try {
      await using window = await openWindow(rig.pages);
      const { page } = window;
      await expect
        .poll(
          async () => {
            await page.reload();
            await page.getByText(/^Queries are kept for/).waitFor();
            return page.getByRole('radio', { name: '24 h' }).isDisabled();
          },
          { timeout: 30_000, interval: 1_000 },
        )
        .toBe(true);
      await page.getByText('Queries are kept for 4 hours.').waitFor();
      expect(await page.getByRole('radio', { name: '30 d' }).isDisabled()).toBe(true);
      expect(await page.getByRole('radio', { name: '4 h', exact: true }).isDisabled()).toBe(false);
    } finally {
      await rig.configure({ dataStore: { jdbcUrl: `jdbc:sqlite:${rig.database}` } });
    }
  });

  test('a cluster that fails shows as soon as the gateway notices', async () => {
    await using window = await openWindow(rig.pages, { hasOwnClock: true });
    const { page } = window;
    await page.getByText('3 of 3 healthy').first().waitFor();
    await stopTime(window);
    rig.engines[0]?.setState({ failing: 503 });
    try {
      await rig.gateway.logged((line) => line.cluster === 'adhoc-1' && /unhealthy/i.test(JSON.stringify(line)));
      await expectPushed(window, async () => (await page.getByText('2 of 3 healthy').count()) === 1);
      await page.clock.resume();
      await expectSound(window);
    } finally {
      rig.engines[0]?.setState({ failing: 0 });
    }
  });

  test('problems are named with reason and links', async () => {
    await using window = await openWindow(rig.pages, { width: 1280 });
    const { page } = window;
    const verdict = page.getByRole('region', { name: 'Verdict' });
    await verdict.getByText('No problem is known. 3 of 3 backends are healthy.').waitFor();
    expect(await verdict.textContent()).toMatch(/as of \d{4}-\d\d-\d\d \d\d:\d\d:\d\d/);
    expect(await page.getByRole('region', { name: 'Problems' }).count()).toBe(0);
    const manifest = join(rig.manifests, 'lost.yaml');
    const rule = { condition: 'true', routeTo: { routingGroup: 'nowhere' } };
    await writeFile(manifest, stringify(resourceManifest('RoutingRule', 'lost', rule)));
    rig.engines[2]?.setState({ failing: 503 });
    try {
      await verdict.getByText(/^No backend of the routing group etl takes queries, and 2 more problems\.$/).waitFor();
      const items = page.getByRole('region', { name: 'Problems' }).getByRole('listitem');
      expect(await items.count()).toBe(3);
      const down = items.filter({ hasText: 'Backend etl-1 is down' });
      expect(await down.textContent()).toMatch(/since \d{4}-.* \(.* ago\).*503.*Routing groups: etl$/);
      expect(
        await down.getByRole('link').evaluateAll((links) => links.map((link) => link.getAttribute('href'))),
      ).toEqual(['cluster', 'group'].map(() => expect.stringMatching(/^\/engine-gateway\/.*etl/)));
      const group = items.filter({ hasText: 'No backend of the routing group etl' });
      expect(await group.textContent()).toMatch(/its queries go to adhoc, unless a rule says otherwise/);
      await expectSoundInBothSchemes(window);
      await items.getByRole('link', { name: 'Rule lost leads nowhere' }).click();
      await page.getByRole('heading', { level: 1, name: 'Routing Rules' }).waitFor();
    } finally {
      rig.engines[2]?.setState({ failing: 0 });
      await rm(manifest);
    }
    await page.goto(rig.pages);
    await verdict.getByText(/^No problem is known/).waitFor();
  });

  test('resources that the source lost stay routed, and are removed after a question', async () => {
    const declare = async (names: readonly string[]) => {
      const text = names.map((name) =>
        stringify(resourceManifest('RoutingRule', name, { condition: 'false', routeTo: { routingGroup: 'adhoc' } })),
      );
      await writeFile(join(rig.manifests, 'many.yaml'), text.join('---\n'));
    };
    const rules = async () => {
      const response = await fetch(`${rig.gateway.url}/api/rules`);
      return ((await response.json()) as { rules: readonly { name: string }[] }).rules.map(({ name }) => name);
    };
    const all = ['r1', 'r2', 'r3', 'r4', 'r5', 'r6'];
    await declare(all);
    await expect.poll(async () => (await rules()).sort()).toEqual(all);
    await declare(['r1']);
    await using window = await openWindow(rig.pages);
    const { page } = window;
    const problem = page
      .getByRole('region', { name: 'Problems' })
      .getByRole('listitem')
      .filter({ hasText: 'still routed' });
    await problem.getByText(/^RoutingRule \([56]\): .*default\/r2, .*default\/r6/).waitFor();
    await expectSound(window);
    await problem.getByRole('button', { name: 'Remove them' }).click();
    const question = page.getByRole('dialog');
    await question.getByText(/these [56] resources/).waitFor();
    await question.getByRole('button', { name: 'Remove' }).click();
    await page.getByText('The resources are removed.').waitFor();
    await problem.waitFor({ state: 'detached' });
    await expect.poll(rules).toEqual(['r1']);
    // Headers name groups only without rules.
    await rm(join(rig.manifests, 'many.yaml'));
    await expect.poll(rules).toEqual([]);
    expect(window.defects).toEqual([]);
  });

  test('a queue that grows and queries that are refused are named, with where more about them stands', async () => {
    const spec = { maxRunningQueries: 1, queue: { hold: '10ms', maxQueuedQueries: 12 } };
    await writeFile(join(rig.manifests, 'limited.yaml'), stringify(resourceManifest('RoutingGroup', 'etl', spec)));
    const isInForce = async () => {
      const response = await fetch(`${rig.gateway.url}/api/groups/etl`);
      return ((await response.json()) as { inForce: boolean }).inForce;
    };
    await expect.poll(isInForce).toBe(true);
    const headers = { 'X-Engine-Routing-Group': 'etl' };
    const sql = 'SELECT * FROM TABLE(slow(seconds => 600))';
    // One runs, twelve wait, the rest is refused.
    for (let i = 0; i < 20; i += 1) await submit(rig.gateway.url, sql, { headers });
    await using window = await openWindow(rig.pages, { width: 1280 });
    const { page } = window;
    const items = page.getByRole('region', { name: 'Problems' }).getByRole('listitem');
    const named = (title: string) => items.filter({ has: page.getByRole('link', { name: title }) });
    const grows = named('The queue of etl grows');
    await grows.waitFor({ timeout: 30_000 });
    await expect
      .poll(() => grows.textContent())
      .toMatch(/1[12] queries wait, 1[12] more than then.*Routing groups: etl$/);
    const refused = named('Queries for etl are refused');
    await refused.waitFor({ timeout: 30_000 });
    expect(await refused.textContent()).toMatch(/since \d{4}-.*\d+ of \d+ queries were refused in the last 5 minutes/);
    await expectSound(window);
    await refused.getByRole('link', { name: 'Queries for etl are refused' }).click();
    await page.waitForURL(/history\?routingGroup=etl/);
    await page.goBack();
    await grows.getByRole('link', { name: 'The queue of etl grows' }).click();
    await page.waitForURL(/queue\?filter=etl/);
    await page.getByRole('table', { name: 'Queries' }).waitFor();
    expect(window.defects).toEqual([]);
  });
});
