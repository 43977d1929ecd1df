import type { FastifyInstance, FastifyRequest } from 'fastify';
import { type TSchema, Type } from 'typebox';
import { GatewayError } from '../../model/errors.ts';
import { GlobalProperty, parseGlobalProperty, StoredGlobalProperty } from '../../model/globalProperty.ts';
import {
  parseResourceGroupCreate,
  parseResourceGroupUpdate,
  ResourceGroup,
  ResourceGroupCreate,
  ResourceGroupUpdate,
} from '../../model/resourceGroup.ts';
import {
  parseSelectorCreate,
  parseSelectorMatch,
  parseSelectorUpdate,
  Selector,
  SelectorCreate,
  SelectorMatch,
} from '../../model/selector.ts';
import { type Checked, compileCheck } from '../../model/validation.ts';
import type { ResourceGroupStore, Written } from '../../store/resourceGroupStore.ts';
import type { SchemaStores } from '../../store/schemaStores.ts';
import { malformed, requireLoadable } from '../errors.ts';
import { bodyIsOptional } from '../openapi.ts';
import { reference, withoutNulls } from '../schemas.ts';
import { warn } from '../warnings.ts';
import { auditedGroups } from '../writes/auditedGroups.ts';
import { type EnvelopeRoutes, envelopeErrors, failureAnswers, sent, succeed, successAnswer } from './envelope.ts';

/** Dependencies of the resource group calls. */
export interface WebappResourceGroupRoutes extends EnvelopeRoutes {
  readonly stores: SchemaStores;
}

const useSchema = Type.Optional(
  Type.Union([Type.String(), Type.Null()], { description: 'Another database of the server; empty means none.' }),
);
const GroupQuery = Type.Object({
  useSchema,
  resourceGroupId: Type.Optional(
    Type.Union([Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }), Type.Null()]),
  ),
});
const PropertyQuery = Type.Object({
  useSchema,
  name: Type.Optional(Type.Union([Type.String({ maxLength: 128, pattern: '^[^\\x00]*$' }), Type.Null()])),
});
const Change = Type.Object({ useSchema, data: Type.Unknown(), oldData: Type.Optional(Type.Unknown()) });
const ById = Type.Object({ resourceGroupId: Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }) });
const checkGroupQuery = compileCheck(GroupQuery);
const checkPropertyQuery = compileCheck(PropertyQuery);
const checkChange = compileCheck(Change);
const checkId = compileCheck(ById);

const tags = ['web application: resource groups'];
const errors = failureAnswers(400, 404, 409, 413, 415, 422, 503);

/** Resource groups, selectors and global properties for the web application, every column kept. */
export async function webappResourceGroupRoutes(
  app: FastifyInstance,
  options: WebappResourceGroupRoutes,
): Promise<void> {
  envelopeErrors(app, options);
  const use = <T>(
    request: FastifyRequest,
    schema: string | null | undefined,
    work: (store: ResourceGroupStore) => Promise<T>,
  ): Promise<T> => options.stores.use(schema || null, (store) => work(auditedGroups(store, request)));

  /** A call that reads: `data` is what it finds, without null fields. */
  const read = <Q extends { readonly useSchema?: string | null }>(
    [call, summary]: readonly [string, string],
    [body, parse]: readonly [TSchema, (value: unknown) => Checked<Q>],
    data: TSchema,
    find: (store: ResourceGroupStore, query: Q) => Promise<readonly object[] | object | null>,
  ) =>
    app.post(
      `/webapp/${call}`,
      {
        schema: {
          tags,
          summary,
          ...bodyIsOptional,
          body,
          response: { 200: successAnswer('What was found.', data), ...errors },
        },
      },
      async (request, reply) => {
        const query = sent(request, parse);
        const found = await use(request, query.useSchema, (store) => find(store, query));
        if (found === null) return succeed(reply);
        return succeed(reply, Array.isArray(found) ? found.map(withoutNulls) : withoutNulls(found));
      },
    );

  /** A call that writes: `data` (and `oldData`) are checked before the database sees them. */
  const write = <D>(
    [call, summary]: readonly [string, string],
    body: TSchema,
    data: TSchema,
    parse: (data: unknown, oldData: unknown) => Checked<D>,
    change: (store: ResourceGroupStore, data: D) => Promise<Written<object> | true>,
  ) =>
    app.post(
      `/webapp/${call}`,
      {
        schema: {
          tags,
          summary,
          body,
          response: { 200: successAnswer('What is stored now, or true.', data), ...errors },
        },
      },
      async (request, reply) => {
        const envelope = sent(request, checkChange);
        const checked = parse(envelope.data, envelope.oldData);
        if (!checked.ok) throw malformed(checked.problems);
        const done = await use(request, envelope.useSchema, (store) => change(store, checked.value));
        if (done === true) return succeed(reply, true);
        return succeed(warn(reply, done.warnings), withoutNulls(done.row));
      },
    );

  const changeOf = (data: TSchema) => Type.Object({ useSchema, data });
  const yes = Type.Literal(true);
  const groups = [GroupQuery, checkGroupQuery] as const;
  const properties = [PropertyQuery, checkPropertyQuery] as const;

  read(['findResourceGroup', 'Lists resource groups'], groups, Type.Array(reference(ResourceGroup)), (store) =>
    store.groups.all(),
  );
  read(['getResourceGroup', 'Shows a resource group'], groups, reference(ResourceGroup), (store, query) =>
    store.groups.get(required(query.resourceGroupId)),
  );
  write(
    ['saveResourceGroup', 'Creates a resource group'],
    changeOf(reference(ResourceGroupCreate)),
    reference(ResourceGroup),
    (data) => within('data', parseResourceGroupCreate(data)),
    async (store, group) => {
      requireLoadable(group);
      return store.groups.create(group);
    },
  );
  write(
    ['updateResourceGroup', 'Overwrites a resource group'],
    changeOf(reference(ResourceGroupUpdate)),
    reference(ResourceGroup),
    (data) => within('data', parseResourceGroupUpdate(data)),
    async (store, group) => {
      requireLoadable(group);
      return store.groups.update(group);
    },
  );
  write(
    ['deleteResourceGroup', 'Deletes a resource group'],
    changeOf(ById),
    yes,
    (data) => within('data', checkId(data)),
    async (store, { resourceGroupId }) => {
      await store.groups.delete(resourceGroupId);
      return true;
    },
  );

  read(['findSelector', 'Lists selectors'], groups, Type.Array(reference(Selector)), (store) =>
    store.selectors.all(null),
  );
  read(
    ['getSelector', 'Shows the first selector of a resource group'],
    groups,
    reference(Selector),
    async (store, query) => {
      const [first] = await store.selectors.all(required(query.resourceGroupId));
      return first ?? null;
    },
  );
  write(
    ['saveSelector', 'Creates a selector'],
    changeOf(reference(SelectorCreate)),
    reference(Selector),
    (data) => within('data', parseSelectorCreate(data)),
    (store, selector) => store.selectors.create(selector),
  );
  write(
    ['updateSelector', 'Changes a selector'],
    Type.Object({ useSchema, data: reference(SelectorMatch), oldData: reference(SelectorMatch) }),
    reference(Selector),
    (data, oldData) => renamed(parseSelectorUpdate({ current: oldData, update: data })),
    async (store, { current, update }) => {
      try {
        return await store.selectors.update(current, update);
      } catch (error) {
        throw error instanceof GatewayError ? renamedError(error) : error;
      }
    },
  );
  write(
    ['deleteSelector', 'Deletes a selector'],
    changeOf(reference(SelectorMatch)),
    yes,
    (data) => within('data', parseSelectorMatch(data)),
    async (store, selector) => {
      await store.selectors.delete(selector);
      return true;
    },
  );

  read(
    ['findGlobalProperty', 'Lists global properties'],
    properties,
    Type.Array(reference(StoredGlobalProperty)),
    (store) => store.properties.all(),
  );
  read(
    ['getGlobalProperty', 'Shows a global property'],
    properties,
    reference(StoredGlobalProperty),
    (store, { name }) => {
      if (!name) throw new GatewayError('EG_MALFORMED', 'Name cannot be null!', { field: 'name' });
      return store.properties.get(name);
    },
  );
  for (const [call, operation, summary] of [
    ['saveGlobalProperty', 'create', 'Creates a global property'],
    ['updateGlobalProperty', 'update', 'Overwrites a global property'],
  ] as const) {
    write(
      [call, summary],
      changeOf(reference(GlobalProperty)),
      reference(StoredGlobalProperty),
      (data) => within('data', parseGlobalProperty(data)),
      async (store, property) => {
        await store.properties[operation](property);
        return { row: property, warnings: [] };
      },
    );
  }
  write(
    ['deleteGlobalProperty', 'Deletes a global property'],
    changeOf(Type.Object({ name: GlobalProperty.properties.name })),
    yes,
    (data) => within('data', checkName(data)),
    async (store, { name }) => {
      await store.properties.delete(name);
      return true;
    },
  );
}

const checkName = compileCheck(Type.Object({ name: Type.String({ maxLength: 128, pattern: '^[^\\x00]*$' }) }));

function required(resourceGroupId: number | null | undefined): number {
  if (resourceGroupId != null) return resourceGroupId;
  throw new GatewayError('EG_MALFORMED', 'ResourceGroupId cannot be null!', { field: 'resourceGroupId' });
}

/** Puts the envelope's field before the path of every problem. */
function within<T>(prefix: string, checked: Checked<T>): Checked<T> {
  if (checked.ok) return checked;
  return {
    ok: false,
    problems: checked.problems.map(({ field, message }) => ({
      field: field === '' ? prefix : `${prefix}.${field}`,
      message,
    })),
  };
}

/** The web application's name of a field of `{current, update}`. */
function fieldOfEnvelope(field: string): string {
  return field.replace(/^current\b/, 'oldData').replace(/^update\b/, 'data');
}

/** The web application's names for the two sides of a change. */
function renamed<T>(checked: Checked<T>): Checked<T> {
  if (checked.ok) return checked;
  const problems = checked.problems.map(({ field, message }) => ({ field: fieldOfEnvelope(field), message }));
  return { ok: false, problems };
}

function renamedError({ code, message, field, retryAfterSeconds, cause }: GatewayError): GatewayError {
  return new GatewayError(code, fieldOfEnvelope(message), {
    ...(field === undefined ? {} : { field: fieldOfEnvelope(field) }),
    ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
    cause,
  });
}
