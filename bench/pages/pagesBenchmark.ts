import { parseArgs } from 'node:util';
import { statisticsDimensions } from '../../src/store/statisticsDimension.ts';
import { canBrowse, openWindow, type Window } from '../../test/ui/support/browser.ts';
import { cpuMicroseconds, cpuMicrosecondsOfPastFamily } from '../proxy/processTimes.ts';
import { median } from '../statistics.ts';
import { type LargeGateway, lastQuery, startLargeGateway } from './largeGateway.ts';
import { RendererTime } from './rendererTime.ts';

/** Milliseconds of the page's main thread until a page shows what it is about. */
const MAY_OPEN = 1_000;
/** Milliseconds of it for anything that a user does there. */
const MAY_REACT = 200;
/** Milliseconds of the gateway for an answer that is as before. */
const MAY_RESPONSE = 2;
/** The same for figures that are counted again once a minute. */
const MAY_MAKE = 10;
/** Requests of a page that nobody touches, in a minute. */
const MAY_REQUEST = 18;
/** Browsers at once: more of them take each other's processor time. */
const IDLE_AT_ONCE = 5;
/** Elapsed milliseconds for figures of all queries. */
const MAY_COUNT = 300;
/** The same for the dashboard's longest range, which is counted again every ten minutes at most. */
const MAY_DRAW = 3_000;
const LONG_RANGE_MINUTES = 30 * 24 * 60;
/** What words after the name choose. */
const partNames = ['answers', 'statistics', 'use', 'idle'] as const;
const STATISTICS_CALLS = 7;
const CALLS = 300;
const WARM_UP = 30;

/** Something that a user does, and what shows that it is done. */
interface Action {
  readonly name: string;
  readonly run: (page: Window['page']) => Promise<unknown>;
}

interface MeasuredPage {
  readonly path: string;
  /** Resolves once the page shows what it is about. */
  readonly shown: (page: Window['page']) => Promise<unknown>;
  readonly actions: readonly Action[];
}

const row = (page: Window['page'], text: string) => page.getByRole('row').filter({ hasText: text }).first();
const scroll = (name: string, last: string): Action => ({
  name,
  run: async (page) => {
    await page.evaluate('window.scrollTo(0, document.documentElement.scrollHeight)');
    await row(page, last).waitFor();
  },
});
const press =
  (name: string): ((page: Window['page']) => Promise<void>) =>
  (page) =>
    page.getByRole('button', { name, exact: true }).click();

const pages: readonly MeasuredPage[] = [
  {
    path: '',
    shown: (page) => page.getByRole('region', { name: 'Problems' }).getByText('95 more rules').waitFor(),
    actions: [
      {
        name: 'another range',
        run: async (page) => {
          await page.getByRole('radiogroup', { name: 'Range' }).getByText('24 h').click();
          await page.getByText('averaged over 6 minutes').waitFor();
          await page.getByText('in the last 24 hours').first().waitFor();
        },
      },
    ],
  },
  {
    path: 'clusters',
    shown: (page) => page.getByRole('link', { name: 'c0', exact: true }).waitFor(),
    actions: [
      {
        name: 'filter',
        run: async (page) => {
          await page.getByLabel('Filter backends').fill('c49');
          await row(page, 'c499').waitFor();
        },
      },
      {
        name: 'filter taken away',
        run: async (page) => {
          await page.getByLabel('Filter backends').fill('');
          await row(page, 'c0').waitFor();
        },
      },
      {
        name: 'sort',
        run: async (page) => {
          await press('Name')(page);
          await row(page, 'c499').waitFor();
        },
      },
      scroll('scroll to the end', 'c0'),
      {
        name: 'open a dialog',
        run: async (page) => {
          await page
            .getByRole('button', { name: /^Details of/ })
            .first()
            .click();
          await page.getByRole('dialog').waitFor();
        },
      },
    ],
  },
  {
    path: 'history',
    shown: (page) => row(page, 'select a, b, c').waitFor(),
    actions: [
      {
        name: 'filter',
        run: async (page) => {
          await page.getByLabel('User', { exact: true }).fill('user7');
          await page.getByRole('button', { name: 'Filter', exact: true }).click();
          await page.waitForURL(/user=user7/);
          await row(page, 'user7').waitFor();
        },
      },
    ],
  },
  {
    path: 'routing-rules',
    shown: (page) => row(page, 's0"').waitFor(),
    actions: [
      {
        name: 'search',
        run: async (page) => {
          await page.getByLabel('Search rules').fill('s4999');
          await row(page, 'r4999').waitFor();
        },
      },
      {
        name: 'search taken away',
        run: async (page) => {
          await page.getByLabel('Search rules').fill('');
          await row(page, 's0"').waitFor();
        },
      },
      {
        name: 'sort',
        run: async (page) => {
          await press('Status')(page);
          await page.getByRole('columnheader', { name: 'Status' }).and(page.locator('[aria-sort=ascending]')).waitFor();
        },
      },
      scroll('scroll to the end', 'r4999'),
      {
        name: 'open the editor',
        run: async (page) => {
          await page
            .getByRole('button', { name: /^Edit / })
            .first()
            .click();
          await page.getByRole('dialog').getByLabel('Condition').waitFor();
        },
      },
      { name: 'type', run: (page) => page.getByRole('dialog').getByLabel('Condition').press('x') },
    ],
  },
  {
    path: `queries/${lastQuery}`,
    shown: (page) => page.getByRole('region', { name: 'Outcome' }).getByText('Elapsed').waitFor(),
    actions: [],
  },
  {
    path: 'audit',
    shown: (page) => row(page, 'r999').waitFor(),
    actions: [
      {
        name: 'filter',
        run: async (page) => {
          await page.getByLabel('User', { exact: true }).fill('user7');
          await page.getByRole('button', { name: 'Filter', exact: true }).click();
          await page.waitForURL(/user=user7/);
          await row(page, 'user7').waitFor();
        },
      },
    ],
  },
  {
    path: 'resource-groups',
    shown: (page) => page.getByRole('list', { name: 'Groups below team0', exact: true }).waitFor(),
    actions: [
      {
        name: 'open a form',
        run: async (page) => {
          await page.getByRole('button', { name: 'Edit team0', exact: true }).click();
          await page.getByRole('dialog').getByLabel('Soft memory limit').waitFor();
        },
      },
      { name: 'type', run: (page) => page.getByRole('dialog').getByLabel('Name').press('x') },
    ],
  },
  { path: 'limits', shown: (page) => row(page, 'g0').waitFor(), actions: [scroll('scroll to the end', 'g9')] },
  { path: 'queue', shown: (page) => page.getByText('No query waits').first().waitFor(), actions: [] },
];

/** A call that pages make by themselves. */
interface PolledCall {
  /** As it is printed; the path where it is left out. */
  readonly name?: string;
  readonly path: string;
  /** POST where there is one. */
  readonly body?: object;
  /** Milliseconds that it may take; {@link MAY_RESPONSE} where it is left out. */
  readonly may?: number;
}

const HOUR_MS = 3_600_000;

/** Every call that a page makes while nobody touches it, as it makes it. */
function polled(to: number): readonly PolledCall[] {
  const from = to - HOUR_MS;
  const figures = `/api/statistics?by=cluster&from=${from}&limit=1&cluster=c0`;
  const failures = `/api/queries?state=FAILED%2CLOST&from=${from}&limit=10&cluster=c0`;
  return [
    { path: '/api/rules' },
    { path: '/api/ruleHits' },
    { path: '/api/clusters' },
    { path: '/api/clusters/c0' },
    { path: '/api/clusters/c1/drain' },
    { path: '/api/groups' },
    { path: '/api/groups/g0' },
    { path: '/api/limits' },
    { path: '/api/overview' },
    { path: '/api/overview/problems' },
    { path: '/api/overview/queries?lines=7' },
    { path: '/api/overview/rates' },
    { path: '/api/queue' },
    { path: '/api/queries/running' },
    { path: '/api/queries/running?cluster=c0' },
    { name: '/api/statistics of a cluster', path: figures, may: MAY_MAKE },
    { name: '/api/queries, the last failures of a cluster', path: failures },
    { path: '/api/history/search', body: { page: 1, size: 25, match: 'prefix' } },
    { path: '/api/audit?match=prefix&limit=50' },
    { path: '/api/resourcegroups/declared' },
    { path: '/webapp/findResourceGroup', body: { useSchema: '' } },
    { path: '/webapp/findSelector', body: { useSchema: '' } },
    { path: '/webapp/findGlobalProperty', body: { useSchema: '' } },
    { path: '/userinfo', body: {} },
    { path: '/webapp/getUIConfiguration' },
    { path: '/api/pages' },
    { path: '/readyz?verbose' },
  ];
}

/** As `--page` has it: the start of the path. */
function nameOf({ path }: MeasuredPage): string {
  return path === '' ? 'dashboard' : (path.split('/')[0] ?? '');
}

/** Runs the benchmark and prints its figures; exit code 1 where one is above what it may be. */
export async function measurePages(): Promise<void> {
  const { values, positionals } = parseArgs({
    args: process.argv.slice(3),
    allowPositionals: true,
    options: {
      'idle-seconds': { type: 'string', default: '60' },
      rounds: { type: 'string', default: '3' },
      page: { type: 'string', multiple: true, default: [] },
    },
  });
  const idleSeconds = Number(values['idle-seconds']);
  if (!(idleSeconds >= 1)) throw new Error('--idle-seconds must be a number from 1');
  const rounds = Number(values.rounds);
  if (!(rounds >= 1)) throw new Error('--rounds must be a number from 1');
  const parts: readonly string[] =
    positionals.length === 0 ? partNames : partNames.filter((part) => positionals.includes(part));
  if (parts.length < new Set(positionals).size) throw new Error(`parts are ${partNames.join(', ')}`);
  const unknown = values.page.filter((name) => pages.every((page) => nameOf(page) !== name));
  if (unknown.length > 0) throw new Error(`--page is one of ${pages.map(nameOf).join(', ')}`);
  const used = pages.filter((page) => values.page.length === 0 || values.page.includes(nameOf(page)));
  if (!canBrowse) throw new Error('there is no browser');
  await using large = await startLargeGateway();
  if (parts.includes('answers')) await unchangedResponses(large);
  if (parts.includes('statistics')) await statistics(large);
  if (parts.includes('use')) for (const page of used) await measure(large, page, rounds);
  if (parts.includes('idle')) await idle(large, idleSeconds);
}

function report(what: string, value: number, unit: string, may: number): void {
  const isTooMuch = value > may;
  console.log(`  ${what}: ${value.toFixed(value < 10 ? 2 : 0)} ${unit}${isTooMuch ? ` (more than ${may})` : ''}`);
  if (isTooMuch) process.exitCode = 1;
}

/** Figures of all queries of the history, by each of what they can be counted by. */
async function statistics(large: LargeGateway): Promise<void> {
  const { from, to } = large;
  console.log('/api/statistics over a million queries:');
  for (const by of statisticsDimensions)
    await counted(large, `by ${by}`, () => `/api/statistics?by=${by}&from=${from}&to=${to}`);
  const longFrom = to - LONG_RANGE_MINUTES * 60_000;
  await counted(large, '30 days by cluster', () => `/api/statistics?by=cluster&from=${longFrom}&to=${to}`);
  console.log('the dashboard over 30 days, once in ten minutes:');
  // Answers are kept by their minutes: each of these is made.
  const minutes = (call: number) => LONG_RANGE_MINUTES - call;
  await counted(large, 'queries', (call) => `/api/overview/queries?lines=7&minutes=${minutes(call)}`, MAY_DRAW);
  await counted(large, 'rates', (call) => `/api/overview/rates?minutes=${minutes(call)}`, MAY_DRAW);
}

/** What a call costs whose answer is counted in the database. @param pathOf the path of a call by its number */
async function counted(
  { gateway, databasePid }: LargeGateway,
  what: string,
  pathOf: (call: number) => string,
  may = MAY_COUNT,
): Promise<void> {
  const times: number[] = [];
  const ofDatabase: number[] = [];
  const ofGateway: number[] = [];
  for (let call = 0; call < STATISTICS_CALLS; call += 1) {
    const [database, own, began] = [
      cpuMicrosecondsOfPastFamily(databasePid),
      cpuMicroseconds(gateway.pid),
      performance.now(),
    ];
    const response = await fetch(`${gateway.url}${pathOf(call)}`);
    const body = await response.text();
    if (!response.ok) throw new Error(`${response.status} ${body}`);
    times.push(performance.now() - began);
    ofDatabase.push((cpuMicrosecondsOfPastFamily(databasePid) - database) / 1_000);
    ofGateway.push((cpuMicroseconds(gateway.pid) - own) / 1_000);
  }
  report(what, median(times), 'ms elapsed', may);
  console.log(
    `    processor time: ${median(ofDatabase).toFixed(0)} ms of the database, ${median(ofGateway).toFixed(0)} ms of the gateway`,
  );
}

/** Processor time of the gateway for answers to somebody who has the present version. */
async function unchangedResponses({ gateway, to }: LargeGateway): Promise<void> {
  console.log('gateway, an answer when nothing changed:');
  for (const { path, name = path, body, may = MAY_RESPONSE } of polled(to)) {
    let etag: string | null = null;
    const ask = async () => {
      const response: Response = await fetch(`${gateway.url}${path}`, {
        method: body === undefined ? 'GET' : 'POST',
        headers: {
          ...(etag === null ? {} : { 'If-None-Match': etag }),
          ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
        },
        body: body === undefined ? null : JSON.stringify(body),
      });
      const text = await response.text();
      if (!response.ok && response.status !== 304) throw new Error(`${path}: ${response.status} ${text}`);
      etag = response.headers.get('etag');
    };
    for (let call = 0; call < WARM_UP; call += 1) await ask();
    const before = cpuMicroseconds(gateway.pid);
    for (let call = 0; call < CALLS; call += 1) await ask();
    report(name, (cpuMicroseconds(gateway.pid) - before) / CALLS / 1_000, 'ms', may);
  }
}

/** Opens and uses a page so often, each time in a browser of its own; the median counts. */
async function measure(
  { gateway }: LargeGateway,
  { path, shown, actions }: MeasuredPage,
  rounds: number,
): Promise<void> {
  const times = new Map<string, number[]>();
  const note = (name: string, ms: number) => times.set(name, [...(times.get(name) ?? []), ms]);
  for (let round = 0; round < rounds; round += 1) {
    await using window = await openWindow('about:blank');
    const time = await RendererTime.of(window);
    const { page } = window;
    note(
      'first content',
      await time.during(async () => {
        await page.goto(`${gateway.url}/engine-gateway/${path}`);
        await shown(page);
      }),
    );
    for (const { name, run } of actions) note(name, await time.during(() => run(page)));
  }
  console.log(`/${path}, main thread of the browser:`);
  for (const [name, ms] of times) {
    report(name, median(ms), 'ms', name === 'first content' ? MAY_OPEN : MAY_REACT);
    if (rounds > 1) console.log(`    of ${rounds}: ${ms.map((each) => each.toFixed(0)).join(', ')}`);
  }
}

/** Pages that are only looked at while nobody touches them, beside those that are used. */
const idlePages: readonly Pick<MeasuredPage, 'path' | 'shown'>[] = [
  ...['clusters/c0', 'clusters/c1', 'groups/g0', 'groups/g1'].map((path) => ({
    path,
    shown: (page: Window['page']) =>
      page.getByRole('region', { name: 'Rates and errors' }).getByText('Duration').waitFor(),
  })),
  { path: 'clusters?details=c0', shown: (page) => page.getByRole('dialog').getByText('Last check').waitFor() },
];

/** Pages open, which nobody touches, a few at a time; one of the clusters and of its group's is switched off. */
async function idle({ gateway }: LargeGateway, seconds: number): Promise<void> {
  const looked = [...pages, ...idlePages];
  await fetch(`${gateway.url}/gateway/backend/deactivate/c1`, { method: 'POST' });
  console.log(`pages that nobody touches, ${IDLE_AT_ONCE} at once, ${seconds} s; c1 of the group g1 is switched off:`);
  for (let first = 0; first < looked.length; first += IDLE_AT_ONCE) {
    await idleAtOnce(gateway, looked.slice(first, first + IDLE_AT_ONCE), seconds);
  }
}

async function idleAtOnce(
  gateway: LargeGateway['gateway'],
  looked: readonly Pick<MeasuredPage, 'path' | 'shown'>[],
  seconds: number,
): Promise<void> {
  const windows = await Promise.all(looked.map(({ path }) => openWindow(`${gateway.url}/engine-gateway/${path}`)));
  try {
    await Promise.all(windows.map(({ page }, index) => looked[index]?.shown(page)));
    const counts = windows.map(({ page }) => {
      const of = { requests: 0, streams: 0 };
      page.on('request', (request) => {
        of.requests += 1;
        if (request.resourceType() === 'eventsource') of.streams += 1;
      });
      return of;
    });
    const before = cpuMicroseconds(gateway.pid);
    await new Promise((resolve) => setTimeout(resolve, seconds * 1_000));
    const cpu = (cpuMicroseconds(gateway.pid) - before) / 1_000 / seconds;
    for (const [index, { path }] of looked.entries()) {
      const { requests = 0, streams = 0 } = counts[index] ?? {};
      report(`/${path}`, (requests * 60) / seconds, 'requests a minute', MAY_REQUEST);
      // Each lives for a minute. A browser that gets no processor time takes its stream for lost, and reads all again.
      if (streams > Math.ceil(seconds / 60)) console.log(`    of them ${streams} streams: the browser lost some`);
    }
    console.log(`  gateway: ${cpu.toFixed(1)} ms of processor time a second`);
  } finally {
    await Promise.all(windows.map((window) => window[Symbol.asyncDispose]()));
  }
}
