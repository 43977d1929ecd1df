import { Type } from 'typebox';
import type { PublishedKey } from '../gateway/user/clusterTokens.ts';
import { type RoutingTable, takesNewQueries } from '../routing/routingTable.ts';
import type { RoutingTableHolder } from '../routing/tableHolder.ts';
import { type RouteContext, routes } from './routes.ts';
import { content } from './schemas.ts';

/** State of something the gateway uses, as `/readyz?verbose` reports it. */
export interface ComponentState {
  /** e.g. `database`, `resource source`, `history buffer`. */
  readonly name: string;
  readonly ok: boolean;
  /** Sentence for users; of a component that is unavailable: since when and why. */
  readonly message: string;
  /** Of one that is not ok: it is there, and what it holds has mistakes. Left out: it is unavailable or overloaded. */
  readonly hasMistakes?: true;
}

/**
 * True if the process takes traffic (docs/rest-api.md#probes): a snapshot is loaded and every cluster has a verdict, or
 * the grace time has passed. Never unready because of database, API server or clusters.
 */
export interface Readiness {
  /** Null when ready, otherwise what is still missing. */
  notReadyBecause(): string | null;
  /** State of each component; must not take longer than about a second and must not reject. */
  components(): Promise<readonly ComponentState[]>;
}

const Verbose = Type.Object({
  verbose: Type.Optional(Type.String({ description: 'Given at all: reports the state of every component.' })),
});
const PLAIN = 'text/plain; charset=utf-8';
const text = (description: string) => content(description, Type.String(), 'text/plain');

/**
 * Liveness and readiness (docs/rest-api.md#probes), under the gateway's own path and, for Kubernetes' habit, at the
 * root.
 */
export function healthRoutes(api: RouteContext & { readonly table: RoutingTableHolder }, readiness: Readiness): void {
  const { names, table } = api;
  const route = routes(api, 'probes');
  for (const prefix of [names.gatewayPath, '']) {
    route('GET', `${prefix}/livez`, {
      summary: 'Liveness',
      responses: { 200: text('ok: the process runs.') },
      handle: ({ reply }) => reply.type(PLAIN).send('ok'),
    });

    route('GET', `${prefix}/readyz`, {
      summary: 'Readiness',
      description:
        'Never unready because a database, an API server or a cluster is unavailable; verbose reports what is.',
      query: Verbose,
      responses: { 200: text('ok: takes requests.'), 503: text('Not yet; the text says what is missing.') },
      handle: async ({ reply, query }) => {
        const missing = readiness.notReadyBecause();
        reply.code(missing === null ? 200 : 503).type(PLAIN);
        if (query.verbose === undefined) {
          return reply.send(missing === null ? 'ok' : `${names.product} Gateway is still initializing`);
        }
        const states = [...(await readiness.components()), clusterState(table.current)];
        const lines = states.map(({ name, ok, message }) => `[${ok ? '+' : '-'}] ${name}: ${message}`);
        return reply.send(`${[...lines, missing === null ? 'ready' : `not ready: ${missing}`].join('\n')}\n`);
      },
    });
  }
}

/** Counts healthy active clusters, with the reasons for others. */
function clusterState(table: RoutingTable): ComponentState {
  const active = [...table.clusters.values()].filter((cluster) => cluster.active);
  const away = active.filter((cluster) => !takesNewQueries(cluster));
  const reasons = away.map(({ name, health }) => `; ${name} is ${health.status} (${health.reason})`);
  return {
    name: 'clusters',
    ok: away.length === 0,
    message: `${active.length - away.length} of ${active.length} active clusters healthy${reasons.join('')}`,
  };
}

/** Path of the public keys of tokens for clusters. */
export const JWKS_PATH = '/.well-known/jwks.json';

/** Returns the public keys of tokens for clusters. */
export type PublishedKeys = () => { readonly keys: readonly PublishedKey[] };

const Jwks = Type.Object(
  {
    keys: Type.Array(
      Type.Object(
        { kid: Type.String({ description: 'Id of the key, as tokens name it.' }), kty: Type.String() },
        { additionalProperties: true },
      ),
      { description: 'Public keys (RFC 7517); the one that signs now is the first.' },
    ),
  },
  { description: 'Public keys.' },
);

/** The public keys of tokens that clusters get for users of client certificates (docs/client-certificates.md). */
export function jwksRoutes(api: RouteContext, published: PublishedKeys): void {
  routes(api, 'probes')('GET', JWKS_PATH, {
    summary: 'Public keys of tokens for clusters',
    description: 'The keys that clusters verify tokens of users of client certificates with, as a JWKS.',
    returns: ['Public keys.', Jwks],
    options: { config: { role: 'public' } },
    handle: ({ reply }) => reply.header('cache-control', 'public, max-age=60').send(published()),
  });
}
