import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type ControlPlane, controlPlaneAvailable } from '../support/controlPlane.ts';
import { clusterManifest, type KubeRig, kubeRig, ruleManifest, startPlane } from '../support/kubeRig.ts';
import { manifest } from '../support/manifest.ts';
import { runQuery } from '../support/statementClient.ts';
import { timeOf } from '../support/stopwatch.ts';
import { canBrowse, openWindow } from './support/browser.ts';
import { logIn, logInByToken } from './support/login.ts';
import { stopTime } from './support/pageTime.ts';
import { formAccess, type Rig, startRig } from './support/rig.ts';
import { expectReadable, expectSound, expectSoundInBothWidths } from './support/soundness.ts';

const GITOPS = 'argocd-controller';

const row = (page: Page, name: string) =>
  page.getByRole('row').filter({ has: page.getByRole('link', { name, exact: true }) });
const switchOf = (page: Page, name: string) => page.getByRole('switch', { name: `${name} takes new queries` });

let plane: ControlPlane;
if (canBrowse && controlPlaneAvailable) {
  beforeAll(async () => {
    plane = await startPlane();
  });
  afterAll(async () => await plane?.stop());
}

describe.skipIf(!canBrowse || !controlPlaneAvailable)('clusters and rules that a GitOps controller declares', () => {
  let kube: KubeRig;
  let rig: Rig;
  beforeAll(async () => {
    kube = await kubeRig(plane);
    rig = await startRig({
      ...formAccess(),
      resources: { source: 'kubernetes', kubeconfig: kube.kubeconfig, allowedAddresses: ['127.0.0.0/8', '::1'] },
    });
  });
  afterAll(async () => {
    await rig?.[Symbol.asyncDispose]();
    await kube?.stop();
  });

  /** Has the controller declare a cluster before one of the engines. */
  const declare = (name: string, spec: object = {}) =>
    kube.apply(GITOPS, clusterManifest(name, { proxyTo: rig.engines[0]?.url, ...spec }));
  /** A resource as it is on the API server. */
  const stored = async (kind: 'engineclusters' | 'routingrules' | 'resourcegroupconfigurations', name: string) => {
    const shown = await kube.kubectl(['get', kind, name, '-o', 'json', '--show-managed-fields']);
    return JSON.parse(shown) as {
      metadata: { annotations?: Record<string, string>; managedFields: { manager: string; fieldsV1: object }[] };
      spec: Record<string, unknown>;
    };
  };
  /** Who owns a field of the spec. */
  const ownersOf = async (kind: 'engineclusters' | 'routingrules', name: string, field: string) =>
    (await stored(kind, name)).metadata.managedFields
      .filter(({ fieldsV1 }) => JSON.stringify(fieldsV1).includes(`"f:${field}"`))
      .map(({ manager }) => manager);
  const open = async (path: string, options: Parameters<typeof openWindow>[1] = {}) => {
    const window = await openWindow(`${rig.pages}${path}`, options);
    await logIn(window, 'ada');
    await window.page.getByRole('heading', { level: 1 }).waitFor();
    return window;
  };

  test('a cluster: fields of another manager are named with it, and taken over when asked', async () => {
    const name = 'declared';
    await declare(name);
    await using window = await open('/clusters');
    const { page } = window;
    await expect
      .poll(() => row(page, name).textContent())
      .toMatch(new RegExp(`^${name}${GITOPS}adhoc.*(?<!UN)HEALTHY`));
    await page.getByRole('button', { name: `Details of ${name}` }).click();
    const details = page.getByRole('dialog', { name });
    await expect
      .poll(() => details.textContent())
      .toMatch(/Declared byKubernetes resource.*Field managersargocd-controller: proxyTo, routingGroup.*ReadyTrue/);
    await expectSoundInBothWidths(window);
    await page.keyboard.press('Escape');
    await details.waitFor({ state: 'detached' });

    await page.getByRole('button', { name: `Edit ${name}` }).click();
    const dialog = page.getByRole('dialog', { name: `Edit ${name}` });
    await dialog.getByRole('combobox', { name: 'Routing group' }).fill('etl');
    await dialog.getByRole('button', { name: 'Save' }).click();
    const refused = dialog.getByRole('alert');
    await expect.poll(() => refused.getByRole('listitem').allTextContents()).toEqual([`spec.routingGroup: ${GITOPS}`]);
    expect((await stored('engineclusters', name)).spec.routingGroup).toBe('adhoc');
    await expectSoundInBothWidths(window);
    await dialog.getByRole('button', { name: 'Take over and save' }).click();
    await dialog.waitFor({ state: 'detached' });
    expect((await stored('engineclusters', name)).spec.routingGroup).toBe('etl');
    expect(await ownersOf('engineclusters', name, 'routingGroup')).toEqual(['engine-gateway-api']);
    await expect
      .poll(() => row(page, name).textContent())
      .toMatch(new RegExp(`^${name}(${GITOPS}, REST|REST, ${GITOPS})etl`));
    await page.getByRole('button', { name: `Details of ${name}` }).click();
    await details.getByText('engine-gateway-api: routingGroup').waitFor();
    expect(window.defects).toEqual([]);
  });

  test('a rule: likewise', async () => {
    await kube.apply(GITOPS, ruleManifest('to-adhoc', { description: 'Everything', priority: 3 }));
    await using window = await open('/routing-rules');
    const { page } = window;
    await page.getByRole('button', { name: 'Edit to-adhoc' }).click();
    const dialog = page.getByRole('dialog', { name: 'Edit to-adhoc' });
    await dialog.getByLabel('Description').fill('Mine');
    await dialog.getByRole('button', { name: 'Save' }).click();
    const refused = dialog.getByRole('alert');
    await expect.poll(() => refused.getByRole('listitem').allTextContents()).toEqual([`spec.description: ${GITOPS}`]);
    await expectSound(window);
    expect((await stored('routingrules', 'to-adhoc')).spec.description).toBe('Everything');
    await dialog.getByRole('button', { name: 'Take over and save' }).click();
    await dialog.waitFor({ state: 'detached' });
    expect((await stored('routingrules', 'to-adhoc')).spec).toMatchObject({ description: 'Mine', priority: 3 });
    await page.getByRole('row').filter({ hasText: 'to-adhoc' }).getByText('Mine').waitFor();
    expect(window.defects).toEqual([]);
  });

  test('the switch overrides what Git says until Git changes, and the page says so', async () => {
    await declare('switched');
    await declare('second');
    await using window = await open('/clusters');
    const { page } = window;
    await expect.poll(() => row(page, 'switched').textContent()).toMatch(/(?<!UN)HEALTHY/);
    await switchOf(page, 'switched').press('Space');
    await expect.poll(() => row(page, 'switched').textContent()).toMatch(/off by ada, \d+ s ago.*differs from Git/);
    await expectSound(window);
    const { metadata, spec } = await stored('engineclusters', 'switched');
    expect(JSON.parse(metadata.annotations?.['enginegateway.dev/active'] ?? '')).toMatchObject({
      active: false,
      by: 'ada',
    });
    expect(spec.active).toBe(true);
    // What the controller does every few minutes ends nothing; a change of what it declares does.
    await declare('switched', { routingGroup: 'etl' });
    await expect.poll(() => row(page, 'switched').textContent()).toMatch(/etl.*differs from Git/);
    await declare('switched', { active: false });
    await expect.poll(() => row(page, 'switched').textContent()).not.toMatch(/differs|off by/);
    expect(await switchOf(page, 'switched').isChecked()).toBe(false);
    await declare('switched', { active: true });
    await expect.poll(() => switchOf(page, 'switched').isChecked()).toBe(true);
    await page.getByRole('button', { name: 'Delete switched' }).click();
    const question = page.getByRole('dialog', { name: 'Delete switched?' });
    await question.getByText('Where a GitOps controller declares it, that controller will create it again.').waitFor();
    await question.getByRole('button', { name: 'Delete' }).click();
    await expect.poll(() => row(page, 'switched').count()).toBe(0);
    expect(await kube.kubectl(['get', 'engineclusters', '-o', 'name'])).not.toContain('/switched');
    expect(window.defects).toEqual([]);
  });

  test('the page of a cluster shows what Git declares against what is in force, and who switched it elsewhere', async () => {
    await declare('paged', { routingGroup: 'paged' });
    await using window = await open('/clusters/paged');
    const { page } = window;
    const declared = page.getByRole('region', { name: 'Declared and in force' });
    await expect.poll(() => declared.textContent()).toContain('All that is declared is in force.');
    const rowOf = (field: string) =>
      declared.getByRole('row').filter({ has: page.getByRole('rowheader', { name: new RegExp(`^${field}`) }) });
    expect(await rowOf('routingGroup').textContent()).toBe(`routingGrouppagedby ${GITOPS}paged`);
    await switchOf(page, 'paged').press('Space');
    await page.getByRole('button', { name: 'Switch off' }).click();
    const undo = page.getByRole('button', { name: 'Undo' });
    await undo.hover();
    await expect.poll(() => rowOf('active').textContent()).toMatch(/^activediffers.*false$/);
    expect(await declared.textContent()).toMatch(/1 field is in force as other than declared: an override is in force/);
    await expectSound(window);
    // An action of somebody else: what is shown here cannot be taken back any more.
    const off = (by: string) => JSON.stringify({ active: false, by, at: '2026-11-21T01:57:45Z', overrode: true });
    const annotation = `enginegateway.dev/active=${off('argo')}`;
    await kube.kubectl(['annotate', '--overwrite', 'enginecluster', 'paged', annotation]);
    await declared.getByText('Overridden: off by argo').waitFor();
    await undo.click();
    await page.getByText('paged was switched meanwhile: it is off by argo').waitFor();
    await kube.kubectl(['delete', 'enginecluster', 'paged']);
    await page.getByText('There is no backend paged, or not any more.').waitFor();
    expect(window.defects).toEqual([]);
  });

  test('a backend that is made of a Service says so before it is edited: only the switch is its own', async () => {
    const service = {
      ...{ apiVersion: 'v1', kind: 'Service', metadata: { name: 'found', labels: { engine: 'found' } } },
      spec: { ports: [{ name: 'http', port: 8080 }] },
    };
    const discovery = manifest('EngineClusterDiscovery', 'engines', {
      selector: { matchLabels: { engine: 'found' } },
      template: { name: '{service}', routingGroup: 'adhoc' },
    });
    await kube.apply(GITOPS, service, discovery);
    await using window = await open('/clusters');
    const { page } = window;
    await row(page, 'found').getByText('discovered by engines').waitFor();
    const why = `Discovered from the Service ${kube.namespace}/found by the EngineClusterDiscovery ${kube.namespace}/engines`;
    for (const action of ['Edit', 'Delete']) {
      const button = page.getByRole('button', { name: `${action} found: not possible. ${why}` });
      expect(await button.getAttribute('aria-disabled')).toBe('true');
      await button.focus();
      await page.getByRole('tooltip').getByText(why).waitFor();
      await button.press('Enter');
    }
    expect(await page.getByRole('dialog').count()).toBe(0);
    await expectSound(window);
    await switchOf(page, 'found').press('Space');
    await row(page, 'found')
      .getByText(/off by ada/)
      .waitFor();
    await page.goto(`${rig.pages}/clusters/found`);
    await page.getByRole('note').getByText(why).waitFor();
    expect(await page.getByRole('button', { name: 'Edit' }).count()).toBe(0);
    await expectSound(window);
    expect(window.defects).toEqual([]);
    await kube.kubectl(['delete', 'ecd/engines', 'service/found']);
  });

  test('resource groups of a resource name it and who manages its fields before they are edited', async () => {
    await kube.apply(
      GITOPS,
      manifest('ResourceGroupConfiguration', 'production', {
        environment: 'production',
        rootGroups: [{ name: 'declared', softMemoryLimit: '50%', hardConcurrencyLimit: 5, maxQueued: 100 }],
        selectors: [{ group: 'declared' }],
      }),
    );
    await kube.kubectl(['wait', '--for=condition=Ready', 'rgc/production', '--timeout=60s']);
    await using window = await open('/resource-groups');
    const { page } = window;
    await page.getByText(`declared by ${kube.namespace}/production by ${GITOPS}`, { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Edit declared' }).click();
    const dialog = page.getByRole('dialog', { name: 'Edit declared' });
    await dialog.getByText(`Declared by the ResourceGroupConfiguration ${kube.namespace}/production`).waitFor();
    await expect
      .poll(() => dialog.getByRole('note').textContent())
      .toMatch(new RegExp(`${GITOPS} owns .*rootGroups.*selectors`));
    await expectSound(window);

    const production = async () =>
      (await stored('resourcegroupconfigurations', 'production')).spec as {
        rootGroups: readonly object[];
        selectors?: readonly object[];
      };
    await dialog.getByLabel('Queries that may wait').fill('7');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await expect
      .poll(() => dialog.getByRole('alert').getByRole('listitem').allTextContents())
      .toEqual([expect.stringMatching(new RegExp(`^spec\\.rootGroups.*: ${GITOPS}$`))]);
    expect((await production()).rootGroups).toMatchObject([{ maxQueued: 100 }]);
    await expectSound(window);
    await dialog.getByRole('button', { name: 'Take over and save' }).click();
    await dialog.waitFor({ state: 'detached' });
    expect((await production()).rootGroups).toMatchObject([{ name: 'declared', maxQueued: 7 }]);

    await page.getByRole('button', { name: 'Delete selector 1 of declared' }).click();
    const asked = page.getByRole('dialog', { name: 'Delete the selector?' });
    await asked.getByText(/where a GitOps controller manages that, it will create it again/).waitFor();
    await asked.getByRole('button', { name: 'Delete' }).click();
    const takeOver = page.getByRole('dialog', { name: 'Take over and delete the selector?' });
    await takeOver.getByText(new RegExp(`spec\\.selectors.*: ${GITOPS}`)).waitFor();
    expect((await production()).selectors).toHaveLength(1);
    await takeOver.getByRole('button', { name: 'Take over and delete' }).click();
    await page.getByText('the selector is deleted.').waitFor();
    expect((await production()).selectors ?? []).toEqual([]);
    expect(window.defects.filter((defect) => !defect.includes('409'))).toEqual([]);
  });

  test('the audit names the field manager of changes by kubectl and by a GitOps controller', async () => {
    await using window = await open('/audit?kind=EngineCluster&name=audited', { colorScheme: 'dark' });
    const { page } = window;
    await page.getByText('No change matches.').waitFor();
    const changes = page.getByRole('table', { name: 'Changes' }).getByRole('row').filter({ hasText: 'audited' });
    const untilShown = (texts: readonly RegExp[]) =>
      expect
        .poll(
          async () => {
            await page.reload();
            await page.getByText('There are no earlier changes.').waitFor();
            return await changes.allTextContents();
          },
          { timeout: 60_000, interval: 1_000 },
        )
        .toEqual(texts.map((text) => expect.stringMatching(text)));
    const created = new RegExp(`${GITOPS}Kubernetes *created`);
    await declare('audited');
    await untilShown([created]);
    const moved = JSON.stringify({ spec: { routingGroup: 'etl' } });
    await kube.kubectl(['patch', 'enginecluster', 'audited', '--type=merge', `--patch=${moved}`]);
    const patched = /kubectl-patchKubernetes *changed.*routingGroup/;
    await untilShown([patched, created]);
    await changes
      .first()
      .getByRole('button', { name: /: difference of EngineCluster audited/ })
      .click();
    const dialog = page.getByRole('dialog');
    const field = dialog.getByRole('row').filter({ hasText: 'routingGroup' });
    expect(await field.textContent()).toBe('routingGroupadhocetl');
    await expectSound(window);
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
    await kube.kubectl(['delete', 'enginecluster', 'audited']);
    // Who deleted it is not in the resource.
    await untilShown([/not knownKubernetes *deleted/, patched, created]);
    await page.getByRole('combobox', { name: 'Source' }).selectOption('rest');
    await page.getByRole('button', { name: 'Filter' }).click();
    await page.getByText('No change matches.').waitFor();
    expect(window.defects).toEqual([]);
  });

  test('while the API server is unavailable nothing is written, and the page says when to try again; reading goes on', async () => {
    await declare('steady');
    await using window = await open('/clusters');
    const { page } = window;
    await expect.poll(() => row(page, 'steady').textContent()).toMatch(/(?<!UN)HEALTHY/);
    await kube.stopApiServer();
    try {
      expect(
        await timeOf(() => page.getByText('No connection to where resources are declared').waitFor()),
      ).toBeLessThan(5_000);
      await switchOf(page, 'steady').press('Space');
      const refused = page.getByRole('alert');
      await expect
        .poll(() => refused.textContent())
        .toMatch(/steady could not be deactivated.*the API server cannot be reached.*try again in \d+ s\./);
      await expect.poll(() => switchOf(page, 'steady').isChecked()).toBe(true);
      await expectSound(window);
      await page.getByRole('button', { name: 'Close' }).click();

      await page.getByRole('button', { name: 'Edit steady' }).click();
      const dialog = page.getByRole('dialog', { name: 'Edit steady' });
      await dialog.getByRole('combobox', { name: 'Routing group' }).fill('etl');
      await dialog.getByRole('button', { name: 'Save' }).click();
      await expect.poll(() => dialog.getByRole('alert').textContent()).toMatch(/try again in \d+ s\./);
      expect(await dialog.getByRole('button', { name: 'Take over and save' }).count()).toBe(0);
      await dialog.getByRole('button', { name: 'Cancel' }).click();
      await page.getByRole('dialog', { name: 'Discard the edits?' }).getByRole('button', { name: 'Discard' }).click();
      await page.getByRole('dialog').waitFor({ state: 'detached' });

      const { id } = await runQuery(rig.gateway.url, 'SELECT 1');
      await page.getByRole('link', { name: 'Query History' }).click();
      await page.getByRole('link', { name: id, exact: true }).waitFor();
      await page.getByRole('link', { name: 'Dashboard' }).click();
      const state = page.getByRole('region', { name: 'This gateway' });
      await expect.poll(() => state.textContent(), { timeout: 30_000 }).toMatch(/resource source: .*cannot be reached/);
      const lost = 'The place where resources are declared is unavailable';
      const problem = page.getByRole('region', { name: 'Problems' }).getByRole('listitem').filter({ hasText: lost });
      await expect.poll(() => problem.textContent()).toMatch(/since \d{4}-.*cannot be reached/);
      await page
        .getByRole('region', { name: 'Verdict' })
        .getByText(new RegExp(`^${lost}`))
        .waitFor();
      await expectSound(window);
      await problem.getByRole('link', { name: lost }).click();
      await page.waitForURL(/#this-gateway$/);
    } finally {
      await kube.startApiServer();
    }
    await page.getByRole('link', { name: 'Active Backends' }).click();
    await expect
      .poll(
        async () => {
          if (await switchOf(page, 'steady').isChecked()) await switchOf(page, 'steady').press('Space');
          return await row(page, 'steady').textContent();
        },
        { timeout: 30_000, interval: 1_000 },
      )
      .toMatch(/differs from Git/);
    expect(window.defects).toEqual([]);
  });
});

describe.skipIf(!canBrowse || !controlPlaneAvailable)('users that Kubernetes knows', () => {
  let kube: KubeRig;
  let rig: Rig;
  const verbs = { viewer: 'get,list', owner: '*' } as const;
  beforeAll(async () => {
    kube = await kubeRig(plane);
    for (const [name, allowed] of Object.entries(verbs)) {
      await kube.kubectl(['create', 'serviceaccount', name]);
      const resources = '--resource=engineclusters.enginegateway.dev,routingrules.enginegateway.dev';
      await kube.kubectl(['create', 'role', name, `--verb=${allowed}`, resources]);
      await kube.kubectl([
        'create',
        'rolebinding',
        name,
        `--role=${name}`,
        `--serviceaccount=${kube.namespace}:${name}`,
      ]);
    }
    rig = await startRig({
      resources: { source: 'kubernetes', kubeconfig: kube.kubeconfig, allowedAddresses: ['127.0.0.0/8', '::1'] },
      authentication: { kubernetes: { cacheDuration: '1s' } },
      authorization: { webappReadRole: 'USER' },
    });
    for (const name of ['a', 'b']) await kube.apply(GITOPS, clusterManifest(name, { proxyTo: rig.engines[0]?.url }));
  });
  afterAll(async () => {
    await rig?.[Symbol.asyncDispose]();
    await kube?.stop();
  });

  const tokenOf = async (account: string) => (await kube.kubectl(['create', 'token', account])).trim();

  test('log in by a token of a service account, and see what their rights allow', async () => {
    await using window = await openWindow(`${rig.pages}/clusters`);
    const { page } = window;
    await page.getByRole('textbox', { name: 'Token' }).waitFor();
    await expectSound(window);
    const [head, , signature] = (await tokenOf('viewer')).split('.');
    const [, payload] = (await tokenOf('owner')).split('.');
    await logInByToken(window, `${head}.${payload}.${signature}`);
    await expect.poll(() => page.getByRole('alert').textContent()).toMatch('Authentication failed.');
    await expectSound(window);
    // As it comes out of a terminal.
    await logInByToken(window, `${await tokenOf('viewer')}\n`);
    await row(page, 'a').waitFor();
    expect(await page.getByRole('button', { name: /^(Add|Edit|Delete)/ }).count()).toBe(0);
    expect(await switchOf(page, 'a').isDisabled()).toBe(true);
    await page.getByRole('button', { name: `User system:serviceaccount:${kube.namespace}:viewer` }).click();
    await page.getByText(/Roles: USER$/).waitFor();
    await expectReadable(window);
    await page.getByRole('button', { name: 'Log out' }).click();
    await logInByToken(window, await tokenOf('owner'));
    await row(page, 'a').waitFor();
    await page.getByRole('button', { name: 'Edit a' }).waitFor();
    expect(window.defects).toEqual([]);
  });

  test('the loss of a right is shown, and the pages follow at once', async () => {
    await using window = await openWindow(`${rig.pages}/clusters`, { hasOwnClock: true });
    const { page } = window;
    const token = await tokenOf('owner');
    await logInByToken(window, token);
    await switchOf(page, 'a').waitFor();
    // A page that asks meanwhile would know before the switch is pressed.
    await stopTime(window);
    const viewer = ['create', 'rolebinding', 'demoted', '--role=viewer', `--serviceaccount=${kube.namespace}:owner`];
    await kube.kubectl(viewer);
    await kube.kubectl(['delete', 'rolebinding', 'owner']);
    const owner = `system:serviceaccount:${kube.namespace}:owner`;
    // The answers of the API server are believed for a second.
    const headers = { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' };
    const activate = { method: 'PUT', headers, body: JSON.stringify({ active: true }) };
    await expect.poll(async () => (await fetch(`${rig.gateway.url}/api/clusters/a/active`, activate)).status).toBe(403);
    await switchOf(page, 'a').press('Space');
    await page.clock.resume();
    await expect
      .poll(() => page.getByRole('alert').allTextContents())
      .toEqual([expect.stringMatching(`"${owner}" may not update engineclusters.enginegateway.dev`)]);
    await expect.poll(() => switchOf(page, 'a').isDisabled()).toBe(true);
    await expect.poll(() => page.getByRole('button', { name: /^(Add|Edit|Delete)/ }).count()).toBe(0);
    await expectSound(window);
  });
});

describe.skipIf(!canBrowse || !controlPlaneAvailable)('a team', () => {
  let kube: KubeRig;
  let rig: Rig;
  const teams = ['north', 'south'] as const;
  beforeAll(async () => {
    kube = await kubeRig(plane, { allNamespaces: true });
    await kube.kubectl(['apply', '-f', 'manifests/base/user-roles.yaml']);
    rig = await startRig({
      resources: {
        ...{ source: 'kubernetes', kubeconfig: kube.kubeconfig, namespace: '*', writeNamespace: kube.namespace },
        allowedAddresses: ['127.0.0.0/8', '::1'],
      },
      authentication: { kubernetes: { cacheDuration: '1s' } },
    });
    await kube.kubectl(['create', 'namespace', 'north']);
    await kube.kubectl(['-n', 'north', 'create', 'serviceaccount', 'team']);
    for (const team of teams) {
      if (team !== 'north') await kube.kubectl(['create', 'namespace', team]);
      for (const role of team === 'north' ? ['view', 'edit'] : ['view']) {
        const binding = [`--clusterrole=engine-gateway-${role}`, '--serviceaccount=north:team'];
        await kube.kubectl(['-n', team, 'create', 'rolebinding', role, ...binding]);
      }
      const granted = { namespaces: { names: [team] }, routingGroups: [{ value: team }] };
      await kube.kubectl(['apply', '-f', '-'], manifest('EngineTenant', team, granted));
      const declared = clusterManifest(`${team}-1`, { proxyTo: rig.engines[0]?.url, routingGroup: team });
      await kube.kubectl(['-n', team, 'apply', '-f', '-'], declared);
    }
    await kube.apply(GITOPS, clusterManifest('platform-1', { proxyTo: rig.engines[1]?.url }));
    await kube.kubectl(['-n', 'north', 'wait', '--for=condition=Healthy', 'ec/north-1', '--timeout=60s']);
  });
  afterAll(async () => {
    await rig?.[Symbol.asyncDispose]();
    await kube?.stop();
  });

  test('switches, changes and deletes its own clusters, sees those that it may list, and no others', async () => {
    await using window = await openWindow(`${rig.pages}/clusters`);
    const { page } = window;
    await logInByToken(window, (await kube.kubectl(['-n', 'north', 'create', 'token', 'team'])).trim());
    for (const team of teams) await row(page, `${team}-1`).waitFor();
    expect(await row(page, 'platform-1').count()).toBe(0);
    const buttons = page.getByRole('button', { name: /^(Add|Edit|Delete)/ });
    expect(await Promise.all((await buttons.all()).map((each) => each.getAttribute('aria-label')))).toEqual([
      'Edit north-1',
      'Delete north-1',
    ]);
    expect(await switchOf(page, 'south-1').isDisabled()).toBe(true);
    await switchOf(page, 'north-1').press('Space');
    await page.getByRole('button', { name: 'Switch off' }).click();
    await row(page, 'north-1')
      .getByText(/off by system:serviceaccount:north:team/)
      .waitFor();
    await row(page, 'north-1').getByText('No query left').waitFor();
    await expectSound(window);
    await page.getByRole('button', { name: 'Edit north-1' }).click();
    const dialog = page.getByRole('dialog', { name: 'Edit north-1' });
    await dialog.getByLabel('External URL').fill('http://north.example');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await dialog.waitFor({ state: 'detached' });
    await page.goto(`${rig.pages}/clusters/south-1`);
    await page.getByRole('region', { name: 'State' }).waitFor();
    expect(await page.getByRole('button', { name: 'Edit' }).count()).toBe(0);
    await page.goto(`${rig.pages}/clusters/north-1`);
    await page.getByRole('button', { name: 'Edit' }).waitFor();
    await page.goto(`${rig.pages}/clusters`);
    await page.getByRole('button', { name: 'Delete north-1' }).click();
    await page.getByRole('dialog', { name: 'Delete north-1?' }).getByRole('button', { name: 'Delete' }).click();
    await expect.poll(() => row(page, 'north-1').count()).toBe(0);
    expect(window.defects).toEqual([]);
  });
});
