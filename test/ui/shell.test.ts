import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { version } from '../../src/model/version.ts';
import { canBrowse, openWindow } from './support/browser.ts';
import { type Rig, startRig } from './support/rig.ts';
import { expectSound } from './support/soundness.ts';

describe.skipIf(!canBrowse)('the shell of the pages', () => {
  let rig: Rig;
  beforeAll(async () => {
    rig = await startRig();
  });
  afterAll(async () => await rig?.[Symbol.asyncDispose]());

  test.each(['light', 'dark'] as const)(
    'every page can be reached, shown and used by everybody, %s',
    async (colorScheme) => {
      await using window = await openWindow(rig.pages, { colorScheme });
      const { page } = window;
      const menu = page.getByRole('navigation', { name: 'Pages' }).getByRole('link');
      await menu.first().waitFor();
      expect(await page.getByRole('contentinfo').textContent()).toBe(`Engine Gateway ${version}`);
      for (const link of await menu.all()) {
        const name = await link.textContent();
        await link.click();
        await page.getByRole('heading', { level: 1, name: name ?? '' }).waitFor();
        await expect.poll(() => page.title()).toBe(`${name} · Engine Gateway`);
        await page.waitForLoadState('networkidle');
        await expectSound(window);
      }
      for (const name of [/^Display/, /^User/]) {
        await page.getByRole('button', { name }).click();
        await page.getByRole('dialog', { name }).waitFor();
        await expectSound(window);
        await page.keyboard.press('Escape');
      }
      await page.goto(`${rig.pages}/nowhere`);
      await page.getByRole('link', { name: 'To the first page' }).waitFor();
      await expectSound(window);
    },
  );
});
