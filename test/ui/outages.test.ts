import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { defaultLimits, openDatabase } from '../../src/store/database.ts';
import { parseJdbcUrl } from '../../src/store/jdbcUrl.ts';
import { openStore } from '../../src/store/openStore.ts';
import { hasPostgresql, startPostgresql } from '../support/postgresql.ts';
import type { TestServer } from '../support/serverProcess.ts';
import { timeOf } from '../support/stopwatch.ts';
import { canBrowse, openWindow } from './support/browser.ts';
import { logIn } from './support/login.ts';
import { formAccess, type Rig, startRig } from './support/rig.ts';
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
    expect(await timeOf(() => page.getByText('No connection to the gateway').waitFor())).toBeLessThan(5_000);
    await page.getByText('Shown as last known').waitFor();
    await page.getByText('The gateway cannot be reached.').waitFor();
    expect(await page.getByRole('link', { name: 'adhoc-1', exact: true }).count()).toBe(1);
    await expectSound(window);
    await toggle.press('Space');
    await expect
      .poll(() => page.getByRole('alert').textContent())
      .toMatch(/adhoc-1 could not be deactivated.*The gateway cannot be reached\./);
    await expect.poll(() => toggle.isChecked()).toBe(true);
    // Its code is not here yet: it comes by itself as well.
    await page.getByRole('link', { name: 'Limits' }).click();
    await page.getByRole('button', { name: 'Reload' }).waitFor();
    await page.getByText('No connection to the gateway').waitFor();
    await rig.startGateway();
    await page.getByRole('heading', { level: 1, name: 'Limits' }).waitFor();
    await page.getByText('No connection to the gateway').waitFor({ state: 'detached' });
    await page.getByRole('link', { name: 'Active Backends' }).click();
    await page.getByText('Shown as last known').waitFor({ state: 'detached' });
    await toggle.press('Space');
    await page.getByText('adhoc-1 takes no new queries; running ones go on.').waitFor();
    // The code of the page could not be loaded, which browsers report.
    const isOfCode = /Unable to preload|Failed to fetch dynamically imported module/;
    expect(window.defects.filter((defect) => !isOfCode.test(defect))).toEqual([]);
  });
});

describe.skipIf(!canBrowse)('while the gateway is unavailable to somebody who has not logged in', () => {
  let rig: Rig;
  beforeAll(async () => {
    rig = await startRig(formAccess());
  });
  afterAll(async () => await rig?.[Symbol.asyncDispose]());

  test('the login page says so within seconds, and goes on by itself', async () => {
    await using window = await openWindow(rig.pages, { colorScheme: 'dark', width: 420 });
    const { page } = window;
    await page.getByRole('textbox', { name: 'Name' }).waitFor();
    await rig.stopGateway();
    expect(await timeOf(() => page.getByText('No connection to the gateway').waitFor())).toBeLessThan(5_000);
    await expectSound(window);
    await logIn(window, 'ada');
    await page.getByRole('alert').getByText('The gateway cannot be reached.').waitFor();
    await expectSound(window);
    await rig.startGateway();
    await page.getByText('No connection to the gateway').waitFor({ state: 'detached' });
    await logIn(window, 'ada');
    await page.getByRole('heading', { level: 1, name: 'Dashboard' }).waitFor();
    expect(window.defects).toEqual([]);
  });

  test.each(['/api/logins', '/userinfo'])(
    'a page that lost it before %s was answered comes by itself',
    async (path) => {
      await using window = await openWindow('about:blank');
      const { page } = window;
      // The moment at which the process ends: the page is there, and asks who its user is.
      let ended: Promise<void> | null = null;
      await page.route(`**${path}`, async (route) => {
        ended ??= rig.stopGateway();
        await ended;
        await route.continue();
      });
      await page.goto(`${rig.pages}/clusters`, { waitUntil: 'commit' });
      const failure = page.getByRole('alert').filter({ hasText: 'Unavailable at the moment' });
      await failure.getByText('The gateway cannot be reached.').waitFor();
      await page.getByText('No connection to the gateway').waitFor();
      await expectSound(window);
      await rig.startGateway();
      await page.getByRole('textbox', { name: 'Name' }).waitFor();
      await page.getByText('No connection to the gateway').waitFor({ state: 'detached' });
      await logIn(window, 'ada');
      await page.getByRole('switch', { name: 'adhoc-1 takes new queries' }).waitFor();
      expect(window.defects).toEqual([]);
    },
  );

  test.each(['/api/logins', '/userinfo'])('a connection that breaks for %s alone is made again', async (path) => {
    await using window = await openWindow('about:blank');
    const { page } = window;
    let isBroken = true;
    await page.route(`**${path}`, (route) => (isBroken ? route.abort('connectionreset') : route.continue()));
    await page.goto(`${rig.pages}/clusters`, { waitUntil: 'commit' });
    await page.getByRole('alert').getByText('The gateway cannot be reached.').waitFor();
    // It can be, for all else.
    expect(await page.getByText('No connection to the gateway').count()).toBe(0);
    await expectSound(window);
    isBroken = false;
    await page.getByRole('textbox', { name: 'Name' }).waitFor();
    expect(window.defects).toEqual([]);
  });
});

describe.skipIf(!canBrowse || !hasPostgresql())('a database server', () => {
  let server: TestServer;
  let rigDatabase: Awaited<ReturnType<TestServer['createDatabase']>>;
  let rig: Rig;
  beforeAll(async () => {
    server = await startPostgresql();
    rigDatabase = await server.createDatabase();
    rig = await startRig({ dataStore: rigDatabase });
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
      expect(await timeOf(() => page.getByText('No connection to the database').waitFor())).toBeLessThan(5_000);
      await page.getByText('Shown as last known').waitFor();
      await expectSound(window);

      await page.getByRole('link', { name: 'Dashboard' }).click();
      const problem = page.getByRole('region', { name: 'Problems' }).getByRole('listitem');
      await problem
        .filter({ hasText: 'The database is unavailable' })
        .getByText(/^since \d{4}-/)
        .waitFor();
      await page
        .getByRole('region', { name: 'Verdict' })
        .getByText(/^The database is unavailable/)
        .waitFor();
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
    // Opened in the outage, it comes by itself.
    await page.getByText('No query has run yet').waitFor();
    await page.getByText('No connection to the database').waitFor({ state: 'detached' });
    expect(window.defects).toEqual([]);
  });

  test('that no replica leads is a problem once it lasts', async () => {
    await using window = await openWindow(rig.pages);
    const { page } = window;
    await page.getByRole('region', { name: 'Verdict' }).waitFor();
    const parsed = parseJdbcUrl(rigDatabase);
    if (!('target' in parsed)) throw new Error(JSON.stringify(parsed));
    const database = openDatabase(parsed.target, defaultLimits, pino({ level: 'silent' }));
    const problem = page.getByRole('region', { name: 'Problems' }).getByRole('link', { name: 'No replica leads' });
    try {
      // Another program holds the row, so that the leadership runs out.
      await database.transaction(async (trx) => {
        await trx('eg_leader').where('name', 'leader').forUpdate().first();
        await problem.waitFor({ timeout: 60_000 });
        await page.getByText(/no replica leads: statuses of resources are not written/).waitFor();
        await expectSound(window);
      });
    } finally {
      await database.close();
    }
    await problem.waitFor({ state: 'detached', timeout: 60_000 });
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
