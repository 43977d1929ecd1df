import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { stringify } from 'yaml';
import { until } from '../support/gateway.ts';
import { manifest } from '../support/manifest.ts';
import { cancel, follow, type QueryResults, submit } from '../support/statementClient.ts';
import { canBrowse, openWindow, type Window } from './support/browser.ts';
import { logIn } from './support/login.ts';
import { formAccess, type Rig, startRig } from './support/rig.ts';
import { expectSound, expectSoundInBothSchemes } from './support/soundness.ts';

const toEtl = (user: string) => ({ user, headers: { 'X-Engine-Routing-Group': 'etl', 'X-Engine-Source': 'dbt' } });

describe.skipIf(!canBrowse)('the page of the queue', () => {
  let rig: Rig;
  /** A query that waited, and has the one slot. */
  let ran: { readonly queuedAs: string; readonly id: string };
  beforeAll(async () => {
    rig = await startRig(formAccess());
    const etl = { maxRunningQueries: 1, queue: { hold: '10ms', maxWait: '10m' } };
    const resource = manifest('RoutingGroup', 'etl', etl);
    await writeFile(join(rig.manifests, 'etl.yaml'), stringify(resource));
    const headers = { Authorization: `Basic ${Buffer.from('ada:ada').toString('base64')}` };
    const isInForce = async () => {
      const response = await fetch(`${rig.gateway.url}/api/groups/etl`, { headers });
      return ((await response.json()) as { inForce: boolean }).inForce;
    };
    await until(isInForce, 'the limit to be in force');
    let first = await untilSent(await waitingQuery('zoe'));
    const second = await waitingQuery('zoe');
    while (first.nextUri !== undefined) first = await follow(first.nextUri, toEtl('zoe'));
    // It runs for ever, as nobody follows it: what comes later waits.
    let begun = await untilSent(second);
    while (begun.nextUri?.includes('/queued/')) begun = await follow(begun.nextUri, toEtl('zoe'));
    ran = { queuedAs: second.id, id: begun.id };
  });
  afterAll(async () => await rig?.[Symbol.asyncDispose]());

  async function open(user: string, colorScheme: 'light' | 'dark' = 'light'): Promise<Window> {
    const window = await openWindow(`${rig.pages}/queue`, { colorScheme });
    await logIn(window, user);
    await window.page.getByRole('heading', { level: 1, name: 'Queue' }).waitFor();
    return window;
  }
  const queries = ({ page }: Window) => page.getByRole('table', { name: 'Queries' }).getByRole('row');
  const rowOf = (window: Window, { id }: QueryResults) => queries(window).filter({ hasText: id });
  const textOf = async (window: Window, query: QueryResults) => (await rowOf(window, query).textContent()) ?? '';

  async function untilSent(query: QueryResults): Promise<QueryResults> {
    return query.id.endsWith('_queue') ? await untilSent(await follow(query.nextUri ?? '', toEtl('zoe'))) : query;
  }
  const waitingQuery = (user: string) => submit(rig.gateway.url, 'SELECT 1', toEtl(user));

  test('says that nothing waits', async () => {
    await using window = await open('ada');
    await window.page.getByText('No query waits.').waitFor();
    await expectSound(window);
  });

  test('an administrator sees what waits and why, moves one first and drops one, after a question', async () => {
    const alices = [await waitingQuery('alice'), await waitingQuery('alice')] as const;
    const bobs = await waitingQuery('bob');
    await using window = await open('ada', 'dark');
    const { page } = window;
    await expect.poll(() => textOf(window, alices[0])).toContain('1 of 3');
    expect(await textOf(window, alices[0])).toContain('group etl: 1 of 1 running (maxRunningQueries of the group)');
    expect(await textOf(window, alices[1])).toContain('3 of 3');
    expect(await textOf(window, bobs)).toContain('dbt');
    const group = page.getByRole('table', { name: 'Groups' }).getByRole('row').filter({ hasText: 'etl' });
    expect(await group.textContent()).toContain('alice 2, bob 1');
    await expectSound(window);

    await page.getByRole('button', { name: `Move ${alices[1].id} first` }).click();
    const question = page.getByRole('dialog');
    await question.getByText('before all others that wait for etl').waitFor();
    await expectSound(window);
    await question.getByRole('button', { name: 'Cancel' }).click();
    await page.getByRole('button', { name: `Move ${alices[1].id} first` }).click();
    await question.getByRole('button', { name: 'Move first' }).click();
    await expect.poll(() => textOf(window, alices[1])).toContain('1 of 3moved first');
    expect(await textOf(window, alices[0])).toContain('2 of 3');

    await page.getByRole('textbox', { name: 'Id, group, user, source or reason' }).fill('bob');
    await expect.poll(() => queries(window).count()).toBe(2);
    await page.getByText('3 queries wait; 1 match.').waitFor();
    await page.getByRole('button', { name: `Drop ${bobs.id}` }).click();
    await question.getByRole('button', { name: 'Drop' }).click();
    await page.getByText('No query that waits matches.').waitFor();
    // The row that was dropped is gone: the keyboard goes on in its table.
    const focused = () => page.evaluate('document.activeElement.getAttribute("aria-label")');
    await expect.poll(focused).toBe('Queries');
    const outcome = await follow(bobs.nextUri ?? '', toEtl('bob'));
    expect(outcome.error).toMatchObject({ errorName: 'ADMINISTRATIVELY_KILLED' });
    const audits = rig.gateway.log.flatMap(({ audit }) => (audit === undefined ? [] : [audit]));
    expect(audits).toContainEqual(expect.objectContaining({ user: 'ada', path: `/api/queue/${alices[1].id}/first` }));
    expect(audits).toContainEqual(
      expect.objectContaining({ user: 'ada', method: 'DELETE', path: `/api/queue/${bobs.id}` }),
    );
  });

  test('the dashboard shows what runs and waits now, whose it is, and backends that take no queries', async () => {
    const waiting = await waitingQuery('carl');
    const headers = { Authorization: `Basic ${Buffer.from('ada:ada').toString('base64')}` };
    const setActive = (verb: string) =>
      fetch(`${rig.gateway.url}/gateway/backend/${verb}/adhoc-2`, { method: 'POST', headers });
    expect((await setActive('deactivate')).status).toBe(200);
    await using window = await open('ada');
    const { page } = window;
    await page.goto(`${rig.pages}/`);
    const now = page.getByRole('region', { name: 'Now', exact: true });
    await now.getByRole('link', { name: '1 query runs' }).waitFor();
    await now.getByText(/^longest:.*ago$/).waitFor();
    const rows = (name: string) => now.getByRole('table', { name }).getByRole('row');
    await expect.poll(() => rows('Users by running time').nth(1).textContent()).toMatch(/^zoe1\d/);
    expect(await rows('Sources by running time').nth(1).textContent()).toMatch(/^dbt1\d/);
    await now.getByRole('link', { name: /\d quer(y waits|ies wait)$/ }).waitFor();
    const why = 'group etl: 1 of 1 running (maxRunningQueries of the group)';
    expect(await rows('Reasons of waiting').nth(1).textContent()).toContain(why);
    const out = rows('Backends out of rotation').filter({ hasText: 'adhoc-2' });
    await expect.poll(() => out.textContent()).toMatch(/^adhoc-2switched off by ada, \d+ s ago$/);
    await expectSoundInBothSchemes(window);
    await now.getByRole('link', { name: 'zoe' }).click();
    await page.waitForURL(/queue\?running=zoe/);
    await setActive('activate');
    expect(await cancel(waiting.nextUri ?? '')).toBe(204);
    expect(window.defects).toEqual([]);
  });

  test('a query that waits shows its place and why on its own page, as the list does', async () => {
    const [first, second] = [await waitingQuery('dora'), await waitingQuery('dora')];
    await using window = await open('ada');
    const { page } = window;
    const row = await textOf(window, second);
    const place = /\d+ of \d+/.exec(row)?.[0] ?? '';
    await rowOf(window, second).getByRole('link', { name: second.id, exact: true }).click();
    const outcome = page.getByRole('region', { name: 'Outcome', exact: true });
    const why = 'group etl: 1 of 1 running (maxRunningQueries of the group)';
    expect(row).toContain(why);
    await expect.poll(() => outcome.textContent()).toContain(`It waits for a cluster.Place${place}Why${why}`);
    await expectSound(window);
    // The place follows the queue.
    const headers = { Authorization: `Basic ${Buffer.from('ada:ada').toString('base64')}` };
    const moved = await fetch(`${rig.gateway.url}/api/queue/${second.id}/first`, { method: 'POST', headers });
    expect(moved.status).toBe(204);
    await expect.poll(() => outcome.textContent(), { timeout: 20_000 }).toMatch(/Place1 of \d+, moved first/);
    for (const { nextUri = '' } of [first, second]) expect(await cancel(nextUri, toEtl('dora'))).toBe(204);
  });

  test('the history finds a query by the id that it waited under, and leads to the queue while it waits', async () => {
    const waiting = await waitingQuery('carol');
    await using window = await openWindow(`${rig.pages}/history?queryId=${waiting.id}`);
    await logIn(window, 'ada');
    const { page } = window;
    await page.getByRole('link', { name: 'To the queries that wait for a cluster' }).click();
    await expect.poll(() => textOf(window, waiting)).toContain('carol');

    await page.goto(`${rig.pages}/history?queryId=${ran.queuedAs}`);
    await page.getByRole('link', { name: ran.id, exact: true }).click();
    await page.getByText(`While it waited its id was ${ran.queuedAs}.`).waitFor();
    const timeline = page.getByRole('list', { name: 'Timeline' });
    await timeline.getByText(`put it into the queue as ${ran.queuedAs}`).waitFor();
    await timeline.getByText(/^etl-1 had it, after /).waitFor();
    await page.getByText(/^It waited: group etl: 1 of 1 running .* as 1st of 1 \(fair by user, weight 1\)/).waitFor();
    await expectSound(window);

    // From an id to the reason: the id, the enter key.
    for (const [id, reason] of [
      [ran.queuedAs, `While it waited its id was ${ran.queuedAs}.`],
      [waiting.id, 'It waits for a cluster.'],
    ] as const) {
      await page.keyboard.press('Control+k');
      await page.getByRole('dialog').getByRole('textbox', { name: 'Search' }).fill(id);
      await page
        .getByRole('option', { name: id })
        .filter({ hasText: /zoe|carol/ })
        .waitFor();
      await page.keyboard.press('Enter');
      await page.waitForURL(`**/${id}`);
      await page.getByText(reason).first().waitFor();
    }
  });

  test('the audit shows who dropped what, and what a file changed before and after; a limit leads to its changes', async () => {
    await using window = await openWindow(`${rig.pages}/audit?kind=QueuedQuery`, { colorScheme: 'dark' });
    await logIn(window, 'ada');
    const { page } = window;
    const changes = page.getByRole('table', { name: 'Changes' }).getByRole('row');
    await changes.filter({ hasText: 'deleted' }).first().waitFor();
    expect(await changes.filter({ hasText: 'deleted' }).first().textContent()).toContain('adaREST from 127.0.0.1');
    await expectSound(window);
    const spec = { maxRunningQueries: 1, queue: { hold: '10ms', maxWait: '11m' } };
    const resource = manifest('RoutingGroup', 'etl', spec);
    await writeFile(join(rig.manifests, 'etl.yaml'), stringify(resource));
    await page.getByRole('link', { name: 'Limits' }).click();
    await page.getByRole('link', { name: 'Changes of etl' }).click();
    const edited = changes.filter({ hasText: 'queue.maxWait' });
    await expect
      .poll(
        async () => {
          await page.reload();
          await changes.filter({ hasText: 'etl' }).first().waitFor();
          return await edited.count();
        },
        { timeout: 30_000 },
      )
      .toBe(1);
    expect(await edited.textContent()).toContain('not knownfile');
    await edited.getByRole('button', { name: /: difference of/ }).click();
    const dialog = page.getByRole('dialog');
    const row = dialog.getByRole('row').filter({ hasText: 'queue.maxWait' });
    expect(await row.textContent()).toBe('queue.maxWait10m11m');
    await expectSound(window);
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
    const focused = () => page.evaluate('document.activeElement.getAttribute("aria-label")');
    await expect.poll(focused).toMatch(/: difference of RoutingGroup etl$/);
    await page.keyboard.press('Enter');
    await dialog.waitFor();
    // The open change stands in the address, also where the filters leave it out.
    const shared = new URL(page.url());
    shared.searchParams.set('kind', 'Que');
    await page.goto(shared.href);
    await row.waitFor();
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
    await page.getByText('No change matches.').waitFor();
    await page.getByRole('textbox', { name: 'Kind' }).fill('Routing');
    await page.getByRole('button', { name: 'Filter' }).click();
    await edited.waitFor();
    await page.goto(`${rig.pages}/audit?change=1`);
    await page.getByText('The audit has no change 1').waitFor();
    await page.goBack();
    await edited.waitFor();
    await page.getByRole('textbox', { name: 'Name', exact: true }).fill('nothing');
    await page.getByRole('button', { name: 'Filter' }).click();
    await page.getByText('No change matches.').waitFor();
    expect(page.url()).toContain('name=nothing');
    await page.goBack();
    await edited.waitFor();
    await edited.getByRole('link', { name: 'etl' }).click();
    await page.getByRole('heading', { level: 1, name: 'Routing group etl' }).waitFor();
  });

  test('a user sees the own queries, and cannot change them', async () => {
    const own = await waitingQuery('ursula');
    const others = await waitingQuery('bob');
    await using window = await open('ursula');
    await expect.poll(() => textOf(window, own)).toContain('ursula');
    expect(await rowOf(window, others).count()).toBe(0);
    const { page } = window;
    expect(await page.getByRole('button', { name: /^(Move|Drop)/ }).count()).toBe(0);
    expect(await page.getByRole('link', { name: 'Audit' }).count()).toBe(0);
    await expectSound(window);
    await page.getByRole('link', { name: own.id, exact: true }).click();
    await page.getByText('It waits for a cluster.').first().waitFor();
    await page.goto(`${rig.pages}/queries/${others.id}`);
    await page.getByText('No query of this id is in the history that you may see.').waitFor();
    await page.goto(`${rig.pages}/history`);
    await page.getByText('No query has run yet').waitFor();
  });

  test('a query that was cancelled, or dropped, while it waited says so on its page, and names no backend as its own', async () => {
    const [cancelled, dropped] = [await waitingQuery('carol'), await waitingQuery('carol')];
    expect(await cancel(cancelled.nextUri ?? '', toEtl('carol'))).toBe(204);
    const call = { method: 'DELETE', headers: { Authorization: `Basic ${btoa('ada:ada')}` } };
    expect((await fetch(`${rig.gateway.url}/api/queue/${dropped.id}`, call)).ok).toBe(true);
    await using window = await open('ada');
    const { page } = window;
    const reasons: readonly (readonly [QueryResults, string])[] = [
      [cancelled, 'Query was canceled'],
      [dropped, 'An administrator of the gateway took the query out of the queue.'],
    ];
    for (const [{ id }, reason] of reasons) {
      await page.goto(`${rig.pages}/queries/${id}`);
      const why = page.getByRole('region', { name: 'Why it went nowhere' });
      const text =
        "The request's header named the routing group etl. No backend took the query, as it ended while it waited:";
      await why.getByText(text).waitFor({ timeout: 45_000 });
      expect(await why.textContent()).toContain(reason);
      await page.getByText('It was cancelled while it waited: no cluster has got it.').waitFor();
      expect(await page.getByText(/took the query\.|had it\./).count()).toBe(0);
      const times = await page.getByRole('list', { name: 'Timeline' }).getByRole('listitem').allTextContents();
      expect(times.join('; ')).toMatch(
        /It waited .* at the gateway, in the queue as .*_queue\..*It ended: cancelled\./,
      );
      await page.getByText('The same as then.').waitFor();
      for (const width of [1440, 1280, 420]) {
        await page.setViewportSize({ width, height: 900 });
        await expectSoundInBothSchemes(window, `${width}`);
      }
    }
  });

  test('what runs is listed with its user and SQL, and ended after a question', async () => {
    await using window = await open('ada');
    const { page } = window;
    const row = page.getByRole('table', { name: 'Running' }).getByRole('row').filter({ hasText: ran.id });
    await expect.poll(async () => (await row.textContent()) ?? '', { timeout: 30_000 }).toContain('zoe');
    expect(await row.textContent()).toContain('SELECT 1');
    await expectSound(window);
    await row.getByRole('button', { name: `End ${ran.id}` }).click();
    const question = page.getByRole('dialog');
    await question.getByText(/^The query of zoe on .* ends/).waitFor();
    await expectSound(window);
    await question.getByRole('button', { name: 'End' }).click();
    await row.waitFor({ state: 'detached', timeout: 30_000 });
    await page.goto(`${rig.pages}/audit?kind=RunningQuery`);
    await page.getByRole('link', { name: ran.id }).waitFor();
  });
});
