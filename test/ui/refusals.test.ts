import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { stringify } from 'yaml';
import { manifest } from '../support/manifest.ts';
import { canBrowse, openWindow } from './support/browser.ts';
import { type Rig, startRig } from './support/rig.ts';
import { expectSound } from './support/soundness.ts';

/** What the pages make of a gateway that is configured to refuse; those of Kubernetes: kubernetes.test.ts. */
describe.skipIf(!canBrowse)('a switch that is refused goes back, and the reason is shown', () => {
  let rig: Rig;
  beforeAll(async () => {
    rig = await startRig();
  });
  afterAll(async () => await rig?.[Symbol.asyncDispose]());

  const refused = async (page: Page, name: string, reason: RegExp) => {
    const toggle = page.getByRole('switch', { name: `${name} takes new queries` });
    await toggle.press('Space');
    await expect.poll(() => page.getByRole('alert').textContent()).toMatch(reason);
    await expect.poll(() => toggle.isChecked()).toBe(true);
  };

  test('403, while changes by REST are switched off', async () => {
    await rig.configure({ resources: { source: 'directory', directory: rig.manifests, apiWrites: 'off' } });
    await using window = await openWindow(`${rig.pages}/clusters`);
    const { page } = window;
    await refused(page, 'adhoc-2', /cannot deactivate a cluster by REST: resources\.apiWrites is off/);
    await expectSound(window);
    await rig.configure({ resources: { source: 'directory', directory: rig.manifests } });
    await page.reload();
    await page.getByRole('switch', { name: 'adhoc-2 takes new queries' }).press('Space');
    await page.getByText('adhoc-2 takes no new queries; running ones go on.').waitFor();
  });

  test('409, where the file is a mounted ConfigMap', async () => {
    const proxyTo = rig.engines[0]?.url;
    const mounted = manifest('EngineCluster', 'mounted', {});
    // As the kubelet lays it out.
    await mkdir(join(rig.manifests, '..2026_11_21'));
    await writeFile(
      join(rig.manifests, '..2026_11_21', 'mounted.yaml'),
      stringify({ ...mounted, spec: { proxyTo, routingGroup: 'adhoc' } }),
    );
    await symlink('..2026_11_21', join(rig.manifests, '..data'));
    await symlink('..data/mounted.yaml', join(rig.manifests, 'mounted.yaml'));
    await using window = await openWindow(`${rig.pages}/clusters`);
    const { page } = window;
    await page.getByRole('link', { name: 'mounted', exact: true }).waitFor();
    await refused(page, 'mounted', /mounted\.yaml cannot be written: it belongs to a mounted ConfigMap or Secret/);
    await expectSound(window);
  });
});
