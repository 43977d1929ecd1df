import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import type { ProductNames } from '../model/names.ts';
import { type RoutingTable, takesNewQueries } from '../routing/routingTable.ts';
import type { RoutingTableHolder } from '../routing/tableHolder.ts';
import type { ComponentState, Readiness } from './processReadiness.ts';
import { textAnswer } from './schemas.ts';

export interface HealthRoutes {
  readonly readiness: Readiness;
  readonly table: RoutingTableHolder;
  readonly names: ProductNames;
}

const tags = ['probes'];
const Verbose = Type.Object({
  verbose: Type.Optional(Type.String({ description: 'Given at all: reports the state of every component.' })),
});

/**
 * Liveness and readiness (docs/rest-api.md#probes), under the gateway's own path and, for Kubernetes' habit, at the
 * root.
 */
export async function healthRoutes(app: FastifyInstance, { readiness, table, names }: HealthRoutes): Promise<void> {
  const notReady = `${names.product} Gateway is still initializing`;
  for (const prefix of [names.gatewayPath, '']) {
    app.get(
      `${prefix}/livez`,
      { schema: { tags, summary: 'Liveness', response: { 200: textAnswer('ok: the process runs.') } } },
      (_request, reply) => reply.type('text/plain; charset=utf-8').send('ok'),
    );

    app.get<{ Querystring: { verbose?: string } }>(
      `${prefix}/readyz`,
      {
        schema: {
          tags,
          summary: 'Readiness',
          description:
            'Never unready because a database, an API server or a cluster is unavailable; verbose reports what is.',
          querystring: Verbose,
          response: {
            200: textAnswer('ok: takes requests.'),
            503: textAnswer('Not yet; the text says what is missing.'),
          },
        },
      },
      async (request, reply) => {
        const missing = readiness.notReadyBecause();
        reply.code(missing === null ? 200 : 503).type('text/plain; charset=utf-8');
        if (request.query.verbose === undefined) return reply.send(missing === null ? 'ok' : notReady);
        const states = [...(await readiness.components()), clusterState(table.current)];
        const summary = missing === null ? 'ready' : `not ready: ${missing}`;
        return reply.send(`${[...states.map(line), summary].join('\n')}\n`);
      },
    );
  }
}

function line({ name, ok, message }: ComponentState): string {
  return `[${ok ? '+' : '-'}] ${name}: ${message}`;
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
