import { Type } from 'typebox';
import { engineCluster } from '../kinds/engineCluster/kind.ts';
import { GatewayError } from '../model/errors.ts';
import { clusterParser, RegistryCluster, RegistryClusterInput } from '../model/registryCluster.ts';
import { compileCheck } from '../model/validation.ts';
import type { ClusterRegistry, RegistryWrite } from '../operator/registry/clusterRegistry.ts';
import type { WriteContext } from '../operator/registry/resourceWrites.ts';
import { neverChecked } from '../routing/routingTable.ts';
import type { ApiContext } from './apiContext.ts';
import { utf8 } from './requestBody.ts';
import { type Call, checkedBody, notFound, ofNamespace, routes } from './routes.ts';
import { Creation, content, ErrorBody, Force, integerField, nullable, objectOf, reference } from './schemas.ts';
import { makeChange, pendingHeader } from './writes.ts';

/** Changes of the cluster registry by REST calls, in the audit. Rejects as the registry does. */
export function registryWrites({ registry, names }: ApiContext) {
  const clusterNamed = (name: string) => ({
    ...{ object: `cluster ${name}`, kind: engineCluster.kind, name, before: registry.get(name) },
  });
  const make = async (call: Call, name: string, write: (context: WriteContext) => Promise<RegistryWrite>) =>
    (await makeChange(names, call, clusterNamed(name), write, ({ cluster }) => cluster)).cluster;
  return {
    store: (operation: 'add' | 'update', call: Call, cluster: RegistryCluster) =>
      make(call, cluster.name, (context) => registry[operation](cluster, context)),
    /** @param version EG_CONFLICT if the cluster was switched since; absent: any version */
    setActive: (call: Call, name: string, active: boolean, version?: string) =>
      make(call, name, (context) => registry.setActive(name, active, context, version)),
    /** Deletes a cluster; an unknown name is neither an error nor a change. */
    delete: async (call: Call, name: string): Promise<void> => {
      const write = (context: WriteContext) => registry.delete(name, context);
      await makeChange(names, call, clusterNamed(name), write, () => null);
    },
  };
}

export const ClusterInPath = Type.Object({
  name: Type.String({ minLength: 1, description: 'Name of the cluster, percent-encoded.' }),
});

export function unknownCluster(name: string): GatewayError {
  return notFound(`There is no cluster named ${JSON.stringify(name)}.`, 'name');
}

/** The object of a call that stores a cluster: of one that adds it the new resource, else the cluster that the body names. */
function nameOf(operation: 'add' | 'update') {
  if (operation === 'add') return { options: ofNamespace };
  return { named: ({ body }: Call<unknown, unknown, RegistryCluster>) => body.name };
}

const Health = Type.Union([Type.Literal('PENDING'), Type.Literal('HEALTHY'), Type.Literal('UNHEALTHY')]);
const clusters = Type.Array(reference(RegistryCluster));

/** The cluster registry (docs/rest-api.md#cluster-registry, docs/compatibility.md#cluster-registry). */
export function registryRoutes(api: ApiContext): void {
  const { registry, names } = api;
  const route = routes(api, 'cluster registry');
  const writes = registryWrites(api);
  const pending = `As 200, but the database is unavailable: the change is safe in the resource source and follows by itself (header ${pendingHeader(names)}).`;

  route('GET', '/gateway', {
    summary: 'Answers ok',
    responses: {
      200: {
        description: 'The text ok (typed as JSON, as callers know it).',
        content: { 'application/json': { schema: {} } },
      },
    },
    handle: ({ reply }) => reply.type('application/json; charset=utf-8').send('ok'),
  });

  route('GET', '/gateway/backend/all', {
    summary: 'Lists all clusters',
    returns: ['All clusters.', clusters],
    handle: () => registry.all(),
  });

  route('GET', '/gateway/backend/active', {
    summary: 'Lists active clusters',
    returns: ['Clusters whose active is true, whatever their health.', clusters],
    handle: () => registry.all().filter((cluster) => cluster.active),
  });

  for (const [operation, summary, description] of [
    ['add', 'Adds a cluster', 'A cluster of that name is an error (409).'],
    ['update', 'Replaces a cluster', 'A cluster of that name that does not exist is added.'],
  ] as const) {
    route('POST', `/gateway/backend/modify/${operation}`, {
      summary,
      description,
      query: Creation,
      body: checkedBody(reference(RegistryClusterInput), clusterParser(names)),
      returns: ['The cluster as it is stored.', reference(RegistryCluster)],
      responses: { 202: content(pending, reference(RegistryCluster)) },
      errors: [403, 409, 422, 503],
      ...nameOf(operation),
      handle: (call) => writes.store(operation, call, call.body),
    });
  }

  route('POST', '/gateway/backend/modify/delete', {
    summary: 'Deletes a cluster',
    description: 'Body: the name as text of any content type, or {"name": "…"}. An unknown name is no error.',
    query: Force,
    returns: ['Deleted, or it was not there.', null],
    responses: { 202: Type.Null({ description: pending }) },
    errors: [403, 409, 413, 422, 503],
    options: {
      // The name is taken whatever type the caller declares, well-formed or not.
      onRequest: async ({ raw }) => {
        delete raw.headers['content-type'];
      },
    },
    rawBody: { content: { 'text/plain': { schema: Type.String({ minLength: 1 }) } } },
    named: ({ request }) => nameToDelete(request.body as Buffer | undefined, registry),
    handle: async (call) => {
      const body = call.request.body as Buffer | undefined;
      // The reference deletes nothing then.
      if (names.isReference && utf8(body).trim() === '') return;
      await writes.delete(call, nameToDelete(body, registry));
    },
  });

  for (const active of [true, false]) {
    route('POST', `/gateway/backend/${active ? 'activate' : 'deactivate'}/:name`, {
      summary: active ? 'Lets a cluster take new queries' : 'Keeps new queries away from a cluster',
      description: active ? 'Idempotent.' : 'Idempotent. Running queries go on.',
      params: ClusterInPath,
      query: Force,
      returns: ['Done.', null],
      responses: {
        202: Type.Null({ description: pending }),
        // 404 of a path without a name is the usual one, as everywhere.
        404: {
          description: 'There is no cluster of that name: a plain text.',
          content: { 'text/plain': { schema: Type.String() }, 'application/json': { schema: reference(ErrorBody) } },
        },
      },
      errors: [403, 409, 413, 422, 503],
      options: ofNamespace,
      handle: async (call) => {
        const { name } = call.params;
        try {
          await writes.setActive(call, name, active);
        } catch (error) {
          if (!(error instanceof GatewayError) || error.code !== 'EG_NOT_FOUND') throw error;
          const text = `No cluster found with name: ${name}, could not (de)activate`;
          return call.reply.code(404).type('text/plain; charset=utf-8').send(text);
        }
      },
    });
  }
}

/** Characters of the longest object with a name: no cluster has a name of more than 256. */
const MAX_OBJECT_LENGTH = 10_000;

/**
 * The name of the cluster that a body asks to delete: as text, or of `{"name": "…"}`, which clients in the field send.
 * One line end after it is not part of it.
 * @throws GatewayError EG_MALFORMED for a body without a name
 */
function nameToDelete(body: Buffer | undefined, registry: ClusterRegistry): string {
  const text = utf8(body);
  if (text !== '' && registry.get(text) !== null) return text;
  const name = text.replace(/\r?\n$/, '');
  const field = { field: 'name' };
  if (name.trim() === '') {
    throw new GatewayError('EG_MALFORMED', 'The body is empty; send the name of the cluster as text.', field);
  }
  if (!name.trimStart().startsWith('{') || name.length > MAX_OBJECT_LENGTH) return name;
  let value: unknown;
  try {
    value = JSON.parse(name);
  } catch {
    return name;
  }
  const inner = (value as { name?: unknown }).name;
  if (typeof inner === 'string' && inner !== '') return inner;
  throw new GatewayError('EG_MALFORMED', 'name is required: send {"name": "…"} or the name as text.', field);
}

/** Reads that need no credentials unless `authentication.publicReads` is false; they show no names of users. */
export function publicRoutes(api: ApiContext): void {
  const { registry, table, names } = api;
  const route = routes(api, 'public reads');
  const PublicState = Type.Object({
    clusterId: Type.String({ description: 'Name of the cluster.' }),
    runningQueryCount: integerField('Running queries; 0 where the health check gives no counts.'),
    queuedQueryCount: integerField('Queued queries; 0 where the health check gives no counts.'),
    numWorkerNodes: integerField('Worker nodes; 0 where the health check gives no counts.'),
    [names.statusField]: Health,
    proxyTo: Type.Optional(Type.String()),
    externalUrl: Type.Optional(Type.String()),
    routingGroup: Type.Optional(Type.String()),
  });

  route('GET', '/api/public/backends', {
    summary: 'Lists all clusters',
    returns: ['All clusters.', clusters],
    handle: () => registry.all(),
  });

  route('GET', '/api/public/backends/:name', {
    summary: 'Shows a cluster',
    params: ClusterInPath,
    returns: ['The cluster.', reference(RegistryCluster)],
    errors: [404],
    handle: ({ params: { name } }) => {
      const cluster = registry.get(name);
      if (cluster === null) throw unknownCluster(name);
      return cluster;
    },
  });

  route('GET', '/api/public/backends/:name/state', {
    summary: "Shows a cluster's state",
    description: 'Before the first health check: counts of zero, PENDING, and no more fields.',
    params: ClusterInPath,
    returns: ['The state.', PublicState],
    errors: [404],
    handle: ({ params: { name } }) => {
      const entry = table.current.clusters.get(name);
      if (entry === undefined && registry.get(name) === null) throw unknownCluster(name);
      const { running, queued, workers, status, checkedAt } = entry?.health ?? neverChecked;
      const { proxyTo, externalUrl, routingGroup } = entry ?? {};
      return {
        clusterId: name,
        runningQueryCount: running ?? 0,
        queuedQueryCount: queued ?? 0,
        numWorkerNodes: workers ?? 0,
        [names.statusField]: status,
        ...(checkedAt === null ? {} : { proxyTo, externalUrl, routingGroup }),
      };
    },
  });

  routes(api, 'views')('GET', `${names.gatewayPath}/api/activeBackends`, {
    summary: 'Active clusters',
    returns: ['The clusters.', clusters],
    handle: () => registry.all().filter((cluster) => cluster.active),
  });
}

const counted = (what: string) => nullable(Type.Integer(), `${what}; null where the check counts none.`);
const ListedBackend = Type.Object({
  ...RegistryCluster.properties,
  queued: integerField('Queued queries as the last health check counted them, or 0.'),
  running: integerField('Running queries as the last health check counted them, or 0.'),
  status: Health,
  health: objectOf(
    { description: 'The last health check.' },
    {
      reason: Type.String({ description: 'What the last health check found, or why requests took the cluster out.' }),
      checkedAt: nullable(
        Type.Integer(),
        'Time of the last health check, milliseconds since 1970; null before the first.',
      ),
      queued: counted('Queued queries'),
      running: counted('Running queries'),
      workers: counted('Worker nodes'),
    },
  ),
});
const ByName = Type.Object({ name: Type.String({ minLength: 1, description: 'Name of the cluster.' }) });
/** As the reference reads it, which deletes nothing where there is no name. */
const ByOptionalName = Type.Object({ name: Type.Optional(nullable(Type.String())) });

/**
 * Clusters as the web application sees them; writes go the registry's way
 * (docs/rest-api.md#calls-of-the-web-application).
 */
export function backendRoutes(api: ApiContext): void {
  const { registry, table, names } = api;
  const writes = registryWrites(api);
  const route = routes(api, 'web application: clusters', 'envelope');
  const errors = [403, 409, 422, 503];

  route('POST', '/webapp/getAllBackends', {
    summary: 'Lists all clusters with their state',
    returns: ['All clusters.', Type.Array(ListedBackend)],
    handle: () =>
      registry.all().map((cluster) => {
        const state = table.current.clusters.get(cluster.name)?.health ?? neverChecked;
        const { reason, checkedAt, queued, running, workers, status } = state;
        const health = { reason, checkedAt, queued, running, workers };
        return { ...cluster, queued: queued ?? 0, running: running ?? 0, status, health };
      }),
  });

  for (const [name, operation, summary] of [
    ['saveBackend', 'add', 'Adds a cluster'],
    ['updateBackend', 'update', 'Replaces a cluster, or adds it'],
  ] as const) {
    route('POST', `/webapp/${name}`, {
      summary,
      query: Creation,
      body: checkedBody(reference(RegistryClusterInput), clusterParser(names)),
      returns: ['The cluster as it is stored.', reference(RegistryCluster)],
      errors,
      ...nameOf(operation),
      handle: (call) => writes.store(operation, call, call.body),
    });
  }

  route('POST', '/webapp/deleteBackend', {
    summary: 'Deletes a cluster',
    description: 'An unknown name is no error.',
    body: checkedBody(ByName, compileCheck(names.isReference ? ByOptionalName : ByName)),
    returns: ['True.', Type.Literal(true)],
    errors,
    named: ({ body: { name } }) => name ?? '',
    handle: async (call) => {
      const { name } = call.body as { readonly name?: string | null };
      if (typeof name === 'string' && name !== '') await writes.delete(call, name);
      return true;
    },
  });
}
