/** Two replicas on one database: each page is of both, whichever of them serves it. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { stringify } from 'yaml';
import { until } from '../support/gateway.ts';
import { manifest } from '../support/manifest.ts';
import { hasMariadb, startMariadb } from '../support/mariadb.ts';
import { hasPostgresql, startPostgresql } from '../support/postgresql.ts';
import type { TestServer } from '../support/serverProcess.ts';
import { cancel, follow, type QueryResults, runQuery, submit } from '../support/statementClient.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcpProxy.ts';
import { canBrowse, openWindow } from './support/browser.ts';
import { closeNotices } from './support/notices.ts';
import { type Replica, type Rig, startRig } from './support/rig.ts';
import { expectSound } from './support/soundness.ts';

const row = (page: Page, table: string, text: string) =>
  page.getByRole('table', { name: table }).getByRole('row').filter({ hasText: text });
const switchOf = (page: Page, name: string) => page.getByRole('switch', { name: `${name} takes new queries` });
const figure = (page: Page, name: string) =>
  page
    .locator('dl > *')
    .filter({ has: page.locator('dt', { hasText: name }) })
    .locator('dd');

const inEtl = { 'X-Engine-Routing-Group': 'etl' };
const slow = 'SELECT * FROM TABLE(slow(seconds => 600))';

describe.skipIf(!canBrowse || !hasPostgresql())('pages of two replicas on PostgreSQL', () => {
  let server: TestServer;
  let rig: Rig;
  let other: Replica;
  beforeAll(async () => {
    server = await startPostgresql({ isDurable: false });
    // Queries that wait are encrypted in the database.
    const admission = { secret: 'of both replicas, and long enough' };
    rig = await startRig({ dataStore: await server.createDatabase(), admission });
    const etl = { maxRunningQueries: 2, queue: { hold: '10ms', maxWait: '10m' } };
    const resource = (kind: string, name: string, spec: object) => stringify(manifest(kind, name, spec));
    await writeFile(join(rig.manifests, 'etl.yaml'), resource('RoutingGroup', 'etl', etl));
    const limit = { match: { sources: ['superset'] }, per: 'all', maxRunning: 20 };
    await writeFile(join(rig.manifests, 'limit.yaml'), resource('QueryLimit', 'dashboards', limit));
    other = await rig.startReplica();
    for (const { url } of [rig.gateway, other.gateway]) {
      const isInForce = async () => {
        const response = await fetch(`${url}/api/groups/etl`);
        return ((await response.json()) as { inForce: boolean }).inForce;
      };
      await until(isInForce, 'the limit to be in force');
    }
  });
  afterAll(async () => {
    await rig?.[Symbol.asyncDispose]();
    await server?.dispose();
  });

  test('the dashboard of either has the figures of both', async () => {
    for (let i = 0; i < 5; i += 1) await runQuery(rig.gateway.url, `SELECT ${i}`);
    for (let i = 0; i < 7; i += 1) await runQuery(other.gateway.url, `SELECT ${i}`);
    await runQuery(other.gateway.url, 'SELEC 1');
    for (const { pages } of [rig, other]) {
      await using window = await openWindow(pages);
      const { page } = window;
      await expect
        .poll(() => figure(page, 'Queries').textContent(), { timeout: 60_000 })
        .toMatch(/^13in the last hour/);
      expect(await figure(page, 'Failed or refused').textContent()).toMatch(/besides 1 users’ errors/);
      const cells = page.getByRole('table', { name: 'Distribution of the queries' }).getByRole('cell');
      await expect
        .poll(async () =>
          (await cells.allTextContents())
            .filter((_, index) => index % 3 === 1)
            .reduce((sum, count) => sum + Number(count), 0),
        )
        .toBe(13);
      await page.getByText('13 queries; queries per minute').waitFor();
      await expectSound(window);
    }
  });

  test('limits and the queue are counted over both; what the other runs is listed and ended from here', async () => {
    const submitted = (url: string, user: string, headers: Readonly<Record<string, string>>) =>
      submit(url, slow, { user, headers });
    // A slot of the group may be at the other replica at first, and an engine runs what somebody follows.
    const begun = async (query: QueryResults, user: string): Promise<QueryResults> =>
      query.id.endsWith('_queue') || query.nextUri?.includes('/queued/')
        ? await begun(await follow(query.nextUri ?? '', { user }), user)
        : query;
    const bySuperset = { ...inEtl, 'X-Engine-Source': 'superset' };
    const here = await begun(await submitted(rig.gateway.url, 'alice', bySuperset), 'alice');
    const there = await begun(await submitted(other.gateway.url, 'bob', bySuperset), 'bob');
    const waiting = await submitted(other.gateway.url, 'carol', inEtl);
    expect(waiting.id, JSON.stringify(waiting)).toMatch(/_queue$/);
    for (const { pages } of [rig, other]) {
      await using window = await openWindow(`${pages}/limits`);
      const { page } = window;
      await expect
        .poll(() => row(page, 'Routing groups', 'RoutingGroup default/etl').textContent())
        .toContain('2 of 2');
      const counts = row(page, 'Limits', 'default/dashboards').getByRole('cell');
      await expect.poll(async () => (await counts.allTextContents())[2]).toBe('2');
      await expectSound(window);
    }

    await using window = await openWindow(`${rig.pages}/queue`);
    const { page } = window;
    await expect.poll(() => row(page, 'Queries', waiting.id).textContent()).toContain('carol');
    await row(page, 'Running', here.id).waitFor();
    await row(page, 'Running', there.id).waitFor();
    expect(await row(page, 'Running', there.id).textContent()).toContain('etl-1etlbob');
    await expectSound(window);
    await page.getByRole('button', { name: `End ${there.id}` }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'End' }).click();
    await page.getByText(`${there.id} is ended.`).waitFor();
    await row(page, 'Running', there.id).waitFor({ state: 'detached' });
    const ended = await follow(there.nextUri ?? '', { user: 'bob' });
    expect(ended.error).toMatchObject({ errorName: 'USER_CANCELED' });
    // Its slot goes to the query that waits at the other replica.
    const carols = await begun(waiting, 'carol');
    await page.getByText('No query waits.').waitFor();
    expect(await cancel(carols.nextUri ?? '', { user: 'carol' })).toBe(204);
    expect(await cancel(here.nextUri ?? '', { user: 'alice' })).toBe(204);
    expect(window.defects).toEqual([]);
  });

  test('a switch at one shows on the page of the other within seconds; the audit has the changes of both', async () => {
    await using mine = await openWindow(`${rig.pages}/clusters`);
    await using theirs = await openWindow(`${other.pages}/clusters`, { colorScheme: 'dark' });
    await switchOf(theirs.page, 'adhoc-2').waitFor();
    for (const [from, to] of [
      [mine, theirs],
      [theirs, mine],
    ] as const) {
      const isOn = await switchOf(from.page, 'adhoc-2').isChecked();
      await switchOf(from.page, 'adhoc-2').press('Space');
      await expect.poll(() => switchOf(to.page, 'adhoc-2').isChecked(), { timeout: 10_000 }).toBe(!isOn);
      await closeNotices(from.page);
    }
    await expectSound(theirs);
    // By the REST interface of each, with different fields, so that it is seen which is which.
    const rename = async (url: string, externalUrl: string) => {
      const body = { name: 'adhoc-1', proxyTo: rig.engines[0]?.url, routingGroup: 'adhoc', active: true, externalUrl };
      const headers = { 'Content-Type': 'application/json' };
      const answer = await fetch(`${url}/gateway/backend/modify/update`, {
        method: 'POST',
        headers,
        body: JSON.stringify(body),
      });
      expect([answer.status, await answer.text()]).toEqual([200, expect.stringContaining('adhoc-1')]);
    };
    const shows = (page: Page) => page.getByRole('link', { name: "Engine's page of adhoc-1" }).getAttribute('href');
    await rename(rig.gateway.url, 'https://one.example');
    await expect.poll(() => shows(theirs.page), { timeout: 10_000 }).toBe('https://one.example');
    await rename(other.gateway.url, 'https://two.example');
    await expect.poll(() => shows(mine.page), { timeout: 10_000 }).toBe('https://two.example');

    for (const { pages } of [rig, other]) {
      await using window = await openWindow(`${pages}/audit?kind=EngineCluster&name=adhoc-1`);
      const { page } = window;
      const changes = page.getByRole('table', { name: 'Changes' }).getByRole('row').filter({ hasText: 'externalUrl' });
      await expect
        .poll(
          async () => {
            await page.reload();
            await page.getByText('There are no earlier changes.').waitFor();
            return await changes.count();
          },
          { timeout: 30_000 },
        )
        .toBe(2);
      for (const text of await changes.allTextContents()) expect(text).toContain('REST from 127.0.0.1');
      await changes
        .first()
        .getByRole('button', { name: /: difference of/ })
        .click();
      const dialog = page.getByRole('dialog');
      await dialog.getByText('https://two.example').waitFor();
      await dialog.getByText('https://one.example').waitFor();
      await expectSound(window);
    }
  });
});

describe.skipIf(!canBrowse || !hasMariadb())('pages of two replicas on MariaDB', () => {
  let server: TestServer;
  let rig: Rig;
  let other: Replica;
  let address: TcpProxy;
  beforeAll(async () => {
    server = await startMariadb({ isDurable: false });
    rig = await startRig({ dataStore: await server.createDatabase() });
    other = await rig.startReplica();
    address = await startTcpProxy(Number(new URL(rig.gateway.url).port));
  });
  afterAll(async () => {
    await address?.close();
    await rig?.[Symbol.asyncDispose]();
    await server?.dispose();
  });

  test('a page goes on when the replica that serves it ends, and another one takes its address over', async () => {
    await runQuery(rig.gateway.url, 'SELECT 1');
    const { id } = await runQuery(rig.gateway.url, 'SELECT 2');
    const pages = `http://127.0.0.1:${address.port}/engine-gateway`;
    await using window = await openWindow(`${pages}/clusters`);
    const { page } = window;
    await switchOf(page, 'adhoc-2').waitFor();
    await rig.stopGateway();
    const stopped = Date.now();
    try {
      await page.getByText('No connection to the gateway').waitFor();
      expect(Date.now() - stopped).toBeLessThan(5_000);
      await expectSound(window);
      address.forwardTo(Number(new URL(other.gateway.url).port));
      await page.getByText('No connection to the gateway').waitFor({ state: 'detached' });
      await page.getByText('Shown as last known').waitFor({ state: 'detached' });
      await switchOf(page, 'adhoc-2').press('Space');
      await page.getByText('adhoc-2 takes no new queries; running ones go on.').waitFor();
      await closeNotices(page);
      // What the replica that ended had to say is there.
      await page.getByRole('link', { name: 'Query History' }).click();
      await page.getByRole('link', { name: id, exact: true }).waitFor();
      await runQuery(other.gateway.url, 'SELECT 3');
      await page.getByRole('link', { name: 'Dashboard' }).click();
      await expect.poll(() => figure(page, 'Queries').textContent(), { timeout: 60_000 }).toMatch(/^3in the last hour/);
      await expectSound(window);
    } finally {
      await rig.startGateway();
    }
    // The one that is back knows what was changed without it.
    await page.goto(`${rig.pages}/clusters`);
    await expect.poll(() => switchOf(page, 'adhoc-2').isChecked()).toBe(false);
    await switchOf(page, 'adhoc-2').press('Space');
    await using theirs = await openWindow(`${other.pages}/clusters`);
    await expect.poll(() => switchOf(theirs.page, 'adhoc-2').isChecked(), { timeout: 10_000 }).toBe(true);
    expect([...window.defects, ...theirs.defects].filter((defect) => !defect.includes('Unable to preload'))).toEqual(
      [],
    );
  });
});
