import { pino } from 'pino';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { ResourceGroupColumns } from '../../../src/model/resourceGroup.ts';
import type { NewSelector, SelectorColumns, SelectorRow } from '../../../src/model/selector.ts';
import { type KnexStore, openStore } from '../../../src/store/openStore.ts';
import {
  groupChanges,
  propertyChanges,
  type RowDecision,
  selectorChanges,
} from '../../../src/store/resourceGroupChanges.ts';
import type { SchemaStores } from '../../../src/store/resourceGroupStore.ts';
import { databases, type TestDatabase } from '../../support/databases.ts';
import { engineMigrations } from '../../support/engineMigrations.ts';
import { otherProgram } from '../../support/foreignRows.ts';

const group = (name: string, more: Partial<ResourceGroupColumns> = {}): ResourceGroupColumns => ({
  ...{ name, softMemoryLimit: '80%', maxQueued: 10, softConcurrencyLimit: null, hardConcurrencyLimit: 5 },
  ...{ schedulingPolicy: null, schedulingWeight: null, jmxExport: null, softCpuLimit: null, hardCpuLimit: null },
  ...{ parent: null, environment: 'test' },
  ...more,
});
const whole: Partial<ResourceGroupColumns> = {
  ...{ softConcurrencyLimit: 3, schedulingPolicy: 'weighted_fair', schedulingWeight: 7, jmxExport: true },
  ...{ softCpuLimit: '30m', hardCpuLimit: '1h', maxQueued: 2_147_483_647 },
};
const selector = (resourceGroupId: number | null, more: Partial<NewSelector> = {}): NewSelector => ({
  ...{ resourceGroupId, priority: 1, userRegex: null, sourceRegex: null, queryType: null, clientTags: null },
  ...{ selectorResourceEstimate: null, userGroupRegex: null, originalUserRegex: null, authenticatedUserRegex: null },
  ...more,
});
const match = (resourceGroupId: number, more: Partial<NewSelector> = {}): SelectorRow => ({
  ...selector(null, more),
  resourceGroupId,
  id: null,
});
const plain = (rows: readonly SelectorRow[]) => rows.map(({ id: _id, ...columns }) => columns);
const NO_GROUP = 4_000_000_000;

/** Texts that databases compare in ways of their own, or that would change a statement. */
const hostile = [
  "'; drop table selectors; --",
  '" or ""="',
  "\\' or 1=1 -- ",
  '`; #',
  '? ?? :name $1',
  '%_%',
  '😀 ü 中',
];

for (const family of databases) {
  const orders =
    family.name === 'sqlite' ? (['ours'] as const) : (['ours', 'ours, then engine', 'engine, then ours'] as const);
  describe.skipIf(!family.available()).each(orders)(`resource groups on ${family.name}, migrations: %s`, (order) => {
    let server: TestDatabase;
    let store: KnexStore;
    let stores: SchemaStores;
    beforeAll(async () => {
      server = await family.start();
      const settings = await server.create();
      const engine = async () => {
        const { create, alter } = engineMigrations(family.name as 'mysql');
        await otherProgram(family.name, settings)([...create, ...alter]);
      };
      if (order === 'engine, then ours') await engine();
      store = await openStore({ ...settings, runMigrations: true, logger: pino({ level: 'silent' }) });
      if (order === 'ours, then engine') await engine();
      stores = store.resourceGroups({ allowed: null, maxOpen: 1 });
    });
    afterAll(async () => {
      await stores?.close();
      await store?.close();
      await server?.dispose();
    });
    afterEach(async () => {
      const { knex } = store.database;
      await knex('selectors').delete();
      await knex('resource_groups').update({ parent: null });
      await knex('resource_groups').delete();
      await knex('resource_groups_global_properties').delete();
    });
    const rows = () => stores.use(null, (own) => own.read());
    type Present = Parameters<RowDecision>[0];
    type Rows<D extends ReturnType<RowDecision>> = D & { readonly row: NonNullable<D['row']> };
    const write = <C, D extends ReturnType<RowDecision>>(decide: (present: Present, change: C) => D, change: C) =>
      stores.use(null, async (own) => (await own.write((present) => decide(present, change))) as Rows<D>);
    const create = (name: string, more: Partial<ResourceGroupColumns> = {}) =>
      write(groupChanges.create, group(name, more));
    const idOf = async (name: string, more: Partial<ResourceGroupColumns> = {}) =>
      (await create(name, more)).row.resourceGroupId;
    const update = (resourceGroupId: number, columns: ResourceGroupColumns) =>
      write(groupChanges.update, { ...columns, resourceGroupId });
    const select = (sent: NewSelector) => write(selectorChanges.create, sent);
    const change = (current: SelectorRow, update: SelectorColumns) =>
      write(selectorChanges.update, { current, update });
    const listed = async (id: number | null) =>
      (await rows()).selectors.filter(({ resourceGroupId }) => id === null || resourceGroupId === id);
    const remove = async (selector: SelectorRow) => {
      const { length } = await listed(null);
      await write(selectorChanges.delete, selector);
      return length - (await listed(null)).length;
    };

    it('every column is read as it was written, and overwritten; texts of any kind stay texts', async () => {
      for (const text of hostile) {
        const { row } = await create(text, { environment: text, schedulingPolicy: text });
        expect((await rows()).groups).toContainEqual(row);
        const texts = { userRegex: text, sourceRegex: text, clientTags: text, selectorResourceEstimate: text };
        const made = await select(selector(row.resourceGroupId, texts));
        expect(await listed(row.resourceGroupId)).toEqual([made.row]);
        expect(await remove(match(row.resourceGroupId, texts))).toBe(1);
        expect(await write(propertyChanges.delete, { name: text })).toMatchObject({ before: null });
        await write(groupChanges.delete, row);
      }
      await write(propertyChanges.create, { name: 'cpu_quota_period', value: '1h' });
      const others = ['CPU_QUOTA_PERIOD', 'cpu_quota_period '].map((name) => write(propertyChanges.delete, { name }));
      expect(await Promise.all(others)).toMatchObject([{ before: null }, { before: null }]);
      const root = (await create('root', { schedulingPolicy: 'weighted' })).row;
      const { row } = await create('leaf', { ...whole, parent: root.resourceGroupId });
      const { resourceGroupId } = row;
      expect(row).toEqual({ ...group('leaf', { ...whole, parent: root.resourceGroupId }), resourceGroupId });
      expect((await rows()).groups).toEqual([root, row]);
      const changed = { ...group('b', { softMemoryLimit: '5GB', jmxExport: false }), resourceGroupId };
      // Unchanged values are no failure either.
      for (let time = 0; time < 2; time++) expect((await update(resourceGroupId, changed)).row).toEqual(changed);
      expect((await rows()).groups).toEqual([root, changed]);
    });

    it('two writers never make a cycle; names are taken once below a parent; a group in use stays', async () => {
      const [a, b] = [await idOf('a'), await idOf('b')];
      for (let round = 0; round < 5; round++) {
        const links = [update(a, group('a', { parent: b })), update(b, group('b', { parent: a }))];
        const outcomes = await Promise.allSettled(links);
        expect(outcomes.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
        await update(a, group('a'));
        await update(b, group('b'));
      }
      const c = await idOf('c', { parent: await idOf('d', { parent: a }) });
      const cycle = { code: 'EG_IMPOSSIBLE', field: 'parent', message: `Group ${a} would be among its own parents.` };
      await expect(update(a, group('a', { parent: c }))).rejects.toMatchObject(cycle);
      await expect(update(a, group('a', { parent: a }))).rejects.toThrow('its own parent');
      await expect(create('d', { parent: a })).rejects.toMatchObject({ code: 'EG_CONFLICT', field: 'name' });
      await create('d');
      await select(selector(a));
      await select(selector(a));
      await expect(write(groupChanges.delete, { resourceGroupId: a })).rejects.toThrow(
        `Group ${a} is in use by the groups "d", whose parent it is and 2 selectors; delete these first.`,
      );
    });

    it('what the engine would refuse is reported', async () => {
      const warnings = async (name: string, more: Partial<ResourceGroupColumns>) =>
        (await create(name, more)).warnings.join(' ');
      expect(await warnings('none', { environment: null })).toContain('no environment');
      expect(await warnings('cpu', { hardCpuLimit: '1h' })).toContain('hardCpuLimit of cpu needs cpuQuotaPeriod');
      const weighted = await idOf('weighted', { schedulingPolicy: 'WEIGHTED' });
      expect(await warnings('one', { parent: weighted, schedulingWeight: 1 })).toBe('');
      expect(await warnings('two', { parent: weighted })).toContain('of weighted.two is required');
      const fair = await idOf('fair', { schedulingPolicy: 'fair' });
      expect(await warnings('three', { parent: fair, schedulingWeight: 1 })).toContain('of fair.three is not possible');
      expect(await warnings('four', { parent: fair, environment: 'other' })).toContain('("four") has a parent');
      const moved = await update(fair, group('fair', { environment: 'x' }));
      expect(moved.warnings.join(' ')).toContain('("three") has a parent that is not');
    });

    it('each selector that is equal is changed and deleted, and only those; others are created', async () => {
      const [a, b] = [await idOf('a'), await idOf('b')];
      const newest = await select(selector(null, { userRegex: 'newest', priority: Number.MAX_SAFE_INTEGER }));
      const warning = `No resourceGroupId was sent; the selector points to the newest group, ${b} (b).`;
      expect([newest.row.resourceGroupId, newest.warnings]).toEqual([b, [warning]]);
      expect(await remove(newest.row)).toBe(1);
      const bob = { userRegex: 'bob', sourceRegex: 'etl', queryType: 'SELECT', clientTags: '["x"]' };
      for (const id of [a, a, b]) await select(selector(id, bob));
      const others = [
        { userRegex: 'Bob' },
        { userRegex: 'bob ' },
        { userRegex: null },
        { priority: 2 },
        { sourceRegex: '' },
      ];
      for (const other of others) await select(selector(a, { ...bob, ...other }));
      const { id: _a, ...eve } = match(b, { priority: 9, userRegex: 'eve' });
      const { row, warnings } = await change(match(a, bob), eve);
      expect([row.userRegex, row.resourceGroupId, warnings]).toEqual([
        ...['eve', b],
        ['2 selectors were equal to current; all of them were changed.'],
      ]);
      expect(plain(await listed(b))).toEqual([eve, eve, ...plain([match(b, bob)])]);
      for (const other of others) {
        expect(await remove(match(a, { ...bob, ...other }))).toBe(1);
      }
      expect(await remove(match(b, eve))).toBe(2);
      expect(await remove(match(b, eve))).toBe(0);
      expect(plain(await listed(null))).toEqual(plain([match(b, bob)]));
      expect((await change(match(a, { userRegex: 'nobody' }), eve)).row).toMatchObject(eve);
      const impossible = { code: 'EG_IMPOSSIBLE', field: 'update.resourceGroupId' };
      await expect(change(match(a), { ...eve, resourceGroupId: NO_GROUP })).rejects.toMatchObject(impossible);
    });

    it("the engine's own columns are read, written and compared where they are", async () => {
      const a = await idOf('a');
      const own = { userGroupRegex: 'admins', originalUserRegex: 'joe', authenticatedUserRegex: 'svc' };
      const unlimited = create('unlimited', { softMemoryLimit: null });
      if (order === 'ours') {
        await expect(unlimited).rejects.toMatchObject({ code: 'EG_MALFORMED', field: 'softMemoryLimit' });
        const impossible = { code: 'EG_IMPOSSIBLE', field: 'userGroupRegex' };
        await expect(select(selector(a, own))).rejects.toMatchObject(impossible);
        expect(await remove(match(a, own))).toBe(0);
        expect((await select(selector(a))).row.id).toBeNull();
        return;
      }
      await unlimited;
      const [{ row }, { row: twin }] = [await select(selector(a, own)), await select(selector(a, own))];
      expect(row.id).toEqual(expect.any(Number));
      await select(selector(a));
      expect(await listed(a)).toContainEqual(row);
      expect(await remove(match(a))).toBe(1);
      const { id: _a, ...changed } = match(a, { ...own, priority: 5 });
      const updated = await change({ ...match(a, own), id: twin.id }, changed);
      expect(updated.row).toEqual({ ...changed, id: twin.id });
      expect((await listed(a)).map(({ id, priority }) => [id, priority])).toEqual([
        [twin.id, 5],
        [row.id, 1],
      ]);
    });
  });
}
