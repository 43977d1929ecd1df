import { Type } from 'typebox';
import type { ClusterChanges } from '../gateway/health/clusterChanges.ts';
import { declaredFields } from '../kinds/engineCluster/declaredFields.ts';
import type { Controller } from '../operator/reconcile/controller.ts';
import {
  activationVersion,
  type ClusterRegistry,
  type InventoryCluster,
} from '../operator/registry/clusterRegistry.ts';
import { activeClustersOf, newQueriesWithout } from '../routing/explanation.ts';
import { type ClusterEntry, takesNewQueries } from '../routing/routingTable.ts';
import type { RoutingTableHolder } from '../routing/tableHolder.ts';
import type { RunningQueryRow } from '../store/store.ts';
import {
  ClusterDetails,
  ClusterState,
  Drain,
  HeldDeletionList,
  LISTED_QUERIES,
  Scaling,
  SwitchedCluster,
} from './answers/clusters.ts';
import { recordChange } from './auth/audit.ts';
import { ClusterInPath, registryWrites, unknownCluster } from './registry.ts';
import { ListPage, listPageOf, notFound, type RouteContext, routes, sent } from './routes.ts';
import { Force, iso, isoOrNull, reference } from './schemas.ts';

/** Queries that clients follow on a cluster, on all replicas; `complete` is false while the database is unavailable. */
export type ClusterQueriesLookup = (
  cluster: string,
) => Promise<{ readonly queries: readonly RunningQueryRow[]; readonly complete: boolean }>;

/**
 * Number of queries queued for a routing group on all replicas; `complete` is false while the database is unavailable.
 */
export type WaitingQueriesCount = (group: string) => Promise<{ readonly count: number; readonly complete: boolean }>;

export interface ClusterParts {
  readonly registry: ClusterRegistry;
  readonly inventory: () => readonly InventoryCluster[];
  readonly table: RoutingTableHolder;
  readonly clusterChanges: ClusterChanges;
  readonly replica: string;
  /** `routing.defaultRoutingGroup`. */
  readonly defaultGroup: string;
  readonly runningQueries: ClusterQueriesLookup;
  readonly waitingQueries: WaitingQueriesCount;
}

const Activation = Type.Object({
  active: Type.Boolean({ description: 'Whether it takes new queries.' }),
  version: Type.Optional(
    Type.String({
      maxLength: 64,
      description: 'As the cluster was switched when it was looked at: 409 where somebody has switched it since.',
    }),
  ),
});

/**
 * Clusters with health, override, origin and conditions, and the switch that overrides `active`
 * (docs/rest-api.md#clusters-and-their-resources).
 */
export function clusterRoutes(api: RouteContext & ClusterParts): void {
  const { inventory, table } = api;
  const route = routes(api, 'clusters');
  const { setActive } = registryWrites(api);

  route('GET', '/api/clusters', {
    summary: 'All clusters with their health, their resource and what overrides it',
    description: 'Also resources that are not routed. Carries an ETag.',
    query: ListPage,
    returns: ['The clusters by name.', Type.Array(reference(ClusterState))],
    hasTag: true,
    handle: ({ query }) =>
      listPageOf(inventory(), query, ({ name }) => name).map((cluster) => clusterState(cluster, table)),
  });

  route('GET', '/api/clusters/:name', {
    summary: 'A cluster with its last changes, its group, and what its resource declares against what is in force',
    description: 'Health and changes as the replica that answers saw them. Carries an ETag.',
    params: ClusterInPath,
    returns: ['The cluster.', reference(ClusterDetails)],
    hasTag: true,
    errors: [404],
    handle: ({ params: { name } }) => {
      const cluster = clusterNamed(name, inventory());
      if (cluster === null) throw unknownCluster(name);
      return clusterDetails(cluster, api);
    },
  });

  route('PUT', '/api/clusters/:name/active', {
    summary: 'Lets a cluster take new queries, or keeps them away',
    description:
      'A run-time override that no GitOps controller undoes; it ends when spec.active changes or says the same. Running queries go on.',
    params: ClusterInPath,
    query: Force,
    body: sent(Activation),
    returns: ['The cluster.', reference(SwitchedCluster)],
    isPending: true,
    errors: [403, 404, 409, 422, 503],
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
function capacityRoutes(api: RouteContext & ClusterParts): void {
  const { table, runningQueries, clusterChanges } = api;
  const route = routes(api, 'cluster registry');

  route('GET', '/api/clusters/:name/drain', {
    summary: 'Shows which queries a cluster still runs',
    params: ClusterInPath,
    returns: ['What is left.', Drain],
    errors: [404],
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
  api: RouteContext,
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
      recordChange(request, { object: 'held deletions', subject, regarding: 'gateway', before, after: list() });
      return before;
    },
  });
}

function clusterState(
  { name, origin, routable, resource }: InventoryCluster,
  table: Pick<RoutingTableHolder, 'current'>,
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
    origin,
    resource: resource === null ? null : resourceState(resource),
    discovery: resource?.discovery ?? null,
  };
}

function resourceState(resource: NonNullable<InventoryCluster['resource']>): ClusterState['resource'] {
  const { namespace, name, generation, place, managers, paused, conditions } = resource;
  return { namespace, name, generation, place, managers, paused, conditions };
}

/** All that is known of a cluster. */
function clusterDetails(cluster: InventoryCluster, api: ClusterParts): ClusterDetails {
  const { table, clusterChanges, replica, defaultGroup } = api;
  const { name, routable, resource } = cluster;
  const { clusters } = table.current;
  const entry = routable === null ? undefined : clusters.get(name);
  const group = routable?.routingGroup;
  return {
    ...clusterState(cluster, table),
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
  { table, runningQueries, waitingQueries }: ClusterParts,
): Promise<Scaling> {
  let running = 0;
  let queuedThere = 0;
  const waiting = await waitingQueries(group);
  let { complete } = waiting;
  for (const { name, health } of members) {
    queuedThere += health.queued ?? 0;
    if (health.running === null) {
      const followed = await runningQueries(name);
      running += followed.queries.length;
      complete &&= followed.complete;
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
