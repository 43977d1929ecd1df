import type { FastifyInstance } from 'fastify';
import type { Controller } from '../operator/reconcile/controller.ts';
import { HeldDeletionList } from './answers/heldDeletions.ts';
import { recordChange } from './auth/audit.ts';
import { answer, errorAnswers } from './schemas.ts';

export interface HeldDeletionRoutes {
  readonly controller: Pick<Controller, 'heldDeletions' | 'confirmDeletions'>;
}

const tags = ['cluster registry'];

/**
 * Losses of most resources of a kind, which stay routed until they are confirmed
 * (docs/reliability.md#a-source-that-loses-most-of-its-resources).
 */
export async function heldDeletionRoutes(app: FastifyInstance, { controller }: HeldDeletionRoutes): Promise<void> {
  const list = (): HeldDeletionList => ({
    losses: controller.heldDeletions.map(({ since, until, names, ...loss }) => ({
      ...loss,
      since: new Date(since).toISOString(),
      until: until === null ? null : new Date(until).toISOString(),
      names: [...names],
    })),
  });

  app.get(
    '/api/heldDeletions',
    {
      schema: {
        tags,
        summary: 'Shows resources that the source has lost and that are still routed',
        response: { 200: answer('Losses that are not confirmed.', HeldDeletionList), ...errorAnswers(401, 403) },
      },
    },
    async (_request, reply) => reply.send(list()),
  );

  app.post(
    '/api/heldDeletions/confirm',
    {
      schema: {
        tags,
        summary: 'Confirms that these resources are meant to be gone, for all replicas',
        response: { 200: answer('What this replica held.', HeldDeletionList), ...errorAnswers(401, 403, 503) },
      },
    },
    async (request, reply) => {
      const before = list();
      await controller.confirmDeletions();
      const subject = { kind: 'HeldDeletions', name: 'all' };
      recordChange(request, { object: 'held deletions', subject, regarding: 'gateway', before, after: list() });
      return reply.send(before);
    },
  );
}
