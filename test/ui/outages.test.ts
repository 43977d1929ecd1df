import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openStore } from '../../src/store/openStore.ts';
import { hasPostgresql, startPostgresql } from '../support/postgresql.ts';
import type { TestServer } from '../support/serverProcess.ts';
import { canBrowse, openWindow } from './support/browser.ts';
import { type Rig, startRig } from './support/rig.ts';
import { expectSound } from './support/soundness.ts';

describe.skipIf(!canBrowse)('while the gateway is unavailable', () => {
  let rig: Rig;
  beforeAll(async () => {
    rig = await startRig();
  });
  afterAll(async () => await rig?.[Symbol.asyncDispose]());

  test('pages show what they knew, a change is refused, and all goes on by itself', async () => {
    await using window = await openWindow(`${rig.pages}/clusters`);
    const { page } = window;
    const toggle = page.getByRole('switch', { name: 'adhoc-1 takes new queries' });
    await toggle.waitFor();
    await rig.stopGateway();
    await page.getByText('Shown as last known').waitFor();
    await page.getByText('The gateway cannot be reached.').waitFor();
    expect(await page.getByRole('link', { name: 'adhoc-1' }).count()).toBe(1);
    await expectSound(window);
    await toggle.press('Space');
    await expect
      .poll(() => page.getByRole('alert').textContent())
      .toMatch(/adhoc-1 could not be deactivated.*The gateway cannot be reached\./);
    await expect.poll(() => toggle.isChecked()).toBe(true);
    await rig.startGateway();
    await page.getByText('Shown as last known').waitFor({ state: 'detached' });
    await toggle.press('Space');
    await page.getByText('adhoc-1 takes no new queries; running ones go on.').waitFor();
    expect(window.defects).toEqual([]);
  });
});

describe.skipIf(!canBrowse || !hasPostgresql())('a database server', () => {
  let server: TestServer;
  let rig: Rig;
  beforeAll(async () => {
    server = await startPostgresql();
    rig = await startRig({ dataStore: await server.createDatabase() });
  });
  afterAll(async () => {
    await rig?.[Symbol.asyncDispose]();
    await server?.dispose();
  });

  /** An empty database of the same server. */
  const createDatabase = async () => {
    const jdbc = await server.createDatabase();
    return { jdbc, name: jdbc.jdbcUrl.slice(jdbc.jdbcUrl.lastIndexOf('/') + 1) };
  };

  test('while it is unavailable, what needs it says so and when to try again; what does not is changed, and follows by itself', async () => {
    await using window = await openWindow(`${rig.pages}/resource-groups`);
    const { page } = window;
    await page.getByText('There are no resource groups in this database.').waitFor();
    await server.stop(true);
    try {
      await page.getByText('Shown as last known').waitFor();
      await expectSound(window);

      await page.getByRole('link', { name: 'Active Backends' }).click();
      await page.getByRole('switch', { name: 'adhoc-1 takes new queries' }).press('Space');
      await page.getByText(/^adhoc-1 takes no new queries.*It is safe, but the database is unavailable/).waitFor();
      await expectSound(window);

      await page.getByRole('link', { name: 'Query History' }).click();
      await expect
        .poll(() => page.getByRole('alert').textContent())
        .toMatch(/Unavailable at the moment.*database is unavailable.*; try again in \d+ s\./);
      await expectSound(window);
    } finally {
      await server.start();
    }
    await expect
      .poll(async () => {
        const again = page.getByRole('button', { name: 'Try again' });
        if ((await again.count()) > 0) await again.click();
        return await page.getByText('No query has run yet').count();
      })
      .toBe(1);
    expect(window.defects).toEqual([]);
  });

  test('another database of the server is chosen and changed; one without the tables is refused', async () => {
    const { name, jdbc } = await createDatabase();
    await (await openStore({ ...jdbc, runMigrations: true, logger: pino({ level: 'silent' }) })).close();
    await using window = await openWindow(`${rig.pages}/resource-groups`);
    const { page } = window;
    const show = async (database: string) => {
      await page.getByLabel('Database').fill(database);
      await page.getByRole('button', { name: 'Show' }).click();
      await page.waitForURL((url) => (url.searchParams.get('useSchema') ?? '') === database);
    };
    await show(name);
    await page.getByText('There are no resource groups in this database.').waitFor();
    await page.getByRole('button', { name: 'Add a resource group' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Name').fill('elsewhere');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await dialog.waitFor({ state: 'detached' });
    const groups = page.getByRole('list', { name: 'Resource groups' });
    await groups.getByText('elsewhere', { exact: true }).waitFor();
    await expectSound(window);
    await show('');
    await page.getByText('There are no resource groups in this database.').waitFor();
    await show((await createDatabase()).name);
    await expect.poll(() => page.getByRole('alert').textContent()).toMatch(/resource_groups/);
    await expectSound(window);
  });
});
