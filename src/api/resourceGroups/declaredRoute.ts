import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import { RESOURCE_GROUP_CONFIGURATION } from '../../kinds/resourceGroupConfiguration/spec.ts';
import type { GroupInventory } from '../../operator/registry/groupInventory.ts';
import { DeclaredGroups } from '../answers/declaredGroups.ts';
import { notModified, revalidate } from '../revalidation.ts';
import { answer, errorAnswers, reference } from '../schemas.ts';
import { UseSchema } from './restCalls.ts';

/** Which rows resources declare (docs/rest-api.md#resource-groups-selectors-global-properties). */
export async function declaredGroupsRoute(
  app: FastifyInstance,
  { inventory }: { readonly inventory: Pick<GroupInventory, 'of'> },
): Promise<void> {
  revalidate(app);
  app.get(
    '/api/resourcegroups/declared',
    {
      schema: {
        tags: ['resource groups'],
        summary: 'Lists what resources declare of resource groups, selectors and global properties',
        description: `By ${RESOURCE_GROUP_CONFIGURATION} and environment. Rows that are not listed were written by calls alone.`,
        querystring: UseSchema,
        response: {
          200: answer('By namespace, name and environment.', Type.Array(reference(DeclaredGroups))),
          ...notModified,
          ...errorAnswers(400, 404, 422, 503),
        },
      },
    },
    async (request, reply) => {
      const { useSchema } = request.query as { readonly useSchema?: string };
      const declared: readonly DeclaredGroups[] = await inventory.of(useSchema || null);
      return reply.send(declared);
    },
  );
}
