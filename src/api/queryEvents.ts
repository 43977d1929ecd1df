import type { FastifyRequest } from 'fastify';
import { LRUCache } from 'lru-cache';
import { Type } from 'typebox';
import type { QueryEvents } from '../gateway/outcomes/queryEvents.ts';
import { GatewayError } from '../model/errors.ts';
import type { Secret } from '../model/secret.ts';
import type { ApiContext } from './apiContext.ts';
import { sameText } from './auth/users.ts';
import { malformed } from './errors.ts';
import { utf8 } from './requestBody.ts';
import { notFound, routes } from './routes.ts';

/** Largest event: those of large queries have plans and figures of each operator. */
const MAX_EVENT_BYTES = 4 * 1024 * 1024;
/** Events of a cluster in a second, and in a burst; an event counts for each of these bytes once more. */
const EVENTS_A_SECOND = 200;
const BURST = 2_000;
const EVENT_BYTES = 20_000;
const MAX_CLUSTERS = 10_000;

/** Receiver of events of clusters. Secrets by the name of the cluster, `*`: of all others. */
export interface QueryEventParts {
  readonly events: QueryEvents;
  readonly secrets: Readonly<Record<string, Secret>>;
}

/** The route of Trino's HTTP event listener (docs/query-events.md). */
export function queryEventRoute(api: ApiContext, { events, secrets }: QueryEventParts): void {
  const { clock, table } = api;
  const buckets = new LRUCache<string, { tokens: number; at: number }>({ max: MAX_CLUSTERS });
  const clusterOf = ({ params }: FastifyRequest) => (params as { readonly cluster: string }).cluster;

  /** Rejects before the body is read. */
  const admit = async (request: FastifyRequest) => {
    const cluster = clusterOf(request);
    const secret = secrets[cluster] ?? secrets['*'];
    const candidate = /^bearer +(.+)$/i.exec(request.headers.authorization ?? '')?.[1] ?? '';
    const isKnown = sameText(candidate, (await secret?.read()) ?? '');
    if (secret === undefined || candidate === '' || !isKnown) {
      const message = `Authorization must be "Bearer" and the secret of the cluster in the path (queryEvents.secrets).`;
      throw new GatewayError('EG_UNAUTHENTICATED', message);
    }
    if (!table.current.clusters.has(cluster)) throw notFound(`There is no cluster ${cluster.slice(0, 100)}.`);
    const now = clock.monotonic();
    const { tokens, at } = buckets.get(cluster) ?? { tokens: BURST, at: now };
    const left = Math.min(BURST, tokens + ((now - at) / 1000) * EVENTS_A_SECOND);
    const cost = 1 + Number(request.headers['content-length'] ?? MAX_EVENT_BYTES) / EVENT_BYTES;
    const isAdmitted = left >= Math.min(cost, BURST);
    buckets.set(cluster, { tokens: isAdmitted ? left - cost : left, at: now });
    if (isAdmitted) return;
    const message = `${cluster} sends more than ${EVENTS_A_SECOND} events or ${(EVENTS_A_SECOND * EVENT_BYTES) / 1e6} MB in a second.`;
    throw new GatewayError('EG_BUSY', message, { retryAfterSeconds: 1 });
  };

  routes(api, 'queries')('POST', '/api/queryEvents/:cluster', {
    summary: 'Takes an event of the HTTP event listener of a cluster',
    description:
      'A QueryCompletedEvent is recorded; other events are ignored. `Authorization` is `Bearer` and the secret of the cluster.',
    params: Type.Object({ cluster: Type.String({ description: 'Registry name of the cluster.' }) }),
    rawBody: Type.Object({}, { description: 'The event as Trino sends it.' }),
    responses: { 204: Type.Null({ description: 'The event is recorded within a second, or ignored.' }) },
    errors: [401, 404, 413, 503],
    options: { config: { role: 'public' }, onRequest: admit, bodyLimit: MAX_EVENT_BYTES },
    handle: async ({ request, reply }) => {
      const problem = await events.record(clusterOf(request), eventOf(request));
      if (problem !== null) throw malformed([{ field: 'body', message: problem }]);
      return reply.code(204).send();
    },
  });
}

function eventOf({ body }: FastifyRequest): unknown {
  try {
    return JSON.parse(utf8(body as Buffer));
  } catch (cause) {
    throw new GatewayError('EG_MALFORMED', 'The body is not JSON in UTF-8.', { cause });
  }
}
