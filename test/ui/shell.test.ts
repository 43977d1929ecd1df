import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { stringify } from 'yaml';
import { version } from '../../src/model/version.ts';
import { until } from '../support/gateway.ts';
import { manifest } from '../support/manifest.ts';
import { cancel, runQuery, submit } from '../support/statementClient.ts';
import { canBrowse, openWindow } from './support/browser.ts';
import { type Rig, startRig } from './support/rig.ts';
import { expectReadable, expectSound } from './support/soundness.ts';

/**
 * Streams of events by the clock of the page, which runs faster than the gateway's: one says the versions at first, and beats every
 * two seconds, as the gateway's do.
 */
const streamsByPageTime = `window.EventSource = class extends EventTarget {
  static CONNECTING = 0;
  static OPEN = 1;
  static CLOSED = 2;
  readyState = 1;
  constructor(url) {
    super();
    window.openStreams = (window.openStreams ?? 0) + 1;
    const topics = new URL(url, location.href).searchParams.get('topics').split(',');
    const data = JSON.stringify(Object.fromEntries(topics.map((topic) => [topic, 1])));
    setTimeout(() => this.dispatchEvent(new MessageEvent('versions', { data })), 1);
    this.beats = setInterval(() => this.dispatchEvent(new MessageEvent('beat', { data: '' })), 2000);
  }
  close() {
    this.readyState = 2;
    window.openStreams -= 1;
    clearInterval(this.beats);
  }
};`;

const rules = `name: airflow
description: Scheduled jobs
priority: 10
condition: request.getHeader("X-Engine-Source") == "airflow"
actions:
  - result.put("routingGroup", "etl")
---
name: nowhere
priority: 20
condition: engineQueryProperties.getTables().size() > 2
actions:
  - result.put("routingGroup", "none")
`;

const press = (name: string | RegExp) => (page: Page) => page.getByRole('button', { name }).first().click();
const dialogOf = (page: Page) => page.getByRole('dialog').waitFor();

/** Pages and dialogs: the address, what is done there, and what shows then. */
const places: readonly (readonly [
  name: string,
  address: string,
  act: ((page: Page) => Promise<unknown>) | null,
  isThere: (page: Page) => Promise<unknown>,
])[] = [
  ['Dashboard', '', null, (page) => page.getByRole('heading', { level: 2 }).first().waitFor()],
  ['Active Backends', 'clusters', null, (page) => page.getByRole('switch', { name: /^etl-1/ }).waitFor()],
  ['details of a backend', 'clusters?details=adhoc-2', null, dialogOf],
  ['adding a backend', 'clusters', press('Add a backend'), dialogOf],
  ['changing a backend', 'clusters?edit=adhoc-1', null, dialogOf],
  ['a backend', 'clusters/etl-1', null, (page) => page.getByText('All that is declared is in force.').waitFor()],
  ['a backend that is off', 'clusters/adhoc-2', null, (page) => page.getByText('No query left').waitFor()],
  ['no such backend', 'clusters/gone', null, (page) => page.getByRole('link', { name: 'To all backends' }).waitFor()],
  ['a routing group', 'groups/adhoc', null, (page) => page.getByRole('switch', { name: /^adhoc-2/ }).waitFor()],
  ['deleting a backend', 'clusters', press('Delete adhoc-1'), dialogOf],
  ['Query History', 'history', null, (page) => page.getByRole('cell', { name: 'airflow' }).waitFor()],
  ['no query', 'history?user=nobody', null, (page) => page.getByText('No query matches the filters.').waitFor()],
  ['a query', 'queries/QUERY', null, (page) => page.getByRole('list', { name: 'Values' }).first().waitFor()],
  ['no such query', 'queries/1', null, (page) => page.getByText(/^No query of this id/).waitFor()],
  ['Routing Rules', 'routing-rules', null, (page) => page.getByText('leads nowhere').waitFor()],
  ['a new rule', 'routing-rules?new=', null, dialogOf],
  [
    'impact of an edit',
    'routing-rules?rule=airflow',
    async (page) => {
      await page.getByRole('dialog').getByLabel('Condition').fill('false');
      await page.getByRole('button', { name: 'What would move?' }).click();
    },
    (page) => page.getByRole('region', { name: 'By user' }).waitFor(),
  ],
  ['trying a request', 'routing-rules', press('Where would it go?'), (page) => page.getByText('routed').waitFor()],
  ['Replays', 'replays', null, (page) => page.getByText('There is no replay.').waitFor()],
  ['a new replay', 'replays?new=', null, dialogOf],
  [
    'no such replay',
    'replays/default/gone',
    null,
    (page) => page.getByText('There is no replay default/gone.').waitFor(),
  ],
  ['Limits', 'limits', null, (page) => page.getByText('sources superset').waitFor()],
  ['Queue', 'queue', null, (page) => page.getByText('No query waits.').waitFor()],
  ['Resource Groups', 'resource-groups', null, (page) => page.getByText('runs 40').waitFor()],
  ['a resource group', 'resource-groups', press('Edit global'), dialogOf],
  ['a selector', 'resource-groups', press('Add a selector of global'), dialogOf],
  [
    'Audit',
    'audit',
    null,
    (page) =>
      page
        .getByRole('cell', { name: /adhoc-2/ })
        .first()
        .waitFor(),
  ],
  ['a change', 'audit?kind=EngineCluster', press(/: difference of EngineCluster/), dialogOf],
  ['Search', 'limits', (page) => page.keyboard.press('Control+k'), dialogOf],
  ['Display', 'limits', press(/^Display/), dialogOf],
  ['User', 'limits', press(/^User/), dialogOf],
  ['no page', 'nowhere', null, (page) => page.getByRole('link', { name: 'To the first page' }).waitFor()],
];

/** How wide a window may be: in one width a place is light, in the other dark. */
const widths = [420, 1280] as const;

describe.skipIf(!canBrowse)('the shell of the pages', () => {
  let rig: Rig;
  /** Id of a query that failed. */
  let query: string;
  beforeAll(async () => {
    rig = await startRig({ requestAnalyzerConfig: { analyzeRequest: true } }, rules);
    const resource = (kind: string, name: string, spec: object) => stringify(manifest(kind, name, spec));
    const limit = resource('QueryLimit', 'dashboards', {
      match: { sources: [{ value: 'superset' }] },
      per: 'All',
      maxRunningQueries: 20,
    });
    const mistakes = [
      resource('QueryLimit', 'mistaken', { match: 1 }),
      resource('RoutingGroup', 'odd', { fallbacks: 'x' }),
    ];
    await writeFile(join(rig.manifests, 'limit.yaml'), [limit, ...mistakes].join('---\n'));
    const user = 'katherine.johnson@analytics.example.com';
    query = (
      await runQuery(rig.gateway.url, 'SELECT * FROM tpch.tiny.planets', {
        user,
        headers: { 'X-Engine-Source': 'airflow' },
      })
    ).id;
    await fetch(`${rig.gateway.url}/gateway/backend/deactivate/adhoc-2`, { method: 'POST' });
    const group = { name: 'global', softMemoryLimit: '80%', hardConcurrencyLimit: 40, maxQueued: 100 };
    await fetch(`${rig.gateway.url}/engine/resourcegroup/create`, { method: 'POST', body: JSON.stringify(group) });
    const isStored = async () => (await fetch(`${rig.gateway.url}/api/queries/${query}`)).ok;
    await until(isStored, 'the query to be in the history');
  });
  afterAll(async () => await rig?.[Symbol.asyncDispose]());

  test('every page can be reached by the menu', async () => {
    await using window = await openWindow(rig.pages);
    const { page } = window;
    const menu = page.getByRole('navigation', { name: 'Pages' }).getByRole('link');
    await menu.first().waitFor();
    expect(await page.getByRole('contentinfo').textContent()).toBe(`Engine Gateway ${version}`);
    for (const link of await menu.all()) {
      const name = await link.textContent();
      await link.click();
      await page.getByRole('heading', { level: 1, name: name ?? '' }).waitFor();
      await expect.poll(() => page.title()).toBe(`${name} · Engine Gateway`);
    }
    expect(window.defects).toEqual([]);
  });

  test.each([0, 1])(
    'pages and dialogs can be used by everybody, narrow and wide, light and dark (%i)',
    async (half) => {
      await using window = await openWindow(rig.pages);
      const { page } = window;
      for (const [name, address, act, isThere] of places.filter((_, index) => index % 2 === half)) {
        for (const [turn, width] of widths.entries()) {
          await page.setViewportSize({ width, height: 900 });
          await page.emulateMedia({ colorScheme: turn === half ? 'light' : 'dark', reducedMotion: 'reduce' });
          if (turn === 0) {
            await page.goto(`${rig.pages}/${address.replace('QUERY', query)}`);
            await page.getByRole('heading', { level: 1 }).waitFor();
            await act?.(page);
          }
          await isThere(page);
          await expectReadable(window, `${name}, ${width} pixels wide`);
        }
      }
    },
  );

  test('a page that nobody touches makes at most 18 requests a minute', async () => {
    await using window = await openWindow('about:blank', { hasOwnClock: true });
    const { page, context, waiting } = window;
    await context.addInitScript(streamsByPageTime);
    await page.goto(rig.pages);
    const menu = page.getByRole('navigation', { name: 'Pages' }).getByRole('link');
    await menu.first().waitFor();
    const paths = await menu.evaluateAll((links) => links.map((link) => link.getAttribute('href') ?? ''));
    expect(paths.length).toBeGreaterThan(7);
    // Beside adhoc-2, which runs nothing, one that still runs a query.
    const headers = { 'X-Engine-Source': 'airflow' };
    const { nextUri = '' } = await submit(rig.gateway.url, 'SELECT 1', { headers });
    await fetch(`${rig.gateway.url}/gateway/backend/deactivate/etl-1`, { method: 'POST' });
    await using _ = {
      [Symbol.asyncDispose]: async () => {
        await cancel(nextUri);
        await fetch(`${rig.gateway.url}/gateway/backend/activate/etl-1`, { method: 'POST' });
      },
    };
    const others = [
      ['clusters/adhoc-2', 'No query left'],
      ['clusters/etl-1', 'Draining, 1 left'],
      ['groups/adhoc', 'No query left'],
      ['groups/etl', 'Draining, 1 left'],
      [`queries/${query}`, 'TABLE_NOT_FOUND'],
      ['queries/1', 'No query of this id'],
      ['clusters?details=adhoc-2', 'Last check'],
      ['routing-rules?rule=airflow', 'Condition'],
    ] as const;
    let requests = 0;
    page.on('request', () => {
      requests += 1;
    });
    const counts: Record<string, number> = {};
    const idle = [
      ...paths.map((path) => [path, null] as const),
      ...others.map(([path, text]) => [`${rig.pages}/${path}`, text] as const),
    ];
    for (const [path, text] of idle) {
      await page.goto(new URL(path, rig.pages).href);
      await page.getByRole('heading', { level: 1 }).waitFor();
      if (text !== null) await page.getByText(text).first().waitFor();
      await expect.poll(waiting).toBe(0);
      // The first event of the stream belongs to the opening of the page.
      await page.clock.runFor(2_000);
      await expect.poll(waiting).toBe(0);
      requests = 0;
      const now = () => page.evaluate('Date.now()').then(Number);
      const begun = await now();
      let passed = 0;
      while (passed < 60_000) {
        await page.clock.runFor(2_000);
        await expect.poll(waiting, { interval: 5 }).toBe(0);
        passed = (await now()) - begun;
      }
      // The gateway ends a stream each minute, and the browser opens another one.
      counts[path] = Math.ceil((requests * 60_000) / passed) + Number(await page.evaluate('window.openStreams ?? 0'));
    }
    expect(Object.entries(counts).filter(([, count]) => count > 18)).toEqual([]);
    expect(Object.values(counts).every((count) => count > 0)).toBe(true);
  });

  test('the search leads to backends, groups and pages by the keyboard alone, and gives the focus back', async () => {
    await using window = await openWindow(`${rig.pages}/history`);
    const { page } = window;
    const button = page.getByRole('button', { name: 'Search', exact: true });
    await button.focus();
    await page.keyboard.press('Enter');
    const dialog = page.getByRole('dialog', { name: 'Search' });
    const field = dialog.getByRole('textbox', { name: 'Search' });
    const options = dialog.getByRole('option');
    await expect.poll(() => options.allTextContents()).toContain('Routing Rules');
    await field.fill('etl');
    await expect
      .poll(() => options.allTextContents())
      .toEqual(['etl-1etl, healthy', 'etl', 'Queries whose text has “etl”']);
    await expectSound(window);
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
    await expect.poll(() => page.evaluate('document.activeElement.textContent')).toMatch(/^Search/);

    await page.keyboard.press('Control+k');
    await field.fill('etl');
    await dialog.getByRole('option', { name: 'etl-1' }).waitFor();
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { level: 1, name: 'Backend etl-1' }).waitFor();
    expect(page.url()).toBe(`${rig.pages}/clusters/etl-1`);
    await page.goBack();
    await page.getByRole('heading', { level: 1, name: 'Query History' }).waitFor();
    await page.keyboard.press('Control+k');
    await field.fill('etl');
    await dialog.getByRole('option', { name: 'etl', exact: true }).waitFor();
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { level: 1, name: 'Routing group etl' }).waitFor();
    await expectSound(window);
  });

  test('an address of what is not there says so, and leads on', async () => {
    await using window = await openWindow(`${rig.pages}/limits?group=gone`);
    const { page } = window;
    await page.getByText(/^There is no routing group gone/).waitFor();
    await page.getByRole('button', { name: 'Show all groups' }).click();
    await page.getByText('adhoc-1, adhoc-2').waitFor();
    await page.goto(`${rig.pages}/routing-rules?rule=gone`);
    await page.getByText('There is no rule gone').waitFor();
    await expectSound(window);
    await page.getByRole('button', { name: 'Show all rules' }).click();
    await page.getByText('There is no rule gone').waitFor({ state: 'detached' });
    expect(page.url()).toBe(`${rig.pages}/routing-rules`);
  });

  test('range, filter, order and the open object stand in the address, and Back leads back', async () => {
    await using window = await openWindow(`${rig.pages}/?minutes=240`);
    const { page } = window;
    await page.getByText('4 h', { exact: true }).waitFor();
    expect(await page.getByRole('radio', { name: '4 h', exact: true }).isChecked()).toBe(true);
    await page.goto(`${rig.pages}/clusters?filter=adhoc&sort=-name`);
    const rows = page.getByRole('table', { name: 'Backends' }).getByRole('row');
    await expect
      .poll(async () => (await rows.allTextContents()).map((text) => text.slice(0, 7)))
      .toEqual(['NameRou', 'adhoc-2', 'adhoc-1']);
    await page.getByRole('button', { name: 'Details of adhoc-2' }).click();
    const details = page.getByRole('dialog', { name: 'adhoc-2' });
    await details.waitFor();
    expect(new URL(page.url()).searchParams.get('details')).toBe('adhoc-2');
    await page.reload();
    await details.waitFor();
    await page.keyboard.press('Escape');
    await details.waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Details of adhoc-1' }).click();
    await page.getByRole('dialog', { name: 'adhoc-1' }).getByRole('button', { name: 'Close' }).click();
    const focused = () => page.evaluate('document.activeElement.getAttribute("aria-label")');
    await expect.poll(focused).toBe('Details of adhoc-1');
    await page.getByRole('button', { name: 'Details of adhoc-1' }).click();
    await page.getByRole('dialog', { name: 'adhoc-1' }).waitFor();
    await page.goBack();
    await page.getByRole('dialog', { name: 'adhoc-1' }).waitFor({ state: 'detached' });
    expect(window.defects).toEqual([]);
  });
});
