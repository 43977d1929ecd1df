import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { canBrowse, openWindow } from './support/browser.ts';
import { type Rig, startRig } from './support/rig.ts';
import { expectSound } from './support/soundness.ts';

/**
 * What the pages make of refusals. Two come from a gateway configured for them; those of other managers' fields and of
 * things that are away are put in their answer's place, with the bodies that the API's own tests assert.
 */
describe.skipIf(!canBrowse)('a gateway that refuses', () => {
  let rig: Rig;
  beforeAll(async () => {
    rig = await startRig();
  });
  afterAll(async () => await rig?.[Symbol.asyncDispose]());

  test('fields of another manager are named with it, and can be taken over', async () => {
    await using window = await openWindow(`${rig.pages}/clusters`);
    const { page } = window;
    const owners = [{ field: 'spec.routingGroup', manager: 'argocd-controller' }];
    const message = 'spec.routingGroup is owned by argocd-controller; ?force=true takes it over.';
    const asked: string[] = [];
    await page.route('**/webapp/updateBackend*', async (route) => {
      asked.push(new URL(route.request().url()).search);
      if (asked.length > 1) return await route.continue();
      const body = { code: 409, msg: message, error: { code: 'EG_FIELD_OWNED', message, owners } };
      return await route.fulfill({ status: 409, json: body });
    });
    await page.getByRole('button', { name: 'Edit adhoc-1' }).click();
    const dialog = page.getByRole('dialog', { name: 'Edit adhoc-1' });
    await dialog.getByRole('combobox', { name: 'Routing group' }).fill('etl');
    await dialog.getByRole('button', { name: 'Save' }).click();
    const alert = dialog.getByRole('alert');
    await expect.poll(() => alert.textContent()).toMatch(/spec\.routingGroup: argocd-controller/);
    await expectSound(window);
    await dialog.getByRole('button', { name: 'Take over and save' }).click();
    await dialog.waitFor({ state: 'detached' });
    expect(asked).toEqual(['', '?force=true']);
    await expect.poll(() => page.getByRole('row').filter({ hasText: 'adhoc-1' }).textContent()).toMatch(/etl/);
  });

  test.each([
    [403, 'EG_API_WRITES_DISABLED', 'cannot activate a cluster by REST: resources.apiWrites is off'],
    [409, 'EG_READ_ONLY', 'clusters.yaml cannot be written'],
    [503, 'EG_SOURCE_UNAVAILABLE', 'the API server is away; nothing was changed'],
  ] as const)('a switch that is refused with %i goes back, and the reason is told', async (status, code, message) => {
    await using window = await openWindow(`${rig.pages}/clusters`);
    const { page } = window;
    await page.route('**/api/clusters/*/active', (route) =>
      route.fulfill({ status, json: { error: { code, message } } }),
    );
    const toggle = page.getByRole('switch', { name: 'adhoc-2 takes new queries' });
    await toggle.press('Space');
    await expect.poll(() => page.getByRole('alert').textContent()).toMatch(message);
    await expect.poll(() => toggle.isChecked()).toBe(true);
    await expectSound(window);
  });

  test('while the gateway is away pages show what they knew, and go on by themselves', async () => {
    await using window = await openWindow(`${rig.pages}/clusters`);
    const { page } = window;
    await page.getByRole('link', { name: 'adhoc-1' }).waitFor();
    await window.context.setOffline(true);
    await page.getByText('Shown as last known').waitFor();
    expect(await page.getByRole('link', { name: 'adhoc-1' }).count()).toBe(1);
    await expectSound(window);
    await window.context.setOffline(false);
    await page.getByText('Shown as last known').waitFor({ state: 'detached' });
  });

  test('a page that cannot be read tells why, and tries again when asked', async () => {
    await using window = await openWindow(`${rig.pages}/clusters`);
    const { page } = window;
    await page.getByRole('link', { name: 'adhoc-1' }).waitFor();
    const message = 'The database is away; nothing was changed.';
    const away = { code: 503, msg: message, error: { code: 'EG_DATABASE_UNAVAILABLE', message } };
    await page.route('**/webapp/findQueryHistory', (route) => route.fulfill({ status: 503, json: away }));
    await page.getByRole('link', { name: 'Query History' }).click();
    await expect.poll(() => page.getByRole('alert').textContent()).toMatch(message);
    await expectSound(window);
    await page.unroute('**/webapp/findQueryHistory');
    await page.getByRole('button', { name: 'Try again' }).click();
    await page.getByText('No query has run yet').waitFor();
  });
});
