import { Type } from 'typebox';
import { reference } from '../schemas.ts';
import { DeclaredResource, NewQueries } from './clusters.ts';
import { type Answer, nullable, oneOf } from './response.ts';

const countOrNull = (description: string) => nullable(Type.Integer({ minimum: 0 }), description);

const counts = {
  running: countOrNull('Queries that run, on all replicas; null: not counted.'),
  waiting: countOrNull('Submissions that wait.'),
  refused: countOrNull(
    'Submissions refused since counting began; of a limit that observes, those it would have refused.',
  ),
};

const declared = {
  inForce: Type.Boolean({ description: 'Whether it, or its last version that was valid, is in force.' }),
  message: Type.String({ description: 'What became of it, for people.' }),
  version: Type.String({ description: 'Changes whenever what it declares does.' }),
  resource: DeclaredResource,
};

const Spec = Type.Record(Type.String(), Type.Unknown(), {
  description: 'What it declares, as the spec of its kind has it; without name and class.',
});

/** A routing group: its clusters, and what is declared of it. */
export const GroupState = Type.Object(
  {
    name: Type.String({ description: 'Name of the routing group.' }),
    clusters: Type.Array(
      Type.Object({
        name: Type.String(),
        active: Type.Boolean(),
        status: oneOf(['PENDING', 'HEALTHY', 'UNHEALTHY']),
        takesNewQueries: Type.Boolean({ description: 'It is active and HEALTHY.' }),
        maxRunningQueries: nullable(Type.Integer(), 'Null: no limit.'),
      }),
      { description: 'Clusters that belong to it, by name.' },
    ),
    spec: nullable(Spec, 'Null: no resource declares anything of it.'),
    ...counts,
    inForce: declared.inForce,
    message: declared.message,
    version: nullable(declared.version, 'Null where there is no resource.'),
    resource: nullable(declared.resource, 'Null where there is none.'),
  },
  { $id: 'GroupState', description: 'A routing group with its clusters, limits and queue.' },
);
export type GroupState = Answer<typeof GroupState>;

export const GroupDetails = Type.Object(
  {
    ...GroupState.properties,
    isDefault: Type.Boolean({ description: 'Queries that nothing else decides on go there.' }),
    withoutTakers: reference(NewQueries),
  },
  {
    $id: 'GroupDetails',
    description: 'A routing group, and what new queries get when none of its clusters takes any.',
  },
);
export type GroupDetails = Answer<typeof GroupDetails>;

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
export type LimitState = Answer<typeof LimitState>;
