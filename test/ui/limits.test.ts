import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { stringify } from 'yaml';
import { manifest } from '../support/manifest.ts';
import { canBrowse, openWindow } from './support/browser.ts';
import { logIn } from './support/login.ts';
import { formAccess, type Rig, startRig } from './support/rig.ts';
import { expectReadable, expectSound, expectSoundInBothSchemes } from './support/soundness.ts';

const resource = (kind: string, name: string, spec: object) => stringify(manifest(kind, name, spec));

describe.skipIf(!canBrowse)('the page of limits', () => {
  let rig: Rig;
  beforeAll(async () => {
    rig = await startRig(formAccess());
    const resources = [
      resource('RoutingGroup', 'etl', {
        maxRunningQueries: 200,
        fallbacks: ['nowhere'],
        queue: { maxQueuedQueries: 50 },
      }),
      resource('QueryLimit', 'per-user', {
        per: 'User',
        maxRunningQueries: 10,
        match: { users: [{ type: 'RegularExpression', value: 'etl-.*' }] },
        message: 'Ask in #data-platform.',
      }),
      resource('QueryLimit', 'trial', {
        match: { everyone: true },
        per: 'All',
        rate: { queries: 120 },
        mode: 'Observe',
      }),
      resource('QueryLimit', 'wrong', {
        per: 'All',
        maxRunningQueries: 1,
        match: { sources: [{ type: 'RegularExpression', value: '(' }] },
      }),
    ];
    await writeFile(join(rig.manifests, 'limits.yaml'), resources.join('---\n'));
  });
  afterAll(async () => await rig?.[Symbol.asyncDispose]());

  test('shows groups and limits with what became of them', async () => {
    await using window = await openWindow(`${rig.pages}/limits`);
    await logIn(window, 'ada');
    const { page } = window;
    await page.getByRole('heading', { level: 1, name: 'Limits' }).waitFor();
    const rowOf = (table: string, name: string) =>
      page.getByRole('table', { name: table }).getByRole('row').filter({ hasText: name });
    const text = async (table: string, name: string) => (await rowOf(table, name).textContent()) ?? '';
    await expect.poll(() => text('Routing groups', 'RoutingGroup default/etl')).toContain('in force');
    await expect.poll(() => text('Routing groups', 'RoutingGroup default/etl')).toContain('no cluster belongs to');
    // Counted over all replicas, at most ten seconds ago.
    await expect.poll(() => text('Routing groups', 'RoutingGroup default/etl')).toContain('0 of 200');
    await expect.poll(() => text('Limits', 'default/per-user')).toContain('users /etl-.*/');
    expect(await text('Limits', 'default/per-user')).toContain('each user: 10 at a time');
    expect(await text('Limits', 'default/trial')).toContain('observes');
    expect(await text('Limits', 'default/trial')).toContain('120 in 1m, 120 at once');
    await expect.poll(() => text('Limits', 'default/wrong')).toContain('not accepted');
    await expect
      .poll(() => text('Limits', 'default/wrong'))
      .toContain('spec.match.sources[0].value regular expression');
    await expectSoundInBothSchemes(window);
  });

  test('users without ADMIN see the pages of a backend and a group, and nothing that they may not do', async () => {
    await using window = await openWindow(`${rig.pages}/limits`);
    await logIn(window, 'ursula');
    const { page } = window;
    await page.getByRole('link', { name: 'etl', exact: true }).click();
    await page.getByRole('heading', { level: 1, name: 'Routing group etl' }).waitFor();
    const toggle = page.getByRole('switch', { name: 'etl-1 takes new queries' });
    await toggle.waitFor();
    await page.getByText('RoutingGroup default/etl').waitFor();
    await expectSound(window);
    await page.getByRole('link', { name: 'etl-1', exact: true }).click();
    await page.getByRole('heading', { level: 1, name: 'Backend etl-1' }).waitFor();
    expect(await toggle.isDisabled()).toBe(true);
    await page.getByText('takes new queries', { exact: true }).waitFor();
    const buttons = () => page.getByRole('main').getByRole('button').allTextContents();
    expect((await buttons()).filter((text) => /Edit|Drain|Delete|End/.test(text))).toEqual([]);
    expect(await page.getByRole('region', { name: 'Rules that lead here' }).count()).toBe(0);
    await expectReadable(window);
    // The form that an administrator sent the address of.
    await page.goto(`${rig.pages}/clusters/etl-1?edit=`);
    await page.getByText('Backend etl-1 cannot be changed here').waitFor();
    expect(await page.getByRole('dialog').count()).toBe(0);
    await expectSound(window);
  });
});
