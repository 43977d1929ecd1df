import { Type } from 'typebox';
import { RESOURCE_GROUP_CONFIGURATION } from '../../kinds/resourceGroupConfiguration/spec.ts';
import { RegistryCluster } from '../../model/registryCluster.ts';
import { reference } from '../schemas.ts';
import { type Answer, count, nullable, oneOf, textOrNull, time } from './response.ts';

const Condition = Type.Object({
  type: Type.String(),
  status: oneOf(['True', 'False', 'Unknown']),
  reason: Type.String(),
  message: Type.String(),
  observedGeneration: Type.Optional(Type.Integer()),
  lastTransitionTime: Type.String({ description: 'RFC 3339.' }),
});

/** A resource, where it is written and what its status states. */
export const DeclaredResource = Type.Object({
  namespace: Type.String(),
  name: Type.String(),
  generation: Type.Integer(),
  place: Type.String({ description: "Where it is written: a file's path and document, or its key." }),
  managers: Type.Array(Type.Object({ manager: Type.String(), fields: Type.Array(Type.String()) }), {
    description: 'Kubernetes: field managers of its spec (a GitOps controller, kubectl, engine-gateway-api for REST).',
  }),
  paused: Type.Boolean({ description: 'Reconciling is paused by annotation.' }),
  conditions: Type.Array(Condition, { description: 'As its status has them.' }),
});

/** A cluster as people who run the gateway look at it. */
export const ClusterState = Type.Object(
  {
    name: Type.String({ description: 'Registry name.' }),
    routed: Type.Boolean({ description: "False: its resource was never valid, or its name is another resource's." }),
    proxyTo: textOrNull('Null while it is not routed.'),
    externalUrl: textOrNull(),
    routingGroup: textOrNull(),
    active: Type.Boolean({ description: 'False: it is switched off.' }),
    takesNewQueries: Type.Boolean({ description: 'It is active and HEALTHY.' }),
    specActive: nullable(Type.Boolean(), 'What its resource declares; null for a row.'),
    override: nullable(
      Type.Object({
        active: Type.Boolean(),
        by: Type.String({ description: 'Who asked for it.' }),
        at: textOrNull('RFC 3339.'),
      }),
      'A run-time override of what its resource declares.',
    ),
    differs: Type.Boolean({ description: 'The override says otherwise than the resource.' }),
    status: oneOf(['PENDING', 'HEALTHY', 'UNHEALTHY'], 'Of the last health check.'),
    reason: Type.String({ description: 'Why the last health check said so.' }),
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
    origin: oneOf(
      ['kubernetes', 'directory', 'database', 'row'],
      'Where it is declared; row: by a gateway that ran before, without a resource.',
    ),
    resource: nullable(DeclaredResource, 'Null for a row.'),
    discovery: nullable(
      Type.Object({
        name: Type.String({ description: 'Name of the discovery, in the namespace of the resource.' }),
        service: textOrNull('`namespace/name` of the Service.'),
      }),
      'What makes the resource of a Service; null: somebody declared it.',
    ),
  },
  { $id: 'ClusterState' },
);
export type ClusterState = Answer<typeof ClusterState>;

/** Handling of new queries of a routing group without active clusters. */
export const NewQueries = Type.Union(
  [
    Type.Object({
      outcome: oneOf(['fallback', 'default'], 'Clusters of a fallback, or of the default group, take them.'),
      routingGroup: Type.String(),
      clusters: Type.Array(Type.String(), { description: 'That take new queries now, by name.' }),
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
      'What new queries of a routing group get when none of its clusters takes any; those that a rule sends there with onUnavailable: reject are refused in any case.',
  },
);
export type NewQueries = Answer<typeof NewQueries>;

export const ClusterDetails = Type.Object(
  {
    ...ClusterState.properties,
    version: Type.String({ description: 'Changes whenever somebody switches it on or off.' }),
    checkedAt: textOrNull('End of the last health check, RFC 3339; null before the first.'),
    sharesUrlWith: Type.Array(Type.String(), {
      description: 'Other clusters with the same proxyTo: their counts and health are those of one engine.',
    }),
    group: nullable(
      Type.Object({
        name: Type.String(),
        isDefault: Type.Boolean({ description: 'Queries that nothing else decides on go there.' }),
        others: Type.Array(Type.String(), { description: 'Its other clusters that take new queries now.' }),
        withoutTakers: reference(NewQueries),
      }),
      'Its routing group; null while it is not routed.',
    ),
    replica: Type.String({ description: 'Which process answers: health and changes are as it saw them.' }),
    changes: Type.Array(
      Type.Object({
        since: Type.String({ description: 'RFC 3339.' }),
        status: ClusterState.properties.status,
        reason: Type.String({ description: 'Why, when it began.' }),
        active: Type.Boolean({ description: 'False: it was switched off.' }),
      }),
      { description: 'Its last states, the newest first, since the process started: at most 50.' },
    ),
    fields: Type.Array(
      Type.Object({
        field: Type.String({ description: 'Name below spec.' }),
        declared: Type.Unknown({ description: 'By its resource; null: it is not declared.' }),
        inForce: Type.Unknown({ description: 'Null: nothing.' }),
        differs: Type.Boolean(),
        managers: Type.Array(Type.String(), { description: 'Kubernetes: who owns the field.' }),
      }),
      { description: 'What its resource declares against what is in force; empty for a row.' },
    ),
  },
  { $id: 'ClusterDetails', description: 'A cluster with all that is known of it.' },
);
export type ClusterDetails = Answer<typeof ClusterDetails>;

export const SwitchedCluster = Type.Object(
  {
    ...RegistryCluster.properties,
    version: textOrNull(
      'As switched by this call, to switch it back unless somebody else has switched it since; null where somebody has already.',
    ),
  },
  { $id: 'SwitchedCluster' },
);
export type SwitchedCluster = Answer<typeof SwitchedCluster>;

/** Queries that a response lists; `runningQueries` counts all. */
export const LISTED_QUERIES = 100;

export const Drain = Type.Object({
  cluster: Type.String({ description: 'Name of the cluster.' }),
  active: Type.Boolean({ description: 'Whether it takes new queries.' }),
  drained: Type.Boolean({
    description: 'Not active and settled, no query left, and all replicas could be asked: the cluster may be deleted.',
  }),
  settled: Type.Boolean({
    description: 'It has taken no new queries for 5 seconds: no replica can have begun one that others do not know.',
  }),
  complete: Type.Boolean({
    description: "False while the database is unavailable: then only this replica's own queries are counted.",
  }),
  runningQueries: Type.Integer({ description: 'Queries that clients are following through any replica.' }),
  oldestSince: nullable(time('When the oldest of them began.')),
  queries: Type.Array(
    Type.Object({
      queryId: Type.String(),
      since: time('When it began.'),
      lastRequest: time('When its client asked for it last, to the minute.'),
    }),
    { description: `The oldest ${LISTED_QUERIES} of them.` },
  ),
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
export type Drain = Answer<typeof Drain>;

/** Metrics for a program that scales the clusters of a routing group. */
export const Scaling = Type.Object({
  group: Type.String({ description: 'The routing group.' }),
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
  complete: Type.Boolean({
    description: "False while the database is unavailable: then only this replica's own queries are counted.",
  }),
});
export type Scaling = Answer<typeof Scaling>;

/** Losses of resources that are not believed yet. */
export const HeldDeletionList = Type.Object({
  losses: Type.Array(
    Type.Object({
      kind: Type.String({ description: 'Kind of the resources.' }),
      namespace: Type.String({ description: 'Namespace of the resources.' }),
      held: Type.Integer({ description: 'Resources that the source has lost and that stay routed.' }),
      left: Type.Integer({ description: 'Such resources that the source still has.' }),
      since: time('When this replica noticed it.'),
      until: nullable(time('When the loss is believed without a confirmation.')),
      names: Type.Array(Type.String(), { description: '`namespace/name` of the first 20 of them.' }),
    }),
  ),
});
export type HeldDeletionList = Answer<typeof HeldDeletionList>;

/** Declaration of a resource in the tables of resource groups, for one environment. */
export const DeclaredGroups = Type.Object(
  {
    namespace: Type.String({ description: `Of the ${RESOURCE_GROUP_CONFIGURATION}.` }),
    name: Type.String({ description: `Of the ${RESOURCE_GROUP_CONFIGURATION}.` }),
    environment: Type.String({ description: 'Environment of the groups.' }),
    resourceGroupIds: Type.Array(Type.Integer(), {
      description: 'Its groups that have a row. All selectors of these are its as well.',
    }),
    properties: Type.Array(Type.String(), { description: 'Global properties that it declares.' }),
    drift: nullable(
      Type.Object({
        at: Type.String({ description: 'When it was noticed, RFC 3339.' }),
        repaired: Type.Boolean({ description: 'Whether it was put right.' }),
        count: Type.Integer({ description: 'How many rows differed.' }),
        differences: Type.Array(Type.String(), { description: 'Some of them in words.' }),
      }),
      'What somebody else changed of it since it was written; null: nothing.',
    ),
    resource: nullable(DeclaredResource, 'Null: it was deleted, and its rows are about to be.'),
  },
  { $id: 'DeclaredGroups', description: 'Rows of resource groups that a resource declares.' },
);
export type DeclaredGroups = Answer<typeof DeclaredGroups>;
