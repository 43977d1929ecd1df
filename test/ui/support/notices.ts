import type { Page } from 'playwright-core';
import { expect } from 'vitest';

/** Closes the notice that something was done; such a notice goes by itself after a few seconds, perhaps just now. */
export async function closeNotices(page: Page): Promise<void> {
  const close = page.getByRole('button', { name: 'Close' });
  const left = async () => {
    await close
      .first()
      .click({ timeout: 500 })
      .catch(() => undefined);
    return await close.count();
  };
  await expect.poll(left).toBe(0);
}
