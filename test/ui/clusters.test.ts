import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { cancel, runQuery, submit } from '../support/statementClient.ts';
import { canBrowse, openWindow } from './support/browser.ts';
import { closeNotices } from './support/notices.ts';
import { expectPushed, stopTime } from './support/pageTime.ts';
import { type Rig, startRig } from './support/rig.ts';
import { expectSound, expectSoundInBothWidths } from './support/soundness.ts';

const row = (page: Page, name: string) =>
  page.getByRole('row').filter({ has: page.getByRole('link', { name, exact: true }) });
const switchOf = (page: Page, name: string) => page.getByRole('switch', { name: `${name} takes new queries` });

const rules = `name: jobs
description: Scheduled jobs
condition: 'request.getHeader("X-Engine-Source") == "cron"'
actions:
- 'result.put("routingGroup", "etl")'
---
name: by header
description: What clients ask for
priority: 1
condition: 'request.getHeader("X-Engine-Routing-Group") == "etl"'
actions:
- 'result.put("routingGroup", "etl")'
`;

describe.skipIf(!canBrowse)('Active Backends', () => {
  let rig: Rig;
  beforeAll(async () => {
    rig = await startRig({}, rules);
  });
  afterAll(async () => await rig?.[Symbol.asyncDispose]());

  test('shows every backend with its group, URL, link and state, and sorts and filters them', async () => {
    await using window = await openWindow(`${rig.pages}/clusters`);
    const { page } = window;
    const [adhoc] = rig.engines;
    const cells = row(page, 'adhoc-1').getByRole('cell');
    await expect
      .poll(() => cells.allTextContents())
      .toEqual(['adhoc-1file', 'adhoc', adhoc?.url, '', 'HEALTHY', '–', '–', '']);
    expect(await page.getByRole('link', { name: "Engine's page of adhoc-1" }).getAttribute('href')).toBe(adhoc?.url);
    await page.getByRole('button', { name: 'Name' }).click();
    const names = () => page.locator('tbody td:first-child a:not([target])').allTextContents();
    await expect.poll(names).toEqual(['etl-1', 'adhoc-2', 'adhoc-1']);
    expect(await page.getByRole('columnheader', { name: 'Name' }).getAttribute('aria-sort')).toBe('descending');
    await page.getByRole('textbox', { name: 'Filter backends' }).fill('ETL');
    await expect.poll(names).toEqual(['etl-1']);
    await page.getByRole('textbox', { name: 'Filter backends' }).fill('none such');
    await page.getByText('No backend matches the filter.').waitFor();
    await expectSound(window);
  });

  test('a switch moved in one browser shows in another at once, with who and when', async () => {
    await using mine = await openWindow(`${rig.pages}/clusters`);
    await using theirs = await openWindow(`${rig.pages}/clusters`, { colorScheme: 'dark', hasOwnClock: true });
    await switchOf(theirs.page, 'adhoc-2').waitFor();
    await stopTime(theirs);
    await switchOf(mine.page, 'adhoc-2').press('Space');
    await mine.page.getByText('adhoc-2 takes no new queries; running ones go on.').waitFor();
    await expectPushed(theirs, async () => !(await switchOf(theirs.page, 'adhoc-2').isChecked()));
    await theirs.page.clock.resume();
    await expect
      .poll(() => row(theirs.page, 'adhoc-2').textContent())
      .toMatch(/off by api, \d+ s ago.*differs from the resource/);
    await expectSound(theirs);
    await switchOf(theirs.page, 'adhoc-2').click({ force: true });
    await expect.poll(() => switchOf(mine.page, 'adhoc-2').isChecked()).toBe(true);
    await expect.poll(() => row(mine.page, 'adhoc-2').textContent()).not.toMatch(/differs/);
    await closeNotices(mine.page);
    await expectSound(mine);
  });

  test('what is written to the manifests elsewhere shows at once', async () => {
    await using window = await openWindow(`${rig.pages}/clusters`, { hasOwnClock: true });
    await switchOf(window.page, 'etl-1').waitFor();
    await stopTime(window);
    const answer = await fetch(`${rig.gateway.url}/gateway/backend/modify/add`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ name: 'by-rest', proxyTo: rig.engines[0]?.url, active: true, routingGroup: 'adhoc' }),
    });
    expect(answer.status).toBe(200);
    await expectPushed(window, async () => (await row(window.page, 'by-rest').count()) === 1);
    await fetch(`${rig.gateway.url}/gateway/backend/modify/delete`, { method: 'POST', body: 'by-rest' });
    await expectPushed(window, async () => (await row(window.page, 'by-rest').count()) === 0);
    expect(window.defects).toEqual([]);
  });

  test('the queries of a backend that takes no new ones are shown until none is left', async () => {
    const headers = { 'X-Engine-Routing-Group': 'etl' };
    const { nextUri = '' } = await submit(rig.gateway.url, 'SELECT 1', { headers });
    await using window = await openWindow(`${rig.pages}/clusters`);
    const { page } = window;
    await page.getByRole('button', { name: 'Delete etl-1' }).click();
    const question = page.getByRole('dialog', { name: 'Delete etl-1?' });
    await question.getByText('1 query runs on it and can still be followed.').waitFor();
    await question.getByRole('button', { name: 'Cancel' }).click();
    await switchOf(page, 'etl-1').press('Space');
    await page.getByRole('button', { name: 'Switch off' }).click();
    await expect.poll(() => row(page, 'etl-1').textContent()).toMatch(/Draining, 1 left.*the oldest since \d+ s ago/);
    await closeNotices(page);
    await expectSound(window);
    expect(await cancel(nextUri)).toBe(204);
    await expect.poll(() => row(page, 'etl-1').textContent()).toMatch(/No query left/);
    await expectSound(window);
    await switchOf(page, 'etl-1').press('Space');
    await expect.poll(() => row(page, 'etl-1').textContent()).not.toMatch(/left/);
    expect(window.defects).toEqual([]);
  });

  test('the reason why a backend is unhealthy is shown', async () => {
    await using window = await openWindow(`${rig.pages}/clusters`);
    const { page } = window;
    rig.engines[2]?.setState({ failing: 503 });
    try {
      await expect.poll(() => row(page, 'etl-1').textContent()).toMatch(/UNHEALTHY.*status 503/);
      await row(page, 'etl-1').getByText('status 503').click();
      const details = page.getByRole('dialog', { name: 'etl-1' });
      await details.getByRole('heading', { name: 'Conditions' }).waitFor();
      await expect
        .poll(() => details.textContent())
        .toMatch(/HealthyFALSE.*clusters\.yaml, document 3|clusters\.yaml, document 3.*HealthyFALSE/i);
      await page.keyboard.press('Escape');
      await details.waitFor({ state: 'detached' });
    } finally {
      rig.engines[2]?.setState({ failing: 0 });
    }
    // Until then its queries go to the default group.
    await expect.poll(() => row(page, 'etl-1').textContent()).toMatch(/(?<!UN)HEALTHY/);
    expect(window.defects).toEqual([]);
  });

  /** How queries of a cluster ended, as its page counts them. */
  const endedStates = async (cluster: string): Promise<object> => {
    const response = await fetch(`${rig.gateway.url}/api/statistics?by=cluster&cluster=${cluster}`);
    const { values } = (await response.json()) as { values: readonly { states: object }[] };
    return values[0]?.states ?? {};
  };

  test('a backend has a page: health with reasons, figures, failures, rules, what is declared', async () => {
    const headers = { 'X-Engine-Source': 'cron' };
    await runQuery(rig.gateway.url, 'SELECT 1', { headers });
    const { id } = await runQuery(rig.gateway.url, 'SELEC 1', { headers });
    // Written in batches; the page counts queries every 30 s.
    await expect
      .poll(() => endedStates('etl-1'))
      .toMatchObject({ FINISHED: expect.any(Number), FAILED: expect.any(Number) });
    await using window = await openWindow(`${rig.pages}/clusters?filter=etl`);
    const { page } = window;
    await page.getByRole('link', { name: 'etl-1', exact: true }).click();
    await page.getByRole('heading', { level: 1, name: 'Backend etl-1' }).waitFor();
    const region = (name: string) => page.getByRole('region', { name, exact: true });
    const changes = region('Health timeline').getByRole('listitem');
    rig.engines[2]?.setState({ failing: 503 });
    try {
      await expect.poll(() => changes.first().textContent()).toMatch(/^UNHEALTHY.*status 503$/);
      await page.getByText('No backend of etl takes new queries').waitFor();
      await page.getByText('New queries go to the default group adhoc (adhoc-1, adhoc-2).').waitFor();
      await expectSoundInBothWidths(window);
    } finally {
      rig.engines[2]?.setState({ failing: 0 });
    }
    await expect.poll(() => changes.nth(1).textContent()).toMatch(/^UNHEALTHY.*, for .*status 503$/);
    expect(await changes.first().textContent()).toMatch(/^HEALTHYsince .*started$/);
    await page.getByText('No backend of etl takes new queries').waitFor({ state: 'detached' });
    await expect.poll(() => region('Rates and errors').textContent()).toMatch(/\d+ finished, .*\d+ users’ errors/);
    await page.getByRole('table', { name: 'Last errors' }).getByText('SYNTAX_ERROR').first().waitFor();
    await page.getByRole('link', { name: id, exact: true }).first().waitFor();
    expect(await region('Rules that lead here').getByRole('link').allTextContents()).toEqual(['by header', 'jobs']);
    expect(await region('Declared and in force').textContent()).toContain('All that is declared is in force.');
    await page.getByText('Last day').click();
    await expect.poll(() => page.url()).toBe(`${rig.pages}/clusters/etl-1?range=day`);
    await expectSoundInBothWidths(window);
    await region('State').getByRole('link', { name: 'etl', exact: true }).click();
    await page.getByRole('heading', { level: 1, name: 'Routing group etl' }).waitFor();
    await page.goBack();
    await page.goBack();
    await page.getByRole('heading', { level: 1, name: 'Backend etl-1' }).waitFor();
    await page.goBack();
    await expect.poll(() => page.url()).toBe(`${rig.pages}/clusters?filter=etl`);
    expect(window.defects).toEqual([]);
  });

  test('a backend whose queries fail while its check passes shows since when it is flapping', async () => {
    const [engine] = rig.engines;
    await rig.configure({ monitor: { taskDelay: '1s', serverErrorThreshold: 2, baseEjectionTime: '300ms' } });
    engine?.setState({ failingStatements: 503 });
    await using window = await openWindow(`${rig.pages}/clusters`);
    const { page } = window;
    const url = `${rig.gateway.url}/v1/statement`;
    const headers = { 'X-Engine-User': 'ann' };
    try {
      await expect
        .poll(
          async () => {
            for (let sent = 0; sent < 20; sent++) await fetch(url, { method: 'POST', headers, body: 'SELECT 1' });
            return await row(page, 'adhoc-1').textContent();
          },
          { timeout: 60_000 },
        )
        .toMatch(/Flapping since \d/);
      expect(await row(page, 'adhoc-2').textContent()).not.toContain('Flapping');
      await expectSound(window);
      await row(page, 'adhoc-1').getByRole('link', { name: 'adhoc-1', exact: true }).click();
      await page.getByText('Flapping since').waitFor();
      await expectSound(window);
    } finally {
      engine?.setState({ failingStatements: 0 });
      await rig.configure({ monitor: { taskDelay: '1s' } });
    }
  });

  test('switching off the last backend of a group asks first; a switch is taken back unless others switch meanwhile', async () => {
    const { nextUri = '' } = await submit(rig.gateway.url, 'SELECT 1', { headers: { 'X-Engine-Source': 'cron' } });
    await using window = await openWindow(`${rig.pages}/clusters/etl-1`);
    const { page } = window;
    const toggle = switchOf(page, 'etl-1');
    const question = page.getByRole('dialog', { name: 'Switch off etl-1?' });
    const undo = page.getByRole('button', { name: 'Undo' });
    const switchAgain = async () => {
      for (const call of ['activate', 'deactivate']) {
        await fetch(`${rig.gateway.url}/gateway/backend/${call}/etl-1`, { method: 'POST' });
      }
    };
    await toggle.press('Space');
    await expect
      .poll(() => question.textContent())
      .toContain(
        'etl-1 is the last backend of the routing group etl that takes new queries. 1 query runs, and goes on to its end. New queries go to the default group adhoc (adhoc-1, adhoc-2).',
      );
    await expectSound(window);
    await question.getByRole('button', { name: 'Cancel' }).click();
    await question.waitFor({ state: 'detached' });
    expect(await toggle.isChecked()).toBe(true);
    await expect
      .poll(() =>
        page.evaluate('document.activeElement.getAttribute("aria-label") ?? document.activeElement.outerHTML'),
      )
      .toBe('etl-1 takes new queries');

    await toggle.press('Space');
    await question.getByRole('button', { name: 'Switch off' }).click();
    await undo.waitFor();
    await page.getByText('Draining, 1 left').waitFor();
    await expectSound(window);
    await undo.click();
    await page.getByText('etl-1 takes new queries.').waitFor();
    await expect.poll(() => toggle.isChecked()).toBe(true);
    await expect.poll(() => page.getByText('differs').count()).toBe(0);

    await toggle.press('Space');
    await question.getByRole('button', { name: 'Switch off' }).click();
    await undo.waitFor();
    await switchAgain();
    await undo.click();
    const refused = page.getByRole('alert').filter({ hasText: 'etl-1 was not switched back' });
    await expect.poll(() => refused.textContent()).toMatch(/etl-1 was switched meanwhile: it is off by api since/);
    await expect.poll(() => toggle.isChecked()).toBe(false);
    await closeNotices(page);

    // Nobody says that no query is left before all replicas know.
    expect(await cancel(nextUri)).toBe(204);
    await switchAgain();
    const drain = page.getByRole('region', { name: 'Drain' });
    await expect.poll(() => drain.textContent()).toContain('Looking for queries');
    await expect.poll(() => drain.textContent()).toContain('No query left');
    await expectSound(window);
    await toggle.press('Space');
    await drain.waitFor({ state: 'detached' });
    expect(window.defects).toEqual([]);
  });

  test('a routing group has a page, and is drained as a whole', async () => {
    await using window = await openWindow(`${rig.pages}/groups/adhoc`);
    const { page } = window;
    const region = (name: string) => page.getByRole('region', { name, exact: true });
    await switchOf(page, 'adhoc-2').waitFor();
    expect(await region('Capacity and limits').textContent()).toMatch(/2 of 2 backends.*Default group/);
    await region('Rules that lead here').getByText('it is the default group').waitFor();
    await expectSoundInBothWidths(window);
    await page.getByRole('button', { name: 'Drain all' }).click();
    const question = page.getByRole('dialog', { name: 'Drain all of adhoc?' });
    await expect
      .poll(() => question.textContent())
      .toMatch(/switches off 2 backends \(adhoc-1, adhoc-2\)\. .*New queries are refused/);
    await question.getByRole('button', { name: 'Drain all' }).click();
    await page.getByRole('button', { name: 'Undo' }).hover();
    await page.getByText('2 backends of adhoc take no new queries; running ones go on.').waitFor();
    await page.getByText('No backend of it takes new queries').waitFor();
    expect(await page.getByRole('button', { name: 'Drain all' }).isDisabled()).toBe(true);
    await expectSound(window);
    await page.getByRole('button', { name: 'Undo' }).click();
    await page.getByText('No backend of it takes new queries').waitFor({ state: 'detached' });
    for (const name of ['adhoc-1', 'adhoc-2']) await expect.poll(() => switchOf(page, name).isChecked()).toBe(true);
    expect(window.defects).toEqual([]);
  });

  test('names of any kind have pages, and backends of one URL name each other', async () => {
    const name = 'a/b %2F ü.c?#';
    const add = (body: object) =>
      fetch(`${rig.gateway.url}/gateway/backend/modify/add`, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify({ proxyTo: rig.engines[2]?.url, active: true, ...body }),
      });
    expect((await add({ name, routingGroup: `of ${name}` })).status).toBe(200);
    await using window = await openWindow(`${rig.pages}/clusters`);
    const { page } = window;
    await page.getByRole('link', { name, exact: true }).click();
    await page.getByRole('heading', { level: 1, name: `Backend ${name}` }).waitFor();
    await page.reload();
    await page.getByText('Shares its URL').waitFor();
    await page.getByRole('link', { name: `of ${name}`, exact: true }).click();
    await page.getByRole('heading', { level: 1, name: `Routing group of ${name}` }).waitFor();
    await switchOf(page, name).waitFor();
    await expectSound(window);
    await page.goBack();
    await page.getByRole('link', { name: 'etl-1', exact: true }).click();
    await page.getByRole('heading', { level: 1, name: 'Backend etl-1' }).waitFor();
    await page.getByRole('link', { name, exact: true }).waitFor();
    await fetch(`${rig.gateway.url}/gateway/backend/modify/delete`, { method: 'POST', body: name });
    await page.goBack();
    await page.getByText(`There is no backend ${name}, or not any more.`).waitFor();
    await page.goto(`${rig.pages}/groups/nowhere`);
    await page.getByText('There is no routing group nowhere').waitFor();
    await expectSound(window);
  });

  test('adds, changes and deletes a backend by keyboard, and shows mistakes at their field', async () => {
    await using window = await openWindow(`${rig.pages}/clusters`);
    const { page } = window;
    await page.getByRole('button', { name: 'Add a backend' }).focus();
    await page.keyboard.press('Enter');
    const dialog = page.getByRole('dialog', { name: 'Add a backend' });
    const field = (name: string) => dialog.getByRole('textbox', { name, exact: true });
    await dialog.waitFor();
    await expect.poll(() => page.evaluate('document.activeElement?.labels?.[0]?.textContent')).toMatch(/^Name/);
    await page.keyboard.press('Enter');
    await dialog.getByText('Enter a routing group.').waitFor();
    await expectSound(window);
    await page.keyboard.type('new-1');
    await page.keyboard.press('Tab');
    await page.keyboard.type('adhoc');
    await page.keyboard.press('Escape');
    await field('URL').fill('not a url');
    await page.keyboard.press('Enter');
    await dialog.getByText(/^holds white space/).waitFor();
    expect(await field('URL').getAttribute('aria-invalid')).toBe('true');
    await field('URL').fill(`${rig.engines[0]?.url}/`);
    await page.keyboard.press('Enter');
    await dialog.waitFor({ state: 'detached' });
    await row(page, 'new-1').waitFor();
    expect(await readManifests(rig)).toMatch(/name: new-1/);

    await page.getByRole('button', { name: 'Add a backend' }).click();
    await field('Name').fill('new-1');
    await dialog.getByRole('combobox', { name: 'Routing group' }).fill('x');
    await field('URL').fill('http://x:1');
    await dialog.getByRole('button', { name: 'Add', exact: true }).click();
    await dialog.getByText(/already exists/).waitFor();
    const discard = page.getByRole('dialog', { name: 'Discard the edits?' });
    await page.keyboard.press('Escape');
    await discard.getByRole('button', { name: 'Cancel' }).click();
    await discard.waitFor({ state: 'detached' });
    expect(await field('Name').inputValue()).toBe('new-1');
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    await discard.getByRole('button', { name: 'Discard' }).click();
    await dialog.waitFor({ state: 'detached' });
    // What was not changed is left without a question.
    await page.getByRole('button', { name: 'Edit new-1' }).click();
    await page.getByRole('dialog', { name: 'Edit new-1' }).getByRole('button', { name: 'Cancel' }).click();
    await page.getByRole('dialog').waitFor({ state: 'detached' });

    await page.getByRole('button', { name: 'Edit new-1' }).click();
    const edit = page.getByRole('dialog', { name: 'Edit new-1' });
    await edit.getByRole('textbox', { name: 'External URL' }).fill('https://engine.example');
    await edit.getByRole('button', { name: 'Save' }).click();
    await edit.waitFor({ state: 'detached' });
    await expect
      .poll(() => page.getByRole('link', { name: "Engine's page of new-1" }).getAttribute('href'))
      .toBe('https://engine.example');

    await page.getByRole('button', { name: 'Delete new-1' }).click();
    const question = page.getByRole('dialog', { name: 'Delete new-1?' });
    await question.getByRole('button', { name: 'Cancel' }).click();
    await question.waitFor({ state: 'detached' });
    expect(await row(page, 'new-1').count()).toBe(1);
    await page.getByRole('button', { name: 'Delete new-1' }).click();
    await expectSound(window);
    await question.getByRole('button', { name: 'Delete' }).click();
    await expect.poll(() => row(page, 'new-1').count()).toBe(0);
    expect(await readManifests(rig)).not.toMatch(/name: new-1/);
    expect(window.defects).toEqual([]);
  });

  test.each([
    ['the list has heard of', '/clusters', true],
    ['the list has not heard of', '/clusters', false],
    ['its page has heard of', '/clusters/deleted', true],
  ] as const)('a backend whose deletion %s is added again only when asked to', async (_how, path, isHeard) => {
    const name = 'deleted';
    const write = async (call: string, body: object) => {
      const headers = { 'content-type': 'application/json' };
      const answer = await fetch(`${rig.gateway.url}/webapp/${call}`, {
        method: 'POST',
        headers,
        body: JSON.stringify(body),
      });
      expect(answer.status).toBe(200);
    };
    await write('saveBackend', { name, routingGroup: 'adhoc', proxyTo: rig.engines[0]?.url, active: false });
    await using window = await openWindow(`${rig.pages}${path}`);
    const { page } = window;
    const edit = path === '/clusters' ? `Edit ${name}` : 'Edit';
    await page.getByRole('button', { name: edit, exact: true }).click();
    const dialog = page.getByRole('dialog', { name: `Edit ${name}` });
    await dialog.getByRole('combobox', { name: 'Routing group' }).fill('etl');
    await page.keyboard.press('Tab');
    if (!isHeard) await page.route('**/api/clusters', (route) => route.abort());
    await write('deleteBackend', { name });
    if (!isHeard) await dialog.getByRole('button', { name: 'Save' }).click();
    await dialog.getByRole('alert').getByText(`${name} was deleted meanwhile`).waitFor();
    expect(await readManifests(rig)).not.toContain(`name: ${name}`);
    await expectSound(window);
    await page.unroute('**/api/clusters');
    await dialog.getByRole('button', { name: 'Add it again' }).click();
    await dialog.waitFor({ state: 'detached' });
    expect(await readManifests(rig)).toContain(`name: ${name}`);
    await write('deleteBackend', { name });
  });

  test.each([
    ['the list', '/clusters?filter=adhoc', 'Edit adhoc-1', '/clusters?filter=adhoc&edit=adhoc-1'],
    ['its page', '/clusters/adhoc-1', 'Edit', '/clusters/adhoc-1?edit='],
  ])(
    'the form that %s opens stands in the address: a link opens it, Back closes it and asks before edits are lost',
    async (_of, path, button, address) => {
      await using window = await openWindow(`${rig.pages}${path}`);
      const { page } = window;
      const form = page.getByRole('dialog', { name: 'Edit adhoc-1' });
      const url = form.getByRole('textbox', { name: 'External URL' });
      const discard = page.getByRole('dialog', { name: 'Discard the edits?' });
      await page.getByRole('button', { name: button, exact: true }).click();
      await form.waitFor();
      expect(page.url()).toBe(`${rig.pages}${address}`);
      await page.goBack();
      await form.waitFor({ state: 'detached' });
      expect(page.url()).toBe(`${rig.pages}${path}`);
      await expect
        .poll(() =>
          page.evaluate('document.activeElement.getAttribute("aria-label") ?? document.activeElement.textContent'),
        )
        .toBe(button);

      await page.goForward();
      await url.fill('https://elsewhere.example');
      await page.goBack();
      await discard.getByRole('button', { name: 'Cancel' }).click();
      await discard.waitFor({ state: 'detached' });
      expect(await url.inputValue()).toBe('https://elsewhere.example');
      expect(page.url()).toBe(`${rig.pages}${address}`);
      await page.goBack();
      await discard.getByRole('button', { name: 'Discard' }).click();
      await form.waitFor({ state: 'detached' });
      expect(page.url()).toBe(`${rig.pages}${path}`);

      await using other = await openWindow(`${rig.pages}${address}`, { colorScheme: 'dark', width: 420 });
      await other.page
        .getByRole('dialog', { name: 'Edit adhoc-1' })
        .getByRole('textbox', { name: 'URL', exact: true })
        .waitFor();
      await expectSound(other);
      await other.page.keyboard.press('Escape');
      await other.page.getByRole('dialog').waitFor({ state: 'detached' });
      expect(other.page.url()).toBe(`${rig.pages}${path}`);
      expect(window.defects).toEqual([]);
    },
  );

  test('an address of the form of a backend that is not there says so; that of a new one opens it', async () => {
    await using window = await openWindow(`${rig.pages}/clusters?edit=gone`);
    const { page } = window;
    await page.getByText('Backend gone is not there').waitFor();
    await expectSound(window);
    await page.getByRole('main').getByRole('button', { name: 'Close' }).click();
    await page.getByText('Backend gone is not there').waitFor({ state: 'detached' });
    expect(page.url()).toBe(`${rig.pages}/clusters`);
    await page.goto(`${rig.pages}/clusters?new=`);
    await page.getByRole('dialog', { name: 'Add a backend' }).getByRole('button', { name: 'Cancel' }).click();
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    expect(page.url()).toBe(`${rig.pages}/clusters`);
  });

  test('at 420 pixels nothing has to be scrolled sideways, and the menu opens and closes', async () => {
    await using window = await openWindow(`${rig.pages}/clusters`, { width: 420 });
    const { page } = window;
    await row(page, 'adhoc-1').waitFor();
    await expectSound(window);
    await page.getByRole('button', { name: 'Open the menu' }).click();
    await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Query History' }).click();
    await page.getByRole('heading', { level: 1, name: 'Query History' }).waitFor();
    await expect.poll(() => page.getByRole('navigation', { name: 'Pages' }).count()).toBe(0);
    expect(await page.evaluate('document.activeElement?.id')).toBe('main');
    await expectSound(window);
  });
});

const readManifests = async ({ manifests }: Rig): Promise<string> => {
  const files = await readdir(manifests);
  return (await Promise.all(files.map((file) => readFile(join(manifests, file), 'utf8')))).join('\n');
};
