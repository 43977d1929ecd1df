import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import type { ResourceGroupConfigurationSpec } from '../../../src/kinds/resourceGroupConfiguration/spec.ts';
import { GatewayError } from '../../../src/model/errors.ts';
import { declaredRows } from '../../../src/model/groupsFile/declaredGroups.ts';
import { storedGroups } from '../../../src/model/groupsFile/storedGroups.ts';
import { type KnexStore, openStore } from '../../../src/store/openStore.ts';
import type { SchemaStores } from '../../../src/store/resourceGroupStore.ts';
import type { Dialect } from '../../../src/store/store.ts';
import { type ApiServer, startApi } from '../../support/apiServer.ts';
import { databases, type TestDatabase } from '../../support/databases.ts';
import {
  type OperatorRig,
  quickDatabase,
  quickDirectory,
  type RigOptions,
  startOperator,
} from '../../support/operatorRig.ts';

const until = (check: () => void | Promise<void>): Promise<void> =>
  vi.waitFor(check, { timeout: 30_000, interval: 20 });
const kind = 'ResourceGroupConfiguration';
const key = { kind, namespace: 'default', name: 'groups' } as const;
const resource = `${kind} default/groups`;
const group = (name: string, more: object = {}) => ({
  ...{ name, softMemoryLimit: '80%', maxQueued: 100, hardConcurrencyLimit: 10 },
  ...more,
});
/** A row as callers send it. */
const row = (name: string, more: object = {}) => ({ ...group(name), environment: 'test', ...more });
const perUser = `\${USER}`;
const etl = { name: 'etl', hardConcurrencyLimit: 10, softMemoryLimit: '80%', maxQueued: 100 };
const staff = group('staff', { hardCpuLimit: '30m' });
const adhoc = (...subGroups: object[]) => group('adhoc', { schedulingPolicy: 'fair', subGroups });
const airflow = { source: 'airflow', group: 'etl' };
const estimate = { selectorResourceEstimate: { cpuTime: { max: '5m' } }, clientTags: ['a'], group: 'adhoc.staff' };
const catchAll = { group: `adhoc.${perUser}` };
const spec = {
  environment: 'test',
  cpuQuotaPeriod: '1h',
  rootGroups: [etl, adhoc(staff, group(perUser))],
  selectors: [airflow, estimate, catchAll],
};

type Ids = ReadonlyMap<string, number>;
interface Step {
  readonly why: string;
  readonly call: string;
  /** What is sent; `data` and `oldData` of the web application. */
  readonly send: (ids: Ids) => readonly [data: object, oldData?: object];
  /** Left out: 200. */
  readonly status?: number;
  /** Fields of the answer that it has. */
  readonly row?: object;
  /** Field and part of the message of a refusal. */
  readonly field?: string;
  readonly says?: string;
  readonly warns?: string;
  /** Fields of the spec that are otherwise from now on; undefined: gone. */
  readonly spec?: object;
}

const id = (ids: Ids, path: string): { readonly resourceGroupId: number } => ({ resourceGroupId: ids.get(path) ?? 0 });
const botRow = { sourceRegex: 'bot', queryType: 'INSERT' };
const bot = { source: 'bot', queryType: 'INSERT', group: 'adhoc.bots' };
const late = { user: 'ann', group: 'adhoc.bots' };
const etl7 = { ...etl, maxQueued: 7 };
const bots = { ...group('bots'), softConcurrencyLimit: 4 };

/** Each begins where the one before it ended. */
const steps: readonly Step[] = [
  {
    why: 'columns of a group; fields that mean the same stay as they are written',
    call: 'updateResourceGroup',
    send: (ids) => [row('etl', { ...id(ids, 'etl'), maxQueued: 7 })],
    row: { name: 'etl', maxQueued: 7, hardConcurrencyLimit: 10 },
    spec: { rootGroups: [etl7, adhoc(staff, group(perUser))] },
  },
  {
    why: 'another name',
    call: 'updateResourceGroup',
    send: (ids) => [row('elt', id(ids, 'etl'))],
    status: 409,
    field: 'name',
    says: `belongs to the ${resource}; change its name there, or delete the group and create another one.`,
  },
  {
    why: 'another environment',
    call: 'updateResourceGroup',
    send: (ids) => [row('etl', { ...id(ids, 'etl'), environment: 'other' })],
    status: 409,
    field: 'environment',
    says: resource,
  },
  {
    why: 'another parent',
    call: 'updateResourceGroup',
    send: (ids) => [row('etl', { ...id(ids, 'etl'), parent: ids.get('adhoc') })],
    status: 409,
    field: 'parent',
    says: resource,
  },
  {
    why: 'a group below one of the resource',
    call: 'saveResourceGroup',
    send: (ids) => [row('bots', { parent: ids.get('adhoc'), softConcurrencyLimit: 4 })],
    row: { name: 'bots', softConcurrencyLimit: 4 },
    spec: { rootGroups: [etl7, adhoc(staff, group(perUser), bots)] },
  },
  {
    why: 'a name that is taken there',
    call: 'saveResourceGroup',
    send: (ids) => [row('bots', { parent: ids.get('adhoc') })],
    status: 409,
    field: 'name',
    says: 'has that name already',
  },
  {
    why: 'another environment than that of the parent',
    call: 'saveResourceGroup',
    send: (ids) => [row('x', { parent: ids.get('adhoc'), environment: 'other' })],
    status: 422,
    field: 'environment',
    says: 'must be test',
  },
  {
    why: 'what the engine would refuse with the other groups',
    call: 'saveResourceGroup',
    send: (ids) => [row('x', { parent: ids.get('adhoc'), schedulingWeight: 3 })],
    status: 400,
    field: 'spec.rootGroups[1].subGroups[3].schedulingWeight',
    says: `The ${resource} would not be valid: `,
  },
  {
    why: 'a selector, which comes after the one that has its priority',
    call: 'saveSelector',
    send: (ids) => [{ ...id(ids, 'adhoc.bots'), ...botRow, priority: 3 }],
    row: { ...botRow, priority: 3 },
    spec: { selectors: [airflow, bot, estimate, catchAll] },
  },
  {
    why: 'a selector below all others, of the newest group',
    call: 'saveSelector',
    send: () => [{ userRegex: 'ann' }],
    row: { userRegex: 'ann', priority: 1 },
    warns: `The priority is 1, not 0: the ${resource} numbers its selectors in their order.`,
    spec: { selectors: [airflow, bot, estimate, catchAll, late] },
  },
  {
    why: 'a selector, moved by its priority',
    call: 'updateSelector',
    send: (ids) => {
      const current = { ...id(ids, 'adhoc.bots'), userRegex: 'ann', priority: 1 };
      return [{ ...current, priority: 5 }, current];
    },
    row: { userRegex: 'ann', priority: 5 },
    spec: { selectors: [late, airflow, bot, estimate, catchAll] },
  },
  {
    why: 'a selector, in its place, to another group of the resource',
    call: 'updateSelector',
    send: (ids) => [
      { ...id(ids, 'etl'), ...botRow, priority: 3 },
      { ...id(ids, 'adhoc.bots'), ...botRow, priority: 3 },
    ],
    row: { ...botRow, priority: 3 },
    spec: { selectors: [late, airflow, { ...bot, group: 'etl' }, estimate, catchAll] },
  },
  {
    why: 'a selector with JSON, whose text is the same',
    call: 'updateSelector',
    send: (ids) => {
      const current = {
        ...id(ids, 'adhoc.staff'),
        ...{ clientTags: '["a"]', selectorResourceEstimate: '{"cpuTime":{"max":"5m"}}', priority: 2 },
      };
      return [{ ...current, clientTags: '["a", "b"]', selectorResourceEstimate: '{"cpuTime": null}' }, current];
    },
    row: { clientTags: '["a","b"]', priority: 2 },
    spec: {
      selectors: [
        late,
        airflow,
        { ...bot, group: 'etl' },
        { selectorResourceEstimate: {}, clientTags: ['a', 'b'], group: 'adhoc.staff' },
        catchAll,
      ],
    },
  },
  {
    why: 'a group with a selector',
    call: 'deleteResourceGroup',
    send: (ids) => [id(ids, 'adhoc.bots')],
    status: 409,
    says: 'is in use by 1 selector; delete these first.',
  },
  {
    why: 'a group with others below it',
    call: 'deleteResourceGroup',
    send: (ids) => [id(ids, 'adhoc')],
    status: 409,
    says: `is in use by the groups "staff", "${perUser}", "bots"`,
  },
  {
    why: 'a selector',
    call: 'deleteSelector',
    send: (ids) => [{ ...id(ids, 'adhoc.bots'), userRegex: 'ann', priority: 5 }],
    spec: {
      selectors: [
        airflow,
        { ...bot, group: 'etl' },
        { selectorResourceEstimate: {}, clientTags: ['a', 'b'], group: 'adhoc.staff' },
        catchAll,
      ],
    },
  },
  {
    why: 'a selector that is not there is no error',
    call: 'deleteSelector',
    send: (ids) => [{ ...id(ids, 'adhoc.bots'), userRegex: 'ann', priority: 5 }],
  },
  {
    why: 'a group that nothing needs',
    call: 'deleteResourceGroup',
    send: (ids) => [id(ids, 'adhoc.bots')],
    spec: { rootGroups: [etl7, adhoc(staff, group(perUser))] },
  },
  {
    why: 'the period',
    call: 'updateGlobalProperty',
    send: () => [{ name: 'cpu_quota_period', value: '2h' }],
    spec: { cpuQuotaPeriod: '2h' },
  },
  {
    why: 'the period that is there',
    call: 'saveGlobalProperty',
    send: () => [{ name: 'cpu_quota_period', value: '2h' }],
    status: 409,
    field: 'name',
    says: 'The property cpu_quota_period exists; update it instead.',
  },
  {
    why: 'the period that groups need',
    call: 'deleteGlobalProperty',
    send: () => [{ name: 'cpu_quota_period' }],
    status: 400,
    field: 'spec.rootGroups[1].subGroups[0].hardCpuLimit',
    says: 'needs cpuQuotaPeriod',
  },
  {
    why: 'a limit less',
    call: 'updateResourceGroup',
    send: (ids) => [row('staff', { ...id(ids, 'adhoc.staff'), parent: ids.get('adhoc') })],
    spec: { rootGroups: [etl7, adhoc(group('staff'), group(perUser))] },
  },
  {
    why: 'the period that nothing needs any more',
    call: 'deleteGlobalProperty',
    send: () => [{ name: 'cpu_quota_period' }],
    spec: { cpuQuotaPeriod: undefined },
  },
  {
    why: 'a group that no resource declares',
    call: 'saveResourceGroup',
    send: () => [row('theirs')],
    row: { name: 'theirs' },
  },
  {
    why: 'it, moved below one of the resource',
    call: 'updateResourceGroup',
    send: (ids) => [row('theirs', { ...id(ids, 'theirs'), parent: ids.get('adhoc') })],
    status: 409,
    field: 'parent',
    says: `belongs to the ${resource}; a group that is there cannot be moved below it by REST`,
  },
  {
    why: 'a selector that no resource declares',
    call: 'saveSelector',
    send: (ids) => [{ ...id(ids, 'theirs'), userRegex: 'eve', priority: 70 }],
    row: { userRegex: 'eve', priority: 70 },
  },
  {
    why: 'it, to a group of the resource',
    call: 'updateSelector',
    send: (ids) => [
      { ...id(ids, 'etl'), userRegex: 'eve', priority: 70 },
      { ...id(ids, 'theirs'), userRegex: 'eve', priority: 70 },
    ],
    status: 409,
    says: 'delete it, and create it there',
  },
  {
    why: 'a selector of the resource to another group',
    call: 'updateSelector',
    send: (ids) => [
      { ...id(ids, 'theirs'), sourceRegex: 'airflow', priority: 4 },
      { ...id(ids, 'etl'), sourceRegex: 'airflow', priority: 4 },
    ],
    status: 409,
    says: `belongs to the ${resource}; a selector is moved only among the groups of one resource`,
  },
];

const stepOf = (call: string, send: Step['send']): Step => ({ why: '', call, send });
const createTheirs = stepOf('saveResourceGroup', () => [row('theirs')]);
const updateEtl = (more: object) =>
  stepOf('updateResourceGroup', (ids) => [row('etl', { ...id(ids, 'etl'), ...more })]);
const createBelow = (name: string) => stepOf('saveResourceGroup', (ids) => [row(name, { parent: ids.get('adhoc') })]);

/** Calls below the product's path by those of the web application. */
const publicCalls: Readonly<Record<string, (data: Record<string, unknown>, oldData?: object) => [string, object?]>> = {
  saveResourceGroup: (data) => ['resourcegroup/create', data],
  updateResourceGroup: (data) => ['resourcegroup/update', data],
  deleteResourceGroup: (data) => [`resourcegroup/delete/${data.resourceGroupId}`],
  saveSelector: (data) => ['selector/create', data],
  updateSelector: (data, oldData) => ['selector/update', { current: oldData, update: data }],
  deleteSelector: (data) => ['selector/delete', data],
  saveGlobalProperty: (data) => ['globalproperty/create', data],
  updateGlobalProperty: (data) => ['globalproperty/update', data],
  deleteGlobalProperty: (data) => [`globalproperty/delete/${data.name}`],
};

/** The sources and forms of calls that are tried on each dialect: each pair once or twice. */
const combinations: Readonly<
  Record<Dialect, readonly (readonly [source: 'directory' | 'database', form: 'rest' | 'webapp'])[]>
> = {
  sqlite: [
    ['directory', 'rest'],
    ['database', 'webapp'],
  ],
  mysql: [['directory', 'webapp']],
  postgresql: [['database', 'rest']],
};

for (const family of databases) {
  describe.skipIf(!family.available())(`REST writes to groups of a resource on ${family.name}`, () => {
    let server: TestDatabase;
    let directory: string;
    let store: KnexStore;
    let stores: SchemaStores;
    const open: { close(): Promise<void> }[] = [];
    beforeAll(async () => {
      server = await family.start();
    });
    afterAll(() => server?.dispose());
    beforeEach(async () => {
      directory = await mkdtemp(join(tmpdir(), 'eg-group-writes-'));
      const settings = { ...(await server.create()), runMigrations: true, logger: pino({ enabled: false }) };
      store = (await openStore(settings)) as KnexStore;
      stores = store.resourceGroups({ allowed: null, maxOpen: 2 });
    });
    afterEach(async () => {
      for (const each of open.splice(0).reverse()) await each.close();
      await stores.close();
      await store.close();
      await rm(directory, { recursive: true, force: true });
    });

    const replica = async (source: 'directory' | 'database', options: RigOptions = {}): Promise<OperatorRig> => {
      const rig = await startOperator(store, source === 'database' ? quickDatabase(store) : quickDirectory(directory), {
        groups: stores,
        ...options,
      });
      open.push({ close: () => rig.stop() });
      return rig;
    };
    const apiOf = async (rig: OperatorRig): Promise<ApiServer> => {
      if (rig.groups === null) throw new Error('the rig has no groups');
      const api = await startApi({ resourceGroups: rig.groups, store });
      open.push(api);
      return api;
    };
    const declare = async (rig: OperatorRig, wanted: object = spec, name = 'groups'): Promise<void> => {
      await rig.source.create({ ...key, name, spec: wanted as Record<string, unknown> });
      await until(() => expect(rig.source.get({ ...key, name })?.status?.conditions).toMatchObject(ready));
    };
    const ready = expect.arrayContaining([expect.objectContaining({ type: 'Ready', status: 'True' })]);
    const inStep = expect.arrayContaining([expect.objectContaining({ type: 'Drift', reason: 'InStep' })]);
    const rows = () => stores.use(null, (own) => own.read());
    const idsByPath = async (): Promise<Ids> => {
      const { groupRows } = storedGroups(await rows(), 'test');
      return new Map([...groupRows].map(([path, { resourceGroupId }]) => [path, resourceGroupId]));
    };
    const specOf = ({ source }: OperatorRig) => source.get(key)?.spec as unknown as ResourceGroupConfigurationSpec;
    /** What the tables hold of the resource's own groups, as `declaredRows` has it. */
    const declaredInTables = async () => {
      const { file } = storedGroups(await rows(), 'test');
      const own = ({ group: path }: { readonly group: string }) => /^(etl|adhoc)/.test(path);
      const rootGroups = file.rootGroups.filter(({ name }) => own({ group: name }));
      return declaredRows(
        { ...file, rootGroups, selectors: file.selectors.filter(own) },
        file.selectors.filter(own).length,
      );
    };
    const call = async (api: ApiServer, form: string, { call: name, send }: Step, query = '') => {
      const [data, oldData] = send(await idsByPath());
      const [path, body] =
        form === 'webapp'
          ? [`/webapp/${name}`, { data, ...(oldData === undefined ? {} : { oldData }) }]
          : (([below, sent]) => [`/engine/${below}`, sent] as const)(
              publicCalls[name]?.(data as Record<string, unknown>, oldData) ?? [name],
            );
      const headers = { 'Content-Type': 'application/json' };
      const response = await api.call('POST', `${path}${query}`, {
        headers,
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      const json = response.text === '' ? null : response.json();
      return {
        status: response.status,
        headers: response.headers,
        row: form === 'webapp' ? json?.data : json,
        error: json?.error,
      };
    };

    test.each(combinations[family.name])('go into it, and into the tables: source %s, %s', async (source, form) => {
      const rig = await replica(source);
      const api = await apiOf(rig);
      await declare(rig);
      let expected: object = spec;
      for (const step of steps) {
        const { why, status = 200, field, says, warns } = step;
        const before = await idsByPath();
        const response = await call(api, form, step);
        const error =
          status === 200 ? undefined : expect.objectContaining({ ...(field === undefined ? {} : { field }) });
        expect([why, response.status, response.error], why).toEqual([why, status, error]);
        if (says !== undefined) expect(response.error.message, why).toContain(says);
        expect(`${response.headers.warning ?? ''}`, why).toContain(warns ?? '');
        if (step.row !== undefined) expect(response.row, why).toMatchObject(step.row);
        expected = JSON.parse(JSON.stringify({ ...expected, ...step.spec }));
        expect(specOf(rig), why).toEqual(expected);
        const { cpuQuotaPeriod: period = null, ...declared } = declaredRows(specOf(rig), specOf(rig).selectors.length);
        const { cpuQuotaPeriod, groups, selectors } = await declaredInTables();
        expect({ cpuQuotaPeriod, selectors }, why).toEqual({
          cpuQuotaPeriod: period,
          selectors: declared.selectors,
        });
        expect(new Set(groups), why).toEqual(new Set(declared.groups));
        const after = await idsByPath();
        for (const [path, present] of before)
          if (after.has(path)) expect([path, after.get(path)]).toEqual([path, present]);
      }
      const { generation } = rig.source.get(key)?.metadata ?? {};
      await until(() => expect(rig.source.get(key)?.status?.observedGeneration).toBe(generation));
      expect(rig.source.get(key)?.status?.conditions).toEqual(inStep);
      expect(api.changes[0]).toMatchObject({
        object: expect.stringMatching(/^resource group \d+ of ResourceGroupConfiguration default\/groups$/),
        regarding: { kind, name: 'groups' },
        before: { maxQueued: 100 },
        after: { maxQueued: 7 },
      });
      // Changes of the tables alone are no resource's.
      expect(api.changes.filter(({ regarding }) => regarding === 'gateway').map(({ object }) => object)).toEqual([
        expect.stringMatching(/^resource group \d+$/),
        expect.stringMatching(/^selector of resource group \d+$/),
      ]);
    });

    test('of the entity editor go into it as well', async () => {
      const rig = await replica('database');
      const api = await apiOf(rig);
      await declare(rig);
      const ids = await idsByPath();
      const store = async (type: string, body: object) =>
        (await api.call('POST', `/entity?entityType=${type}`, { body: JSON.stringify(body) })).status;
      expect(await store('RESOURCE_GROUP', row('etl', { ...id(ids, 'etl'), maxQueued: 7 }))).toBe(200);
      expect(await store('SELECTOR', { ...id(ids, 'etl'), sourceRegex: 'dbt', priority: 3 })).toBe(200);
      expect(await store('SELECTOR', { ...id(ids, 'adhoc'), userRegex: 'ann' })).toBe(200);
      expect(specOf(rig)).toEqual({
        ...spec,
        rootGroups: [etl7, adhoc(staff, group(perUser))],
        selectors: [{ source: 'dbt', group: 'etl' }, estimate, catchAll, { user: 'ann', group: 'adhoc' }],
      });
    });

    test('that the tables cannot have leave resource and tables as they are', async () => {
      const rig = await replica('database');
      const api = await apiOf(rig);
      await declare(rig);
      await store.database.knex.raw('create unique index names_once on resource_groups (name)');
      const before = await rows();
      const creation = createBelow('etl');
      expect(await call(api, 'rest', creation)).toMatchObject({
        status: 422,
        error: { message: expect.stringContaining('takes each name of a group once') },
      });
      expect([specOf(rig), await rows()]).toEqual([spec, before]);
    });

    test('of a selector leave the rows of others', async () => {
      const { knex } = store.database;
      const serial = 'alter table selectors add column id bigint not null auto_increment primary key';
      if (family.name === 'mysql') await knex.raw(serial);
      const rig = await replica('database');
      const api = await apiOf(rig);
      const dbt = { sourceRegex: 'dbt', priority: 2 };
      await declare(rig, { ...spec, selectors: [airflow, { source: 'dbt', group: 'etl' }, catchAll] });
      const place = { sqlite: 'rowid', mysql: 'id', postgresql: 'ctid' }[family.name];
      const places = async () => {
        const stored = await knex('selectors').select('source_regex', knex.raw(`${place} as place`));
        return new Map(stored.map((each) => [each.source_regex, each.place]));
      };
      const before = await places();
      const change = stepOf('updateSelector', (ids) => [
        { ...id(ids, 'etl'), ...dbt, userRegex: 'ann' },
        { ...id(ids, 'etl'), ...dbt },
      ]);
      expect(await call(api, 'rest', change)).toMatchObject({ status: 200, row: { userRegex: 'ann' } });
      const after = await places();
      expect(after.get('dbt')).not.toEqual(before.get('dbt'));
      for (const source of ['airflow', null]) expect(after.get(source)).toEqual(before.get(source));
    });

    test('by a replica that does not lead are in the tables at once, and are no drift', async () => {
      const leader = await replica('database');
      await declare(leader);
      await until(() => expect(leader.leadership.isLeader).toBe(true));
      const follower = await replica('database');
      await until(() => expect(specOf(follower)).toEqual(spec));
      const api = await apiOf(follower);
      for (let maxQueued = 1; maxQueued <= 8; maxQueued += 1) {
        const change = updateEtl({ maxQueued });
        expect((await call(api, 'rest', change)).row).toMatchObject({ maxQueued });
        expect((await rows()).groups.find(({ name }) => name === 'etl')).toMatchObject({ maxQueued });
      }
      expect([leader.leadership.isLeader, follower.leadership.isLeader]).toEqual([true, false]);
      const { generation } = follower.source.get(key)?.metadata ?? {};
      await until(() => expect(leader.source.get(key)?.status?.observedGeneration).toBe(generation));
      expect(leader.source.get(key)?.status?.conditions).toEqual(inStep);
      expect(await store.groupOwners.all()).toMatchObject(
        ['', 'adhoc', 'etl'].map((root) => ({ root, generation, isApplied: true })),
      );
      expect((await rows()).groups.find(({ name }) => name === 'etl')).toMatchObject({ maxQueued: 8 });
    });

    test('at the same time are all there', async () => {
      const rig = await replica('directory');
      const api = await apiOf(rig);
      await declare(rig);
      const names = Array.from({ length: 12 }, (_, index) => `b${index}`);
      const responses = await Promise.all(names.map((name) => call(api, 'rest', createBelow(name))));
      expect(responses.map(({ status }) => status)).toEqual(names.map(() => 200));
      const below = specOf(rig).rootGroups[1]?.subGroups as readonly { readonly name: string }[];
      expect(below.map(({ name }) => name).sort()).toEqual([perUser, 'staff', ...names].sort());
    });

    test('are refused where the resource is suspended or shared, or may not be written', async () => {
      const readOnly = await replica('database', { registry: { apiWrites: 'off' } });
      const readOnlyApi = await apiOf(readOnly);
      await declare(readOnly);
      const change = updateEtl({ maxQueued: 1 });
      const refused = { status: 403, error: { code: 'EG_API_WRITES_DISABLED' } };
      for (const form of ['rest', 'webapp']) expect(await call(readOnlyApi, form, change)).toMatchObject(refused);
      expect((await call(readOnlyApi, 'rest', createTheirs)).status).toBe(200);
      await readOnly.stop();
      const rig = await replica('database');
      const api = await apiOf(rig);
      await declare(rig, { ...spec, rootGroups: [group('second')], selectors: [] }, 'second');
      const period = stepOf('updateGlobalProperty', () => [{ name: 'cpu_quota_period', value: '3h' }]);
      expect((await call(api, 'rest', period)).error.message).toBe(
        `The property cpu_quota_period is declared by several resources: ${resource}, ${kind} default/second; change it there.`,
      );
      const expectedVersion = rig.source.get(key)?.metadata.resourceVersion ?? '';
      await rig.source.apply(
        key,
        { set: { suspend: true }, remove: [], annotations: {} },
        { force: false, expectedVersion },
      );
      expect((await call(api, 'rest', change)).error).toMatchObject({
        code: 'EG_CONFLICT',
        message: expect.stringContaining('is suspended; set its spec.suspend to false first'),
      });
    });

    test('are in the resource where the database is unavailable by then, and follow', async () => {
      let isAway = false;
      const { use, close } = stores;
      // The applier finds it unavailable after the resource was written.
      const failing: SchemaStores = {
        use: (database, work) =>
          use(database, (tables) =>
            work({
              ...tables,
              declare: async (target) => {
                if (isAway) throw new GatewayError('EG_DATABASE_UNAVAILABLE', 'the database is unavailable');
                return await tables.declare(target);
              },
            }),
          ),
        close,
      };
      const rig = await replica('database', { groups: failing });
      const api = await apiOf(rig);
      await declare(rig);
      isAway = true;
      const change = updateEtl({ maxQueued: 7 });
      const response = await call(api, 'rest', change);
      expect(response).toMatchObject({ status: 200, row: { maxQueued: 7 } });
      expect(response.headers.warning).toContain(`The change is in the ${resource}, and not in the tables yet`);
      const creation = createBelow('bots');
      expect((await call(api, 'rest', creation)).error).toMatchObject({
        code: 'EG_CONFLICT',
        message: expect.stringContaining('It follows by itself; do not send it again.'),
      });
      isAway = false;
      await until(async () => expect([...(await idsByPath()).keys()]).toContain('adhoc.bots'));
      expect((await rows()).groups.find(({ name }) => name === 'etl')).toMatchObject({ maxQueued: 7 });
    });

    // SQLite has no databases beside each other.
    if (family.name === 'sqlite') return;
    test('to one of several databases are in all of them', async () => {
      const names: string[] = [];
      for (let index = 0; index < 2; index += 1) {
        const settings = await server.create();
        await (await openStore({ ...settings, runMigrations: true, logger: pino({ enabled: false }) })).close();
        names.push(new URL(settings.jdbcUrl.slice(5)).pathname.slice(1));
      }
      const [first = '', second = ''] = names;
      const rig = await replica('database');
      const api = await apiOf(rig);
      // So that groups have other ids there.
      await call(api, 'rest', createTheirs, `?useSchema=${second}`);
      await declare(rig, { ...spec, databases: names });
      const groupsIn = (database: string) => stores.use(database, async (own) => (await own.read()).groups);
      const etlIn = async (database: string) => (await groupsIn(database)).find(({ name }) => name === 'etl');
      expect((await etlIn(first))?.resourceGroupId).not.toBe((await etlIn(second))?.resourceGroupId);
      for (const [database, maxQueued] of [
        [first, 7],
        [second, 8],
      ] as const) {
        const present = await etlIn(database);
        const change = stepOf('updateResourceGroup', () => [
          row('etl', { resourceGroupId: present?.resourceGroupId, maxQueued }),
        ]);
        expect(await call(api, 'rest', change, `?useSchema=${database}`)).toMatchObject({
          status: 200,
          row: { maxQueued },
        });
        expect([await etlIn(first), await etlIn(second)]).toMatchObject([{ maxQueued }, { maxQueued }]);
      }
      expect(specOf(rig).rootGroups[0]).toMatchObject({ name: 'etl', maxQueued: 8 });
      // The gateway's own database has none of it.
      expect((await rows()).groups).toEqual([]);
    });
  });
}
