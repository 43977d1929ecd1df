import { Type } from 'typebox';
import { RESOURCE_GROUP_CONFIGURATION } from '../../kinds/resourceGroupConfiguration/spec.ts';
import { type Answer, nullable } from './answer.ts';
import { DeclaredResource } from './clusters.ts';

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
