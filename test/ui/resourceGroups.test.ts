import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { stringify } from 'yaml';
import { manifest } from '../support/manifest.ts';
import { canBrowse, openWindow, type Window } from './support/browser.ts';
import { type Rig, startRig } from './support/rig.ts';
import { expectSound } from './support/soundness.ts';

describe.skipIf(!canBrowse)('the page of resource groups', () => {
  let rig: Rig;
  beforeAll(async () => {
    rig = await startRig();
    // As the engine's own migrations have them.
    const database = new DatabaseSync(rig.database, { timeout: 10_000 });
    for (const column of ['user_group_regex', 'original_user_regex', 'authenticated_user_regex']) {
      database.exec(`ALTER TABLE selectors ADD COLUMN ${column} varchar(2048)`);
    }
    database.close();
  });
  afterAll(async () => await rig?.[Symbol.asyncDispose]());

  const open = async (options: Parameters<typeof openWindow>[1] = {}): Promise<Window> => {
    const window = await openWindow(`${rig.pages}/resource-groups`, options);
    await window.page.getByRole('heading', { level: 1, name: 'Resource Groups' }).waitFor();
    return window;
  };

  test('groups, selectors and properties are created, changed and deleted; mistakes stand at their field', async () => {
    await using window = await open();
    await using other = await open();
    const { page } = window;
    const dialog = page.getByRole('dialog');
    const save = async () => {
      await dialog.getByRole('button', { name: 'Save' }).click();
      await dialog.waitFor({ state: 'detached' });
    };
    await page.getByText('There are no resource groups in this database.').waitFor();

    await page.getByRole('button', { name: 'Add a resource group' }).click();
    await dialog.getByLabel('Name').fill('global');
    await dialog.getByLabel('Soft memory limit').fill('a lot');
    await dialog.getByRole('button', { name: 'Save' }).click();
    const memory = dialog.getByLabel('Soft memory limit');
    await expect.poll(() => memory.getAttribute('aria-invalid')).toBe('true');
    await dialog.getByText(/must be a percentage/).waitFor();
    await memory.fill('80%');
    await dialog.getByLabel('Environment').fill('test');
    await save();

    await page.getByRole('button', { name: 'Add a group below global' }).click();
    await dialog.getByLabel('Name').fill('etl');
    await save();
    const below = page.getByRole('list', { name: 'Groups below global' });
    await below.getByText('etl', { exact: true }).waitFor();
    await other.page.getByRole('list', { name: 'Groups below global' }).getByText('etl', { exact: true }).waitFor();

    await page.getByRole('button', { name: 'Add a selector of etl' }).click();
    await dialog.getByLabel('User').fill('loader.*');
    await save();
    await page.getByText('priority 1: user loader.*').waitFor();
    await page.getByRole('button', { name: 'Edit selector 1 of etl' }).click();
    const editing = page.getByRole('dialog', { name: 'Edit the selector' });
    await editing.getByLabel('Priority').fill('7');
    const discard = page.getByRole('dialog', { name: 'Discard the edits?' });
    for (const leave of ['Escape', 'Cancel']) {
      if (leave === 'Escape') await page.keyboard.press('Escape');
      else await editing.getByRole('button', { name: 'Cancel' }).click();
      await discard.getByRole('button', { name: 'Cancel' }).click();
      await discard.waitFor({ state: 'detached' });
    }
    expect(await editing.getByLabel('Priority').inputValue()).toBe('7');
    await save();
    await page.getByText('priority 7: user loader.*').waitFor();

    const panel = page.getByRole('region', { name: 'Which group takes a query' });
    const user = panel.getByRole('textbox', { name: 'User', exact: true });
    await user.fill('loader-1');
    await panel.getByRole('button', { name: 'Which group takes it?' }).click();
    await panel.getByText('global.etl', { exact: true }).waitFor();
    await panel.getByText('✓ priority 7, global.etl: all its conditions hold').waitFor();
    await expectSound(window);
    await user.fill('bob');
    await panel.getByRole('button', { name: 'Which group takes it?' }).click();
    await panel.getByText('no selector matches: the engine refuses the query (QUERY_REJECTED)').waitFor();
    await panel.getByText('priority 7, global.etl: "loader.*" does not match "bob"').waitFor();

    // The user who sent the query, and what the client expects of it, count as well.
    const rest = async <T>(path: string, body?: object): Promise<T> => {
      const init = body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) };
      const response = await fetch(`${rig.gateway.url}/engine/${path}`, init);
      return (await response.json()) as T;
    };
    const [root] = await rest<{ resourceGroupId: number }[]>('resourcegroup/read');
    const selector = await rest<object>('selector/create', {
      ...{
        resourceGroupId: root?.resourceGroupId,
        priority: 9,
        originalUserRegex: 'ann',
        authenticatedUserRegex: 'svc',
      },
      selectorResourceEstimate: '{"cpuTime": {"max": "1h"}}',
    });
    const ask = () => panel.getByRole('button', { name: 'Which group takes it?' }).click();
    await ask();
    await panel.getByText('priority 9, global: "ann" does not match "bob"').waitFor();
    await panel.getByLabel('Original user').fill('ann');
    await ask();
    await panel.getByText('priority 9, global: "svc" does not match "ann"').waitFor();
    await panel.getByLabel('Authenticated user').fill('svc');
    await panel.getByLabel('Estimated CPU time').fill('2 hours');
    await ask();
    await panel.getByText(/resourceEstimates\.cpuTime must be/).waitFor();
    await panel.getByLabel('Estimated CPU time').fill('2h');
    await ask();
    await panel.getByText(/^priority 9, global: .*cpuTime/).waitFor();
    await panel.getByLabel('Estimated CPU time').fill('30m');
    await ask();
    await panel.getByText('✓ priority 9, global: all its conditions hold').waitFor();
    await expectSound(window);
    await fetch(`${rig.gateway.url}/engine/selector/delete`, { method: 'POST', body: JSON.stringify(selector) });

    await page.getByRole('button', { name: 'Set cpu_quota_period' }).click();
    await dialog.getByLabel('Value').fill('soon');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await expect.poll(() => dialog.getByLabel('Value').getAttribute('aria-invalid')).toBe('true');
    await dialog.getByLabel('Value').fill('1h');
    await save();
    await page.getByText('cpu_quota_period = 1h').waitFor();

    await page.getByRole('button', { name: 'Edit etl' }).click();
    await dialog.getByLabel('Queries that may run').fill('3');
    await save();
    await below.getByText('runs 3').waitFor();

    const agree = async () => {
      await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
      await page.getByRole('dialog').waitFor({ state: 'detached' });
    };
    await page.getByRole('button', { name: 'Delete etl' }).click();
    await agree();
    await page.getByText('etl could not be deleted').waitFor();
    await page.getByRole('button', { name: 'Delete selector 1 of etl' }).click();
    await agree();
    await page.getByText('priority 7: user loader.*').waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Delete etl' }).click();
    await agree();
    await below.waitFor({ state: 'detached' });
    expect([...window.defects, ...other.defects]).toEqual([]);
  });

  test('the form that is open stands in the address: a link opens it, Back closes it and asks before edits are lost', async () => {
    await using window = await open();
    const { page } = window;
    const dialog = page.getByRole('dialog');
    const discard = page.getByRole('dialog', { name: 'Discard the edits?' });
    const isAt = async (search: string) => await expect.poll(() => new URL(page.url()).search).toBe(search);
    const addSelector = page.getByRole('button', { name: 'Add a selector of global' });
    await addSelector.click();
    await dialog.getByLabel('User', { exact: true }).fill('ann');
    await page.goBack();
    await discard.getByRole('button', { name: 'Cancel' }).click();
    await discard.waitFor({ state: 'detached' });
    expect(await dialog.getByLabel('User', { exact: true }).inputValue()).toBe('ann');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await dialog.waitFor({ state: 'detached' });
    await isAt('');

    for (const [button, title] of [
      ['Edit global', 'Edit global'],
      ['Add a group below global', 'Add a resource group'],
      ['Add a selector of global', 'Add a selector'],
      ['Edit selector 1 of global', 'Edit the selector'],
      ['Edit cpu_quota_period', 'Edit cpu_quota_period'],
      ['Add a resource group', 'Add a resource group'],
    ] as const) {
      await page.getByRole('button', { name: button, exact: true }).click();
      const form = page.getByRole('dialog', { name: title });
      await form.waitFor();
      const shared = page.url();
      await page.goBack();
      await form.waitFor({ state: 'detached' });
      await isAt('');
      await page.goto(shared);
      await form.waitFor();
      if (button === 'Add a group below global') await form.getByRole('combobox', { name: 'Parent' }).waitFor();
      if (button === 'Edit selector 1 of global') {
        expect(await form.getByLabel('User', { exact: true }).inputValue()).toBe('ann');
      }
      await page.keyboard.press('Escape');
      await form.waitFor({ state: 'detached' });
      await isAt('');
    }
    for (const [search, title] of [
      ['?group=4711', 'Resource group 4711 is not there'],
      ['?newSelector=4711', 'Resource group 4711 is not there'],
      ['?selector=4711', 'Selector 4711 is not there'],
      ['?property=nothing', 'Global property nothing is not there'],
    ] as const) {
      await page.goto(`${rig.pages}/resource-groups${search}`);
      await page.getByText(title).waitFor();
    }
    await expectSound(window);
    await page.getByRole('main').getByRole('button', { name: 'Close' }).click();
    await isAt('');
    await page.getByRole('button', { name: 'Delete selector 1 of global' }).click();
    await dialog.getByRole('button', { name: 'Delete' }).click();
    await page.getByText('priority 1: user ann').waitFor({ state: 'detached' });
    expect(window.defects).toEqual([]);
  });

  test('rows that a resource declares name it before they are edited, and changes go into it', async () => {
    const declare = (maxQueued: number) =>
      writeFile(
        join(rig.manifests, 'groups.yaml'),
        stringify(
          manifest('ResourceGroupConfiguration', 'production', {
            environment: 'production',
            cpuQuotaPeriod: '1h',
            rootGroups: [{ name: 'declared', softMemoryLimit: '50%', hardConcurrencyLimit: 5, maxQueued }],
            selectors: [{ user: 'ann', group: 'declared' }],
          }),
        ),
      );
    const answered = async () => (await fetch(`${rig.gateway.url}/api/resourcegroups/declared`)).json();
    await declare(100);
    await expect.poll(answered).toMatchObject([
      {
        ...{ namespace: 'default', name: 'production', environment: 'production', drift: null },
        resourceGroupIds: [expect.any(Number)],
        properties: ['cpu_quota_period'],
        resource: {
          managers: [],
          conditions: expect.arrayContaining([expect.objectContaining({ type: 'Ready', status: 'True' })]),
        },
      },
    ]);
    await using window = await open();
    const { page } = window;
    const row = page.getByRole('listitem').filter({ has: page.getByText('declared', { exact: true }) });
    await row.getByText('declared by default/production', { exact: true }).waitFor();
    await page
      .getByRole('list', { name: 'Selectors of declared' })
      .getByText('priority 1: user ann declared')
      .waitFor();
    await page
      .getByRole('region', { name: 'Global properties' })
      .getByText('declared by default/production', { exact: true })
      .waitFor();
    const resources = page.getByRole('region', { name: 'Declared by resources' });
    await resources
      .getByText('default/production: 1 group and cpu_quota_period of the environment production', { exact: true })
      .waitFor();
    // Rows of others name none.
    expect(await page.getByText(/^declared by/).count()).toBe(2);
    await expectSound(window);

    // Only with Kubernetes fields have managers (kubernetes.test.ts): here the change goes into the file.
    await page.getByRole('button', { name: 'Edit selector 1 of declared' }).click();
    const dialog = page.getByRole('dialog', { name: 'Edit the selector' });
    await dialog
      .getByText(/^Declared by the ResourceGroupConfiguration default\/production, in .*groups\.yaml/)
      .waitFor();
    await dialog.getByLabel('User', { exact: true }).fill('bob');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await dialog.waitFor({ state: 'detached' });
    expect(await readFile(join(rig.manifests, 'groups.yaml'), 'utf8')).toContain('user: bob');

    // What cannot be accepted leaves the rows as they are, and the page says so.
    await declare(-1);
    await expect.poll(async () => JSON.stringify(await answered())).toMatch(/"type":"Ready","status":"False"/);
    await page.reload();
    await row.getByText('not ready', { exact: true }).waitFor();
    await resources
      .getByRole('status')
      .getByText(/maxQueued/)
      .waitFor();
    await expectSound(window);
    expect(window.defects).toEqual([]);
  });

  test('hundreds of groups are put into the page where they are seen, and stay there', async () => {
    const ids: number[] = [];
    for (let index = 0; index < 120; index += 1) {
      const data = {
        name: `many-${String(index).padStart(3, '0')}`,
        softMemoryLimit: '1%',
        maxQueued: 1,
        hardConcurrencyLimit: 1,
      };
      const response = await fetch(`${rig.gateway.url}/webapp/saveResourceGroup`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ data }),
      });
      ids.push(((await response.json()) as { data: { resourceGroupId: number } }).data.resourceGroupId);
    }
    await using window = await open();
    const { page } = window;
    const edit = (name: string) => page.getByRole('button', { name: `Edit ${name}`, exact: true });
    await edit('many-000').waitFor();
    expect(await edit('many-119').count()).toBe(0);
    await page.evaluate('window.scrollTo(0, document.documentElement.scrollHeight)');
    await edit('many-119').click();
    await page.getByRole('dialog').getByLabel('Soft memory limit').waitFor();
    expect(await edit('many-000').count()).toBe(1);
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    for (const resourceGroupId of ids) {
      await fetch(`${rig.gateway.url}/webapp/deleteResourceGroup`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ data: { resourceGroupId } }),
      });
    }
  });

  test('a refused database is reported', async () => {
    await using window = await open();
    const { page } = window;
    await page.getByRole('list', { name: 'Resource groups' }).waitFor();
    await page.getByLabel('Database').fill('elsewhere');
    await page.getByRole('button', { name: 'Show' }).click();
    // SQLite has one database only.
    await page
      .getByRole('alert')
      .getByText(/SQLite/i)
      .waitFor();
  });
});
