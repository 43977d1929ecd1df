import { Type } from 'typebox';
import { RegistryCluster } from '../../model/registryCluster.ts';
import { reference } from '../schemas.ts';
import { type Answer, nullable } from './answer.ts';

const Condition = Type.Object({
  type: Type.String(),
  status: Type.Union([Type.Literal('True'), Type.Literal('False'), Type.Literal('Unknown')]),
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
    proxyTo: nullable(Type.String(), 'Null while it is not routed.'),
    externalUrl: nullable(Type.String()),
    routingGroup: nullable(Type.String()),
    active: Type.Boolean({ description: 'False: it is switched off.' }),
    takesNewQueries: Type.Boolean({ description: 'It is active and HEALTHY.' }),
    specActive: nullable(Type.Boolean(), 'What its resource declares; null for a row.'),
    override: nullable(
      Type.Object({
        active: Type.Boolean(),
        by: Type.String({ description: 'Who asked for it.' }),
        at: nullable(Type.String(), 'RFC 3339.'),
      }),
      'A run-time override of what its resource declares.',
    ),
    differs: Type.Boolean({ description: 'The override says otherwise than the resource.' }),
    status: Type.Union([Type.Literal('PENDING'), Type.Literal('HEALTHY'), Type.Literal('UNHEALTHY')], {
      description: 'Of the last health check.',
    }),
    reason: Type.String({ description: 'Why the last health check said so.' }),
    ejection: nullable(
      Type.Union([Type.Literal('ejected'), Type.Literal('trial')]),
      'After real requests failed: no new queries, or a share of them on trial.',
    ),
    flappingSince: nullable(Type.String(), 'Begin of the first of several ejections, RFC 3339.'),
    queued: nullable(Type.Integer(), 'Null where the kind of check counts none.'),
    running: nullable(Type.Integer()),
    workers: nullable(Type.Integer()),
    maxRunningQueries: nullable(
      Type.Integer(),
      'Queries that may run on it at a time; null: the gateway sets no limit.',
    ),
    origin: Type.Union(
      [Type.Literal('kubernetes'), Type.Literal('directory'), Type.Literal('database'), Type.Literal('row')],
      { description: 'Where it is declared; row: by a gateway that ran before, without a resource.' },
    ),
    resource: nullable(DeclaredResource, 'Null for a row.'),
    discovery: nullable(
      Type.Object({
        name: Type.String({ description: 'Name of the discovery, in the namespace of the resource.' }),
        service: nullable(Type.String(), '`namespace/name` of the Service.'),
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
      outcome: Type.Union([Type.Literal('fallback'), Type.Literal('default')], {
        description: 'Clusters of a fallback, or of the default group, take them.',
      }),
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
    checkedAt: nullable(Type.String(), 'End of the last health check, RFC 3339; null before the first.'),
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
    version: nullable(
      Type.String(),
      'As switched by this call, to switch it back unless somebody else has switched it since; null where somebody has already.',
    ),
  },
  { $id: 'SwitchedCluster' },
);
export type SwitchedCluster = Answer<typeof SwitchedCluster>;
