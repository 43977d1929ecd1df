import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { canBrowse, openWindow, type Window } from './support/browser.ts';
import { type Rig, startRig } from './support/rig.ts';
import { expectSound } from './support/soundness.ts';

describe.skipIf(!canBrowse)('the page of resource groups', () => {
  let rig: Rig;
  beforeAll(async () => {
    rig = await startRig();
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
    await dialog
      .getByText(/softMemoryLimit|percentage/i)
      .last()
      .waitFor();
    expect(await dialog.getByLabel('Soft memory limit').getAttribute('aria-invalid')).toBe('true');
    await dialog.getByLabel('Soft memory limit').fill('80%');
    await save();

    await page.getByRole('button', { name: 'Add a group below global' }).click();
    await dialog.getByLabel('Name').fill('etl');
    await save();
    const below = page.getByRole('list', { name: 'Groups below global' });
    await below.getByText('etl', { exact: true }).waitFor();
    await other.page.getByRole('list', { name: 'Groups below global' }).getByText('etl', { exact: true }).waitFor();

    await page.getByRole('button', { name: 'Add a selector of etl' }).click();
    await dialog.getByLabel('User').fill('(');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await expect.poll(() => dialog.getByLabel('User').getAttribute('aria-invalid')).toBe('true');
    await dialog.getByLabel('User').fill('loader.*');
    await save();
    await page.getByText('priority 1: user loader.*').waitFor();
    await page.getByRole('button', { name: 'Edit selector 1 of etl' }).click();
    await dialog.getByLabel('Priority').fill('7');
    await save();
    await page.getByText('priority 7: user loader.*').waitFor();

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

  test.each(['light', 'dark'] as const)('can be used by everybody, %s', async (colorScheme) => {
    await using window = await open({ colorScheme });
    const { page } = window;
    await page.getByRole('list', { name: 'Resource groups' }).waitFor();
    await expectSound(window);
    await page.getByRole('button', { name: 'Edit global' }).click();
    await page.getByRole('dialog').waitFor();
    await expectSound(window);
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
