import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { stringify } from 'yaml';
import { until } from '../support/gateway.ts';
import { manifest } from '../support/manifest.ts';
import { follow, runQuery, submit } from '../support/statementClient.ts';
import { canBrowse, openWindow, type Window } from './support/browser.ts';
import { logIn } from './support/login.ts';
import { formAccess, type Rig, startRig } from './support/rig.ts';
import { expectSound, expectSoundInBothSchemes } from './support/soundness.ts';

const resource = (kind: string, name: string, spec: object) => stringify(manifest(kind, name, spec));

const declared = [
  resource('RoutingRule', 'no-exports', {
    priority: 1,
    condition: 'request.getHeader("X-Engine-Source") == "export"',
    deny: { message: 'exports are for the night' },
  }),
  resource('RoutingRule', 'to-gpu', {
    priority: 2,
    condition: 'request.getHeader("X-Engine-Client-Tags") == "gpu"',
    routeTo: { routingGroup: 'gpu' },
    whenUnavailable: 'Reject',
  }),
  resource('RoutingRule', 'tagged', {
    priority: 3,
    condition: 'request.getHeader("X-Engine-Client-Tags") == "tagged" && request.getHeader("X-Team") == "finance"',
    routeTo: { routingGroup: 'etl' },
  }),
];

describe.skipIf(!canBrowse)('the page of a query', () => {
  let rig: Rig;
  beforeAll(async () => {
    rig = await startRig({ ...formAccess(), queryHistory: { writeBeforeAnswer: true } });
    await writeFile(join(rig.manifests, 'declared.yaml'), declared.join('---\n'));
    const areInForce = async () => {
      const response = await fetch(`${rig.gateway.url}/api/rules`, { headers: authorization });
      const { rules } = (await response.json()) as { rules: readonly object[] };
      return rules.length === 3;
    };
    await until(areInForce, 'the rules to be in force');
  });
  afterAll(async () => await rig?.[Symbol.asyncDispose]());

  const authorization = { Authorization: `Basic ${btoa('ada:ada')}` };
  const open = async (path: string, user = 'ada', colorScheme: 'light' | 'dark' = 'light') => {
    const window = await openWindow(`${rig.pages}/${path}`, { colorScheme });
    await logIn(window, user);
    await window.page.getByRole('heading', { level: 1 }).waitFor();
    return window;
  };
  const tagged = (tag: string, more: Readonly<Record<string, string>> = {}) => ({
    headers: { 'X-Engine-Client-Tags': tag, ...more },
  });
  /** What was denied, refused and dropped: their ids. */
  const deny = async (user = 'carol') =>
    (await runQuery(rig.gateway.url, 'SELECT 2', { user, headers: { 'X-Engine-Source': 'export' } })).id;
  const refuse = async (user = 'carol') => (await runQuery(rig.gateway.url, 'SELECT 3', { user, ...tagged('gpu') })).id;
  const fact = ({ page }: Window, name: string) =>
    page
      .locator('dl > *')
      .filter({ has: page.locator('dt', { hasText: name }) })
      .locator('dd')
      .first();
  const timeline = async ({ page }: Window) =>
    (await page.getByRole('list', { name: 'Timeline' }).getByRole('listitem').allTextContents()).join('; ');
  /** Opens each size that pages are made for. */
  const expectSoundEverywhere = async (window: Window, expectAll = expectSound) => {
    for (const width of [1440, 1280, 420]) {
      await window.page.setViewportSize({ width, height: 900 });
      await expectAll(window, `${width}`);
    }
    await window.page.setViewportSize({ width: 1280, height: 900 });
  };

  test('conditions have the values that they saw, of headers that rules read as well, and decide again by them', async () => {
    const { id } = await runQuery(rig.gateway.url, 'SELECT 1', {
      user: 'ursula',
      ...tagged('tagged', { 'X-Team': 'finance' }),
    });
    await using window = await open(`queries/${id}`);
    const { page } = window;
    const values = page.getByRole('list', { name: 'Values' });
    await values.getByText('request.getHeader("X-Engine-Client-Tags"): "tagged"').first().waitFor();
    await values.getByText('request.getHeader("X-Team"): "finance"').waitFor();
    expect(await values.getByText('not stored').count()).toBe(0);
    await page.getByText('The same as then.').waitFor();
    await page.getByText(/^Decided by what is stored of the request: .*x-engine-client-tags, x-team\./).waitFor();
    await expectSoundEverywhere(window);
    // A user sees no conditions; what is decided again is the same, without what says who somebody is.
    await using own = await open(`queries/${id}`, 'ursula');
    await own.page.getByText('The same as then.').waitFor();
    await expectSound(own);
  });

  test('a query that a rule denied says so, and leads to the rule', async () => {
    const id = await deny();
    await using window = await open(`queries/${id}`, 'ada');
    const { page } = window;
    await page.getByRole('heading', { level: 2, name: 'Why it went nowhere' }).waitFor();
    const why = page.getByRole('region', { name: 'Why it went nowhere' });
    await why
      .getByText(/^The rule no-exports denied it\. No backend got the query: .*exports are for the night/)
      .waitFor();
    expect(await why.getByText('No decision is stored').count()).toBe(0);
    expect(await why.getByText(/took the query/).count()).toBe(0);
    expect(await timeline(window)).toContain('The rule no-exports denied it.');
    await page.getByText('The same as then.').waitFor();
    await page.getByText('A rule denied it: no cluster has got it.').waitFor();
    await expectSoundEverywhere(window, expectSoundInBothSchemes);
    await why.getByRole('link', { name: 'no-exports' }).first().click();
    await page.getByRole('dialog').getByText('no-exports').first().waitFor();
    expect(page.url()).toContain('routing-rules?rule=no-exports');
  });

  test('a query that was refused names no backend as its own', async () => {
    const id = await refuse();
    await using window = await open(`queries/${id}`);
    const { page } = window;
    const why = page.getByRole('region', { name: 'Why it went nowhere' });
    await why
      .getByText(
        /^The rule to-gpu chose the routing group gpu\. No backend took the query, as the gateway refused it: /,
      )
      .waitFor();
    expect(await page.getByText(/active and healthy, and took|had it\./).count()).toBe(0);
    expect(await timeline(window)).toContain('The gateway refused it.');
    expect(await fact(window, 'Backend').textContent()).toBe('none');
    await page.getByText('The same as then.').waitFor();
    await expectSoundEverywhere(window);
    // With a cluster for it, that is what would be otherwise.
    const gpu = { proxyTo: rig.engines[0]?.url, routingGroup: 'gpu' };
    await writeFile(join(rig.manifests, 'gpu.yaml'), resource('EngineCluster', 'gpu-1', gpu));
    const otherwise = page.getByRole('table', { name: 'What is otherwise now' });
    const rows = async () => {
      await page.getByRole('button', { name: 'Decide again now' }).click();
      return await otherwise.getByRole('row').allTextContents();
    };
    await expect
      .poll(rows, { timeout: 20_000, interval: 500 })
      .toEqual(['WhatThenNow', 'Outcomeno clusterrouted', 'Clusternonegpu-1']);
    await writeFile(join(rig.manifests, 'gpu.yaml'), '');
    await expect.poll(() => rows().then(({ length }) => length), { timeout: 20_000, interval: 500 }).toBe(0);
  });

  test('a query that runs says since when, and is ended on its page after a question', async () => {
    let runs = await submit(rig.gateway.url, 'SELECT 4', { user: 'zoe' });
    while (runs.nextUri?.includes('/queued/')) runs = await follow(runs.nextUri, { user: 'zoe' });
    await using window = await open(`queries/${runs.id}`, 'ada', 'dark');
    const { page } = window;
    await page.getByText(/^It runs, since .*; its client asked for results /).waitFor({ timeout: 60_000 });
    await expectSoundEverywhere(window);
    await page.getByRole('button', { name: `End ${runs.id}` }).click();
    const question = page.getByRole('dialog');
    await question.getByText(/^The query of zoe on .* ends/).waitFor();
    await question.getByRole('button', { name: 'End' }).click();
    await page.getByText(`${runs.id} is ended.`).waitFor();
    await page.getByRole('button', { name: `End ${runs.id}` }).waitFor({ state: 'detached' });
    // Others see neither the query nor the button.
    await using others = await open(`queries/${runs.id}`, 'ursula');
    await others.page.getByText('No query of this id is in the history that you may see.').waitFor();
  });

  test('the number of pages of a result stands with its figures', async () => {
    const { id } = await runQuery(rig.gateway.url, 'SELECT 6', { user: 'carol' });
    await using window = await open(`queries/${id}`);
    await expect.poll(() => fact(window, 'Pages of the result').textContent(), { timeout: 15_000 }).toMatch(/^\d+$/);
  });

  const table = ({ page }: Window) => page.getByRole('table', { name: 'Queries' });
  const row = (window: Window, id: string) => table(window).getByRole('row').filter({ hasText: id });

  test('the history has what was refused and denied among its queries, and finds it by its id', async () => {
    const [denied, refused] = [await deny('dora'), await refuse('dora')];
    const { id: taken } = await runQuery(rig.gateway.url, 'SELECT 7', { user: 'dora' });
    await using window = await open('history?user=dora');
    const { page } = window;
    await page.getByText('1 query', { exact: true }).waitFor();
    const rows = () => table(window).getByRole('row').allTextContents();
    await expect.poll(async () => (await rows()).length).toBe(4);
    for (const [index, id] of [taken, refused, denied].entries()) expect((await rows())[index + 1]).toContain(id);
    expect((await rows())[2]).toContain('refusedNO_NODES_AVAILABLE');
    expect(
      await row(window, refused)
        .getByRole('link', { name: /engine's page/ })
        .count(),
    ).toBe(0);
    await page.getByText('and 2 that no backend took.').waitFor();
    await expectSoundEverywhere(window);
    await page.getByRole('link', { name: 'All that were refused or denied' }).click();
    await expect.poll(async () => (await rows()).length).toBe(3);
    expect(await page.getByRole('combobox', { name: 'Outcome' }).inputValue()).toBe('REFUSED,DENIED');
    for (const id of [denied, refused]) {
      await page.goto(`${rig.pages}/history?queryId=${id}`);
      await row(window, id).waitFor();
      await page.goto(`${rig.pages}/history?queryId=${id.slice(0, id.indexOf('_refused_') + 9)}`);
      await row(window, id).waitFor();
    }
    // A user finds the own ones alone.
    const own = await deny('ursula');
    await using hers = await open('history', 'ursula');
    await row(hers, own).waitFor();
    expect(await table(hers).getByText('dora').count()).toBe(0);
  });

  test('the history filters by error and duration; errors and refusals of the dashboard lead there', async () => {
    const failed = (await runQuery(rig.gateway.url, 'SELECT * FROM tpch.tiny.planets', { user: 'fred' })).id;
    const wrong = (await runQuery(rig.gateway.url, 'SELEKT', { user: 'fred' })).id;
    for (let i = 0; i < 6; i += 1) await refuse('gwen');
    await using window = await open('history?user=fred&errorName=TABLE_NOT_FOUND');
    const { page } = window;
    await row(window, failed).waitFor({ timeout: 15_000 });
    expect(await row(window, wrong).count()).toBe(0);
    const field = (name: string) => page.getByRole('search').getByRole('textbox', { name });
    expect(await field('Error name').inputValue()).toBe('TABLE_NOT_FOUND');
    await field('Error name').fill('syntax_error');
    await page.getByRole('combobox', { name: 'Error type' }).selectOption("the user's");
    await page.getByRole('button', { name: 'Filter' }).click();
    await row(window, wrong).waitFor();
    expect(await row(window, failed).count()).toBe(0);
    expect(page.url()).toMatch(/errorName=SYNTAX_ERROR&errorType=USER_ERROR/);
    await page.goBack();
    await row(window, failed).waitFor();
    await field('Error name').fill('');
    await field('Ran at most (s)').fill('60');
    await field('Ran at least (s)').fill('soon');
    await page.getByRole('button', { name: 'Filter' }).click();
    await page.getByText('Must be seconds, e.g. 90 or 0.5.').waitFor();
    await expectSoundEverywhere(window);
    await field('Ran at least (s)').fill('30');
    await page.getByRole('button', { name: 'Filter' }).click();
    await page.getByText('No query matches the filters.').waitFor();
    expect(page.url()).toMatch(/minElapsedMillis=30000&maxElapsedMillis=60000/);
    await field('Ran at least (s)').fill('');
    await page.getByRole('button', { name: 'Filter' }).click();
    await row(window, wrong).waitFor();
    await page.reload();
    await row(window, wrong).waitFor();
    expect(await field('Ran at most (s)').inputValue()).toBe('60');

    await page.goto(rig.pages);
    const errors = page.getByRole('table', { name: 'Errors of the range' });
    await errors.getByRole('link', { name: 'TABLE_NOT_FOUND' }).click();
    await row(window, failed).waitFor();
    await page.goBack();
    await expectSound(window);
    await page.getByRole('link', { name: 'Queries for gpu are refused' }).first().click({ timeout: 60_000 });
    await expect.poll(() => table(window).getByText('gwen').count()).toBe(6);
    expect(page.url()).toContain('state=REFUSED');
  });
});
