import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { storedGroups } from '../../../src/model/groupsFile/storedGroups.ts';
import { type KnexStore, openStore } from '../../../src/store/openStore.ts';
import type { SchemaStores } from '../../../src/store/resourceGroupStore.ts';
import { databases, oneDatabase, type TestDatabase } from '../../support/databases.ts';
import { type OperatorRig, quickDirectory, startOperator } from '../../support/operatorRig.ts';
import { startTcpProxy } from '../../support/tcpProxy.ts';

const until = (check: () => void | Promise<void>): Promise<void> =>
  vi.waitFor(check, { timeout: 30_000, interval: 20 });
const kind = 'ResourceGroupConfiguration';
const key = { kind, namespace: 'default', name: 'groups' } as const;
const manifest = (spec: object, name = 'groups', creationTimestamp = '2026-01-01T00:00:00Z'): string =>
  `---\n${JSON.stringify({ apiVersion: 'enginegateway.dev/v1beta1', kind, metadata: { name, creationTimestamp }, spec })}\n`;
const group = (name: string, more: object = {}) => ({
  ...{ name, softMemoryLimit: '80%', hardConcurrencyLimit: 10, maxQueued: 100 },
  ...more,
});
const spec = {
  environment: 'test',
  cpuQuotaPeriod: '1h',
  rootGroups: [
    group('etl'),
    group('adhoc', { subGroups: [group('staff', { hardCpuLimit: '30m' }), group(`\${USER}`)] }),
  ],
  selectors: [
    { source: 'airflow', group: 'etl' },
    { userGroup: 'staff', group: 'adhoc.staff' },
    { group: `adhoc.\${USER}` },
  ],
};
const withoutUserGroup = { ...spec, selectors: spec.selectors.filter((selector) => !('userGroup' in selector)) };
const trigger = 'create trigger halt before insert on selectors';
/** Has each insertion of a selector fail, in the middle of a transaction, and lets it pass again. */
const halt = {
  sqlite: [`${trigger} begin select raise(abort, 'halted'); end`, 'drop trigger halt'],
  mysql: [`${trigger} for each row signal sqlstate '45000' set message_text = 'halted'`, 'drop trigger halt'],
  postgresql: [
    `create function halt() returns trigger language plpgsql as $$ begin raise exception 'halted'; end $$;
     ${trigger} for each row execute function halt()`,
    'drop trigger halt on selectors',
  ],
} as const;

/** Stores of a process that ends before or after its first change of the tables. */
function ending(stores: SchemaStores, isAfter: boolean): SchemaStores {
  let hasEnded = false;
  return {
    ...stores,
    use: async (database, work) =>
      await stores.use(database, async (tables) => {
        const declare: typeof tables.declare = async (target) => {
          if (isAfter && !hasEnded) await tables.declare(target);
          hasEnded = true;
          throw new Error('the process has ended');
        };
        if (hasEnded) throw new Error('the process has ended');
        return await work({ ...tables, declare });
      }),
  };
}

for (const family of databases) {
  describe.skipIf(!family.available())(`resource groups as resources on ${family.name}`, () => {
    let server: TestDatabase;
    let directory: string;
    let store: KnexStore;
    let stores: SchemaStores;
    const rigs: OperatorRig[] = [];
    beforeAll(async () => {
      server = await family.start();
    });
    afterAll(() => server?.dispose());
    beforeEach(async () => {
      directory = await mkdtemp(join(tmpdir(), 'eg-groups-'));
      store = (await openStore({
        ...(await server.create()),
        runMigrations: true,
        logger: pino({ enabled: false }),
      })) as KnexStore;
      stores = store.resourceGroups({ allowed: null, maxOpen: 2 });
    });
    afterEach(async () => {
      for (const rig of rigs.splice(0)) await rig.stop();
      await stores.close();
      await store.close();
      await rm(directory, { recursive: true, force: true });
    });

    const write = (...texts: string[]): Promise<void> => writeFile(join(directory, 'groups.yaml'), texts.join(''));
    const start = async (groups = stores): Promise<OperatorRig> => {
      const rig = await startOperator(store, quickDirectory(directory), { groups });
      rigs.push(rig);
      return rig;
    };
    const rows = () => stores.use(null, (own) => own.read());
    const namesIn = (database: string) =>
      stores.use(database, async (own) => (await own.read()).groups.map(({ name }) => name));
    /** Creates a group that no resource declares. */
    const create = (name: string, more: object = {}) => {
      const limits = { soft_memory_limit: '10%', max_queued: 1, hard_concurrency_limit: 1 };
      return store.database.knex('resource_groups').insert({ ...{ name, environment: 'test' }, ...limits, ...more });
    };
    const file = async () => storedGroups(await rows(), 'test').file;
    const paths = async () => [...storedGroups(await rows(), 'test').groupRows.keys()].sort();
    const statusOf = ({ source }: OperatorRig, name = 'groups') => source.get({ ...key, name })?.status;
    const condition = (rig: OperatorRig, type: string, name = 'groups') => {
      const each = statusOf(rig, name)?.conditions?.find((present) => present.type === type);
      return each === undefined ? null : `${each.status} ${each.reason}`;
    };

    test('are written, follow changes with the same ids, and go with the resource; other rows stay', async () => {
      await create('theirs');
      await write(manifest(withoutUserGroup));
      const rig = await start();
      await until(() => expect(condition(rig, 'Ready')).toBe('True Ready'));
      const { rootGroups, ...rest } = await file();
      expect(rest).toEqual({ cpuQuotaPeriod: '1h', selectors: withoutUserGroup.selectors });
      expect(rootGroups.map(({ name }) => name)).toEqual(['theirs', 'etl', 'adhoc']);
      expect(statusOf(rig)).toMatchObject({
        databases: [{ environment: 'test', appliedGeneration: 1, groups: 4, selectors: 2 }],
      });
      const idsBefore = new Map((await rows()).groups.map(({ name, resourceGroupId }) => [name, resourceGroupId]));
      const changed = {
        environment: 'test',
        rootGroups: [group('adhoc', { maxQueued: 7, subGroups: [group('new')] })],
        selectors: [{ user: 'a', group: 'adhoc.new' }, { group: 'adhoc.new' }],
      };
      await write(manifest(changed));
      await until(async () => expect(await paths()).toEqual(['adhoc', 'adhoc.new', 'theirs']));
      const after = await rows();
      expect(after.groups.find(({ name }) => name === 'adhoc')).toMatchObject({
        resourceGroupId: idsBefore.get('adhoc'),
        maxQueued: 7,
      });
      expect(after.selectors.map(({ priority, userRegex }) => [priority, userRegex])).toEqual([
        [2, 'a'],
        [1, null],
      ]);
      expect(after.properties).toEqual([]);
      await write('');
      await until(async () => expect(await paths()).toEqual(['theirs']));
      await until(async () => expect(await store.groupOwners.all()).toEqual([]));
    });

    test('are put right where somebody else changed them, or only reported', async () => {
      await write(manifest(withoutUserGroup));
      const rig = await start();
      await until(() => expect(condition(rig, 'Drift')).toBe('False InStep'));
      const change = () => store.database.knex('resource_groups').where('name', 'etl').update('max_queued', 1);
      const queued = async () => (await rows()).groups.find(({ name }) => name === 'etl')?.maxQueued;
      await change();
      await until(() => expect(condition(rig, 'Drift')).toBe('False Repaired'));
      expect(await queued()).toBe(100);
      expect(statusOf(rig)).toMatchObject({
        databases: [{ drift: { repaired: true, rows: 1, differences: ['etl has maxQueued 1, not 100'] } }],
      });
      await write(manifest({ ...withoutUserGroup, whenDrifted: 'Report' }));
      await until(() => expect(statusOf(rig)?.observedGeneration).toBe(2));
      await change();
      await until(() => expect(condition(rig, 'Drift')).toBe('True Changed'));
      expect(await queued()).toBe(1);
    });

    const smaller = { environment: 'test', rootGroups: [group('etl')], selectors: [{ group: 'etl' }] };
    const crashes = [
      ['before the transaction', 'old'],
      ['in the middle of it', 'old'],
      ['after it', 'new'],
    ] as const;
    test.each(crashes)(
      'the leader ends %s: the tables have the %s state, and the next one completes it',
      async (point, left) => {
        await write(manifest(smaller));
        const first = await start();
        await until(() => expect(condition(first, 'Ready')).toBe('True Ready'));
        const before = await file();
        const [etl] = (await rows()).groups;
        await first.stop();

        const isMiddle = point === 'in the middle of it';
        if (isMiddle) await store.database.knex.raw(halt[family.name][0]);
        await write(manifest(withoutUserGroup));
        const second = await start(isMiddle ? stores : ending(stores, point === 'after it'));
        await until(() => expect(condition(second, 'Applied')).toBe('False DatabaseError'));
        await second.stop();
        if (isMiddle) await store.database.knex.raw(halt[family.name][1]);
        if (left === 'old') expect(await file()).toEqual(before);
        else expect(await paths()).toEqual(['adhoc', `adhoc.\${USER}`, 'adhoc.staff', 'etl']);

        const third = await start();
        await until(async () =>
          expect(await file()).toMatchObject({ cpuQuotaPeriod: '1h', selectors: withoutUserGroup.selectors }),
        );
        await until(() => expect(condition(third, 'Ready')).toBe('True Ready'));
        expect(await paths()).toEqual(['adhoc', `adhoc.\${USER}`, 'adhoc.staff', 'etl']);
        expect((await rows()).groups).toContainEqual(etl);
        await write('');
        await until(async () => expect(await store.groupOwners.all()).toEqual([]));
        expect(await rows()).toMatchObject({ groups: [], selectors: [], properties: [] });
      },
    );

    test('groups below different parents have one name, also in a database that had it once', async () => {
      await write(
        manifest({
          environment: 'test',
          rootGroups: ['a', 'b'].map((name) => group(name, { subGroups: [group(`\${USER}`)] })),
          selectors: [{ group: `a.\${USER}` }],
        }),
      );
      const key = 'alter table resource_groups add constraint resource_groups_name_key unique (name)';
      if (family.name !== 'sqlite') await store.database.run((knex) => knex.raw(key));
      const rig = await start();
      const applied = () => statusOf(rig)?.conditions?.find(({ type }) => type === 'Applied')?.message;
      if (family.name !== 'sqlite') {
        await until(() => expect(applied()).toContain('the table resource_groups takes each name of a group once'));
        expect(condition(rig, 'Ready')).toBe('False NotPossible');
        expect(await paths()).toEqual([]);
        const drop = family.name === 'postgresql' ? 'constraint' : 'index';
        await store.database.run((knex) =>
          knex.raw(`alter table resource_groups drop ${drop} resource_groups_name_key`),
        );
      }
      await until(async () => expect(await paths()).toEqual(['a', `a.\${USER}`, 'b', `b.\${USER}`]));
      await until(() => expect(condition(rig, 'Ready')).toBe('True Ready'));
    });

    // What does not depend on the dialect.
    if (family === oneDatabase) {
      test('belong to the older of two; with prune those of nobody go', async () => {
        await write(
          manifest(withoutUserGroup),
          manifest({ environment: 'test', rootGroups: [group('etl')], selectors: [] }, 'later', '2026-02-01T00:00:00Z'),
        );
        const rig = await start();
        await until(() => expect(condition(rig, 'Ready')).toBe('True Ready'));
        await until(() => expect(condition(rig, 'Stalled', 'later')).toBe('True NameConflict'));
        const stored = await rows();
        expect(await rig.groups?.of(null)).toMatchObject([
          {
            ...{
              namespace: 'default',
              name: 'groups',
              environment: 'test',
              properties: ['cpu_quota_period'],
              drift: null,
            },
            resourceGroupIds: stored.groups.map(({ resourceGroupId }) => resourceGroupId),
            resource: { name: 'groups', suspended: false, conditions: statusOf(rig)?.conditions },
          },
        ]);
        await create('theirs');
        await write(manifest({ ...withoutUserGroup, prune: true }));
        await until(async () => expect(await paths()).toEqual(['adhoc', `adhoc.\${USER}`, 'adhoc.staff', 'etl']));
      });

      test('a database that cannot have them is said, and does not hold the others up', async () => {
        await write(manifest({ ...withoutUserGroup, databases: ['no_such_database'] }));
        const rig = await start();
        await until(() =>
          expect(condition(rig, 'Applied')).toMatch(/^False (NotPossible|TablesNotFound|DatabaseUnavailable)$/),
        );
        expect(condition(rig, 'Ready')).toBe(condition(rig, 'Applied'));
        await write(manifest(withoutUserGroup));
        await until(() => expect(condition(rig, 'Ready')).toBe('True Ready'));
      });

      test.each([
        ['the first version', []],
        ['another period', [{ ...withoutUserGroup, cpuQuotaPeriod: '2h' }]],
        ['no period', [smaller]],
      ])(
        'what a leader that ended had begun in place of %s is gone with a resource that is deleted meanwhile',
        async (_, former) => {
          for (const version of former) {
            await write(manifest(version));
            const rig = await start();
            await until(() => expect(condition(rig, 'Ready')).toBe('True Ready'));
            await rig.stop();
          }
          await write(manifest(withoutUserGroup));
          const first = await start(ending(stores, true));
          await until(async () => expect(await file()).toMatchObject({ cpuQuotaPeriod: '1h' }));
          await until(() => expect(condition(first, 'Applied')).toBe('False DatabaseError'));
          await first.stop();
          expect(await paths()).toContain('adhoc.staff');
          await write('');
          await start();
          await until(async () => expect(await store.groupOwners.all()).toEqual([]));
          expect(await rows()).toMatchObject({ groups: [], selectors: [], properties: [] });
        },
      );

      test('of two periods of CPU limits the older resource’s counts, until it is gone', async () => {
        const later = {
          ...{ environment: 'test', cpuQuotaPeriod: '2h' },
          rootGroups: [group('bi', { hardCpuLimit: '1h' })],
          selectors: [{ source: 'bi', group: 'bi' }],
        };
        await write(manifest(withoutUserGroup), manifest(later, 'later', '2026-02-01T00:00:00Z'));
        const rig = await start();
        await until(() => expect(condition(rig, 'Stalled', 'later')).toBe('True NameConflict'));
        await until(() => expect(condition(rig, 'Ready')).toBe('True Ready'));
        expect(statusOf(rig, 'later')?.conditions?.find(({ type }) => type === 'Accepted')?.message).toBe(
          `spec.cpuQuotaPeriod 2h is not 1h, which the older ${kind} default/groups declares for all groups of the same database; declare the same, or leave it out`,
        );
        expect(await file()).toMatchObject({ cpuQuotaPeriod: '1h' });
        await write(manifest(later, 'later', '2026-02-01T00:00:00Z'));
        await until(() => expect(condition(rig, 'Ready', 'later')).toBe('True Ready'));
        await until(async () => expect(await paths()).toEqual(['bi']));
        expect(await file()).toMatchObject({ cpuQuotaPeriod: '2h' });
      });

      test('groups of nobody below a declared root are in the way (GroupInUse) until they are gone; later ones are drift', async () => {
        await create('etl');
        const [row] = (await rows()).groups;
        const below = { parent: row?.resourceGroupId };
        await create('theirs', below);
        await write(manifest(withoutUserGroup));
        const rig = await start();
        await until(() => expect(condition(rig, 'Applied')).toBe('False GroupInUse'));
        const failure = expect.stringMatching(/^no resource declares etl\.theirs, .*; nothing is written until then$/);
        expect(statusOf(rig)).toMatchObject({ databases: [{ failure }] });
        expect(await paths()).toEqual(['etl', 'etl.theirs']);
        expect(await store.groupOwners.all()).toEqual([]);
        await store.database.knex('resource_groups').where(below).delete();
        await until(() => expect(condition(rig, 'Ready')).toBe('True Ready'));
        expect((await rows()).groups.find(({ name }) => name === 'etl')).toMatchObject({
          ...{ resourceGroupId: row?.resourceGroupId, maxQueued: 100 },
        });
        await create('theirs', below);
        await until(() => expect(condition(rig, 'Drift')).toBe('False Repaired'));
        expect(await paths()).toEqual(['adhoc', `adhoc.\${USER}`, 'adhoc.staff', 'etl']);
      });

      test('with prune nothing of other environments, and of other resources, is deleted', async () => {
        await create('elsewhere', { environment: 'other' });
        await create('theirs');
        const second = { environment: 'test', rootGroups: [group('bi')], selectors: [{ group: 'bi' }] };
        await write(manifest({ ...smaller, prune: true }), manifest(second, 'later', '2026-02-01T00:00:00Z'));
        const rig = await start();
        await until(() => {
          expect(condition(rig, 'Ready')).toBe('True Ready');
          expect(condition(rig, 'Ready', 'later')).toBe('True Ready');
        });
        await until(async () => expect(await paths()).toEqual(['bi', 'etl']));
        expect((await rows()).groups.map(({ name }) => name).sort()).toEqual(['bi', 'elsewhere', 'etl']);
      });

      test('a group that is moved below another one keeps its name', async () => {
        const version = (first: readonly object[], second: readonly object[]) =>
          manifest({
            environment: 'test',
            rootGroups: [group('a', { subGroups: first }), group('b', { subGroups: second })],
            selectors: [{ group: first.length > 0 ? 'a.x' : 'b.x' }],
          });
        await write(version([group('x')], []));
        const rig = await start();
        await until(async () => expect(await paths()).toEqual(['a', 'a.x', 'b']));
        await write(version([], [group('x')]));
        await until(async () => expect(await paths()).toEqual(['a', 'b', 'b.x']));
        expect((await file()).selectors).toEqual([{ group: 'b.x' }]);
        expect(statusOf(rig)).toMatchObject({ databases: [{ groups: 3 }] });
      });
    }

    // SQLite has no databases beside each other, and no connections that fail.
    if (family.name === 'sqlite') return;

    test('of two databases each has a state of its own; one without tables gets its rows when it has them', async () => {
      const settings = await Promise.all([server.create(), server.create()]);
      const [first = '', second = ''] = settings.map(({ jdbcUrl }) => new URL(jdbcUrl.slice(5)).pathname.slice(1));
      const migrateTables = async (index: number): Promise<void> => {
        const each = settings[index];
        if (each === undefined) throw new Error('no such database');
        await (await openStore({ ...each, runMigrations: true, logger: pino({ enabled: false }) })).close();
      };
      await migrateTables(0);
      await write(manifest({ ...smaller, databases: [first, second] }));
      const rig = await start();
      await until(() => expect(condition(rig, 'Applied')).toBe('False TablesNotFound'));
      expect(condition(rig, 'Ready')).toBe('False TablesNotFound');
      const state = (name: string) => ({ name, environment: 'test', appliedGeneration: 1, groups: 1, selectors: 1 });
      expect(statusOf(rig)).toMatchObject({
        databases: [
          state(first),
          {
            name: second,
            groups: 0,
            failure: expect.stringContaining(`the database ${second} lacks resource_groups`),
          },
        ],
      });
      expect(await namesIn(first)).toEqual(['etl']);
      await migrateTables(1);
      await until(() => expect(condition(rig, 'Ready')).toBe('True Ready'));
      expect(statusOf(rig)).toMatchObject({ databases: [state(first), state(second)] });
      expect([await namesIn(first), await namesIn(second), await paths()]).toEqual([['etl'], ['etl'], []]);
      await write(manifest({ ...smaller, databases: [first] }));
      await until(async () => expect(await namesIn(second)).toEqual([]));
      expect(await namesIn(first)).toEqual(['etl']);
    });

    if (family.name === 'postgresql') {
      test('one of two databases that takes no connections does not hold the other one up', async () => {
        const names: string[] = [];
        for (let index = 0; index < 2; index += 1) {
          const each = await server.create();
          await (await openStore({ ...each, runMigrations: true, logger: pino({ enabled: false }) })).close();
          names.push(new URL(each.jdbcUrl.slice(5)).pathname.slice(1));
        }
        const [first = '', second = ''] = names;
        const open = (isOpen: boolean) =>
          store.database.run((knex) =>
            knex.raw('alter database ?? with allow_connections ?', [second, knex.raw(`${isOpen}`)]),
          );
        await open(false);
        await write(manifest({ ...smaller, databases: [first, second] }));
        const rig = await start();
        await until(() => expect(condition(rig, 'Ready')).toBe('False DatabaseUnavailable'));
        expect(statusOf(rig)).toMatchObject({
          databases: [
            { name: first, groups: 1 },
            { name: second, groups: 0 },
          ],
        });
        expect(await namesIn(first)).toEqual(['etl']);
        await open(true);
        await until(() => expect(condition(rig, 'Ready')).toBe('True Ready'));
        expect(await namesIn(second)).toEqual(['etl']);
      });
    }

    test('a change that comes while the database is unavailable is written when it is back', async () => {
      const { jdbcUrl, ...account } = await server.create();
      const url = new URL(jdbcUrl.slice(5));
      const proxy = await startTcpProxy(Number(url.port));
      url.port = String(proxy.port);
      const own = (await openStore({
        ...account,
        jdbcUrl: `jdbc:${url}`,
        runMigrations: true,
        logger: pino({ enabled: false }),
      })) as KnexStore;
      const ownStores = own.resourceGroups({ allowed: null, maxOpen: 1 });
      await write(manifest(smaller));
      const rig = await startOperator(own, quickDirectory(directory), { groups: ownStores });
      try {
        await until(() => expect(condition(rig, 'Ready')).toBe('True Ready'));
        proxy.refuse(true);
        proxy.reset();
        await write(manifest(withoutUserGroup));
        await until(() => expect(statusOf(rig)).toMatchObject({ databases: [{ failure: expect.any(String) }] }));
        proxy.refuse(false);
        // The failure may be one of a look at the rows of before, so that Ready alone says nothing of the change.
        const applied = { environment: 'test', appliedGeneration: 2, groups: 4, selectors: 2 };
        await until(() => expect(statusOf(rig)).toMatchObject({ databases: [applied] }));
        await until(() => expect(condition(rig, 'Ready')).toBe('True Ready'));
        const [database] = (statusOf(rig) as { readonly databases: readonly object[] }).databases;
        expect(database).toEqual(applied);
        const { groups } = await ownStores.use(null, (tables) => tables.read());
        expect(groups.map(({ name }) => name).sort()).toEqual([`\${USER}`, 'adhoc', 'etl', 'staff']);
      } finally {
        await rig.stop();
        await ownStores.close();
        await own.close();
        await proxy.close();
      }
    });
  });
}
