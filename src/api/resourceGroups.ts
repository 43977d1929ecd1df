import { type TSchema, Type } from 'typebox';
import { RESOURCE_GROUP_CONFIGURATION } from '../kinds/resourceGroupConfiguration/spec.ts';
import { GatewayError } from '../model/errors.ts';
import { ExactMatchSelector, parseExactMatchSelector } from '../model/exactMatchSelector.ts';
import { GlobalProperty, parseGlobalProperty, StoredGlobalProperty } from '../model/globalProperty.ts';
import type { GroupRows, StoredTables } from '../model/groupsFile/storedGroups.ts';
import { clusterParser, RegistryCluster, RegistryClusterInput } from '../model/registryCluster.ts';
import { groupBodies, ResourceGroup } from '../model/resourceGroup.ts';
import { Selector, selectorBodies } from '../model/selector.ts';
import { type Checked, compileCheck } from '../model/validation.ts';
import type { GroupTables } from '../operator/registry/groupWrites.ts';
import { groupChanges, propertyChanges, type RowDecision, selectorChanges } from '../store/resourceGroupChanges.ts';
import type { ApiContext, StoreContext } from './apiContext.ts';
import { isForced } from './auth/guard.ts';
import { DeclaredGroups } from './clusters.ts';
import { registryWrites } from './registry.ts';
import { type Call, type CheckedBody, checkedBody, routes, valid } from './routes.ts';
import { Force, nullable, oneOf, reference, textField, withoutNulls } from './schemas.ts';
import { warn } from './writes.ts';

/** Fields that select rows, in paths and bodies. */
const titles = { resourceGroupId: 'Id of the resource group.', name: 'Name of the property.' };
const keys = {
  resourceGroupId: Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER, description: titles.resourceGroupId }),
  name: Type.String({ maxLength: 128, pattern: '^[^\\x00]*$', description: titles.name }),
};

/** One of the three tables: its calls are the same below the product's path and for the web application. */
interface Table {
  /** Name in paths of the web application; in lower case in those below the product's path. */
  readonly name: ReturnType<RowDecision>['kind'];
  readonly title: string;
  readonly rows: keyof GroupRows;
  readonly row: TSchema;
  readonly key: keyof typeof keys;
  readonly texts: Readonly<Record<'create' | 'update' | 'delete', string>>;
  readonly changes: Readonly<Record<'create' | 'update' | 'delete', CheckedBody<RowDecision>>>;
}

const isNamed = (schema: TSchema): schema is TSchema & { $id: string } => '$id' in schema;

function changeOf<T>(
  { schema, parse }: CheckedBody<T>,
  decide: (present: StoredTables, change: T) => ReturnType<RowDecision>,
): CheckedBody<RowDecision> {
  const decisionOf = (checked: Checked<T>): Checked<RowDecision> =>
    checked.ok ? { ok: true, value: (present) => decide(present, checked.value) } : checked;
  return { schema: isNamed(schema) ? reference(schema) : schema, parse: (value) => decisionOf(parse(value)) };
}

const otherDatabase = "Another database of the gateway's database server; its own when absent.";
const useSchema = Type.Optional(nullable(Type.String(), otherDatabase));
const UseSchema = Type.Object({ useSchema: Type.Optional(textField(otherDatabase)) });
const WriteQuery = Type.Object({ ...UseSchema.properties, ...Force.properties });

const ById = checkedBody(Type.Object({ resourceGroupId: keys.resourceGroupId }));
const ByName = checkedBody(Type.Object({ name: keys.name }));

/** The key of a path or a body, as a checked object. @throws GatewayError EG_MALFORMED */
function keyOf(field: keyof typeof keys, values: unknown): Readonly<Record<string, unknown>> {
  const value = (values as Readonly<Record<string, unknown>>)[field] ?? '';
  const message = `${field.charAt(0).toUpperCase()}${field.slice(1)} cannot be null!`;
  if (value === '') throw new GatewayError('EG_MALFORMED', message, { field });
  const isNumber = field === 'resourceGroupId' && /^\d+$/.test(String(value));
  const parse = field === 'name' ? ByName.parse : ById.parse;
  return valid<Readonly<Record<string, unknown>>>(parse({ [field]: isNumber ? Number(value) : value }));
}

const warningText = 'The header Warning says what engines would stumble over as long as it is so.';

const ofGroups = {
  create: changeOf(groupBodies.create, groupChanges.create),
  update: changeOf(groupBodies.update, groupChanges.update),
  delete: changeOf(ById, groupChanges.delete),
};
const tables: readonly Table[] = [
  {
    ...{ name: 'ResourceGroup', title: 'resource group', rows: 'groups' },
    ...{ row: reference(ResourceGroup), key: 'resourceGroupId' },
    texts: {
      create: `Answers with the assigned id. ${warningText}`,
      update: `All columns are overwritten. ${warningText}`,
      delete: 'An unknown id is no error; a group that selectors or other groups refer to is (409).',
    },
    changes: ofGroups,
  },
  {
    ...{ name: 'Selector', title: 'selector', rows: 'selectors', row: reference(Selector), key: 'resourceGroupId' },
    texts: {
      create: 'Without resourceGroupId it points to the newest group, which the answer and the header Warning name.',
      update: 'Every row equal to current in all columns becomes update; without one, update is created.',
      delete: 'Every row equal in all columns; none is no error.',
    },
    changes: {
      create: changeOf(selectorBodies.create, selectorChanges.create),
      update: changeOf(selectorBodies.update, selectorChanges.update),
      delete: changeOf(selectorBodies.delete, selectorChanges.delete),
    },
  },
  {
    ...{ name: 'GlobalProperty', title: 'global property', rows: 'properties' },
    ...{ row: reference(StoredGlobalProperty), key: 'name' },
    texts: {
      create: 'One of that name is an error (409).',
      update: 'An unknown name is an error (404).',
      delete: 'An unknown name is no error.',
    },
    changes: {
      create: changeOf({ schema: GlobalProperty, parse: parseGlobalProperty }, propertyChanges.create),
      update: changeOf({ schema: GlobalProperty, parse: parseGlobalProperty }, propertyChanges.update),
      delete: changeOf(ByName, propertyChanges.delete),
    },
  },
];

/**
 * Changes the tables of a database as a call asks, and records the change in the audit: a change of rows that a resource declares as
 * one of that resource. Returns the stored row; null: it is deleted.
 * @param database null: the gateway's own
 */
async function changeTables(
  stores: GroupTables,
  { request, reply }: Call,
  database: string | null,
  decide: RowDecision,
): Promise<object | null> {
  const { kind, before, row, warnings, resource } = await stores.change(database, decide, isForced(request));
  const changed = row ?? before;
  if (changed !== null) {
    const name = 'resourceGroupId' in changed ? String(changed.resourceGroupId) : changed.name;
    const title = kind === 'Selector' ? 'selector of resource group' : tables.find((each) => each.name === kind)?.title;
    const where = resource === null ? '' : ` of ${resource.kind} ${resource.namespace}/${resource.name}`;
    const subject = resource === null ? { kind, name } : { kind: resource.kind, name: resource.name };
    const object = `${title} ${name}${where}`;
    request.changes.push({ object, subject, regarding: resource ?? 'gateway', before, after: row });
  }
  if (row === null) return null;
  warn(reply, warnings);
  return withoutNulls(row);
}

const databaseOf = (query: unknown): string | null => (query as { readonly useSchema?: string }).useSchema ?? null;
/** The database of a body, where an empty name is the gateway's own. */
const schemaOf = (body: unknown): string | null => databaseOf(body) || null;

/** Finds rows of a table. @param of path or body with the key of the rows; null: all */
async function rowsOf({ rows: table, key }: Table, stores: GroupTables, database: string | null, of: unknown) {
  const wanted = of === null ? {} : keyOf(key, of);
  const rows = (await stores.list(database, table)) as readonly Readonly<Record<string, unknown>>[];
  return rows.filter((row) => row[key] === (wanted[key] ?? row[key])).map(withoutNulls);
}

const verbs = { create: 'Creates', update: 'Changes', delete: 'Deletes' };
const plural = (title: string) => title.replace(/y$/, 'ie').concat('s');

/** Resource groups, selectors and global properties (docs/rest-api.md#resource-groups-selectors-global-properties). */
export function resourceGroupRoutes(api: ApiContext, stores: GroupTables): void {
  for (const table of tables) {
    const { name, title, row, key, texts, changes } = table;
    const route = routes(api, plural(title), 'anyType');
    const base = `/${api.names.pathSegment}/${name.toLowerCase()}`;
    const params = Type.Object({ [key]: textField(titles[key]) });
    const one = { params, summary: `Shows ${plural(title)}`, description: 'An unknown one gives an empty list.' };
    for (const more of [{ summary: `Lists all ${plural(title)}` }, one]) {
      const isOne = more === one;
      route<TSchema, typeof UseSchema, unknown>('GET', `${base}/read${isOne ? `/:${key}` : ''}`, {
        ...{ ...more, query: UseSchema, returns: ['What was found.', Type.Array(row)], errors: [404, 422, 503] },
        handle: (call) => rowsOf(table, stores, databaseOf(call.query), isOne ? call.params : null),
      });
    }
    for (const operation of ['create', 'update', 'delete'] as const) {
      const isDeletion = operation === 'delete';
      const isByKey = isDeletion && name !== 'Selector';
      const body = changes[operation];
      route<TSchema, typeof WriteQuery, RowDecision>('POST', `${base}/${operation}${isByKey ? `/:${key}` : ''}`, {
        ...{ summary: `${verbs[operation]} a ${title}`, description: texts[operation], query: WriteQuery },
        ...(isByKey ? { params } : { body }),
        returns: isDeletion ? ['Deleted, or it was not there.', null] : [`The stored ${title}.`, row],
        errors: [403, 404, 409, 413, 422, 503],
        handle: async (call) => {
          const decide = isByKey ? valid(body.parse(keyOf(key, call.params))) : call.body;
          return (await changeTables(stores, call, databaseOf(call.query), decide)) ?? undefined;
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

const match = reference(selectorBodies.delete.schema);
const checkEnvelope = compileCheck(
  Type.Object({ useSchema, data: Type.Unknown(), oldData: Type.Optional(Type.Unknown()) }),
);

/**
 * A change in the web application's envelope: `data`; of a selector also `oldData`, which are the two sides of the change.
 * @param hasSides true for the change of a selector
 */
function enveloped(
  { schema, parse }: CheckedBody<RowDecision>,
  hasSides: boolean,
): CheckedBody<readonly [database: string | null, decide: RowDecision]> {
  const fieldOf = (field: string): string => {
    if (hasSides) return field.replace(/^current\b/, 'oldData').replace(/^update\b/, 'data');
    return field === '' ? 'data' : `data.${field}`;
  };
  return {
    schema: Type.Object({ useSchema, ...(hasSides ? { data: match, oldData: match } : { data: schema }) }),
    parse: (value) => {
      const envelope = checkEnvelope(value);
      if (!envelope.ok) return envelope;
      const { data, oldData } = envelope.value;
      const checked = parse(hasSides ? { current: oldData, update: data } : data);
      if (checked.ok) return { ok: true, value: [schemaOf(value), checked.value] };
      return { ok: false, problems: checked.problems.map((each) => ({ ...each, field: fieldOf(each.field) })) };
    },
  };
}

/** The tables for the web application, every column kept (docs/rest-api.md#calls-of-the-web-application). */
export function webappGroupRoutes(api: StoreContext, stores: GroupTables): void {
  const route = routes(api, 'web application: resource groups', 'envelope');
  const errors = [404, 409, 422, 503];
  for (const table of tables) {
    const { name, title, row, key, changes } = table;
    const query = Type.Object({ useSchema, [key]: Type.Optional(nullable(keys[key])) });
    const body = { ...checkedBody<unknown>(query, compileCheck(query)), isOptional: true };
    route('POST', `/webapp/find${name}`, {
      ...{ summary: `Lists ${plural(title)}`, body, returns: ['What was found.', Type.Array(row)], errors },
      handle: (call) => rowsOf(table, stores, schemaOf(call.body), null),
    });
    route('POST', `/webapp/get${name}`, {
      ...{ summary: `Shows the first ${title} of what is asked for`, body, returns: ['What was found.', row], errors },
      handle: async (call) => (await rowsOf(table, stores, schemaOf(call.body), call.body))[0] ?? null,
    });
    const hasSides = name === 'Selector';
    const sides = changeOf(selectorBodies.update, (...of) => selectorChanges.update(...of, 'data.'));
    for (const [operation, verb, change] of [
      ['save', 'Creates', enveloped(changes.create, false)],
      ['update', 'Changes', enveloped(hasSides ? sides : changes.update, hasSides)],
      ['delete', 'Deletes', enveloped(changes.delete, false)],
    ] as const) {
      route('POST', `/webapp/${operation}${name}`, {
        ...{ summary: `${verb} a ${title}`, query: Force, body: change, errors: [403, ...errors] },
        returns: ['What is stored now, or true.', operation === 'delete' ? Type.Literal(true) : row],
        handle: async (call) => (await changeTables(stores, call, ...call.body)) ?? true,
      });
    }
  }

  // Of the gateway's own database only.
  const { exactMatchSelectors: selectors } = api.store;
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
      request.changes.push({ object, subject, regarding: 'gateway', before: null, after: selector });
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
      const rows = await stores.list(databaseOf(query), entityType === 'SELECTOR' ? 'selectors' : 'groups');
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
        reference(groupBodies.create.schema),
        reference(groupBodies.update.schema),
        match,
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
      const group = hasId ? ofGroups.update : ofGroups.create;
      const decide = query.entityType === 'SELECTOR' ? firstSelector(body) : valid(group.parse(body));
      await changeTables(stores, call, databaseOf(query), decide);
    },
  });
}

/** Overwrites the first selector of a group. Its texts are checked as those of a new one: engines must load them. */
function firstSelector(body: unknown): RowDecision {
  const { id: _id, ...selector } = valid(selectorBodies.delete.parse(body));
  valid(selectorBodies.create.parse(selector));
  return (present) => selectorChanges.replaceFirst(present, selector);
}
