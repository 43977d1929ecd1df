import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import type { RegistryCluster } from '../../../src/model/registryCluster.ts';
import { operatorMetrics } from '../../../src/operator/reconcile/metrics.ts';
import { type KnexStore, openStore } from '../../../src/store/openStore.ts';
import { databases, oneDatabase, type TestDatabase } from '../../support/databases.ts';
import { otherProgram } from '../../support/foreignRows.ts';
import { makeAnotherLead } from '../../support/leaderRow.ts';
import {
  clusterKey,
  type OperatorRig,
  quickDatabase,
  quickDirectory,
  startOperator,
} from '../../support/operatorRig.ts';

const by = { by: 'alice', force: false };
const cluster = (name: string, more: Partial<RegistryCluster> = {}): RegistryCluster => ({
  name,
  proxyTo: `http://${name}:8080`,
  active: true,
  routingGroup: 'adhoc',
  externalUrl: `http://${name}:8080`,
  ...more,
});
const until = (check: () => void | Promise<void>): Promise<void> =>
  vi.waitFor(check, { timeout: 30_000, interval: 20 });

/** Statements of the released Trino Gateway. */
const setActive = (name: string, active: boolean): string =>
  `update gateway_backend set active = ${active} where name = '${name}'`;
const update = (name: string, group: string, url: string, active = true): string =>
  `update gateway_backend set routing_group = '${group}', backend_url = '${url}', external_url = '${url}', active = ${active} where name = '${name}'`;
const insert = (name: string): string =>
  `insert into gateway_backend (name, routing_group, backend_url, external_url, active) values ('${name}', 'etl', 'http://${name}:1', 'http://${name}:1', true)`;
const drop = (name: string): string => `delete from gateway_backend where name = '${name}'`;

describe.each(databases)('on $name', ({ name: dialect, available, start }) => {
  /** Declares a test of what does not depend on the dialect. */
  const once = (name: string, run: () => Promise<void>): void => void (dialect === oneDatabase.name && test(name, run));

  describe.skipIf(!available())('what another gateway writes', () => {
    let server: TestDatabase;
    let store: KnexStore;
    let directory: string;
    let other: ReturnType<typeof otherProgram>;
    let metrics: Registry;
    let lines: { readonly level: number; readonly msg: string; readonly cluster?: string; readonly fields?: unknown }[];
    const rigs: OperatorRig[] = [];
    const logger = pino({ level: 'info' }, { write: (line: string) => lines.push(JSON.parse(line)) });

    beforeAll(async () => {
      server = await start();
    });
    afterAll(() => server?.dispose());
    beforeEach(async () => {
      lines = [];
      const settings = await server.create();
      store = await openStore({ ...settings, runMigrations: true, logger: pino({ enabled: false }) });
      other = otherProgram(dialect, settings);
      directory = await mkdtemp(join(tmpdir(), 'eg-external-'));
    });
    afterEach(async () => {
      for (const rig of rigs.splice(0)) await rig.stop();
      await store.close();
      await rm(directory, { recursive: true, force: true });
    });

    const started = async (source: 'database' | 'directory'): Promise<OperatorRig> => {
      metrics = new Registry();
      const rig = await startOperator(
        store,
        (changes) => (source === 'database' ? quickDatabase(store, changes) : quickDirectory(directory)),
        { controller: { metrics: operatorMetrics(metrics), logger } },
      );
      rigs.push(rig);
      await until(() => expect(rig.leadership.isLeader).toBe(true));
      return rig;
    };
    const stop = async (): Promise<void> => {
      await rigs.pop()?.stop();
    };
    const add = async (rig: OperatorRig, ...names: readonly string[]): Promise<void> => {
      for (const name of names) await rig.registry.add(cluster(name), by);
    };
    const rows = async (): Promise<readonly string[]> =>
      (await store.backends.all()).map(
        (row) => `${row.name} ${row.routingGroup} ${row.proxyTo} ${row.active}${row.managed ? '' : ' unmanaged'}`,
      );
    const condition = (rig: OperatorRig, name: string, type: string) =>
      rig.source.get(clusterKey(name))?.status?.conditions?.find((each) => each.type === type);
    const count = async (outcome: string): Promise<number> =>
      (await metrics.getSingleMetric('engine_gateway_foreign_writes_total')?.get())?.values.find(
        ({ labels }) => labels.outcome === outcome,
      )?.value ?? 0;

    describe('with source database', () => {
      test('is in the resource: activation as an override, group and URL in the spec', async () => {
        const rig = await started('database');
        await add(rig, 'a', 'b');
        await other([setActive('a', false), update('b', 'etl', 'http://new:1')]);
        const moved = { routingGroup: 'etl', proxyTo: 'http://new:1', externalUrl: 'http://new:1' };
        await until(() => {
          expect(rig.registry.get('a')).toEqual(cluster('a', { active: false }));
          expect(rig.registry.get('b')).toEqual(cluster('b', moved));
        });
        expect(rig.source.get(clusterKey('a'))?.spec.active).toBe(true);
        expect(rig.source.get(clusterKey('b'))).toMatchObject({
          metadata: { generation: 2 },
          spec: { active: true, proxyTo: 'http://new:1', routingGroup: 'etl' },
        });
        await until(() =>
          expect(condition(rig, 'a', 'Active')).toMatchObject({
            status: 'False',
            message: expect.stringContaining('another gateway'),
          }),
        );
        await other([setActive('a', true)]);
        await until(() => expect(rig.registry.get('a')).toEqual(cluster('a')));
        expect(rig.source.get(clusterKey('a'))?.metadata.annotations).toEqual({});
        expect(await rows()).toEqual(['a adhoc http://a:8080 true', 'b etl http://new:1 true']);
        expect([await count('adopted'), await count('overruled')]).toEqual([3, 0]);
        expect(condition(rig, 'a', 'Drift')).toBeUndefined();
      });

      const emptied = async (isStopped: boolean): Promise<void> => {
        const names = ['a', 'b', 'c', 'd', 'e'];
        const first = await started('database');
        await add(first, ...names);
        if (isStopped) await stop();
        await other(['delete from gateway_backend']);
        const rig = isStopped ? await started('database') : first;
        await until(() => expect(rig.controller.heldDeletions).toMatchObject([{ held: 5, left: 0 }]));
        expect(rig.registry.all().map(({ name }) => name)).toEqual(names);
        await other([insert('a')]);
        await until(() => expect(rig.controller.heldDeletions).toMatchObject([{ held: 4, left: 1 }]));
        await rig.controller.confirmDeletions();
        await until(async () => expect((await store.resources.all()).map(({ name }) => name)).toEqual(['a']));
        expect(rig.registry.all()).toMatchObject([{ name: 'a', routingGroup: 'etl', proxyTo: 'http://a:1' }]);
      };
      once('a table that is emptied while it runs is a loss that has to be confirmed', () => emptied(false));
      once('a table that is emptied while it does not run is a loss that has to be confirmed', () => emptied(true));

      once('a suspended or invalid resource keeps what is routed', async () => {
        const rig = await started('database');
        await add(rig, 'a', 'b');
        const { resourceVersion } = rig.source.get(clusterKey('a'))!.metadata;
        const change = { set: { suspend: true }, remove: [], annotations: {} };
        await rig.source.apply(clusterKey('a'), change, { force: false, expectedVersion: resourceVersion });
        await other([update('a', 'etl', 'http://a:8080'), update('b', 'etl', 'ftp://nowhere')]);
        await until(() => {
          expect(rig.source.get(clusterKey('a'))?.spec.routingGroup).toBe('etl');
          expect(condition(rig, 'b', 'Accepted')).toMatchObject({ status: 'False', reason: 'InvalidSpec' });
        });
        expect(rig.registry.all()).toEqual([cluster('a'), cluster('b')]);
        expect(await rows()).toEqual(['a etl http://a:8080 true', 'b etl ftp://nowhere true']);
      });

      test('is not taken for a change where only its form differs', async () => {
        const rig = await started('database');
        await add(rig, 'a');
        await other(["update gateway_backend set backend_url = 'http://a:8080/', external_url = '' where name = 'a'"]);
        await other([insert('x')]);
        await until(() => expect(rig.registry.get('x')).not.toBeNull());
        expect(rig.source.get(clusterKey('a'))?.metadata.generation).toBe(1);
        expect(await count('adopted')).toBe(0);
      });
    });

    describe('with source directory', () => {
      test('is put back with log, metric and condition; the condition stays until the resource is changed', async () => {
        const rig = await started('directory');
        await add(rig, 'a', 'b');
        await other([update('a', 'etl', 'http://a:8080', false), drop('b'), insert('x')]);
        await until(async () => {
          expect(await rows()).toEqual([
            'a adhoc http://a:8080 true',
            'b adhoc http://b:8080 true',
            'x etl http://x:1 true unmanaged',
          ]);
          expect(condition(rig, 'a', 'Drift')).toMatchObject({ status: 'True', reason: 'ForeignWriteOverruled' });
          expect(condition(rig, 'b', 'Drift')?.message).toMatch(/^another gateway deleted the row of gateway_backend;/);
        });
        expect(condition(rig, 'a', 'Drift')?.message).toBe(
          'another gateway wrote into gateway_backend active false (the resource: true), routingGroup "etl" (the resource: "adhoc"); put back: the resource is the truth; make the change there, or by the REST API of this gateway',
        );
        expect([await count('adopted'), await count('overruled')]).toEqual([0, 2]);
        expect(lines.filter(({ level }) => level === 40)).toContainEqual(
          expect.objectContaining({
            msg: 'external change of gateway_backend overwritten',
            cluster: 'a',
            fields: [
              { field: 'active', row: false, resource: true },
              { field: 'routingGroup', row: 'etl', resource: 'adhoc' },
            ],
          }),
        );
        expect(rig.registry.get('a')).toEqual(cluster('a'));
        await rig.registry.update(cluster('a', { routingGroup: 'large' }), by);
        await until(() => expect(condition(rig, 'a', 'Drift')).toBeUndefined());
        expect(condition(rig, 'b', 'Drift')).toBeDefined();
      });

      once('while no gateway runs here is put back at the start, whatever the manifest says by then', async () => {
        const file = join(directory, 'a.yaml');
        const manifest = (group: string): string =>
          `apiVersion: enginegateway.dev/v1beta1\nkind: EngineCluster\nmetadata:\n  name: a\nspec:\n  proxyTo: http://a:8080\n  routingGroup: ${group}\n`;
        await writeFile(file, manifest('adhoc'));
        await started('directory');
        await until(async () => expect(await rows()).toEqual(['a adhoc http://a:8080 true']));
        await stop();
        await writeFile(file, manifest('ours'));
        await other([update('a', 'theirs', 'http://a:8080', false)]);
        const rig = await started('directory');
        await until(async () => expect(await rows()).toEqual(['a ours http://a:8080 true']));
        await until(() => expect(condition(rig, 'a', 'Drift')?.message).toContain('routingGroup "theirs"'));
        expect(await readFile(file, 'utf8')).toBe(manifest('ours'));
      });

      once('is put back by the leader alone, which the epoch fences', async () => {
        const rig = await started('directory');
        await add(rig, 'a');
        await makeAnotherLead(store);
        await other([setActive('a', false)]);
        await until(() => expect(rig.leadership.isLeader).toBe(false));
        expect(await rows()).toEqual(['a adhoc http://a:8080 false']);
        expect(await count('overruled')).toBe(0);
      });
    });
  });
});
