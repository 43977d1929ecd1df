import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { cancel, submit } from '../support/statementClient.ts';
import { canBrowse, openWindow } from './support/browser.ts';
import { closeNotices } from './support/notices.ts';
import { expectWithin, stopTime } from './support/pageTime.ts';
import { type Rig, startRig } from './support/rig.ts';
import { expectSound } from './support/soundness.ts';

/** How fast a change made elsewhere has to show, in milliseconds. */
const LIVE_MS = 2_000;

const row = (page: Page, name: string) =>
  page.getByRole('row').filter({ has: page.getByRole('link', { name, exact: true }) });
const switchOf = (page: Page, name: string) => page.getByRole('switch', { name: `${name} takes new queries` });

describe.skipIf(!canBrowse)('Active Backends', () => {
  let rig: Rig;
  beforeAll(async () => {
    rig = await startRig();
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
    expect(await page.getByRole('link', { name: 'adhoc-1' }).getAttribute('href')).toBe(adhoc?.url);
    await page.getByRole('button', { name: 'Name' }).click();
    const names = () => page.getByRole('table').getByRole('link').allTextContents();
    await expect.poll(names).toEqual(['etl-1', 'adhoc-2', 'adhoc-1']);
    expect(await page.getByRole('columnheader', { name: 'Name' }).getAttribute('aria-sort')).toBe('descending');
    await page.getByRole('textbox', { name: 'Filter backends' }).fill('ETL');
    await expect.poll(names).toEqual(['etl-1']);
    await page.getByRole('textbox', { name: 'Filter backends' }).fill('none such');
    await page.getByText('No backend matches the filter.').waitFor();
    await expectSound(window);
  });

  test('a switch moved in one browser shows in another within two seconds, with who and when', async () => {
    await using mine = await openWindow(`${rig.pages}/clusters`);
    await using theirs = await openWindow(`${rig.pages}/clusters`, { colorScheme: 'dark', hasOwnClock: true });
    await switchOf(theirs.page, 'adhoc-2').waitFor();
    await stopTime(theirs);
    await switchOf(mine.page, 'adhoc-2').press('Space');
    await mine.page.getByText('adhoc-2 takes no new queries; running ones go on.').waitFor();
    await expectWithin(theirs, LIVE_MS, async () => !(await switchOf(theirs.page, 'adhoc-2').isChecked()));
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

  test('what is written to the manifests elsewhere shows within two seconds', async () => {
    await using window = await openWindow(`${rig.pages}/clusters`, { hasOwnClock: true });
    await switchOf(window.page, 'etl-1').waitFor();
    await stopTime(window);
    const answer = await fetch(`${rig.gateway.url}/gateway/backend/modify/add`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ name: 'by-rest', proxyTo: rig.engines[0]?.url, active: true, routingGroup: 'adhoc' }),
    });
    expect(answer.status).toBe(200);
    await expectWithin(window, LIVE_MS, async () => (await row(window.page, 'by-rest').count()) === 1);
    await fetch(`${rig.gateway.url}/gateway/backend/modify/delete`, { method: 'POST', body: 'by-rest' });
    await expectWithin(window, LIVE_MS, async () => (await row(window.page, 'by-rest').count()) === 0);
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
    await expect.poll(() => row(page, 'etl-1').textContent()).toMatch(/HEALTHY/);
    expect(window.defects).toEqual([]);
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
    await page.keyboard.press('Escape');

    await page.getByRole('button', { name: 'Edit new-1' }).click();
    const edit = page.getByRole('dialog', { name: 'Edit new-1' });
    await edit.getByRole('textbox', { name: 'External URL' }).fill('https://engine.example');
    await edit.getByRole('button', { name: 'Save' }).click();
    await edit.waitFor({ state: 'detached' });
    await expect
      .poll(() => page.getByRole('link', { name: 'new-1' }).getAttribute('href'))
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
