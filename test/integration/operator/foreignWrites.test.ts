import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import type { RegistryCluster } from '../../../src/model/registryCluster.ts';
import { PAUSED_ANNOTATION } from '../../../src/model/resource.ts';
import type { ForeignWrite } from '../../../src/operator/reconcile/foreignWrites.ts';
import { operatorMetrics } from '../../../src/operator/reconcile/metrics.ts';
import type { ResourceSource } from '../../../src/operator/sources/source.ts';
import { type KnexStore, openStore } from '../../../src/store/openStore.ts';
import type { Store } from '../../../src/store/store.ts';
import { databases, type TestDatabase } from '../../support/databases.ts';
import { otherProgram } from '../../support/foreignRows.ts';
import { makeAnotherLead } from '../../support/leaderRow.ts';
import {
  clusterKey,
  type OperatorRig,
  quickDatabase,
  quickDirectory,
  type RigOptions,
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
const drop = (name: string): string => `delete from gateway_backend where name = '${name}'`;

describe.each(databases)('on $name', ({ name: dialect, available, start }) => {
  describe.skipIf(!available())('what another gateway writes', () => {
    let server: TestDatabase;
    let settings: Awaited<ReturnType<TestDatabase['create']>>;
    let store: KnexStore;
    let directory: string;
    let other: ReturnType<typeof otherProgram>;
    let metrics: Registry;
    let settled: ForeignWrite[];
    let lines: { readonly level: number; readonly msg: string; readonly cluster?: string; readonly reason?: string }[];
    const rigs: OperatorRig[] = [];
    const logger = pino({ level: 'info' }, { write: (line: string) => lines.push(JSON.parse(line)) });

    beforeAll(async () => {
      server = await start();
    });
    afterAll(() => server?.dispose());
    beforeEach(async () => {
      [lines, settled] = [[], []];
      metrics = new Registry();
      settings = await server.create();
      store = await openStore({ ...settings, runMigrations: true, logger: pino({ enabled: false }) });
      other = otherProgram(dialect, settings);
      directory = await mkdtemp(join(tmpdir(), 'eg-foreign-'));
    });
    afterEach(async () => {
      for (const rig of rigs.splice(0)) await rig.stop();
      await store.close();
      await rm(directory, { recursive: true, force: true });
    });

    const sources: readonly [string, () => ResourceSource][] = [
      ['directory', () => quickDirectory(directory)],
      ['database', () => quickDatabase(store)],
    ];

    describe.each(sources)('source %s', (sourceName, source) => {
      const started = async (options: RigOptions = {}): Promise<OperatorRig> => {
        metrics = new Registry();
        const rig = await startOperator(store, source(), {
          ...options,
          controller: {
            metrics: operatorMetrics(metrics),
            logger,
            onForeignWrite: (write) => settled.push(write),
            ...options.controller,
          },
        });
        rigs.push(rig);
        return rig;
      };
      const stop = async (): Promise<void> => {
        await rigs.pop()?.stop();
      };
      const rows = async (): Promise<readonly string[]> =>
        (await store.backends.all()).map(
          (row) => `${row.name} ${row.routingGroup} ${row.proxyTo} ${row.active}${row.managed ? '' : ' unmanaged'}`,
        );
      const drift = (rig: OperatorRig, name: string) =>
        rig.source.get(clusterKey(name))?.status?.conditions?.find(({ type }) => type === 'Drift');
      const count = async (outcome: string): Promise<number> =>
        (await metrics.getSingleMetric('engine_gateway_foreign_writes_total')?.get())?.values.find(
          ({ labels }) => labels.outcome === outcome,
        )?.value ?? 0;
      /** Adds clusters, and waits until the database is as it should be. */
      const declared = async (rig: OperatorRig, ...names: readonly string[]): Promise<void> => {
        for (const name of names) await rig.registry.add(cluster(name), by);
      };

      test('is taken over into the resource: activation as an override, group and URL into the spec', async () => {
        const rig = await started();
        await declared(rig, 'a', 'b');
        await other([setActive('a', false), update('b', 'etl', 'http://new:1')]);
        await until(() => {
          expect(rig.registry.get('a')).toEqual(cluster('a', { active: false }));
          expect(rig.registry.get('b')).toEqual(
            cluster('b', { routingGroup: 'etl', proxyTo: 'http://new:1', externalUrl: 'http://new:1' }),
          );
        });
        expect(rig.source.get(clusterKey('a'))?.spec.active).toBe(true);
        expect(rig.source.get(clusterKey('b'))?.spec).toEqual({
          active: true,
          proxyTo: 'http://new:1',
          routingGroup: 'etl',
        });
        await until(() =>
          expect(rig.source.get(clusterKey('a'))?.status?.conditions).toContainEqual(
            expect.objectContaining({
              type: 'Active',
              status: 'False',
              message: expect.stringContaining('another gateway'),
            }),
          ),
        );
        await other([setActive('a', true)]);
        await until(() => expect(rig.registry.get('a')).toEqual(cluster('a')));
        expect(rig.source.get(clusterKey('a'))?.metadata.annotations).toEqual({});
        expect(await rows()).toEqual(['a adhoc http://a:8080 true', 'b etl http://new:1 true']);
        await until(async () => expect(await count('adopted')).toBe(3));
        expect([await count('refused'), await count('overruled')]).toEqual([0, 0]);
        expect(settled.map(({ outcome, fields }) => [outcome, fields.map(({ field }) => field)])).toEqual(
          expect.arrayContaining([
            ['adopted', ['active']],
            ['adopted', ['routingGroup', 'proxyTo', 'externalUrl']],
          ]),
        );
        expect(drift(rig, 'a')).toBeUndefined();
      });

      test('while no gateway runs here is taken over at the start, beside changes of other fields made meanwhile', async () => {
        const first = await started();
        await declared(first, 'a', 'b', 'c');
        await stop();
        await other([setActive('a', false), update('b', 'etl', 'http://b:8080'), drop('c')]);
        const rig = await started();
        await until(async () => {
          expect(await rows()).toEqual(['a adhoc http://a:8080 false', 'b etl http://b:8080 true']);
          expect(rig.registry.all().map(({ name, active, routingGroup }) => [name, active, routingGroup])).toEqual([
            ['a', false, 'adhoc'],
            ['b', true, 'etl'],
          ]);
        });
        expect(rig.source.get(clusterKey('c'))).toBeNull();
      });

      test('and a change of another field of the resource at the same time are both kept', async () => {
        const rig = await started();
        await declared(rig, 'a');
        await other([setActive('a', false)]);
        await rig.registry.updateFields('a', { routingGroup: 'etl' }, {}, by);
        await until(async () => {
          expect(rig.registry.get('a')).toEqual(cluster('a', { routingGroup: 'etl', active: false }));
          expect(await rows()).toEqual(['a etl http://a:8080 false']);
          expect(await count('adopted')).toBe(1);
        });
        expect(drift(rig, 'a')).toBeUndefined();
      });

      test('is read again where the resource is changed at the same time: what the row no longer has is not taken over', async () => {
        const rig = await started();
        await declared(rig, 'a');
        // Between reading the row and writing the resource, both are changed.
        vi.spyOn(rig.source, 'apply').mockImplementationOnce(async (...write) => {
          await other([setActive('a', true)]);
          await rig.registry.update(cluster('a', { routingGroup: 'etl' }), by);
          return await rig.source.apply(...write);
        });
        await other([setActive('a', false)]);
        await until(async () => expect(await rows()).toEqual(['a etl http://a:8080 true']));
        await other([update('a', 'large', 'http://a:8080')]);
        await until(() => expect(rig.registry.get('a')).toEqual(cluster('a', { routingGroup: 'large' })));
        await until(() => expect(settled).not.toEqual([]));
        expect(settled).toMatchObject([
          { outcome: 'adopted', fields: [{ field: 'routingGroup', row: 'large', resource: 'etl' }] },
        ]);
      });

      test('that was taken over and is followed by a write of REST at once counts as taken over', async () => {
        const rig = await started();
        await declared(rig, 'a');
        vi.spyOn(rig.source, 'apply').mockImplementationOnce(async (...write) => {
          const written = await rig.source.apply(...write);
          await rig.registry.update(cluster('a', { routingGroup: 'last' }), by);
          return written;
        });
        await other([update('a', 'etl', 'http://a:8080')]);
        await until(() => expect(settled).not.toEqual([]));
        await until(async () => expect(await rows()).toEqual(['a last http://a:8080 true']));
        expect(settled).toMatchObject([{ outcome: 'adopted', fields: [{ field: 'routingGroup', row: 'etl' }] }]);
        expect(rig.registry.get('a')).toEqual(cluster('a', { routingGroup: 'last' }));
        expect(drift(rig, 'a')).toBeUndefined();
      });

      test('is put back where resources.foreignWrites is refuse; the condition stays until the resource is changed', async () => {
        const options = { controller: { foreignWrites: () => 'refuse' as const } };
        const rig = await started(options);
        await declared(rig, 'a');
        await other([update('a', 'etl', 'http://a:8080', false)]);
        await until(async () => {
          expect(await rows()).toEqual(['a adhoc http://a:8080 true']);
          expect(drift(rig, 'a')).toMatchObject({ status: 'True', reason: 'ForeignWriteRefused' });
        });
        expect(drift(rig, 'a')?.message).toBe(
          'another gateway wrote into gateway_backend active false (the resource: true), routingGroup "etl" (the resource: "adhoc"); put back: resources.foreignWrites is refuse; make the change by this gateway',
        );
        expect(await count('refused')).toBe(1);
        expect(lines.filter(({ level }) => level === 40)).toMatchObject([
          {
            msg: 'a change of gateway_backend by another gateway was put back',
            cluster: 'a',
            outcome: 'refused',
            fields: [
              { field: 'active', row: false, resource: true },
              { field: 'routingGroup', row: 'etl', resource: 'adhoc' },
            ],
          },
        ]);
        expect(rig.registry.get('a')).toEqual(cluster('a'));
        await until(async () =>
          expect((await store.resources.get(clusterKey('a')))?.status).toEqual(rig.source.get(clusterKey('a'))?.status),
        );
        await stop();
        const second = await started(options);
        await until(() => expect(second.leadership.isLeader).toBe(true));
        await second.controller.projectNow(clusterKey('a'), 5_000);
        expect(drift(second, 'a')).toMatchObject({ status: 'True' });
        await second.registry.setActive('a', false, by);
        await until(() => expect(drift(second, 'a')).toBeUndefined());
      });

      test('is put back where REST may not write, the resource is paused, or no cluster may be so', async () => {
        let apiWrites: 'enabled' | 'activation-only' = 'activation-only';
        const rig = await started({ registry: { apiWrites: () => apiWrites } });
        apiWrites = 'enabled';
        await declared(rig, 'a', 'b', 'c');
        const { resourceVersion } = rig.source.get(clusterKey('b'))!.metadata;
        await rig.source.apply(
          clusterKey('b'),
          { set: {}, remove: [], annotations: { [PAUSED_ANNOTATION]: 'true' } },
          { force: false, expectedVersion: resourceVersion },
        );
        apiWrites = 'activation-only';
        await other([update('a', 'etl', 'http://a:8080', false), setActive('b', false)]);
        await until(async () => {
          expect(await rows()).toEqual([
            'a adhoc http://a:8080 false',
            'b adhoc http://b:8080 true',
            'c adhoc http://c:8080 true',
          ]);
          expect(drift(rig, 'a')?.message ?? '').toContain('resources.apiWrites is activation-only');
          expect(drift(rig, 'b')?.message ?? '').toContain(PAUSED_ANNOTATION);
        });
        apiWrites = 'enabled';
        await other([update('c', 'etl', 'ftp://nowhere')]);
        await until(async () => {
          expect((await rows())[2]).toBe('c etl http://c:8080 true');
          expect(drift(rig, 'c')?.message ?? '').toContain('proxyTo');
        });
        expect(rig.registry.get('c')).toEqual(cluster('c', { routingGroup: 'etl' }));
      });

      test('a deleted row deletes its resource, an added one is served as it is', async () => {
        const rig = await started();
        await declared(rig, 'a', 'b');
        await other([
          drop('a'),
          "insert into gateway_backend (name, routing_group, backend_url, external_url, active) values ('x', 'etl', 'http://x:1', 'http://x:1', true)",
        ]);
        await until(async () => {
          expect(await rows()).toEqual(['b adhoc http://b:8080 true', 'x etl http://x:1 true unmanaged']);
          expect(rig.registry.all().map(({ name }) => name)).toEqual(['b', 'x']);
          expect(rig.source.get(clusterKey('a'))).toBeNull();
        });
        if (sourceName === 'directory') expect(await readdir(directory)).toEqual(['enginecluster-b.yaml']);
      });

      test.each([
        ['while it runs', false],
        ['while it does not run', true],
      ])('a table that is emptied %s deletes nothing and is filled again', async (_when, isStopped) => {
        const names = ['a', 'b', 'c', 'd', 'e'];
        const first = await started();
        await declared(first, ...names);
        if (isStopped) await stop();
        await other(['delete from gateway_backend']);
        const rig = isStopped ? await started() : first;
        await until(async () => {
          expect((await store.backends.all()).map(({ name }) => name)).toEqual(names);
          for (const name of names) expect(drift(rig, name)?.message ?? '').toContain('most rows are gone at once');
        });
        expect(rig.registry.all().map(({ name }) => name)).toEqual(names);
        expect(await count('refused')).toBe(5);
        expect(settled.every(({ outcome }) => outcome === 'refused')).toBe(true);
      });

      test('a table that is emptied deletes nothing, also where one row is counted after all others were put back', async () => {
        const names = ['a', 'b', 'c', 'd', 'e'];
        let counts = 0;
        const { resources } = store;
        const countLate = async () => {
          counts += 1;
          const isLast = counts === names.length;
          await until(() => expect(counts).toBe(names.length));
          if (isLast) {
            await until(async () => expect(await store.backends.all()).toHaveLength(names.length - 1));
          }
          return await resources.countDerivedRows();
        };
        const late: Store['resources'] = new Proxy(resources, {
          get: (target, name) => {
            if (name === 'countDerivedRows') return countLate;
            const member: unknown = Reflect.get(target, name);
            return typeof member === 'function' ? member.bind(target) : member;
          },
        });
        const rig = await started({ controller: { store: { ...store, resources: late } } });
        await declared(rig, ...names);
        await other(['delete from gateway_backend']);
        await until(async () => {
          expect(settled).toHaveLength(names.length);
          expect((await store.backends.all()).map(({ name }) => name)).toEqual(names);
        });
        expect(counts).toBe(names.length);
        expect(rig.registry.all().map(({ name }) => name)).toEqual(names);
        expect(settled.every(({ outcome }) => outcome === 'refused')).toBe(true);
      });

      test('is settled by the leader alone, which the epoch fences', async () => {
        const leader = await started({ leaderTtlMs: 600_000 });
        await declared(leader, 'a');
        const follower = await started({ leaderTtlMs: 600_000 });
        await other([setActive('a', false)]);
        await until(() => {
          expect(leader.registry.get('a')?.active).toBe(false);
          expect(follower.registry.get('a')?.active).toBe(false);
          expect(settled).toHaveLength(1);
        });
        // It would take the lease as soon as it is free.
        await follower.stop();
        const fence = leader.leadership.fence!;
        await makeAnotherLead(store);
        await other([setActive('a', true)]);
        expect(await store.resources.derivedRow(clusterKey('a'), fence)).toBe('fenced');
        const row = (await store.backends.all())[0]!;
        const decided = { projected: { ...row, active: false }, present: row };
        expect(await store.resources.settleRow(clusterKey('a'), decided.projected, decided, fence)).toBe('fenced');
        expect(await rows()).toEqual(['a adhoc http://a:8080 true']);
      });
    });

    test('and the same field of a manifest, changed while no gateway runs: the resource wins, and says so', async () => {
      const file = join(directory, 'a.yaml');
      const manifest = (group: string): string =>
        `apiVersion: enginegateway.dev/v1\nkind: EngineCluster\nmetadata:\n  name: a\nspec:\n  proxyTo: http://a:8080\n  routingGroup: ${group}\n`;
      const begin = async (): Promise<OperatorRig> => {
        const rig = await startOperator(store, quickDirectory(directory), {
          controller: { onForeignWrite: (write) => settled.push(write), logger },
        });
        rigs.push(rig);
        return rig;
      };
      await writeFile(file, manifest('adhoc'));
      await begin();
      await until(async () => expect(await store.backends.all()).toMatchObject([{ routingGroup: 'adhoc' }]));
      await rigs.pop()?.stop();
      await writeFile(file, manifest('ours'));
      await other([update('a', 'theirs', 'http://a:8080', false)]);
      const rig = await begin();
      await until(async () => {
        expect(await store.backends.all()).toMatchObject([{ routingGroup: 'ours', active: false }]);
        expect(rig.source.get(clusterKey('a'))?.status?.conditions).toContainEqual(
          expect.objectContaining({
            type: 'Drift',
            reason: 'ForeignWriteOverruled',
            message: expect.stringContaining('routingGroup "theirs" (the resource: "ours")'),
          }),
        );
      });
      expect(rig.registry.get('a')).toEqual(cluster('a', { routingGroup: 'ours', active: false }));
      expect(settled.map(({ outcome }) => outcome)).toEqual(['adopted', 'overruled']);
      expect(await readFile(file, 'utf8')).toContain('routingGroup: ours\n');
    });

    test('goes with a resource that is deleted from its source meanwhile, which is reported', async () => {
      await writeFile(
        join(directory, 'a.yaml'),
        'apiVersion: enginegateway.dev/v1\nkind: EngineCluster\nmetadata:\n  name: a\nspec:\n  proxyTo: http://a:8080\n  routingGroup: adhoc\n',
      );
      const begin = async (): Promise<void> => {
        metrics = new Registry();
        const controller = { metrics: operatorMetrics(metrics), logger };
        rigs.push(await startOperator(store, quickDirectory(directory), { controller }));
      };
      await begin();
      await until(async () => expect(await store.backends.all()).toHaveLength(1));
      await rigs.pop()?.stop();
      await rm(join(directory, 'a.yaml'));
      await other([setActive('a', false)]);
      await begin();
      await until(async () => {
        expect(await store.backends.all()).toEqual([]);
        expect(await metrics.getSingleMetricAsString('engine_gateway_foreign_writes_total')).toContain(
          '{outcome="overruled"} 1',
        );
      });
      expect(lines.map(({ msg }) => msg)).toContain('a change of gateway_backend by another gateway was dropped');
    });

    test('while an earlier write is being settled is a write of its own, also back to the value before', async () => {
      const row = { name: 'a', routingGroup: 'adhoc', proxyTo: 'http://a:1', externalUrl: 'http://a:1', active: true };
      const stored = {
        ...clusterKey('a'),
        registryName: 'a',
        uid: 'u',
        resourceVersion: '1',
        generation: 1,
        creationTimestamp: '2026-11-01T00:00:00Z',
        spec: {},
        labels: {},
        annotations: {},
        status: null,
        source: 'kubernetes' as const,
      };
      const fence = await store.leader.acquire('leader', 600_000);
      if (fence === null) expect.fail('nobody else leads');
      const present = async () => (await store.backends.all()).map(({ managed: _, ...each }) => each);
      await store.resources.project(stored, row, fence);
      const off = { ...row, active: false };
      await other([setActive('a', false)]);
      const read = await store.resources.derivedRow(clusterKey('a'), fence);
      expect(read).toEqual({ projected: row, present: off });
      await other([setActive('a', true)]);
      // The resource has taken over what was read.
      expect(await store.resources.project({ ...stored, resourceVersion: '2' }, off, fence)).toBe('foreign');
      expect(await present()).toEqual([row]);
      expect(await store.resources.derivedRow(clusterKey('a'), fence)).toEqual({ projected: off, present: row });
      expect(await store.resources.project({ ...stored, resourceVersion: '3' }, row, fence)).toBe('applied');
      await other([drop('a')]);
      expect(await store.resources.derivedRow(clusterKey('a'), fence)).toEqual({ projected: row, present: null });
      await other([
        "insert into gateway_backend (name, routing_group, backend_url, external_url, active) values ('a', 'etl', 'http://x:1', 'http://x:1', true)",
      ]);
      expect(await store.resources.remove(clusterKey('a'), 'u', null)).toBe('applied');
      expect(await store.backends.all()).toMatchObject([{ name: 'a', routingGroup: 'etl', managed: false }]);
    });

    test('is not taken for a change where only its form differs', async () => {
      const rig = await startOperator(store, quickDatabase(store), {
        controller: { onForeignWrite: (write) => settled.push(write) },
      });
      rigs.push(rig);
      await rig.registry.add(cluster('a'), by);
      await other(["update gateway_backend set backend_url = 'http://a:8080/', external_url = '' where name = 'a'"]);
      await until(async () =>
        expect(await store.backends.all()).toMatchObject([{ proxyTo: 'http://a:8080', externalUrl: 'http://a:8080' }]),
      );
      expect(settled).toEqual([]);
    });
  });
});
