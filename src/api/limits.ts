import { type Static, type TObject, type TSchema, Type } from 'typebox';
import { queryLimit } from '../kinds/queryLimit/kind.ts';
import { QUERY_LIMIT, QueryLimitSpec } from '../kinds/queryLimit/spec.ts';
import { groupProblems } from '../kinds/routingGroup/kind.ts';
import { ROUTING_GROUP, RoutingGroupSpec } from '../kinds/routingGroup/spec.ts';
import { GatewayError, type Problem } from '../model/errors.ts';
import type {
  DeclaredLimits,
  InventoryGroup,
  InventoryLimit,
  LimitRegistry,
} from '../operator/registry/limitRegistry.ts';
import type { SpecWrite, SpecWriteContext, WriteContext } from '../operator/registry/resourceWrites.ts';
import { newQueriesWithout } from '../routing/explanation.ts';
import { takesNewQueries } from '../routing/routingTable.ts';
import type { ApiContext } from './apiContext.ts';
import { mayList } from './auth/guard.ts';
import { DeclaredResource, NewQueries } from './clusters.ts';
import { type Call, ListPage, listPageOf, notFound, ofNamespace, ofNamespaces, routes } from './routes.ts';
import { Creation, flagField, nullable, objects, oneOf, type ResponseBody, reference, textField } from './schemas.ts';
import { DeletedVersion, makeChange, requireNone, specBody, Version } from './writes.ts';

const countOrNull = (description: string) => nullable(Type.Integer({ minimum: 0 }), description);

const counts = {
  running: countOrNull('Queries that run, on all replicas; null: not counted.'),
  waiting: countOrNull('Submissions that wait.'),
  refused: countOrNull(
    'Submissions refused since counting began; of a limit that observes, those it would have refused.',
  ),
};

/** Fields of every declared resource. */
export const declared = {
  inForce: flagField('Whether it, or its last version that was valid, is in force.'),
  message: textField('What became of it, for people.'),
  version: textField('Changes whenever what it declares does.'),
  resource: DeclaredResource,
};

export const Spec = Type.Record(Type.String(), Type.Unknown(), {
  description: 'What it declares, as the spec of its kind has it; without name and class.',
});

/** A routing group: its clusters, and what is declared of it. */
export const GroupState = Type.Object(
  {
    name: textField('Name of the routing group.'),
    clusters: objects('Clusters that belong to it, by name.', {
      name: Type.String(),
      active: Type.Boolean(),
      status: oneOf(['PENDING', 'HEALTHY', 'UNHEALTHY']),
      takesNewQueries: flagField('It is active and HEALTHY, and not rolloutOnly.'),
      maxRunningQueries: nullable(Type.Integer(), 'Null: no limit.'),
    }),
    spec: nullable(Spec, 'Null: no resource declares anything of it.'),
    ...counts,
    inForce: declared.inForce,
    message: declared.message,
    version: nullable(declared.version, 'Null where there is no resource.'),
    resource: nullable(declared.resource, 'Null where there is none.'),
  },
  { $id: 'GroupState', description: 'A routing group with its clusters, limits and queue.' },
);
export type GroupState = ResponseBody<typeof GroupState>;

export const GroupDetails = Type.Object(
  {
    ...GroupState.properties,
    isDefault: flagField('Queries that nothing else decides on go there.'),
    withoutTakers: reference(NewQueries),
  },
  {
    $id: 'GroupDetails',
    description: 'A routing group, and what new queries get when none of its clusters takes any.',
  },
);
export type GroupDetails = ResponseBody<typeof GroupDetails>;

export const LimitState = Type.Object(
  {
    namespace: Type.String(),
    name: Type.String(),
    spec: Spec,
    ...counts,
    ...declared,
  },
  { $id: 'LimitState', description: 'A limit of users or sources, and what became of it.' },
);
export type LimitState = ResponseBody<typeof LimitState>;

interface ListedState {
  readonly spec: unknown;
  readonly resource: { readonly namespace: string } | null;
}

/** Calls on the declared resources of a kind: list, one of them, declaration, deletion. */
interface DeclaredRoutes<Params extends TObject, State extends ListedState, Spec extends object> {
  readonly tag: string;
  /** Path of the list; the path of one resource continues with its parameters. */
  readonly path: string;
  readonly params: Params;
  readonly kind: string;
  readonly update: TSchema;
  readonly State: TSchema;
  readonly Details: TSchema;
  /** A resource in words, and the order of the list. */
  readonly what: string;
  readonly order: string;
  /** Summaries and descriptions of the calls. */
  readonly texts: Readonly<Record<'list' | 'one' | 'put' | 'delete', readonly [summary: string, description?: string]>>;
  /** Name of a resource in words and messages. */
  nameOf(path: Static<Params>): string;
  keyOf(state: State): string;
  list(): readonly State[];
  /** Null: not found. */
  find(path: Static<Params>): State | null;
  details(state: State): object;
  unknown(path: Static<Params>): string;
  problems(spec: Spec, path: Static<Params>): readonly Problem[];
  put(path: Static<Params>, spec: Spec, context: SpecWriteContext): Promise<SpecWrite>;
  delete(path: Static<Params>, version: string | undefined): Promise<SpecWrite>;
}

/** Adds the calls on the declared resources of a kind. */
export function declaredRoutes<Params extends TObject, State extends ListedState, Spec extends object>(
  api: ApiContext,
  options: DeclaredRoutes<Params, State, Spec>,
): void {
  const { tag, path, params, kind, State, what, texts, find } = options;
  const route = routes(api, tag);
  const one = `${path}/${Object.keys(params.properties)
    .map((name) => `:${name}`)
    .join('/')}`;
  const write = async (call: Call, at: Static<Params>, change: (context: WriteContext) => Promise<SpecWrite>) => {
    const specNow = () => find(at)?.spec ?? null;
    const { name } = at as { readonly name: string };
    const object = { object: `${what} ${options.nameOf(at)}`, kind, name, before: specNow() };
    await makeChange(api.names, call, object, change, specNow);
  };

  route('GET', path, {
    summary: texts.list[0],
    description: [texts.list[1], 'Carries an ETag.'].filter(Boolean).join(' '),
    query: ListPage,
    returns: [options.order, Type.Array(reference(State))],
    hasTag: true,
    options: ofNamespaces,
    handle: ({ query, request }) => {
      const listed = options.list().filter(({ resource }) => mayList(request, resource?.namespace));
      return listPageOf(listed, query, options.keyOf);
    },
  });

  route('GET', one, {
    summary: texts.one[0],
    params,
    returns: ['Its state.', reference(options.Details)],
    hasTag: true,
    errors: [404],
    options: ofNamespace,
    handle: ({ params: at }) => {
      const state = find(at);
      if (state === null) throw notFound(options.unknown(at), 'name');
      return options.details(state);
    },
  });

  route('PUT', one, {
    summary: texts.put[0],
    description: texts.put[1],
    params,
    query: Creation,
    body: specBody<Spec>(options.update),
    returns: ['Its state, in force.', reference(State)],
    isPending: true,
    errors: [403, 404, 409, 422, 503],
    options: ofNamespace,
    handle: async (call) => {
      const { spec, version } = call.body;
      requireNone(options.problems(spec, call.params));
      await write(call, call.params, (context) => options.put(call.params, spec, { ...context, version }));
      const after = find(call.params);
      if (after !== null) return after;
      throw new GatewayError('EG_CONFLICT', `the ${what} ${options.nameOf(call.params)} was deleted meanwhile`);
    },
  });

  route('DELETE', one, {
    summary: texts.delete[0],
    description: texts.delete[1],
    params,
    query: DeletedVersion,
    returns: ['Deleted.', null],
    isPending: true,
    errors: [403, 404, 409, 413, 503],
    options: ofNamespace,
    handle: (call) => write(call, call.params, () => options.delete(call.params, call.query.version)),
  });
}

const { name: _name, gatewayClassName: _class, ...groupFields } = RoutingGroupSpec.properties;
const GroupUpdate = Type.Object(
  { ...groupFields, ...Version },
  {
    $id: 'GroupUpdate',
    additionalProperties: false,
    description: 'What holds for a routing group as a whole: what is absent has its default.',
  },
);
const { gatewayClassName: _limitClass, ...limitFields } = QueryLimitSpec.properties;
const LimitUpdate = Type.Object(
  { ...limitFields, ...Version },
  {
    $id: 'LimitUpdate',
    additionalProperties: false,
    description: 'A limit as a whole: what is absent has its default.',
  },
);
const KubernetesName = { minLength: 1, maxLength: 63, pattern: '^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$' } as const;

/**
 * Routing groups with their clusters, limits of users and sources, and what is declared of them
 * (docs/rest-api.md#groups-and-limits).
 */
export function limitRoutes(api: ApiContext, limits: LimitRegistry): void {
  const { table, defaultGroup } = api;
  declaredRoutes<typeof GroupInPath, GroupState, RoutingGroupSpec>(api, {
    ...{ tag: 'routing groups', path: '/api/groups', params: GroupInPath, kind: ROUTING_GROUP },
    ...{ update: GroupUpdate, State: GroupState, Details: GroupDetails },
    ...{ what: 'routing group', order: 'By name.' },
    texts: {
      list: [
        'All routing groups with their clusters, limits and queues',
        'Those that have clusters or a resource; a resource whose name another one holds is listed as well.',
      ],
      one: ['A routing group with its clusters, limits and queue'],
      put: [
        'Declares limits, queue and fallbacks of a routing group, or replaces what is declared',
        'The group need not have clusters yet.',
      ],
      delete: ['Deletes what is declared of a routing group', 'Its clusters stay.'],
    },
    nameOf: ({ name }) => name,
    keyOf: ({ name }) => name,
    list: () => limits.groups().map(groupState),
    find: ({ name }) => nullOr(limits.group(name), groupState),
    details: (group): GroupDetails => ({
      ...{ ...group, isDefault: group.name === defaultGroup },
      withoutTakers: newQueriesWithout(table.current, group.name, defaultGroup),
    }),
    unknown: ({ name }) => `there is no routing group ${name}: no cluster belongs to it`,
    problems: (spec, { name }) => groupProblems({ ...spec, name }, name),
    put: ({ name }, spec, context) => limits.putGroup(name, spec, context),
    delete: ({ name }, version) => limits.deleteGroup(name, version),
  });
  declaredRoutes<typeof LimitInPath, LimitState, QueryLimitSpec>(api, {
    ...{ tag: 'limits', path: '/api/limits', params: LimitInPath, kind: QUERY_LIMIT },
    ...{ update: LimitUpdate, State: LimitState, Details: LimitState },
    ...{ what: 'query limit', order: 'By namespace and name.' },
    texts: {
      list: ['All limits of users and sources, with how much of them is used'],
      one: ['A limit, with how much of it is used'],
      put: ['Declares a limit, or replaces what it declares'],
      delete: ['Deletes a limit'],
    },
    nameOf: ({ namespace, name }) => `${namespace}/${name}`,
    keyOf: ({ namespace, name }) => `${namespace}/${name}`,
    list: () => limits.limits().map(limitState),
    find: ({ namespace, name }) => nullOr(limits.limit(namespace, name), limitState),
    details: (limit) => limit,
    unknown: ({ namespace, name }) => `there is no limit ${namespace}/${name}`,
    problems: (spec) => queryLimit.specProblems(spec),
    put: ({ namespace, name }, spec, context) => limits.putLimit(namespace, name, spec, context),
    delete: ({ namespace, name }, version) => limits.deleteLimit(namespace, name, version),
  });
}

const GroupInPath = Type.Object({
  name: Type.String({ minLength: 1, maxLength: 255, description: 'Name of the routing group, percent-encoded.' }),
});
export const LimitInPath = Type.Object({
  namespace: Type.String({ ...KubernetesName, description: 'Namespace of its resource.' }),
  name: Type.String({ ...KubernetesName, description: 'Name of its resource.' }),
});

function nullOr<T, R>(value: T | null, map: (value: T) => R): R | null {
  return value === null ? null : map(value);
}

function groupState({ name, clusters, declared, count }: InventoryGroup): GroupState {
  return {
    name,
    clusters: clusters.map((cluster) => ({
      name: cluster.name,
      active: cluster.active,
      status: cluster.health.status,
      takesNewQueries: takesNewQueries(cluster),
      maxRunningQueries: cluster.maxRunningQueries ?? null,
    })),
    spec: declared?.spec ?? null,
    ...countsOf(count),
    ...(declared === null
      ? { inForce: false, message: 'nothing is declared of it', version: null, resource: null }
      : declaredState(declared)),
  };
}

function limitState({ namespace, name, declared, count }: InventoryLimit): LimitState {
  return { namespace, name, spec: declared.spec, ...countsOf(count), ...declaredState(declared) };
}

/** Counts; null if nothing counts. */
function countsOf(count: InventoryLimit['count']): Pick<LimitState, 'running' | 'waiting' | 'refused'> {
  return { running: count?.running ?? null, waiting: count?.waiting ?? null, refused: count?.refused ?? null };
}

function declaredState({ acceptance, isInForce, version, resource }: DeclaredLimits) {
  return { inForce: isInForce, message: acceptance.message, version, resource };
}
