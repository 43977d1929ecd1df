import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type BrowserContext, chromium, type Page } from 'playwright-core';
import { expect } from 'vitest';
import { requireComponent } from '../../support/components.ts';
import { folderOf } from '../../support/serverProcess.ts';

const programs = ['chromium', 'chromium-browser', 'google-chrome'] as const;
const program = programs
  .map((name) => ({ name, folder: folderOf([name], ['/usr/bin']) }))
  .find(({ folder }) => folder !== null);

/** Whether there is a browser to look at the pages with. */
export const canBrowse = requireComponent('chromium', program !== undefined, "install Debian's chromium");

/** How a browser window is. */
export interface WindowOptions {
  readonly colorScheme?: 'light' | 'dark';
  readonly width?: number;
  readonly height?: number;
  readonly timezoneId?: string;
}

/** A page in a browser of its own, that remembers what went wrong in it. */
export interface Window extends AsyncDisposable {
  readonly page: Page;
  readonly context: BrowserContext;
  /** Defects so far: exceptions, errors of the console, refusals by the content security policy. */
  readonly defects: readonly string[];
}

/**
 * Opens a browser with an empty profile on a page of a gateway. The log's lines of answers that are no success are not
 * defects: pages show those.
 */
export async function openWindow(url: string, options: WindowOptions = {}): Promise<Window> {
  if (program?.folder == null) throw new Error('there is no browser');
  const { colorScheme = 'light', width = 1280, height = 900, timezoneId = 'UTC' } = options;
  const profile = await mkdtemp(join(tmpdir(), 'browser-'));
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: join(program.folder, program.name),
    args: ['--disable-gpu', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
    chromiumSandbox: false,
    colorScheme,
    timezoneId,
    locale: 'en-GB',
    reducedMotion: 'reduce',
    viewport: { width, height },
    permissions: ['clipboard-read', 'clipboard-write'],
  });
  const defects: string[] = [];
  const page = context.pages()[0] ?? (await context.newPage());
  page.setDefaultTimeout(15_000);
  page.on('pageerror', (error) => defects.push(`exception: ${error.message}`));
  page.on('console', (message) => {
    if (message.type() !== 'error' && message.type() !== 'warning') return;
    if (/^Failed to load resource/.test(message.text())) return;
    defects.push(`${message.type()}: ${message.text()}`);
  });
  await page.goto(url);
  return {
    page,
    context,
    defects,
    async [Symbol.asyncDispose]() {
      await context.close();
      await rm(profile, { recursive: true, force: true, maxRetries: 3 });
    },
  };
}

const axeFile = createRequire(import.meta.url).resolve('axe-core/axe.min.js');

/** Violations that axe finds serious or critical on the page as it is now, WCAG 2.2 AA and best practices. */
export async function accessibilityProblems(page: Page): Promise<readonly string[]> {
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
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .map(
      ({ id, help, nodes }) =>
        `${id}: ${help}: ${nodes.map((node) => `${node.html} ${node.failureSummary}`).join(' | ')}`,
    );
}

/** Elements that reach beyond the window's width: the page would have to be scrolled sideways. */
export async function overflow(page: Page): Promise<number> {
  return await page.evaluate('document.documentElement.scrollWidth - document.documentElement.clientWidth');
}

/** Nothing went wrong in the page, and it can be used by everybody. */
export async function expectSound({ page, defects }: Window): Promise<void> {
  expect(await accessibilityProblems(page)).toEqual([]);
  expect(await overflow(page)).toBe(0);
  expect(defects).toEqual([]);
}
