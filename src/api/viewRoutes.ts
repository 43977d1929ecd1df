import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import type { ProductNames } from '../model/names.ts';
import { RegistryCluster } from '../model/registryCluster.ts';
import type { ClusterRegistry } from '../operator/registry/clusterRegistry.ts';
import type { RoutingTableHolder } from '../routing/tableHolder.ts';
import type { QueryHistoryRepository } from '../store/historyRepository.ts';
import { HistoryRow } from './answers/history.ts';
import { visibleUser } from './auth/guard.ts';
import { answer, errorAnswers, reference } from './schemas.ts';
import { historyRow, MAX_PAGE, namesByUrl } from './webapp/historyRoutes.ts';

export interface ViewRoutes {
  readonly registry: ClusterRegistry;
  readonly history: QueryHistoryRepository;
  readonly table: RoutingTableHolder;
  readonly names: ProductNames;
}

/** The JSON views under the gateway's own path (docs/compatibility.md#views-health-and-metrics). */
export async function viewRoutes(app: FastifyInstance, { registry, history, table, names }: ViewRoutes): Promise<void> {
  const base = `${names.gatewayPath}/api`;
  const tags = ['views'];
  const newest = async (user: string | null) =>
    (await history.find(user === null ? {} : { user }, { offset: 0, limit: MAX_PAGE })).records;

  app.get(
    `${base}/queryHistory`,
    {
      schema: {
        tags,
        summary: `The newest ${MAX_PAGE} queries`,
        description: 'Callers without ADMIN see their own.',
        response: { 200: answer('The queries, newest first.', Type.Array(HistoryRow)), ...errorAnswers(503) },
      },
    },
    async (request, reply) => reply.send((await newest(await visibleUser(request))).map(historyRow)),
  );

  app.get(
    `${base}/activeBackends`,
    {
      schema: {
        tags,
        summary: 'Active clusters',
        response: { 200: answer('The clusters.', Type.Array(reference(RegistryCluster))) },
      },
    },
    (_request, reply) => reply.send(registry.all().filter((cluster) => cluster.active)),
  );

  app.get(
    `${base}/queryHistoryDistribution`,
    {
      schema: {
        tags,
        summary: `The newest ${MAX_PAGE} queries by cluster`,
        description: 'Callers without ADMIN see their own.',
        response: {
          200: answer(
            'Counts by name; a cluster that is gone goes by its URL.',
            Type.Record(Type.String(), Type.Integer()),
          ),
          ...errorAnswers(503),
        },
      },
    },
    async (request, reply) => {
      const clusters = namesByUrl(table.current);
      const counts = new Map<string, number>();
      for (const { backendUrl } of await newest(await visibleUser(request))) {
        const name = clusters.get(backendUrl) ?? backendUrl;
        counts.set(name, (counts.get(name) ?? 0) + 1);
      }
      return reply.send(Object.fromEntries(counts));
    },
  );
}
