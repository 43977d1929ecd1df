import type { FastifyInstance } from 'fastify';
import type { Clock } from '../model/clock.ts';
import type { RuleHit, RuleHits } from '../store/ruleHits.ts';
import { RuleHitList } from './answers/rules.ts';
import { notModified, revalidate } from './revalidation.ts';
import { answer, errorAnswers } from './schemas.ts';

/** Dependencies of the route. */
export interface RuleHitRoutes {
  readonly hits: RuleHits;
  readonly clock: Clock;
}

/** So long all callers get the same counts, in milliseconds: counting a million queries costs the database something. */
const KEPT_MS = 30_000;

interface Counted {
  readonly asOf: number;
  readonly hits: readonly RuleHit[];
}

/** How many queries each rule decided (docs/rest-api.md#routing-rules). */
export async function ruleHitRoutes(app: FastifyInstance, { hits, clock }: RuleHitRoutes): Promise<void> {
  revalidate(app);
  let latest: { readonly at: number; readonly counts: Promise<Counted> } | null = null;
  const present = (): Promise<Counted> => {
    const at = clock.monotonic();
    if (latest !== null && at - latest.at < KEPT_MS) return latest.counts;
    const asOf = clock.now();
    const counts = hits.before(asOf).then((counted) => ({ asOf, hits: counted }));
    const mine = { at, counts };
    latest = mine;
    counts.catch(() => {
      if (latest === mine) latest = null;
    });
    return counts;
  };

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
    async (_request, reply) => {
      const { asOf, hits: counted } = await present();
      return reply.send({ asOf: new Date(asOf).toISOString(), hits: counted } satisfies RuleHitList);
    },
  );
}
