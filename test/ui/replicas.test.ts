/** Two replicas on one database. What pages have of both is what the REST API has (test/faults/limits.test.ts, test/operator/restWrites.test.ts). */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { hasMariadb, startMariadb } from '../support/mariadb.ts';
import type { TestServer } from '../support/serverProcess.ts';
import { runQuery } from '../support/statementClient.ts';
import { timeOf } from '../support/stopwatch.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcpProxy.ts';
import { canBrowse, openWindow } from './support/browser.ts';
import { closeNotices } from './support/notices.ts';
import { type Replica, type Rig, startRig } from './support/rig.ts';
import { expectSound } from './support/soundness.ts';

const switchOf = (page: Page, name: string) => page.getByRole('switch', { name: `${name} takes new queries` });
const figure = (page: Page, name: string) =>
  page
    .locator('dl > *')
    .filter({ has: page.locator('dt', { hasText: name }) })
    .locator('dd');

describe.skipIf(!canBrowse || !hasMariadb())('pages of two replicas', () => {
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
    try {
      expect(await timeOf(() => page.getByText('No connection to the gateway').waitFor())).toBeLessThan(5_000);
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
