import { join } from 'node:path';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type KnexStore, openStore } from '../../src/store/openStore.ts';
import {
  MIXED,
  MIXED_CLUSTER,
  mixedLoad,
  type OutcomeRow,
  runMixedLoad,
  startMixedCluster,
} from '../support/mixedLoad.ts';
import { canBrowse, openWindow, type Window } from './support/browser.ts';
import { type Rig, startRig } from './support/rig.ts';
import { expectSound } from './support/soundness.ts';

describe.skipIf(!canBrowse)('figures of pages after a mixed load', () => {
  let rig: Rig;
  let store: KnexStore;
  let cluster: { readonly url: string; close(): Promise<void> };
  let rows: readonly OutcomeRow[] = [];

  beforeAll(async () => {
    rig = await startRig();
    cluster = await startMixedCluster();
    store = await openStore({
      jdbcUrl: `jdbc:sqlite:${rig.database}`,
      runMigrations: false,
      logger: pino({ level: 'silent' }),
    });
    const manifests = join(rig.manifests, 'mixed.yaml');
    rows = await runMixedLoad({ url: rig.gateway.url, store, cluster: cluster.url, manifests });
  }, 180_000);
  afterAll(async () => {
    await store?.close();
    await rig?.[Symbol.asyncDispose]();
    await cluster?.close();
  });

  const count = (is: (row: OutcomeRow) => boolean) => rows.filter(is).length;
  const inState = (state: string) => count((row) => row.state === state);
  /** Failed and refused queries among those that ended, as pages write it. */
  const failures = () => {
    const userErrors = count((row) => row.state === 'FAILED' && row.error_type === 'USER_ERROR');
    const [failed, refused] = [inState('FAILED') + inState('LOST') - userErrors, inState('REFUSED')];
    const share = ((failed + refused) / count(({ state }) => state !== 'RUNNING')) * 100;
    return {
      share: `${share.toFixed(1)} %`,
      text: `${failed} failed, ${refused} refused; besides ${userErrors} users’ errors`,
    };
  };
  const fact = (page: Window['page'], name: string) =>
    page
      .locator('dl > *')
      .filter({ has: page.locator('dt', { hasText: new RegExp(`^${name}$`) }) })
      .locator('dd');

  test('the page of a routing group shows what the rows say', async () => {
    await using window = await openWindow(`${rig.pages}/groups/${MIXED}`);
    const { page } = window;
    const ended = count(({ state }) => state !== 'RUNNING');
    const region = page.getByRole('region', { name: 'Rates and errors', exact: true });
    await expect.poll(() => region.textContent()).toContain(`Queries${ended} (`);
    const { share, text } = failures();
    const shown = (await region.textContent()) ?? '';
    expect(shown).toContain(`Failed or refused${share}: ${text}`);
    expect(shown).toContain(
      `How they ended${mixedLoad.finished} finished, ${mixedLoad.failed} failed, ${inState('CANCELLED')} cancelled, ${inState('REFUSED')} refused, ${inState('LOST')} lost, ${mixedLoad.userErrors} users’ errors`,
    );
    await expect
      .poll(() => fact(page, 'Running').textContent(), { timeout: 30_000 })
      .toMatch(new RegExp(`^${inState('RUNNING')} of 100`));
    const running = page.getByRole('region', { name: 'Running queries', exact: true });
    await expect.poll(() => running.getByRole('row').count()).toBe(inState('RUNNING') + 1);
    await expectSound(window);
  });

  test('the dashboard shows what the rows say', async () => {
    await using window = await openWindow(rig.pages);
    const { page } = window;
    await expect.poll(() => fact(page, 'Queries').textContent()).toMatch(new RegExp(`^${rows.length}in the last hour`));
    const { share, text } = failures();
    expect(await fact(page, 'Failed or refused').textContent()).toBe(`${share}${text}`);
    const taken = count((row) => row.cluster !== null);
    await page.getByText(`${taken} queries; queries per minute`).waitFor();
    await page
      .getByText(
        `${inState('REFUSED')} of ${count(({ state }) => state !== 'RUNNING')} queries were refused in the last 5 minutes`,
      )
      .waitFor();
    await page.getByRole('link', { name: `Queries fail at ${MIXED_CLUSTER}` }).waitFor();
    await expectSound(window);
  });
});
