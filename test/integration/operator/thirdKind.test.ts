import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { withRoleRules } from '../../../scripts/roleRules.ts';
import { checkManifests } from '../../../src/cli/manifestCheck.ts';
import { crdPath, customResourceDefinition } from '../../../src/kinds/crd.ts';
import { resourceKinds } from '../../../src/kinds/registry.ts';
import { systemClock } from '../../../src/model/clock.ts';
import { productNames } from '../../../src/model/names.ts';
import { exportManifests } from '../../../src/operator/exportManifests.ts';
import { operatorMetrics } from '../../../src/operator/reconcile/metrics.ts';
import { DatabaseSource } from '../../../src/operator/sources/database/databaseSource.ts';
import { DirectorySource } from '../../../src/operator/sources/directory/directorySource.ts';
import type { ResourceSource } from '../../../src/operator/sources/source.ts';
import { openStore } from '../../../src/store/openStore.ts';
import type { Store } from '../../../src/store/store.ts';
import { banner, kindsWithBanner as kinds } from '../../support/madeUpKind.ts';
import { type OperatorRig, startOperator } from '../../support/operatorRig.ts';

const logger = pino({ enabled: false });
const until = (check: () => void | Promise<void>): Promise<void> =>
  vi.waitFor(check, { timeout: 30_000, interval: 20 });
const manifest = (name: string, spec: object, kind: string = banner.kind): string =>
  `---\n${JSON.stringify({ apiVersion: 'enginegateway.dev/v1', kind, metadata: { name }, spec })}\n`;
const key = (name: string) => ({ kind: banner.kind, namespace: 'default', name });

describe('of a kind that is registered and named nowhere else', () => {
  test('there is a CRD', () => {
    expect(crdPath(banner)).toBe('crds/enginegateway.dev_banners.yaml');
    expect(customResourceDefinition(banner)).toMatchObject({
      metadata: { name: 'banners.enginegateway.dev' },
      spec: {
        names: { kind: 'Banner', listKind: 'BannerList', plural: 'banners', shortNames: ['bn'] },
        versions: [
          { schema: { openAPIV3Schema: { properties: { spec: { properties: { text: { maxLength: 20 } } } } } } },
        ],
      },
    });
  });

  test('the gateway gets the rights that it needs', () => {
    const present = `rules:\n  # The rules from here to "end of derived rules" are written by "npm run generate" from src/kinds.\n  # End of derived rules.\n`;
    expect(parse(withRoleRules(present, kinds)).rules).toMatchObject([
      ...resourceKinds.all.map(({ plural }) => ({ resources: [plural] })),
      { apiGroups: ['enginegateway.dev'], resources: ['banners'], verbs: ['get', 'list', 'watch'] },
      {
        resources: [...resourceKinds.all.map(({ plural }) => `${plural}/status`), 'banners/status'],
        verbs: ['patch'],
      },
    ]);
  });

  test('specs are validated as what they are', () => {
    expect(kinds.specProblems(banner.kind, { condition: 'true' }).map(({ field }) => field)).toEqual([
      'spec.text',
      'spec.condition',
    ]);
    const text = manifest('a', { text: '' }) + manifest('b', { text: 'shout' }) + manifest('c', {}, 'Flag');
    const check = checkManifests('x.yaml', text, { names: productNames('Engine'), analyzeRequest: true }, kinds);
    expect(check.problems.map(({ document, message }) => [document, message])).toEqual([
      [1, 'spec.text must not be empty'],
      [3, `kind must be ${resourceKinds.names.join(' or ')} or Banner, not Flag`],
    ]);
    expect(check.warnings).toMatchObject([{ rule: 'b', message: 'spec.text: too loud' }]);
  });

  test('export has it', () => {
    const row = { name: 'One', routingGroup: 'g', proxyTo: 'http://a', externalUrl: 'http://a', active: true };
    const documents = parseAllDocuments(exportManifests({ clusters: [row], rules: [], namespace: 'n' }, kinds).yaml);
    expect(documents.map((document) => document.toJS())).toMatchObject([
      { kind: 'EngineCluster' },
      { kind: 'Banner', metadata: { namespace: 'n' }, spec: { name: 'One', text: 'about One' } },
    ]);
  });

  describe('an operator', () => {
    let directory: string;
    let store: Store;
    let rig: OperatorRig | undefined;
    let metrics: Registry;
    beforeEach(async () => {
      directory = await mkdtemp(join(tmpdir(), 'eg-kinds-'));
      store = await openStore({ jdbcUrl: `jdbc:sqlite:${join(directory, 'x.db')}`, runMigrations: true, logger });
      metrics = new Registry();
    });
    afterEach(async () => {
      await rig?.stop();
      await store.close();
      await rm(directory, { recursive: true, force: true });
    });
    const start = async (source: ResourceSource): Promise<OperatorRig> => {
      rig = await startOperator(store, source, { controller: { kinds, metrics: operatorMetrics(metrics, kinds) } });
      return rig;
    };
    const common = { kinds, namespace: 'default', clock: systemClock, logger, pollMs: 50 };

    test('lists, follows, projects and counts resources of a directory and writes their status', async () => {
      await writeFile(join(directory, 'a.yaml'), manifest('a', { text: 'hello' }));
      const { source, controller } = await start(
        new DirectorySource({ ...common, directory, settleMs: 20, confirmDeletionMs: 150, confirmEmptyMs: 300 }),
      );
      const notified: string[] = [];
      source.watch(({ kind, name }) => notified.push(`${kind} ${name}`));
      const shown = (name: string) => (source.get(key(name))?.status as { readonly shown?: string } | undefined)?.shown;
      await until(() => expect(shown('a')).toBe('hello'));
      expect(source.list(banner.kind).map(({ metadata }) => metadata.name)).toEqual(['a']);
      expect((await store.resources.all([banner.kind])).map(({ name, spec }) => [name, spec])).toEqual([
        ['a', { text: 'hello' }],
      ]);
      expect(await metrics.metrics()).toContain('engine_gateway_banners 1');
      await writeFile(
        join(directory, 'a.yaml'),
        manifest('a', { text: 'again' }) + manifest('b', { name: 'a', text: 'x' }),
      );
      await until(() => expect([shown('a'), shown('b')]).toEqual(['again', undefined]));
      expect(notified).toContain('Banner b');
      expect([...controller.outcomes.keys()].sort()).toEqual(['Banner/default/a', 'Banner/default/b']);
      await rm(join(directory, 'a.yaml'));
      await until(async () => expect(await store.resources.all([banner.kind])).toEqual([]));
    });

    test('lists, follows and changes resources of the database', async () => {
      const { source } = await start(new DatabaseSource({ ...common, store }));
      await source.create({ ...key('a'), spec: { text: 'hello' } });
      await until(() =>
        expect(source.list(banner.kind)).toMatchObject([
          { status: { shown: 'hello', conditions: [{ type: 'Ready' }] } },
        ]),
      );
      const expectedVersion = source.get(key('a'))?.metadata.resourceVersion ?? '';
      await source.apply(
        key('a'),
        { set: { text: 'again' }, remove: [], annotations: {} },
        { force: false, expectedVersion },
      );
      await until(() => expect(source.get(key('a'))).toMatchObject({ status: { shown: 'again' } }));
    });
  });
});

test('a gateway that does not know a kind leaves what a later version stored of it', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'eg-kinds-'));
  const store = await openStore({ jdbcUrl: `jdbc:sqlite:${join(directory, 'x.db')}`, runMigrations: true, logger });
  const later = await startOperator(
    store,
    new DatabaseSource({ namespace: 'default', clock: systemClock, logger, kinds, store }),
    {
      controller: { kinds },
    },
  );
  await later.source.create({ ...key('a'), spec: { text: 'hello' } });
  await later.stop();
  const present = await startOperator(
    store,
    new DatabaseSource({ kinds: resourceKinds, namespace: 'default', clock: systemClock, logger, store }),
  );
  await until(() => expect(present.leadership.isLeader).toBe(true));
  await present.registry.add(
    { name: 'c', proxyTo: 'http://c:1', externalUrl: 'http://c:1', routingGroup: 'g', active: true },
    { by: 'api', force: false },
  );
  await until(async () => expect((await store.backends.all()).map(({ name }) => name)).toEqual(['c']));
  expect((await store.resources.all([banner.kind])).map(({ name }) => name)).toEqual(['a']);
  await present.stop();
  await store.close();
  await rm(directory, { recursive: true, force: true });
});
