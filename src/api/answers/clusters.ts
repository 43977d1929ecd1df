import { Type } from 'typebox';
import { type Answer, nullable } from './answer.ts';

const Condition = Type.Object({
  type: Type.String(),
  status: Type.Union([Type.Literal('True'), Type.Literal('False'), Type.Literal('Unknown')]),
  reason: Type.String(),
  message: Type.String(),
  observedGeneration: Type.Optional(Type.Integer()),
  lastTransitionTime: Type.String({ description: 'RFC 3339.' }),
});

/** A resource, where it is written and what its status says. */
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
    active: Type.Boolean({ description: 'Whether it takes new queries.' }),
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
  },
  { $id: 'ClusterState' },
);
export type ClusterState = Answer<typeof ClusterState>;
