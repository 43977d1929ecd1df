import { Type } from 'typebox';
import { declaredFields } from '../kinds/engineCluster/clusterOutcome.ts';
import { RESOURCE_GROUP_CONFIGURATION } from '../kinds/resourceGroupConfiguration/spec.ts';
import { RegistryCluster } from '../model/registryCluster.ts';
import type { Controller } from '../operator/reconcile/controller.ts';
import { activationVersion, type InventoryCluster } from '../operator/registry/clusterRegistry.ts';
import { activeClustersOf, newQueriesWithout } from '../routing/explanation.ts';
import type { RoutingTableHolder } from '../routing/routingTable.ts';
import { type ClusterEntry, takesNewQueries } from '../routing/routingTable.ts';
import type { ApiContext } from './apiContext.ts';
import { changeClusters } from './auth/endpointAccess.ts';
import { mayList, permissions } from './auth/guard.ts';
import { ClusterInPath, registryWrites, unknownCluster } from './registry.ts';
import { checkedBody, ListPage, listPageOf, notFound, ofNamespace, ofNamespaces, routes } from './routes.ts';
import {
  count,
  Force,
  flagField,
  integerField,
  iso,
  isoOrNull,
  list,
  nullable,
  objectOf,
  objectOrNull,
  objects,
  oneOf,
  optionalTextField,
  type ResponseBody,
  reference,
  textField,
  textOrNull,
  time,
} from './schemas.ts';

const Activation = Type.Object({
  active: flagField('Whether it takes new queries.'),
  version: optionalTextField({
    maxLength: 64,
    description: 'As the cluster was switched when it was looked at: 409 where somebody has switched it since.',
  }),
});

/**
 * Clusters with health, override, origin and conditions, and the switch that overrides `active`
 * (docs/rest-api.md#clusters-and-their-resources).
 */
export function clusterRoutes(api: ApiContext): void {
  const { inventory, table } = api;
  const route = routes(api, 'clusters');
  const { setActive } = registryWrites(api);

  route('GET', '/api/clusters', {
    summary: 'All clusters with their health, their resource and what overrides it',
    description: 'Also resources that are not routed. Carries an ETag.',
    query: ListPage,
    returns: ['The clusters by name.', Type.Array(reference(ClusterState))],
    hasTag: true,
    options: ofNamespaces,
    handle: async ({ query, request }) => {
      const listed = inventory().filter((cluster) => mayList(request, namespaceOf(cluster)));
      const mayChange = await permissions(request, changeClusters, listed.map(namespaceOf));
      return listPageOf(listed, query, ({ name }) => name).map((cluster) =>
        clusterState(cluster, table, mayChange(namespaceOf(cluster))),
      );
    },
  });

  route('GET', '/api/clusters/:name', {
    summary: 'A cluster with its last changes, its group, and what its resource declares against what is in force',
    description: 'Health and changes as the replica that answers saw them. Carries an ETag.',
    params: ClusterInPath,
    returns: ['The cluster.', reference(ClusterDetails)],
    hasTag: true,
    errors: [404],
    options: ofNamespace,
    handle: async ({ request, params: { name } }) => {
      const cluster = clusterNamed(name, inventory());
      if (cluster === null) throw unknownCluster(name);
      const mayChange = await permissions(request, changeClusters, [namespaceOf(cluster)]);
      return clusterDetails(cluster, api, mayChange(namespaceOf(cluster)));
    },
  });

  route('PUT', '/api/clusters/:name/active', {
    summary: 'Lets a cluster take new queries, or keeps them away',
    description:
      'A run-time override that no GitOps controller undoes; it ends when spec.active changes or says the same. Running queries go on.',
    params: ClusterInPath,
    query: Force,
    body: checkedBody(Activation),
    returns: ['The cluster.', reference(SwitchedCluster)],
    isPending: true,
    errors: [403, 404, 409, 422, 503],
    options: ofNamespace,
    handle: async (call) => {
      const { name } = call.params;
      const { active, version } = call.body;
      const cluster = await setActive(call, name, active, version);
      const after = clusterNamed(name, inventory());
      return { ...cluster, version: after?.routable?.active === active ? switchedVersion(after) : null };
    },
  });
  capacityRoutes(api);
}

/**
 * After a cluster was switched off for this long, every replica has stopped giving it queries, and the others know of the last ones:
 * replicas share queries that are two seconds old every second.
 */
const SETTLED_AFTER_MS = 5_000;

const GroupInPath = Type.Object({
  group: Type.String({ minLength: 1, maxLength: 256, description: 'Name of the routing group, percent-encoded.' }),
});

/** Routes of the queries that clusters still run, and of the capacity that groups need (docs/limits.md#scaling-with-keda). */
function capacityRoutes(api: ApiContext): void {
  const { table, runningQueries, clusterChanges } = api;
  const route = routes(api, 'cluster registry');

  route('GET', '/api/clusters/:name/drain', {
    summary: 'Shows which queries a cluster still runs',
    params: ClusterInPath,
    returns: ['What is left.', Drain],
    errors: [404],
    options: ofNamespace,
    handle: async ({ params: { name } }): Promise<Drain> => {
      const cluster = table.current.clusters.get(name);
      if (cluster === undefined) throw unknownCluster(name);
      const { queries, complete } = await runningQueries(name);
      const { running, queued, checkedAt } = cluster.health;
      const settled = (clusterChanges.offFor(name) ?? 0) >= SETTLED_AFTER_MS;
      const hasCounts = checkedAt !== null && (running !== null || queued !== null);
      return {
        ...{ cluster: name, active: cluster.active, settled, complete },
        drained: !cluster.active && settled && complete && queries.length === 0,
        runningQueries: queries.length,
        oldestSince: isoOrNull(queries[0]?.started),
        queries: queries.slice(0, LISTED_QUERIES).map(({ queryId, started, lastSeen }) => ({
          ...{ queryId, since: iso(started), lastRequest: iso(lastSeen) },
        })),
        reported: hasCounts ? { running, queued, checkedAt: iso(checkedAt) } : null,
      };
    },
  });

  route('GET', '/api/scaling/:group', {
    summary: 'Shows what clusters of a routing group are needed for',
    description: 'For programs that scale clusters, such as the metrics-api scaler of KEDA.',
    params: GroupInPath,
    returns: ['Queries and clusters of the group.', Scaling],
    errors: [404],
    handle: ({ params: { group } }) => {
      const { groups, admission } = table.current;
      const members = groups.get(group);
      if (members === undefined && !admission.groups.has(group)) {
        const message = `There is no routing group ${JSON.stringify(group)}: no cluster belongs to it, and no resource declares it.`;
        throw notFound(message, 'group');
      }
      return scalingOf(group, members ?? [], api);
    },
  });
}

/**
 * Losses of most resources of a kind, which stay routed until they are confirmed
 * (docs/reliability.md#a-source-that-loses-most-of-its-resources).
 */
export function heldDeletionRoutes(
  api: ApiContext,
  controller: Pick<Controller, 'heldDeletions' | 'confirmDeletions'>,
): void {
  const route = routes(api, 'cluster registry');
  const list = (): HeldDeletionList => ({
    losses: controller.heldDeletions.map(({ since, until, names, ...loss }) => ({
      ...{ ...loss, since: iso(since), until: isoOrNull(until), names: [...names] },
    })),
  });
  route('GET', '/api/heldDeletions', {
    summary: 'Shows resources that the source has lost and that are still routed',
    returns: ['Losses that are not confirmed.', HeldDeletionList],
    handle: list,
  });
  route('POST', '/api/heldDeletions/confirm', {
    summary: 'Confirms that these resources are meant to be gone, for all replicas',
    returns: ['What this replica held.', HeldDeletionList],
    errors: [503],
    handle: async ({ request }) => {
      const before = list();
      await controller.confirmDeletions();
      const subject = { kind: 'HeldDeletions', name: 'all' };
      request.changes.push({ object: 'held deletions', subject, regarding: 'gateway', before, after: list() });
      return before;
    },
  });
}

const namespaceOf = ({ resource }: InventoryCluster) => resource?.namespace;

function clusterState(
  { name, origin, routable, resource }: InventoryCluster,
  table: Pick<RoutingTableHolder, 'current'>,
  mayChange: boolean,
): ClusterState {
  const entry = routable === null ? undefined : table.current.clusters.get(name);
  const health = entry?.health;
  const { specActive = null, override = null } = resource ?? {};
  const acceptance = resource?.conditions.find(({ type }) => type === 'Accepted');
  const notRouted =
    acceptance?.status === 'True' ? 'not in the routing table yet' : (acceptance?.message ?? 'not looked at yet');
  return {
    name,
    routed: routable !== null,
    proxyTo: routable?.proxyTo ?? null,
    externalUrl: routable?.externalUrl ?? null,
    routingGroup: routable?.routingGroup ?? null,
    active: routable?.active ?? false,
    takesNewQueries: entry !== undefined && takesNewQueries(entry),
    specActive,
    override: override && { active: override.active, by: override.by, at: override.at },
    differs: override !== null && override.active !== specActive,
    status: health?.status ?? 'PENDING',
    reason: health?.reason ?? notRouted,
    ejection: health?.ejection ?? null,
    flappingSince: isoOrNull(health?.flappingSince),
    queued: health?.queued ?? null,
    running: health?.running ?? null,
    workers: health?.workers ?? null,
    maxRunningQueries: routable?.maxRunningQueries ?? null,
    rolloutOnly: routable?.rolloutOnly ?? false,
    origin,
    resource: resource === null ? null : resourceState(resource),
    discovery: resource?.discovery ?? null,
    mayChange,
  };
}

function resourceState(resource: NonNullable<InventoryCluster['resource']>): ClusterState['resource'] {
  const { namespace, name, generation, place, managers, suspended, conditions } = resource;
  return { namespace, name, generation, place, managers, suspended, conditions };
}

/** All that is known of a cluster. */
function clusterDetails(cluster: InventoryCluster, api: ApiContext, mayChange: boolean): ClusterDetails {
  const { table, clusterChanges, replica, defaultGroup } = api;
  const { name, routable, resource } = cluster;
  const { clusters } = table.current;
  const entry = routable === null ? undefined : clusters.get(name);
  const group = routable?.routingGroup;
  return {
    ...clusterState(cluster, table, mayChange),
    version: switchedVersion(cluster),
    checkedAt: isoOrNull(entry?.health.checkedAt),
    sharesUrlWith: [...clusters.values()]
      .filter((other) => other.proxyTo === entry?.proxyTo && other.name !== name)
      .map((other) => other.name),
    group:
      group === undefined
        ? null
        : {
            name: group,
            isDefault: group === defaultGroup,
            others: activeClustersOf(table.current, group).filter((other) => other !== name),
            withoutTakers: newQueriesWithout(table.current, group, defaultGroup),
          },
    replica,
    changes: (entry === undefined ? [] : clusterChanges.of(name)).map(({ since, ...change }) => ({
      ...{ since: iso(since), ...change },
    })),
    fields:
      resource === null
        ? []
        : declaredFields(resource.spec, routable).map((field) => ({
            ...field,
            managers: resource.managers.flatMap(({ manager, fields }) =>
              fields.some((each) => each === field.field || each.startsWith(`${field.field}.`)) ? [manager] : [],
            ),
          })),
  };
}

/** The cluster of a name: the routed one, where several resources claim it, or null. */
function clusterNamed(name: string, inventory: readonly InventoryCluster[]): InventoryCluster | null {
  const claims = inventory.filter((cluster) => cluster.name === name);
  return claims.find(({ routable }) => routable !== null) ?? claims[0] ?? null;
}

/** Changes with each activation or deactivation of the cluster. */
function switchedVersion({ routable, resource }: InventoryCluster): string {
  return activationVersion(routable?.active ?? resource?.specActive ?? false, resource?.override ?? null);
}

async function scalingOf(
  group: string,
  members: readonly ClusterEntry[],
  { table, runningQueries, waitingQueries }: ApiContext,
): Promise<Scaling> {
  let running = 0;
  let queuedThere = 0;
  const waiting = await waitingQueries(group);
  let { complete } = waiting;
  for (const { name, health } of members) {
    queuedThere += health.queued ?? 0;
    if (health.running === null) {
      const tracked = await runningQueries(name);
      running += tracked.queries.length;
      complete &&= tracked.complete;
    } else running += health.running;
  }
  const queued = waiting.count;
  const healthy = members.filter(takesNewQueries);
  const limits = healthy.map(({ maxRunningQueries }) => maxRunningQueries ?? Number.POSITIVE_INFINITY);
  const ofGroup = table.current.admission.groups.get(group)?.maxRunning ?? Number.POSITIVE_INFINITY;
  const capacity = Math.min(
    ofGroup,
    limits.reduce((sum, each) => sum + each, 0),
  );
  return {
    ...{ group, queued, running, demand: queued + running + queuedThere },
    capacity: capacity === Number.POSITIVE_INFINITY ? null : capacity,
    clusters: {
      registered: members.length,
      active: members.filter((member) => member.active).length,
      healthy: healthy.length,
    },
    complete,
  };
}

const Condition = Type.Object({
  type: Type.String(),
  status: oneOf(['True', 'False', 'Unknown']),
  reason: Type.String(),
  message: Type.String(),
  observedGeneration: Type.Optional(Type.Integer()),
  lastTransitionTime: textField('RFC 3339.'),
});

/** A resource, where it is written and what its status states. */
export const DeclaredResource = Type.Object({
  namespace: Type.String(),
  name: Type.String(),
  generation: Type.Integer(),
  place: textField("Where it is written: a file's path and document, or its key."),
  managers: objects(
    'Kubernetes: field managers of its spec (a GitOps controller, kubectl, engine-gateway-api for REST).',
    { manager: Type.String(), fields: Type.Array(Type.String()) },
  ),
  suspended: flagField('spec.suspend is true: the gateway does not act on it.'),
  conditions: list(Condition, 'As its status has them.'),
});

/** A cluster as people who run the gateway look at it. */
export const ClusterState = objectOf(
  { $id: 'ClusterState' },
  {
    name: textField('Registry name.'),
    routed: flagField("False: its resource was never valid, or its name is another resource's."),
    proxyTo: textOrNull('Null while it is not routed.'),
    externalUrl: textOrNull(),
    routingGroup: textOrNull(),
    active: flagField('False: it is switched off.'),
    takesNewQueries: flagField('It is active and HEALTHY, and not rolloutOnly.'),
    specActive: nullable(Type.Boolean(), 'What its resource declares; null for a row.'),
    override: objectOrNull('A run-time override of what its resource declares.', {
      active: Type.Boolean(),
      by: textField('Who asked for it.'),
      at: textOrNull('RFC 3339.'),
    }),
    differs: flagField('The override says otherwise than the resource.'),
    status: oneOf(['PENDING', 'HEALTHY', 'UNHEALTHY'], 'Of the last health check.'),
    reason: textField('Why the last health check said so.'),
    ejection: nullable(
      oneOf(['ejected', 'trial']),
      'After real requests failed: no new queries, or a share of them on trial.',
    ),
    flappingSince: textOrNull('Begin of the first of several ejections, RFC 3339.'),
    queued: nullable(Type.Integer(), 'Null where the kind of check counts none.'),
    running: nullable(Type.Integer()),
    workers: nullable(Type.Integer()),
    maxRunningQueries: nullable(
      Type.Integer(),
      'Queries that may run on it at a time; null: the gateway sets no limit.',
    ),
    rolloutOnly: flagField(
      'It is kept out of ordinary routing: only rollouts, and rules that name it, send it queries.',
    ),
    origin: oneOf(
      ['kubernetes', 'directory', 'database', 'row'],
      'Where it is declared; row: by a gateway that ran before, without a resource.',
    ),
    resource: nullable(DeclaredResource, 'Null for a row.'),
    discovery: objectOrNull('What makes the resource of a Service; null: somebody declared it.', {
      name: textField('Name of the discovery, in the namespace of the resource.'),
      service: textOrNull('`namespace/name` of the Service.'),
    }),
    mayChange: flagField('The caller may switch it, and change and delete its resource.'),
  },
);
export type ClusterState = ResponseBody<typeof ClusterState>;

/** Handling of new queries of a routing group without active clusters. */
export const NewQueries = Type.Union(
  [
    Type.Object({
      outcome: oneOf(['fallback', 'default'], 'Clusters of a fallback, or of the default group, take them.'),
      routingGroup: Type.String(),
      clusters: list(Type.String(), 'That take new queries now, by name.'),
    }),
    Type.Object({
      outcome: Type.Literal('wait', {
        description: 'They wait for a cluster; others, and after that time, are refused.',
      }),
      maxQueued: Type.Integer(),
      maxWaitMillis: Type.Integer(),
    }),
    Type.Object({ outcome: Type.Literal('refused', { description: 'Clients get NO_NODES_AVAILABLE.' }) }),
  ],
  {
    $id: 'NewQueries',
    description:
      'What new queries of a routing group get when none of its clusters takes any; those that a rule sends there with whenUnavailable: Reject are refused in any case.',
  },
);
export type NewQueries = ResponseBody<typeof NewQueries>;

export const ClusterDetails = Type.Object(
  {
    ...ClusterState.properties,
    version: textField('Changes whenever somebody switches it on or off.'),
    checkedAt: textOrNull('End of the last health check, RFC 3339; null before the first.'),
    sharesUrlWith: list(
      Type.String(),
      'Other clusters with the same proxyTo: their counts and health are those of one engine.',
    ),
    group: objectOrNull('Its routing group; null while it is not routed.', {
      name: Type.String(),
      isDefault: flagField('Queries that nothing else decides on go there.'),
      others: list(Type.String(), 'Its other clusters that take new queries now.'),
      withoutTakers: reference(NewQueries),
    }),
    replica: textField('Which process answers: health and changes are as it saw them.'),
    changes: objects('Its last states, the newest first, since the process started: at most 50.', {
      since: textField('RFC 3339.'),
      status: ClusterState.properties.status,
      reason: textField('Why, when it began.'),
      active: flagField('False: it was switched off.'),
    }),
    fields: objects('What its resource declares against what is in force; empty for a row.', {
      field: textField('Name below spec.'),
      declared: Type.Unknown({ description: 'By its resource; null: it is not declared.' }),
      inForce: Type.Unknown({ description: 'Null: nothing.' }),
      differs: Type.Boolean(),
      managers: list(Type.String(), 'Kubernetes: who owns the field.'),
    }),
  },
  { $id: 'ClusterDetails', description: 'A cluster with all that is known of it.' },
);
export type ClusterDetails = ResponseBody<typeof ClusterDetails>;

export const SwitchedCluster = objectOf(
  { $id: 'SwitchedCluster' },
  {
    ...RegistryCluster.properties,
    version: textOrNull(
      'As switched by this call, to switch it back unless somebody else has switched it since; null where somebody has already.',
    ),
  },
);
export type SwitchedCluster = ResponseBody<typeof SwitchedCluster>;

/** Queries that a response lists; `runningQueries` counts all. */
export const LISTED_QUERIES = 100;

export const Drain = Type.Object({
  cluster: textField('Name of the cluster.'),
  active: flagField('Whether it takes new queries.'),
  drained: flagField(
    'Not active and settled, no query left, and all replicas could be asked: the cluster may be deleted.',
  ),
  settled: flagField(
    'It has taken no new queries for 5 seconds: no replica can have begun one that others do not know.',
  ),
  complete: flagField("False while the database is unavailable: then only this replica's own queries are counted."),
  runningQueries: integerField('Queries that clients are following through any replica.'),
  oldestSince: nullable(time('When the oldest of them began.')),
  queries: objects(`The oldest ${LISTED_QUERIES} of them.`, {
    queryId: Type.String(),
    since: time('When it began.'),
    lastRequest: time('When its client asked for it last, to the minute.'),
  }),
  reported: Type.Union(
    [
      Type.Object({
        running: nullable(Type.Integer()),
        queued: nullable(Type.Integer()),
        checkedAt: time('When the cluster was asked.'),
      }),
      Type.Null(),
    ],
    {
      description:
        'What the cluster itself said at its last health check, queries of other clients included; null where its kind of check gives no counts.',
    },
  ),
});
export type Drain = ResponseBody<typeof Drain>;

/** Metrics for a program that scales the clusters of a routing group. */
export const Scaling = Type.Object({
  group: textField('The routing group.'),
  queued: count('Queries that wait for the group, on all replicas; wake a cluster while it is above 0.'),
  running: count('Queries that run on its clusters.'),
  demand: count('Both, and queries in the queues of its clusters: what clusters are needed for.'),
  capacity: nullable(
    count('Queries that may run at a time on its healthy clusters and in the group.'),
    'Null: there is no limit.',
  ),
  clusters: Type.Object({
    registered: count('Clusters of the group.'),
    active: count('Those of them that take new queries.'),
    healthy: count('Those of the active ones whose last check was good.'),
  }),
  complete: flagField("False while the database is unavailable: then only this replica's own queries are counted."),
});
export type Scaling = ResponseBody<typeof Scaling>;

/** Losses of resources that are not believed yet. */
export const HeldDeletionList = Type.Object({
  losses: Type.Array(
    Type.Object({
      kind: textField('Kind of the resources.'),
      namespace: textField('Namespace of the resources.'),
      held: integerField('Resources that the source has lost and that stay routed.'),
      left: integerField('Such resources that the source still has.'),
      since: time('When this replica noticed it.'),
      until: nullable(time('When the loss is believed without a confirmation.')),
      names: list(Type.String(), '`namespace/name` of the first 20 of them.'),
    }),
  ),
});
export type HeldDeletionList = ResponseBody<typeof HeldDeletionList>;

/** Declaration of a resource in the tables of resource groups, for one environment. */
export const DeclaredGroups = Type.Object(
  {
    namespace: textField(`Of the ${RESOURCE_GROUP_CONFIGURATION}.`),
    name: textField(`Of the ${RESOURCE_GROUP_CONFIGURATION}.`),
    environment: textField('Environment of the groups.'),
    resourceGroupIds: list(Type.Integer(), 'Its groups that have a row. All selectors of these are its as well.'),
    properties: list(Type.String(), 'Global properties that it declares.'),
    drift: objectOrNull('What somebody else changed of it since it was written; null: nothing.', {
      at: textField('When it was noticed, RFC 3339.'),
      repaired: flagField('Whether it was put right.'),
      count: integerField('How many rows differed.'),
      differences: list(Type.String(), 'Some of them in words.'),
    }),
    resource: nullable(DeclaredResource, 'Null: it was deleted, and its rows are about to be.'),
  },
  { $id: 'DeclaredGroups', description: 'Rows of resource groups that a resource declares.' },
);
export type DeclaredGroups = ResponseBody<typeof DeclaredGroups>;
