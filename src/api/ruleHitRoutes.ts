import type { FastifyInstance } from 'fastify';
import type { Clock } from '../model/clock.ts';
import type { RuleHits } from '../store/ruleHits.ts';
import { RuleHitList } from './answers/rules.ts';
import { KeptAnswers, notModified, revalidate } from './revalidation.ts';
import { answer, errorAnswers } from './schemas.ts';

/** Dependencies of the route. */
export interface RuleHitRoutes {
  readonly hits: RuleHits;
  readonly clock: Clock;
}

/** So long all callers get the same counts, in milliseconds: counting a million queries costs the database something. */
const KEPT_MS = 30_000;

/** How many queries each rule decided (docs/rest-api.md#routing-rules). */
export async function ruleHitRoutes(app: FastifyInstance, { hits, clock }: RuleHitRoutes): Promise<void> {
  revalidate(app);
  const answers = new KeptAnswers(clock, 1);

  app.get(
    '/api/ruleHits',
    {
      schema: {
        tags: ['routing rules'],
        summary: 'How many queries each rule decided in the last hour and day',
        description: `On all replicas, at most ${KEPT_MS / 1000} seconds ago. Rules that decided none are left out. Carries an ETag.`,
        response: { 200: answer('The counts.', RuleHitList), ...notModified, ...errorAnswers(503) },
      },
    },
    (_request, reply) =>
      answers.send(reply, 'all', KEPT_MS, async () => {
        const asOf = clock.now();
        return { asOf: new Date(asOf).toISOString(), hits: await hits.before(asOf) } satisfies RuleHitList;
      }),
  );
}
