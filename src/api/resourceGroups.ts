import { type TSchema, Type } from 'typebox';
import { RESOURCE_GROUP_CONFIGURATION } from '../kinds/resourceGroupConfiguration/spec.ts';
import { GatewayError } from '../model/errors.ts';
import { ExactMatchSelector, parseExactMatchSelector } from '../model/exactMatchSelector.ts';
import { GlobalProperty, parseGlobalProperty, StoredGlobalProperty } from '../model/globalProperty.ts';
import { clusterParser, RegistryCluster, RegistryClusterInput } from '../model/registryCluster.ts';
import {
  contradictions,
  parseResourceGroupCreate,
  parseResourceGroupUpdate,
  ResourceGroup,
  type ResourceGroupColumns,
  ResourceGroupCreate,
  ResourceGroupUpdate,
} from '../model/resourceGroup.ts';
import {
  parseSelectorCreate,
  parseSelectorMatch,
  parseSelectorUpdate,
  Selector,
  SelectorCreate,
  SelectorMatch,
  SelectorUpdate,
} from '../model/selector.ts';
import { type Checked, compileCheck } from '../model/validation.ts';
import type { GroupTables } from '../operator/registry/groupWrites.ts';
import type { GroupWrite, ResourceGroupStore } from '../store/resourceGroupStore.ts';
import type { ApiContext, StoreContext } from './apiContext.ts';
import { recordChange } from './audit.ts';
import { isForced } from './auth/guard.ts';
import { DeclaredGroups } from './clusters.ts';
import { registryWrites } from './registry.ts';
import { type Call, type CheckedBody, checkedBody, routes, valid } from './routes.ts';
import { Force, nullable, oneOf, reference, textField, withoutNulls } from './schemas.ts';
import { warn } from './writes.ts';

/** A change of the tables of a database. */
type Work = (store: ResourceGroupStore) => Promise<GroupWrite>;

/** One of the three tables: its calls are the same below the product's path and for the web application. */
interface Table {
  /** Names in paths: `resourcegroup` and `ResourceGroup`. */
  readonly path: string;
  readonly name: string;
  readonly title: string;
  readonly row: TSchema;
  /** Parameter of the path that selects rows, and the web application's query of them. */
  readonly params: TSchema;
  readonly query: CheckedBody<{ readonly useSchema?: string | null }>;
  all(store: ResourceGroupStore): Promise<readonly object[]>;
  /** Returns what finds and deletes the rows of a key of the path or query. @throws GatewayError EG_MALFORMED */
  byKey(key: object): KeyedRows;
  readonly texts: Readonly<Record<'rows' | 'show' | 'getOne' | 'create' | 'update' | 'delete', string>>;
  readonly creation: CheckedBody<Work>;
  readonly update: CheckedBody<Work>;
  readonly deletion: CheckedBody<Work>;
}

interface KeyedRows {
  readonly find: (store: ResourceGroupStore) => Promise<readonly object[]>;
  /** Left out: rows are deleted by what is sent. */
  readonly remove?: Work;
}

function changeOf<T>(
  schema: TSchema,
  parse: (value: unknown) => Checked<T>,
  apply: (store: ResourceGroupStore, change: T) => Promise<GroupWrite>,
): CheckedBody<Work> {
  const toWork = (checked: Checked<T>): Checked<Work> =>
    checked.ok ? { ok: true, value: (store) => apply(store, checked.value) } : checked;
  return { schema, parse: (value) => toWork(parse(value)) };
}

const useSchema = Type.Optional(
  nullable(Type.String(), "Another database of the gateway's database server; its own when absent."),
);
const UseSchema = Type.Object({
  useSchema: Type.Optional(textField("Another database of the gateway's database server; its own when absent.")),
});
const WriteQuery = Type.Object({ ...UseSchema.properties, ...Force.properties });

/** Rejects a group whose fields contradict each other. @throws GatewayError EG_IMPOSSIBLE */
function requireLoadable(group: ResourceGroupColumns): void {
  const [first] = contradictions(group);
  if (first === undefined) return;
  throw new GatewayError('EG_IMPOSSIBLE', `${first.field} ${first.message}.`, { field: first.field });
}

const groupCreation = changeOf(reference(ResourceGroupCreate), parseResourceGroupCreate, async (store, columns) => {
  requireLoadable(columns);
  return { kind: 'ResourceGroup', before: null, ...(await store.groups.create(columns)) };
});
const groupUpdate = changeOf(reference(ResourceGroupUpdate), parseResourceGroupUpdate, async (store, group) => {
  requireLoadable(group);
  return { kind: 'ResourceGroup', ...(await store.groups.update(group)) };
});
const deleteGroup = async (store: ResourceGroupStore, id: number): Promise<GroupWrite> => ({
  ...{ kind: 'ResourceGroup', before: await store.groups.delete(id), row: null, warnings: [] },
});
const selectorUpdate = changeOf(reference(SelectorUpdate), parseSelectorUpdate, async (store, { current, update }) => ({
  ...{ kind: 'Selector', ...(await store.selectors.update(current, update)) },
}));
const propertyChange = (operation: 'create' | 'update') =>
  changeOf(reference(GlobalProperty), parseGlobalProperty, async (store, row) => {
    const before = (await store.properties[operation](row)) ?? null;
    return { kind: 'GlobalProperty', before, row, warnings: [] };
  });
const deleteProperty = async (store: ResourceGroupStore, name: string): Promise<GroupWrite> => ({
  ...{ kind: 'GlobalProperty', before: await store.properties.delete(name), row: null, warnings: [] },
});

const GroupIdInPath = Type.Object({ resourceGroupId: textField('Id of the resource group.') });
const groupQuery = checkedBody(
  Type.Object({
    useSchema,
    resourceGroupId: Type.Optional(nullable(Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }))),
  }),
);

/** The id of a path or query. @throws GatewayError EG_MALFORMED */
function groupIdOf(key: object): number {
  const { resourceGroupId } = key as { readonly resourceGroupId?: string | number | null };
  const field = { field: 'resourceGroupId' };
  if (resourceGroupId == null) throw new GatewayError('EG_MALFORMED', 'ResourceGroupId cannot be null!', field);
  const id = Number(resourceGroupId);
  if (/^\d{1,16}$/.test(String(resourceGroupId)) && Number.isSafeInteger(id)) return id;
  throw new GatewayError('EG_MALFORMED', 'resourceGroupId must be a whole number.', field);
}

const PropertyName = Type.String({ maxLength: 128, pattern: '^[^\\x00]*$' });

/** The name of a path or query. @throws GatewayError EG_MALFORMED */
function propertyNameOf(key: object): string {
  const { name } = key as { readonly name?: string | null };
  if (!name) throw new GatewayError('EG_MALFORMED', 'Name cannot be null!', { field: 'name' });
  if (name.length <= 128 && !name.includes('\0')) return name;
  const message = 'name must have at most 128 characters, NUL not among them.';
  throw new GatewayError('EG_MALFORMED', message, { field: 'name' });
}

const ById = Type.Object({ resourceGroupId: Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }) });
const warningText = 'The header Warning says what engines would stumble over as long as it is so.';

const tables: readonly Table[] = [
  {
    ...{ path: 'resourcegroup', name: 'ResourceGroup', title: 'resource group', row: reference(ResourceGroup) },
    ...{ params: GroupIdInPath, query: groupQuery },
    all: (store) => store.groups.all(),
    byKey: (key) => {
      const id = groupIdOf(key);
      const find = async (store: ResourceGroupStore) => [(await store.groups.get(id)) ?? []].flat();
      return { find, remove: (store) => deleteGroup(store, id) };
    },
    texts: {
      rows: 'The groups.',
      show: 'A list with it, or an empty one.',
      getOne: 'Shows a resource group',
      create: `Answers with the assigned id. ${warningText}`,
      update: `All columns are overwritten. ${warningText}`,
      delete: 'An unknown id is no error; a group that selectors or other groups refer to is (409).',
    },
    ...{ creation: groupCreation, update: groupUpdate },
    deletion: changeOf(ById, compileCheck(ById), (store, { resourceGroupId }) => deleteGroup(store, resourceGroupId)),
  },
  {
    ...{ path: 'selector', name: 'Selector', title: 'selector', row: reference(Selector) },
    ...{ params: GroupIdInPath, query: groupQuery },
    all: (store) => store.selectors.all(null),
    byKey: (key) => {
      const id = groupIdOf(key);
      return { find: (store) => store.selectors.all(id) };
    },
    texts: {
      rows: 'The selectors, highest priority first.',
      show: 'Those of a resource group.',
      getOne: 'Shows the first selector of a resource group',
      create: 'Without resourceGroupId it points to the newest group, which the answer and the header Warning name.',
      update: 'Every row equal to current in all columns becomes update; without one, update is created.',
      delete: 'Every row equal in all columns; none is no error.',
    },
    creation: changeOf(reference(SelectorCreate), parseSelectorCreate, async (store, selector) => ({
      ...{ kind: 'Selector', before: null, ...(await store.selectors.create(selector)) },
    })),
    update: selectorUpdate,
    deletion: changeOf(reference(SelectorMatch), parseSelectorMatch, async (store, selector) => {
      const count = await store.selectors.delete(selector);
      return { kind: 'Selector', before: count === 0 ? null : selector, row: null, warnings: [] };
    }),
  },
  {
    ...{ path: 'globalproperty', name: 'GlobalProperty', title: 'global property' },
    row: reference(StoredGlobalProperty),
    params: Type.Object({ name: textField('Name of the property.') }),
    query: checkedBody(Type.Object({ useSchema, name: Type.Optional(nullable(PropertyName)) })),
    all: (store) => store.properties.all(),
    byKey: (key) => {
      const name = propertyNameOf(key);
      const find = async (store: ResourceGroupStore) => [(await store.properties.get(name)) ?? []].flat();
      return { find, remove: (store) => deleteProperty(store, name) };
    },
    texts: {
      rows: 'The properties.',
      show: 'A list with it, or an empty one.',
      getOne: 'Shows a global property',
      create: 'One of that name is an error (409).',
      update: 'An unknown name is an error (404).',
      delete: 'An unknown name is no error.',
    },
    ...{ creation: propertyChange('create'), update: propertyChange('update') },
    deletion: changeOf(
      Type.Object({ name: GlobalProperty.properties.name }),
      compileCheck(Type.Object({ name: PropertyName })),
      (store, { name }) => deleteProperty(store, name),
    ),
  },
];

/** Kinds of rows in words. */
const words = {
  ResourceGroup: 'resource group',
  Selector: 'selector of resource group',
  GlobalProperty: 'global property',
} as const;

/**
 * Changes the tables of a database as a call asks, and records the change in the audit: a change of rows that a resource declares as
 * one of that resource.
 * @param database null: the gateway's own
 */
async function changeTables(
  stores: GroupTables,
  { request, reply }: Call,
  database: string | null,
  work: Work,
): Promise<GroupWrite> {
  const write = await stores.change(database, work, isForced(request));
  const { kind, before, row: after, resource } = write;
  const written = (after ?? before) as { readonly name: string; readonly resourceGroupId: number } | null;
  if (written !== null) {
    const name = kind === 'GlobalProperty' ? written.name : String(written.resourceGroupId);
    const where = resource === null ? '' : ` of ${resource.kind} ${resource.namespace}/${resource.name}`;
    const subject = resource === null ? { kind, name } : { kind: resource.kind, name: resource.name };
    const object = `${words[kind]} ${name}${where}`;
    recordChange(request, { object, subject, regarding: resource ?? 'gateway', before, after });
  }
  if (write.row !== null) warn(reply, write.warnings);
  return write;
}

const databaseOf = (query: unknown): string | null => (query as { readonly useSchema?: string }).useSchema ?? null;

/** Resource groups, selectors and global properties (docs/rest-api.md#resource-groups-selectors-global-properties). */
export function resourceGroupRoutes(api: ApiContext, stores: GroupTables): void {
  for (const { path, title, row, params, texts, ...table } of tables) {
    const many = title.replace(/y$/, 'ie').concat('s');
    const route = routes(api, many, 'anyType');
    const base = `/${api.names.pathSegment}/${path}`;
    const [parameter = ''] = Object.keys((params as { readonly properties?: object }).properties ?? {});
    const query = UseSchema;
    const errors = [404, 422, 503];
    const writeErrors = [403, 404, 409, 413, 422, 503];
    const rows = [texts.rows, Type.Array(row)] as const;

    route('GET', `${base}/read`, {
      ...{ summary: `Lists all ${many}`, query, returns: rows, errors },
      handle: async (call) => (await stores.use(databaseOf(call.query), table.all)).map(withoutNulls),
    });
    route('GET', `${base}/read/:${parameter}`, {
      ...{ summary: `Shows ${many}`, description: texts.show, params, query, returns: rows, errors },
      handle: async (call) => {
        const { find } = table.byKey(call.params as object);
        return (await stores.use(databaseOf(call.query), find)).map(withoutNulls);
      },
    });
    for (const [operation, verb, body] of [
      ['create', 'Creates', table.creation],
      ['update', path === 'selector' ? 'Changes' : 'Overwrites', table.update],
    ] as const) {
      route('POST', `${base}/${operation}`, {
        ...{ summary: `${verb} a ${title}`, description: texts[operation], query: WriteQuery, body },
        ...{ returns: [`The stored ${title}.`, row], errors: writeErrors },
        handle: async (call) => {
          const { row: stored } = await changeTables(stores, call, databaseOf(call.query), call.body);
          return withoutNulls(stored ?? {});
        },
      });
    }
    const isByKey = path !== 'selector';
    route<TSchema, typeof WriteQuery, Work>('POST', `${base}/delete${isByKey ? `/:${parameter}` : ''}`, {
      ...{ summary: `Deletes a ${title}`, description: texts.delete, query: WriteQuery },
      ...(isByKey ? { params } : { body: table.deletion }),
      ...{ returns: ['Deleted, or it was not there.', null], errors: writeErrors },
      handle: async (call) => {
        const { remove = call.body } = isByKey ? table.byKey(call.params as object) : {};
        await changeTables(stores, call, databaseOf(call.query), remove);
      },
    });
  }
}

/** Rows that resources declare (docs/rest-api.md#resource-groups-selectors-global-properties). */
export function declaredGroupsRoute(api: ApiContext, tables: GroupTables): void {
  routes(api, 'resource groups')('GET', '/api/resourcegroups/declared', {
    summary: 'Lists what resources declare of resource groups, selectors and global properties',
    description: `By ${RESOURCE_GROUP_CONFIGURATION} and environment. Rows that are not listed were written by calls alone.`,
    query: UseSchema,
    returns: ['By namespace, name and environment.', Type.Array(reference(DeclaredGroups))],
    hasTag: true,
    errors: [404, 422, 503],
    handle: ({ query }) => tables.of(query.useSchema || null),
  });
}

const WebappEnvelope = compileCheck(
  Type.Object({ useSchema, data: Type.Unknown(), oldData: Type.Optional(Type.Unknown()) }),
);

/** A change in the web application's envelope: `data`, and `oldData` if it has two sides; and the database. */
function enveloped(
  schema: TSchema,
  parse: (data: unknown, oldData: unknown) => Checked<Work>,
): CheckedBody<{ readonly database: string | null; readonly work: Work }> {
  return {
    schema,
    parse: (value) => {
      const envelope = WebappEnvelope(value);
      if (!envelope.ok) return envelope;
      const { useSchema: database, data, oldData } = envelope.value;
      const checked = parse(data, oldData);
      return checked.ok ? { ok: true, value: { database: database || null, work: checked.value } } : checked;
    },
  };
}

/** Renames the fields of problems. */
function renamed<T>(checked: Checked<T>, rename: (field: string) => string): Checked<T> {
  if (checked.ok) return checked;
  return {
    ok: false,
    problems: checked.problems.map(({ field, message }) => ({ field: rename(field), message })),
  };
}

const dataOf = ({ schema, parse }: CheckedBody<Work>) =>
  enveloped(Type.Object({ useSchema, data: schema }), (data) =>
    renamed(parse(data), (field) => (field === '' ? 'data' : `data.${field}`)),
  );

/** The web application's name of a field of `{current, update}`. */
const twoSided = (field: string) => field.replace(/^current\b/, 'oldData').replace(/^update\b/, 'data');

/** The change of a selector, of which the web application calls the two sides `oldData` and `data`. */
const webappSelectorUpdate = enveloped(
  Type.Object({ useSchema, data: reference(SelectorMatch), oldData: reference(SelectorMatch) }),
  (data, oldData) => {
    const checked = renamed(selectorUpdate.parse({ current: oldData, update: data }), twoSided);
    if (!checked.ok) return checked;
    const work: Work = (store) =>
      checked.value(store).catch((error: unknown) => {
        if (!(error instanceof GatewayError) || error.field === undefined) throw error;
        const { code, message, field, cause } = error;
        throw new GatewayError(code, twoSided(message), { field: twoSided(field), cause });
      });
    return { ok: true, value: work };
  },
);

/** The tables for the web application, every column kept (docs/rest-api.md#calls-of-the-web-application). */
export function webappGroupRoutes(api: ApiContext, stores: GroupTables): void {
  const route = routes(api, 'web application: resource groups', 'envelope');
  const errors = [404, 409, 422, 503];
  for (const { name, title, row, texts, query, all, byKey, creation, update, deletion } of tables) {
    const many = title.replace(/y$/, 'ie').concat('s');
    const body = { ...query, isOptional: true };
    route('POST', `/webapp/find${name}`, {
      ...{ summary: `Lists ${many}`, body, returns: ['What was found.', Type.Array(row)], errors },
      handle: async (call) => (await stores.use(call.body.useSchema || null, all)).map(withoutNulls),
    });
    route('POST', `/webapp/get${name}`, {
      ...{ summary: texts.getOne, body, returns: ['What was found.', row], errors },
      handle: async (call) => {
        const { find } = byKey(call.body);
        const [first] = await stores.use(call.body.useSchema || null, find);
        return first === undefined ? null : withoutNulls(first);
      },
    });
    for (const [operation, verb, change] of [
      ['save', 'Creates', dataOf(creation)],
      ['update', 'Changes', name === 'Selector' ? webappSelectorUpdate : dataOf(update)],
      ['delete', 'Deletes', dataOf(deletion)],
    ] as const) {
      route('POST', `/webapp/${operation}${name}`, {
        ...{ summary: `${verb} a ${title}`, query: Force, body: change, errors: [403, ...errors] },
        returns: ['What is stored now, or true.', operation === 'delete' ? Type.Literal(true) : row],
        handle: async (call) => {
          const { database, work } = call.body;
          const { row: stored } = await changeTables(stores, call, database, work);
          return stored === null ? true : withoutNulls(stored);
        },
      });
    }
  }
}

/** Exact-match source selectors, of the gateway's own database only (docs/rest-api.md#calls-of-the-web-application). */
export function exactSelectorRoutes(api: StoreContext): void {
  const { exactMatchSelectors: selectors } = api.store;
  const route = routes(api, 'web application: resource groups', 'envelope');

  route('POST', '/webapp/findExactMatchSourceSelector', {
    summary: 'Lists exact-match source selectors',
    returns: ['All of them.', Type.Array(reference(ExactMatchSelector))],
    errors: [503],
    handle: () => selectors.all(),
  });

  route('POST', '/webapp/saveExactMatchSourceSelector', {
    summary: 'Creates an exact-match source selector',
    body: checkedBody(reference(ExactMatchSelector), (value) => parseExactMatchSelector(value, api.clock.now())),
    returns: ['What is stored.', reference(ExactMatchSelector)],
    errors: [409, 422, 503],
    handle: async ({ request, body: selector }) => {
      await selectors.create(selector);
      const object = `exact-match selector of source ${selector.source}`;
      const subject = { kind: 'ExactMatchSelector', name: selector.source };
      recordChange(request, { object, subject, regarding: 'gateway', before: null, after: selector });
      return selector;
    },
  });
}

const types = ['GATEWAY_BACKEND', 'RESOURCE_GROUP', 'SELECTOR'] as const;
const EntityType = oneOf(types);

/** The entity editor's calls (docs/compatibility.md#entities); resource groups and selectors keep every column. */
export function entityRoutes(api: ApiContext, stores: GroupTables): void {
  const { registry, names } = api;
  const route = routes(api, 'entities', 'anyType');
  const { store: storeCluster } = registryWrites(api);
  const parseCluster = clusterParser(names);

  route('GET', '/entity', {
    summary: 'Lists the types of entities',
    returns: ['The types.', Type.Array(EntityType)],
    handle: () => types,
  });

  route('GET', '/entity/:entityType', {
    summary: 'Lists all entities of a type',
    params: Type.Object({ entityType: EntityType }),
    query: UseSchema,
    returns: [
      'The entities.',
      Type.Array(Type.Union([reference(RegistryCluster), reference(ResourceGroup), reference(Selector)])),
    ],
    errors: [404, 422, 503],
    handle: async ({ params: { entityType }, query }) => {
      if (entityType === 'GATEWAY_BACKEND') return registry.all();
      const rows = await stores.use<readonly object[]>(databaseOf(query), (store) =>
        entityType === 'SELECTOR' ? store.selectors.all(null) : store.groups.all(),
      );
      return rows.map(withoutNulls);
    },
  });

  route('POST', '/entity', {
    summary: 'Stores an entity',
    description:
      'GATEWAY_BACKEND: replaced, or added. RESOURCE_GROUP: overwritten where it has an id, created where not. SELECTOR: the first one of its group is overwritten, or one is created. Content-Type is ignored.',
    query: Type.Object({ entityType: EntityType, ...WriteQuery.properties }),
    body: checkedBody<unknown>(
      Type.Union([
        reference(RegistryClusterInput),
        reference(ResourceGroupCreate),
        reference(ResourceGroupUpdate),
        reference(SelectorMatch),
      ]),
      (value) => ({ ok: true, value }),
    ),
    returns: ['Stored.', null],
    errors: [403, 404, 409, 422, 503],
    handle: async (call) => {
      const { body, query } = call;
      if (query.entityType === 'GATEWAY_BACKEND') {
        await storeCluster('update', call, valid(parseCluster(body)));
        return;
      }
      const hasId = Boolean((body as { resourceGroupId?: unknown } | null)?.resourceGroupId);
      const group = hasId ? groupUpdate : groupCreation;
      const change = query.entityType === 'SELECTOR' ? firstSelector(body) : valid(group.parse(body));
      await changeTables(stores, call, databaseOf(query), change);
    },
  });
}

/** Overwrites the first selector of a group. Its texts are checked as the new side of a change: engines must load them. */
function firstSelector(body: unknown): Work {
  const checked = parseSelectorUpdate({ current: { resourceGroupId: 1 }, update: valid(parseSelectorMatch(body)) });
  const { update } = valid(renamed(checked, (field) => field.replace(/^update\./, '')));
  return async (store) => ({ kind: 'Selector', ...(await store.selectors.replaceFirst(update)) });
}
