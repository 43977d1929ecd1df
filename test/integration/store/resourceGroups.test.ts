import { pino } from 'pino';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { GatewayError } from '../../../src/model/errors.ts';
import type { ResourceGroupColumns } from '../../../src/model/resourceGroup.ts';
import type { NewSelector, SelectorRow } from '../../../src/model/selector.ts';
import { type Database, defaultLimits, openDatabase } from '../../../src/store/database.ts';
import { parseJdbcUrl } from '../../../src/store/jdbcUrl.ts';
import { migrate } from '../../../src/store/migrations.ts';
import { openResourceGroups } from '../../../src/store/openResourceGroups.ts';
import type { ResourceGroupStore } from '../../../src/store/resourceGroupStore.ts';
import { databases, type TestDatabase } from '../../support/databases.ts';
import { engineMigrations } from '../../support/engineMigrations.ts';

const logger = pino({ level: 'silent' });

const group = (name: string, more: Partial<ResourceGroupColumns> = {}): ResourceGroupColumns => ({
  name,
  softMemoryLimit: '80%',
  maxQueued: 10,
  softConcurrencyLimit: null,
  hardConcurrencyLimit: 5,
  schedulingPolicy: null,
  schedulingWeight: null,
  jmxExport: null,
  softCpuLimit: null,
  hardCpuLimit: null,
  parent: null,
  environment: 'test',
  ...more,
});

const whole: Partial<ResourceGroupColumns> = {
  softConcurrencyLimit: 3,
  schedulingPolicy: 'weighted_fair',
  schedulingWeight: 7,
  jmxExport: true,
  softCpuLimit: '30m',
  hardCpuLimit: '1h',
  maxQueued: 2_147_483_647,
};

const selector = (resourceGroupId: number | null, more: Partial<NewSelector> = {}): NewSelector => ({
  resourceGroupId,
  priority: 1,
  userRegex: null,
  sourceRegex: null,
  queryType: null,
  clientTags: null,
  selectorResourceEstimate: null,
  userGroupRegex: null,
  originalUserRegex: null,
  authenticatedUserRegex: null,
  ...more,
});

const match = (resourceGroupId: number, more: Partial<NewSelector> = {}): SelectorRow => ({
  ...selector(null, more),
  resourceGroupId,
  id: null,
});

/** Texts that would change a statement they were pasted into, or that databases compare in ways of their own. */
const hostile = [
  "'; drop table selectors; --",
  "' or '1'='1",
  '" or ""="',
  "\\' or 1=1 -- ",
  '`; delete from resource_groups; #',
  '?',
  '??',
  ':name',
  '$1',
  '%_%',
  "'||pg_sleep(10)||'",
  '/* */',
  '😀 ü 中',
];

const failure = (promise: Promise<unknown>) =>
  promise.then(
    () => 'nothing',
    (error: unknown) => (error instanceof GatewayError ? `${error.code} ${error.field ?? ''} ${error.message}` : error),
  );

for (const family of databases) {
  const orders =
    family.name === 'sqlite' ? (['ours'] as const) : (['ours', 'ours, then engine', 'engine, then ours'] as const);
  describe.skipIf(!family.available())(`resource groups on ${family.name}`, () => {
    let server: TestDatabase;
    beforeAll(async () => {
      server = await family.start();
    });
    afterAll(() => server?.dispose());

    describe.each(orders)('migrations: %s', (order) => {
      const additional = order !== 'ours';
      let database: Database;
      let store: ResourceGroupStore;

      beforeAll(async () => {
        const parsed = parseJdbcUrl(await server.create());
        if ('problems' in parsed) throw new Error(JSON.stringify(parsed.problems));
        database = openDatabase(parsed.target, defaultLimits, logger);
        if (order === 'engine, then ours') await engine();
        await migrate(database, logger);
        if (order === 'ours, then engine') await engine();
        store = openResourceGroups(database, null);
      });
      afterAll(() => database?.close());
      afterEach(async () => {
        await database.knex('selectors').delete();
        await database.knex('resource_groups').update({ parent: null });
        await database.knex('resource_groups').delete();
        await database.knex('resource_groups_global_properties').delete();
      });

      const engine = async () => {
        const { create, alter } = engineMigrations(family.name as 'mysql');
        for (const statement of [...create, ...alter]) await database.knex.raw(statement);
      };
      const newGroup = async (name: string, more: Partial<ResourceGroupColumns> = {}) =>
        (await store.groups.create(group(name, more))).row.resourceGroupId;

      it('answers the assigned id, and reads every column as it was written', async () => {
        await store.properties.create({ name: 'cpu_quota_period', value: '1h' });
        const root = await store.groups.create(group('root', { schedulingPolicy: 'weighted' }));
        expect(root.warnings).toEqual([]);
        const { row } = await store.groups.create(group('leaf', { ...whole, parent: root.row.resourceGroupId }));
        expect(row.resourceGroupId).toBeGreaterThan(root.row.resourceGroupId);
        expect(await store.groups.get(row.resourceGroupId)).toEqual({
          ...group('leaf', { ...whole, parent: root.row.resourceGroupId }),
          resourceGroupId: row.resourceGroupId,
        });
        expect(await store.groups.all()).toEqual([root.row, row]);
        expect(await store.groups.get(4_000_000_000)).toBeNull();
      });

      it('overwrites all columns of a group', async () => {
        await store.properties.create({ name: 'cpu_quota_period', value: '1h' });
        const { row } = await store.groups.create(group('a', whole));
        const { resourceGroupId } = row;
        const changed = { ...group('b', { softMemoryLimit: '5GB', jmxExport: false }), resourceGroupId };
        expect((await store.groups.update(changed)).row).toEqual(changed);
        expect(await store.groups.all()).toEqual([changed]);
        // Unchanged values are no failure either.
        expect((await store.groups.update(changed)).row).toEqual(changed);
        expect(await failure(store.groups.update({ ...changed, resourceGroupId: 4_000_000_000 }))).toContain(
          'EG_NOT_FOUND',
        );
      });

      it('refuses parents that are not there, cycles, and names that are taken', async () => {
        const a = await newGroup('a');
        const b = await newGroup('b', { parent: a });
        const c = await newGroup('c', { parent: b });
        expect(await failure(store.groups.create(group('d', { parent: 4_000_000_000 })))).toContain(
          'EG_IMPOSSIBLE parent',
        );
        expect(await failure(store.groups.update({ ...group('a', { parent: c }), resourceGroupId: a }))).toBe(
          `EG_IMPOSSIBLE parent Group ${a} would be among its own parents.`,
        );
        expect(await failure(store.groups.update({ ...group('a', { parent: a }), resourceGroupId: a }))).toContain(
          'its own parent',
        );
        expect(await failure(store.groups.create(group('c', { parent: b })))).toContain('EG_CONFLICT name');
        expect(await failure(store.groups.update({ ...group('c', { parent: b }), resourceGroupId: b }))).toContain(
          'EG_',
        );
        expect((await store.groups.all()).map(({ name, parent }) => [name, parent])).toEqual([
          ['a', null],
          ['b', a],
          ['c', b],
        ]);
        // Once under a parent, as in the engine's own tables.
        expect(await failure(store.groups.create(group('c')))).toBe('nothing');
      });

      it('deletes a group only when nothing refers to it, and says what does', async () => {
        const a = await newGroup('a');
        const b = await newGroup('b', { parent: a });
        await store.selectors.create(selector(a));
        await store.selectors.create(selector(a));
        expect(await failure(store.groups.delete(a))).toBe(
          `EG_CONFLICT  Group ${a} is in use by the groups "b", whose parent it is and 2 selectors; delete these first.`,
        );
        await store.groups.delete(b);
        expect(await failure(store.groups.delete(a))).toContain('in use by 2 selectors');
        await store.selectors.delete(match(a));
        await store.groups.delete(a);
        await store.groups.delete(a);
        await store.groups.delete(4_000_000_000);
        expect(await store.groups.all()).toEqual([]);
      });

      it('asks for softMemoryLimit where the column needs it', async () => {
        const outcome = await failure(store.groups.create(group('a', { softMemoryLimit: null })));
        if (additional) expect(outcome).toBe('nothing');
        else expect(outcome).toContain('EG_MALFORMED softMemoryLimit softMemoryLimit is required');
      });

      it('reports what the engine would refuse', async () => {
        const warnings = async (columns: ResourceGroupColumns) =>
          (await store.groups.create(columns)).warnings.join(' ');
        expect(await warnings(group('none', { environment: null }))).toContain('no environment');
        expect(await warnings(group('cpu', { hardCpuLimit: '1h' }))).toContain('cpu_quota_period');
        const weighted = await newGroup('weighted', { schedulingPolicy: 'WEIGHTED' });
        expect(await warnings(group('one', { parent: weighted, schedulingWeight: 1 }))).toBe('');
        expect(await warnings(group('two', { parent: weighted }))).toContain('some have none');
        const fair = await newGroup('fair', { schedulingPolicy: 'fair' });
        expect(await warnings(group('three', { parent: fair, schedulingWeight: 1 }))).toContain('does not allow');
        const mixed = await store.groups.create(group('four', { parent: fair, environment: 'other' }));
        expect(mixed.warnings.join(' ')).toContain('environment "test"');
        const moved = await store.groups.update({ ...group('fair', { environment: 'x' }), resourceGroupId: fair });
        expect(moved.warnings.join(' ')).toContain('another environment (three, four)');
      });

      it('points a selector without group to the newest one', async () => {
        expect(await failure(store.selectors.create(selector(null)))).toContain('EG_CONFLICT resourceGroupId');
        await newGroup('a');
        const b = await newGroup('b');
        const { row, warnings } = await store.selectors.create(selector(null, { userRegex: 'bob' }));
        expect(row.resourceGroupId).toBe(b);
        expect(warnings).toEqual([`No resourceGroupId was sent; the selector points to the newest group, ${b} (b).`]);
        expect(await store.selectors.all(b)).toEqual([row]);
        expect(await failure(store.selectors.create(selector(4_000_000_000)))).toContain(
          'EG_IMPOSSIBLE resourceGroupId',
        );
        expect(await store.selectors.all(4_000_000_000)).toEqual([]);
      });

      it('lists the highest priority first', async () => {
        const a = await newGroup('a');
        for (const priority of [1, -5, Number.MAX_SAFE_INTEGER])
          await store.selectors.create(selector(a, { priority }));
        expect((await store.selectors.all(null)).map((row) => row.priority)).toEqual([Number.MAX_SAFE_INTEGER, 1, -5]);
      });

      it('changes and deletes every row that is equal, and only those', async () => {
        const a = await newGroup('a');
        const b = await newGroup('b');
        const bob = { userRegex: 'bob', sourceRegex: 'etl', queryType: 'SELECT', clientTags: '["x"]' };
        await store.selectors.create(selector(a, bob));
        await store.selectors.create(selector(a, bob));
        const others = [
          { userRegex: 'Bob' },
          { userRegex: 'bob ' },
          { userRegex: null },
          { priority: 2 },
          { sourceRegex: '' },
        ];
        for (const other of others) await store.selectors.create(selector(a, { ...bob, ...other }));
        await store.selectors.create(selector(b, bob));
        const { id: _a, ...update } = match(b, { priority: 9, userRegex: 'eve' });
        const { row, warnings } = await store.selectors.update(match(a, bob), update);
        expect([row.userRegex, row.resourceGroupId, warnings]).toEqual([
          'eve',
          b,
          ['2 selectors were equal to current; all of them were changed.'],
        ]);
        const plain = (rows: readonly SelectorRow[]) => rows.map(({ id: _id, ...columns }) => columns);
        expect(plain(await store.selectors.all(b))).toEqual([update, update, plain([match(b, bob)])[0]]);
        expect((await store.selectors.all(a)).length).toBe(others.length);
        for (const other of others) expect(await store.selectors.delete(match(a, { ...bob, ...other }))).toBe(1);
        expect(await store.selectors.delete(match(b, update))).toBe(2);
        expect(await store.selectors.delete(match(b, update))).toBe(0);
        expect(plain(await store.selectors.all(null))).toEqual(plain([match(b, bob)]));
      });

      it('creates what an update does not find', async () => {
        const a = await newGroup('a');
        const { id: _a, ...update } = match(a, { userRegex: 'new' });
        expect((await store.selectors.update(match(a, { userRegex: 'nobody' }), update)).row).toMatchObject(update);
        expect(await store.selectors.all(a)).toMatchObject([update]);
        expect(
          await failure(store.selectors.update(match(a), { ...update, resourceGroupId: 4_000_000_000 })),
        ).toContain('EG_IMPOSSIBLE update.resourceGroupId');
      });

      it("reads, writes and compares the engine's own columns where they are", async () => {
        const a = await newGroup('a');
        const own = { userGroupRegex: 'admins', originalUserRegex: 'joe', authenticatedUserRegex: 'svc' };
        if (!additional) {
          expect(await failure(store.selectors.create(selector(a, own)))).toContain('EG_IMPOSSIBLE userGroupRegex');
          const { id: _a, ...update } = match(a, { originalUserRegex: 'x' });
          expect(await failure(store.selectors.update(match(a), update))).toContain(
            'EG_IMPOSSIBLE update.originalUserRegex',
          );
          expect(await store.selectors.delete(match(a, own))).toBe(0);
          expect((await store.selectors.create(selector(a))).row.id).toBeNull();
          return;
        }
        const { row } = await store.selectors.create(selector(a, own));
        expect(row.id).toEqual(expect.any(Number));
        const twin = (await store.selectors.create(selector(a, own))).row;
        await store.selectors.create(selector(a));
        expect(await store.selectors.all(a)).toContainEqual(row);
        expect(await store.selectors.delete(match(a))).toBe(1);
        const { id: _a, ...update } = match(a, { ...own, priority: 5 });
        expect((await store.selectors.update({ ...match(a, own), id: twin.id }, update)).row).toEqual({
          ...update,
          id: twin.id,
        });
        expect((await store.selectors.all(a)).map(({ id, priority }) => [id, priority])).toEqual([
          [twin.id, 5],
          [row.id, 1],
        ]);
      });

      it('keeps the one global property', async () => {
        expect(await store.properties.all()).toEqual([]);
        expect(await failure(store.properties.update({ name: 'cpu_quota_period', value: '1h' }))).toContain(
          'EG_NOT_FOUND name',
        );
        await store.properties.create({ name: 'cpu_quota_period', value: '1h' });
        expect(await failure(store.properties.create({ name: 'cpu_quota_period', value: '2h' }))).toContain(
          'EG_CONFLICT name',
        );
        await store.properties.update({ name: 'cpu_quota_period', value: '3h' });
        expect(await store.properties.get('cpu_quota_period')).toEqual({ name: 'cpu_quota_period', value: '3h' });
        for (const name of ['CPU_QUOTA_PERIOD', 'cpu_quota_period ', ...hostile]) {
          expect(await store.properties.get(name)).toBeNull();
          await store.properties.delete(name);
        }
        expect(await store.properties.all()).toHaveLength(1);
        await store.properties.delete('cpu_quota_period');
        expect(await store.properties.all()).toEqual([]);
      });

      it('stores hostile texts as texts', async () => {
        for (const text of hostile) {
          const { row } = await store.groups.create(group(text, { environment: text, schedulingPolicy: text }));
          expect(await store.groups.get(row.resourceGroupId)).toEqual(row);
          const texts = {
            userRegex: text,
            sourceRegex: text,
            queryType: text,
            clientTags: text,
            selectorResourceEstimate: text,
          };
          const made = (await store.selectors.create(selector(row.resourceGroupId, texts))).row;
          expect(await store.selectors.all(row.resourceGroupId)).toEqual([made]);
          expect(await store.selectors.delete(match(row.resourceGroupId, texts))).toBe(1);
        }
        expect((await store.groups.all()).map((row) => row.name)).toEqual(hostile);
      });

      it('two writers never make a cycle', async () => {
        const a = await newGroup('a');
        const b = await newGroup('b');
        const link = (from: string, id: number, parent: number) =>
          failure(store.groups.update({ ...group(from, { parent }), resourceGroupId: id }));
        for (let round = 0; round < 5; round++) {
          const outcomes = await Promise.all([link('a', a, b), link('b', b, a)]);
          expect(outcomes.filter((outcome) => outcome === 'nothing')).toHaveLength(1);
          await store.groups.update({ ...group('a'), resourceGroupId: a });
          await store.groups.update({ ...group('b'), resourceGroupId: b });
        }
      });
    });

    it('says which tables are missing', async () => {
      const parsed = parseJdbcUrl(await server.create());
      if ('problems' in parsed) throw new Error(JSON.stringify(parsed.problems));
      const database = openDatabase(parsed.target, defaultLimits, logger);
      const store = openResourceGroups(database, 'other');
      expect(await failure(store.groups.all())).toMatch(
        /^EG_NOT_FOUND useSchema the database other lacks resource_groups/,
      );
      expect(await failure(store.selectors.create(selector(null)))).toContain('EG_NOT_FOUND');
      expect(await failure(store.properties.all())).toContain('EG_NOT_FOUND');
      await database.close();
    });
  });
}
