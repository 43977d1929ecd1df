import { type Browser, type BrowserContext, chromium, type Page, type Request } from 'playwright-core';
import { requireComponent } from '../../support/components.ts';
import { folderOf } from '../../support/serverProcess.ts';

/** The headless shell is Chromium without the windows around its pages, and takes 40 % less processor time than it. */
const programs = ['chromium-headless-shell', 'chromium', 'chromium-browser', 'google-chrome'];
const program = programs.map((name) => [folderOf([name], ['/usr/bin']), name]).find(([folder]) => folder !== null);

/** Whether there is a browser to look at the pages with. */
export const canBrowse = requireComponent('chromium', program !== undefined, 'install chromium-headless-shell');

/** How a browser window is. */
export interface WindowOptions {
  readonly colorScheme?: 'light' | 'dark';
  readonly width?: number;
  readonly height?: number;
  readonly timezoneId?: string;
  /** Whether the test can stop the page's clock (pageTime.ts): false. */
  readonly hasOwnClock?: boolean;
  /** More arguments of the browser. */
  readonly args?: readonly string[];
}

/** A page with a profile of its own, that remembers what went wrong in it. */
export interface Window extends AsyncDisposable {
  readonly page: Page;
  readonly context: BrowserContext;
  /** How many requests of the page have no answer yet. */
  readonly waiting: () => number;
  /** Defects so far: exceptions, errors of the console, refusals by the content security policy. */
  readonly defects: readonly string[];
}

/** Browsers of this file by their arguments; they end with its process. */
const browsers = new Map<string, Promise<Browser>>();

function browserWith(args: readonly string[]): Promise<Browser> {
  const key = args.join(' ');
  const started =
    browsers.get(key) ??
    chromium.launch({
      executablePath: program?.join('/') ?? '',
      args: ['--disable-gpu', ...args],
      chromiumSandbox: false,
    });
  browsers.set(key, started);
  return started;
}

/** Ends the browsers, for a program that goes on. */
export async function closeBrowsers(): Promise<void> {
  for (const browser of browsers.values()) await (await browser).close();
  browsers.clear();
}

/**
 * Opens a window with an empty profile on a page of a gateway. The log's lines of answers that are no success are not
 * defects: pages show those.
 */
export async function openWindow(url: string, options: WindowOptions = {}): Promise<Window> {
  const {
    colorScheme = 'light',
    width = 1280,
    height = 900,
    timezoneId = 'UTC',
    hasOwnClock = false,
    args = [],
  } = options;
  const browser = await browserWith(args);
  const context = await browser.newContext({
    colorScheme,
    timezoneId,
    locale: 'en-GB',
    reducedMotion: 'reduce',
    viewport: { width, height },
    permissions: ['clipboard-read', 'clipboard-write'],
  });
  const defects: string[] = [];
  const page = await context.newPage();
  page.setDefaultTimeout(30_000);
  page.on('pageerror', (error) => defects.push(`exception: ${error.message}`));
  page.on('console', (message) => {
    if (message.type() !== 'error' && message.type() !== 'warning') return;
    if (/^Failed to load resource/.test(message.text())) return;
    defects.push(`${message.type()}: ${message.text()}`);
  });
  const requests = new Set<Request>();
  page.on('request', (request) => {
    // The stream of events has no end.
    if (request.resourceType() !== 'eventsource') requests.add(request);
  });
  page.on('requestfinished', (request) => requests.delete(request));
  page.on('requestfailed', (request) => requests.delete(request));
  if (hasOwnClock) await page.clock.install();
  await page.goto(url);
  return {
    page,
    context,
    waiting: () => requests.size,
    defects,
    [Symbol.asyncDispose]: () => context.close(),
  };
}
