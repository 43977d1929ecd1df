import type { FastifyInstance } from 'fastify';
import type { Clock } from '../model/clock.ts';
import type { RuleHits } from '../store/ruleHits.ts';
import { RuleHitList } from './answers/rules.ts';
import { notModified, revalidate } from './revalidation.ts';
import { answer, errorAnswers } from './schemas.ts';

export interface RuleHitRoutes {
  readonly hits: RuleHits;
  readonly clock: Clock;
}

/** Routes of the number of queries by deciding rule (docs/rest-api.md#routing-rules). */
export async function ruleHitRoutes(app: FastifyInstance, { hits, clock }: RuleHitRoutes): Promise<void> {
  revalidate(app);

  app.get(
    '/api/ruleHits',
    {
      schema: {
        tags: ['routing rules'],
        summary: 'How many queries each rule decided in the last hour and day',
        description: 'On all replicas. Rules that decided none are left out. Carries an ETag.',
        response: { 200: answer('The counts.', RuleHitList), ...notModified, ...errorAnswers(503) },
      },
    },
    async (_request, reply) => {
      const asOf = clock.now();
      const hitList: RuleHitList = { asOf: new Date(asOf).toISOString(), hits: await hits.before(asOf) };
      return reply.send(hitList);
    },
  );
}
