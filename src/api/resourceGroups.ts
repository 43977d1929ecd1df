import { type TSchema, Type } from 'typebox';
import { RESOURCE_GROUP_CONFIGURATION } from '../kinds/resourceGroupConfiguration/spec.ts';
import { GatewayError } from '../model/errors.ts';
import { ExactMatchSelector, parseExactMatchSelector } from '../model/exactMatchSelector.ts';
import { GlobalProperty, parseGlobalProperty, StoredGlobalProperty } from '../model/globalProperty.ts';
import { contradictions } from '../model/groupsFile/groupFields.ts';
import { clusterParser, RegistryCluster, RegistryClusterInput } from '../model/registryCluster.ts';
import {
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

/** The key of rows, as a path or a body has it. */
type Key = { readonly resourceGroupId: number; readonly name: string };

/** One of the three tables: its calls are the same below the product's path and for the web application. */
interface Table {
  /** Name in paths of the web application; in lower case in those below the product's path. */
  readonly name: GroupWrite['kind'];
  readonly title: string;
  readonly row: TSchema;
  /** Field of the path and of queries that selects rows. */
  readonly key: keyof Key;
  /** False: rows are deleted by what is sent. */
  readonly isDeletedByKey: boolean;
  /** @param key null: all rows */
  find(store: ResourceGroupStore, key: Key | null): Promise<readonly object[]>;
  readonly texts: Readonly<Record<'rows' | 'create' | 'update' | 'delete', string>>;
  readonly creation: CheckedBody<Work>;
  readonly update: CheckedBody<Work>;
  readonly deletion: CheckedBody<Work>;
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

const titles = { resourceGroupId: 'Id of the resource group.', name: 'Name of the property.' };
const Id = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER, description: titles.resourceGroupId });
const Name = Type.String({ maxLength: 128, pattern: '^[^\\x00]*$', description: titles.name });
const ById = Type.Object({ resourceGroupId: Id });
const ByName = Type.Object({ name: Name });
const checkKey = { resourceGroupId: compileCheck(ById), name: compileCheck(ByName) };

/** The key of a path or a query. @throws GatewayError EG_MALFORMED */
function keyOf(field: keyof Key, values: unknown): Key {
  const value = (values as Readonly<Record<string, string | number | null | undefined>>)[field];
  if (value === undefined || value === null || value === '') {
    const message = `${field.charAt(0).toUpperCase()}${field.slice(1)} cannot be null!`;
    throw new GatewayError('EG_MALFORMED', message, { field });
  }
  const isNumber = field === 'resourceGroupId' && /^\d+$/.test(String(value));
  return valid(checkKey[field]({ [field]: isNumber ? Number(value) : value }) as Checked<unknown>) as Key;
}

/** The group, unless its fields contradict each other. @throws GatewayError EG_IMPOSSIBLE */
function loadable<T extends ResourceGroupColumns>(group: T): T {
  const [first] = contradictions(group);
  if (first === undefined) return group;
  throw new GatewayError('EG_IMPOSSIBLE', `${first.field} ${first.message}.`, { field: first.field });
}

const groupCreation = changeOf(reference(ResourceGroupCreate), parseResourceGroupCreate, ({ groups }, columns) =>
  groups.create(loadable(columns)),
);
const groupUpdate = changeOf(reference(ResourceGroupUpdate), parseResourceGroupUpdate, ({ groups }, row) =>
  groups.update(loadable(row)),
);
/** @param prefix of the fields of the new side in messages */
const selectorUpdate = (prefix: string) =>
  changeOf(reference(SelectorUpdate), parseSelectorUpdate, ({ selectors }, { current, update }) =>
    selectors.update(current, update, prefix),
  );
const propertyChange = (operation: 'create' | 'update') =>
  changeOf(reference(GlobalProperty), parseGlobalProperty, ({ properties }, row) => properties[operation](row));
const warningText = 'The header Warning says what engines would stumble over as long as it is so.';

const tables: readonly Table[] = [
  {
    ...{ name: 'ResourceGroup', title: 'resource group', row: reference(ResourceGroup) },
    ...{ key: 'resourceGroupId', isDeletedByKey: true },
    find: async ({ groups }, key) =>
      (await groups.all()).filter(({ resourceGroupId: id }) => id === (key?.resourceGroupId ?? id)),
    texts: {
      rows: 'The groups.',
      create: `Answers with the assigned id. ${warningText}`,
      update: `All columns are overwritten. ${warningText}`,
      delete: 'An unknown id is no error; a group that selectors or other groups refer to is (409).',
    },
    ...{ creation: groupCreation, update: groupUpdate },
    deletion: changeOf(ById, checkKey.resourceGroupId, ({ groups }, key) => groups.delete(key.resourceGroupId)),
  },
  {
    ...{ name: 'Selector', title: 'selector', row: reference(Selector) },
    ...{ key: 'resourceGroupId', isDeletedByKey: false },
    find: ({ selectors }, key) => selectors.all(key?.resourceGroupId ?? null),
    texts: {
      rows: 'The selectors, highest priority first.',
      create: 'Without resourceGroupId it points to the newest group, which the answer and the header Warning name.',
      update: 'Every row equal to current in all columns becomes update; without one, update is created.',
      delete: 'Every row equal in all columns; none is no error.',
    },
    creation: changeOf(reference(SelectorCreate), parseSelectorCreate, ({ selectors }, row) => selectors.create(row)),
    update: selectorUpdate('update.'),
    deletion: changeOf(reference(SelectorMatch), parseSelectorMatch, async (store, selector) => {
      const count = await store.selectors.delete(selector);
      return { kind: 'Selector', before: count === 0 ? null : selector, row: null, warnings: [] };
    }),
  },
  {
    ...{ name: 'GlobalProperty', title: 'global property', row: reference(StoredGlobalProperty) },
    ...{ key: 'name', isDeletedByKey: true },
    find: async ({ properties }, key) => (await properties.all()).filter(({ name }) => name === (key?.name ?? name)),
    texts: {
      rows: 'The properties.',
      create: 'One of that name is an error (409).',
      update: 'An unknown name is an error (404).',
      delete: 'An unknown name is no error.',
    },
    ...{ creation: propertyChange('create'), update: propertyChange('update') },
    deletion: changeOf(ByName, checkKey.name, ({ properties }, { name }) => properties.delete(name)),
  },
];

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
/** The database of a body, where an empty name is the gateway's own. */
const schemaOf = (body: unknown): string | null => databaseOf(body) || null;

/** Finds rows of a table. @param key null: all */
async function rowsOf({ find }: Table, stores: GroupTables, database: string | null, key: Key | null) {
  return (await stores.use(database, (store) => find(store, key))).map(withoutNulls);
}

const plural = (title: string) => title.replace(/y$/, 'ie').concat('s');

/** Resource groups, selectors and global properties (docs/rest-api.md#resource-groups-selectors-global-properties). */
export function resourceGroupRoutes(api: ApiContext, stores: GroupTables): void {
  for (const table of tables) {
    const { name, title, row, key, texts, isDeletedByKey } = table;
    const route = routes(api, plural(title), 'anyType');
    const base = `/${api.names.pathSegment}/${name.toLowerCase()}`;
    const params = Type.Object({ [key]: textField(titles[key]) });
    const one = { params, summary: `Shows ${plural(title)}`, description: 'An unknown one gives an empty list.' };
    for (const [path, more] of [
      [`${base}/read`, { summary: `Lists all ${plural(title)}` }],
      [`${base}/read/:${key}`, one],
    ] as const) {
      route<TSchema, typeof UseSchema, unknown>('GET', path, {
        ...{ ...more, query: UseSchema, returns: [texts.rows, Type.Array(row)], errors: [404, 422, 503] },
        handle: ({ params: sentParams, query }) =>
          rowsOf(table, stores, databaseOf(query), more === one ? keyOf(key, sentParams) : null),
      });
    }
    for (const [operation, verb, body] of [
      ['create', 'Creates', table.creation],
      ['update', name === 'Selector' ? 'Changes' : 'Overwrites', table.update],
      ['delete', 'Deletes', table.deletion],
    ] as const) {
      const isDeletion = operation === 'delete';
      const isByKey = isDeletion && isDeletedByKey;
      route<TSchema, typeof WriteQuery, Work>('POST', `${base}/${operation}${isByKey ? `/:${key}` : ''}`, {
        ...{ summary: `${verb} a ${title}`, description: texts[operation], query: WriteQuery },
        ...(isByKey ? { params } : { body }),
        returns: isDeletion ? ['Deleted, or it was not there.', null] : [`The stored ${title}.`, row],
        errors: [403, 404, 409, 413, 422, 503],
        handle: async (call) => {
          const work = isByKey ? valid(body.parse(keyOf(key, call.params))) : call.body;
          const { row: stored } = await changeTables(stores, call, databaseOf(call.query), work);
          return stored === null ? undefined : withoutNulls(stored);
        },
      });
    }
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

const match = reference(SelectorMatch);

/**
 * A change in the web application's envelope: `data`; of a selector also `oldData`, which are the two sides of the change.
 * @param hasSides true for the change of a selector
 */
function enveloped(
  { schema, parse }: CheckedBody<Work>,
  hasSides = false,
): CheckedBody<{ readonly database: string | null; readonly work: Work }> {
  const fieldOf = (field: string): string => {
    if (hasSides) return field.replace(/^current\b/, 'oldData').replace(/^update\b/, 'data');
    return field === '' ? 'data' : `data.${field}`;
  };
  return {
    schema: Type.Object({ useSchema, ...(hasSides ? { data: match, oldData: match } : { data: schema }) }),
    parse: (value) => {
      const envelope = WebappEnvelope(value);
      if (!envelope.ok) return envelope;
      const { data, oldData } = envelope.value;
      const checked = parse(hasSides ? { current: oldData, update: data } : data);
      if (checked.ok) return { ok: true, value: { database: schemaOf(value), work: checked.value } };
      return { ok: false, problems: checked.problems.map((each) => ({ ...each, field: fieldOf(each.field) })) };
    },
  };
}

/** The tables for the web application, every column kept (docs/rest-api.md#calls-of-the-web-application). */
export function webappGroupRoutes(api: ApiContext, stores: GroupTables): void {
  const route = routes(api, 'web application: resource groups', 'envelope');
  const errors = [404, 409, 422, 503];
  for (const table of tables) {
    const { name, title, row, key, creation, update, deletion } = table;
    const query = Type.Object({ useSchema, [key]: Type.Optional(nullable(key === 'name' ? Name : Id)) });
    const body = { ...checkedBody<Readonly<Record<string, unknown>>>(query, compileCheck(query)), isOptional: true };
    route('POST', `/webapp/find${name}`, {
      ...{ summary: `Lists ${plural(title)}`, body, returns: ['What was found.', Type.Array(row)], errors },
      handle: (call) => rowsOf(table, stores, schemaOf(call.body), null),
    });
    route('POST', `/webapp/get${name}`, {
      ...{ summary: `Shows the first ${title} of what is asked for`, body, returns: ['What was found.', row], errors },
      handle: async (call) => (await rowsOf(table, stores, schemaOf(call.body), keyOf(key, call.body)))[0] ?? null,
    });
    for (const [operation, verb, change] of [
      ['save', 'Creates', enveloped(creation)],
      ['update', 'Changes', name === 'Selector' ? enveloped(selectorUpdate('data.'), true) : enveloped(update)],
      ['delete', 'Deletes', enveloped(deletion)],
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

/** Overwrites the first selector of a group. Its texts are checked as those of a new one: engines must load them. */
function firstSelector(body: unknown): Work {
  const { id: _id, ...selector } = valid(parseSelectorMatch(body));
  valid(parseSelectorCreate(selector));
  return ({ selectors }) => selectors.replaceFirst(selector);
}
