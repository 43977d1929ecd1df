import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import type { Window } from './browser.ts';

const axeFile = createRequire(import.meta.url).resolve('axe-core/axe.min.js');

/** Violations that axe finds moderate or worse on the page as it is now, WCAG 2.2 AA and best practices. */
async function accessibilityProblems(page: Page): Promise<readonly string[]> {
  const known = await page.evaluate('typeof axe');
  // By the debugger's protocol, which the content security policy does not concern.
  if (known === 'undefined') await page.evaluate(await readFile(axeFile, 'utf8'));
  const found = (await page.evaluate('axe.run(document, { resultTypes: ["violations"] })')) as {
    violations: readonly {
      id: string;
      impact: string;
      help: string;
      nodes: readonly { html: string; failureSummary: string }[];
    }[];
  };
  return found.violations
    .filter(({ impact }) => impact !== 'minor')
    .map(
      ({ id, help, nodes }) =>
        `${id}: ${help}: ${nodes.map((node) => `${node.html} ${node.failureSummary}`).join(' | ')}`,
    );
}

/** Elements that reach beyond the window's width: the page would have to be scrolled sideways. */
async function overflow(page: Page): Promise<number> {
  return await page.evaluate('document.documentElement.scrollWidth - document.documentElement.clientWidth');
}

/**
 * Nothing went wrong in the page, and it can be used by everybody once what just opened has been painted.
 * @param place what a failure names
 */
export async function expectSound({ page, defects }: Window, place = 'the page'): Promise<void> {
  await expect.poll(() => accessibilityProblems(page), { interval: 200, message: place }).toEqual([]);
  await expect.poll(() => overflow(page), { message: place }).toBe(0);
  expect(defects, place).toEqual([]);
}
