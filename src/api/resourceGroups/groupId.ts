import type { FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { GatewayError } from '../../model/errors.ts';
import { compileCheck } from '../../model/validation.ts';
import { useSchema, type WebappQuery } from './webappCalls.ts';

export const GroupIdInPath = Type.Object({
  resourceGroupId: Type.String({ description: 'Id of the resource group.' }),
});

/**
 * The id in the path of a request.
 * @throws GatewayError EG_MALFORMED
 */
export function groupIdInPath(request: FastifyRequest): number {
  const { resourceGroupId } = request.params as { resourceGroupId: string };
  const id = Number(resourceGroupId);
  if (/^\d{1,16}$/.test(resourceGroupId) && Number.isSafeInteger(id)) return id;
  throw new GatewayError('EG_MALFORMED', 'resourceGroupId must be a whole number.', { field: 'resourceGroupId' });
}

const GroupQuery = Type.Object({
  useSchema,
  resourceGroupId: Type.Optional(
    Type.Union([Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }), Type.Null()]),
  ),
});

/** The web application's query of a resource group and what belongs to it. */
export const groupQuery = { body: GroupQuery, parse: compileCheck(GroupQuery) } satisfies WebappQuery<unknown>;

/**
 * The id of a query.
 * @throws GatewayError EG_MALFORMED where it has none
 */
export function groupIdInQuery({ resourceGroupId }: { readonly resourceGroupId?: number | null }): number {
  if (resourceGroupId != null) return resourceGroupId;
  throw new GatewayError('EG_MALFORMED', 'ResourceGroupId cannot be null!', { field: 'resourceGroupId' });
}
