import type { FastifyRequest } from 'fastify';
import { type Static, Type } from 'typebox';
import { GatewayError } from '../model/errors.ts';
import type { DigestFigures } from '../store/digestFigures.ts';
import { type DigestFilter, digestOrders } from '../store/digestStatistics.ts';
import type { StoreContext } from './apiContext.ts';
import { visibleFilter, visibleQueries } from './auth/guard.ts';
import {
  DigestDetails,
  type DigestFiguresResponse,
  DigestList,
  LISTED_TEXT,
  QuarantineList,
  queryRow,
} from './responses/queries.ts';
import { notFound, ofNamespaces, routes, searchText } from './routes.ts';
import { iso, oneOf, optionalTextField } from './schemas.ts';

const DAY = 24 * 3_600_000;
const MAX_LISTED = 200;
const DEFAULT_LISTED = 50;
const EXAMPLES = 10;

const value = (description: string) => Type.Optional(Type.String({ maxLength: 256, description }));
const milliseconds = (description: string) => optionalTextField({ pattern: '^[0-9]{1,15}$', description });
const filters = {
  since: milliseconds('Milliseconds since 1970, inclusive; a day before `until` when absent.'),
  until: milliseconds('Milliseconds since 1970, exclusive; now when absent.'),
  user: value('Only queries of this user.'),
  routingGroup: value('Only queries of this routing group.'),
  cluster: value('Only queries of this cluster, by its registry name.'),
  source: value('Only queries with this source.'),
};
const DetailsQuery = Type.Object(filters);
const DigestsQuery = Type.Object({
  ...filters,
  top: Type.Optional(
    oneOf(
      digestOrders,
      'What digests are sorted by, most first: processor time, elapsed time, queries, failures, or the growth of processor time over the range of equal length before. cpu when absent.',
    ),
  ),
  limit: optionalTextField({
    pattern: '^[0-9]{1,3}$',
    description: `Digests, up to ${MAX_LISTED}; ${DEFAULT_LISTED} when absent.`,
  }),
});
const DigestInPath = Type.Object({
  digest: Type.String({ pattern: '^[0-9a-f]{16}$', description: 'Digest of a shape.' }),
});
const QuarantinedInPath = Type.Object({
  routingGroup: Type.String({ maxLength: 256 }),
  digest: Type.String({ pattern: '^[0-9a-f]{16}$', description: 'Exact digest, or that of a quarantined shape.' }),
});

/** Figures of queries by digest (docs/digests.md#figures). */
export function digestRoutes(api: StoreContext): void {
  const { clock, store } = api;
  const route = routes(api, 'queries');

  /** @returns null if the caller may see none of the queries */
  const filterOf = async (request: FastifyRequest, query: Static<typeof DetailsQuery>) => {
    const to = Number(query.until ?? clock.now());
    const from = Number(query.since ?? to - DAY);
    if (from >= to) throw new GatewayError('EG_MALFORMED', 'since must be before until.', { field: 'since' });
    const conditions = Object.entries(query).flatMap(([name, text]) =>
      name in queryFilters && text !== '' ? [[name, searchText(text)]] : [],
    );
    const filter: DigestFilter = { from, to, ...Object.fromEntries(conditions) };
    const visible = await visibleQueries(request, api);
    const { cluster = '', routingGroup = '', user } = filter;
    const isAll = visible === null || visible.clusters.includes(cluster) || visible.groups.includes(routingGroup);
    if (isAll) return { filter, isVisible: true };
    return { filter: { ...filter, user: visible.user }, isVisible: user === undefined || user === visible.user };
  };

  route('GET', '/api/digests', {
    summary: 'Lists digests of statements with most processor time, queries or failures',
    description:
      'Figures of queries that were submitted within a range and have ended, by the digest of their shape, with those of the range before. Callers without ADMIN count their own. Carries an ETag.',
    query: DigestsQuery,
    returns: ['The digests.', DigestList],
    hasTag: true,
    errors: [503],
    options: ofNamespaces,
    handle: async ({ request, query: { top = 'cpu', limit, ...query } }): Promise<DigestList> => {
      const { filter, isVisible } = await filterOf(request, query);
      const size = Math.max(1, Math.min(Number(limit ?? DEFAULT_LISTED), MAX_LISTED));
      const counted = isVisible ? await store.digestStatistics.top(filter, top, size) : [];
      const digests = counted.map(({ figures, before, ...rest }) => ({
        ...{ ...rest, figures: figuresResponse(figures), before: figuresResponse(before) },
      }));
      return { since: filter.from, until: filter.to, digests };
    },
  });

  const quarantined = async (request: FastifyRequest): Promise<QuarantineList['quarantined']> => {
    const visible = await visibleQueries(request, api);
    const maySeeAll = (group: string) => visible === null || visible.groups.includes(group);
    const entries = await store.quarantine.active();
    return entries
      .filter(({ group, users }) => maySeeAll(group) || users.includes(visible?.user ?? ''))
      .map(({ group, digest, exactDigest, clusters, users, since, until }) => ({
        ...{ routingGroup: group, digest, exactDigest, clusters: [...clusters], since: iso(since), until: iso(until) },
        users: users.filter((user) => maySeeAll(group) || user === visible?.user),
        canRelease: maySeeAll(group),
      }));
  };

  route('GET', '/api/quarantine', {
    summary: 'Lists statements that routing groups reject, as they lost several clusters',
    description:
      'Callers without ADMIN see statements that they sent, and those of routing groups of their namespaces.',
    returns: ['The statements.', QuarantineList],
    errors: [503],
    options: ofNamespaces,
    handle: async ({ request }): Promise<QuarantineList> => ({ quarantined: await quarantined(request) }),
  });

  route('DELETE', '/api/quarantine/:routingGroup/:digest', {
    summary: 'Releases a quarantined statement, or a shape with its statements',
    description:
      'Replicas accept it within a second. Needs ADMIN, or its rights in the namespaces of all clusters of the group.',
    params: QuarantinedInPath,
    responses: { 204: Type.Null({ description: 'It is accepted again.' }) },
    errors: [404, 503],
    options: ofNamespaces,
    handle: async ({ request, reply, params: { routingGroup, digest } }) => {
      const group = searchText(routingGroup);
      const before = (await quarantined(request)).find(
        (each) => each.canRelease && each.routingGroup === group && (each.exactDigest ?? each.digest) === digest,
      );
      if (before === undefined)
        throw notFound(`Routing group ${group.slice(0, 100)} has no quarantined digest ${digest}.`);
      await store.quarantine.release(group, digest);
      const subject = { kind: 'QuarantinedStatement', name: digest };
      const object = `quarantined statement ${digest} of routing group ${group}`;
      request.changes.push({ object, subject, regarding: 'gateway', before, after: null });
      return reply.code(204).send();
    },
  });

  route('GET', '/api/digests/:digest', {
    summary: 'Shows the queries of one digest: trend by hour, users, sources, clusters and examples',
    description: 'Callers without ADMIN see their own queries. Carries an ETag.',
    params: DigestInPath,
    query: DetailsQuery,
    returns: ['Its figures.', DigestDetails],
    hasTag: true,
    errors: [404, 503],
    options: ofNamespaces,
    handle: async ({ request, params: { digest }, query }): Promise<DigestDetails> => {
      const { filter, isVisible } = await filterOf(request, query);
      const details = isVisible ? await store.digestStatistics.of(digest, filter) : null;
      if (details === null) throw notFound(`No query of yours with digest ${digest} ended in this time.`);
      const examples = await store.queryList.find(
        { ...filter, digest, ...(await visibleFilter(request, api)) },
        ...([EXAMPLES, null, LISTED_TEXT] as const),
      );
      return {
        ...{
          since: filter.from,
          until: filter.to,
          digest,
          shape: details.shape,
          values: details.values,
          inputs: [...details.inputs],
        },
        figures: figuresResponse(details.figures),
        hours: details.hours.map(({ start, figures }) => ({ start, figures: figuresResponse(figures) })),
        examples: examples.map(queryRow),
      };
    },
  });
}

const queryFilters = { user: true, routingGroup: true, cluster: true, source: true };

function figuresResponse(figures: DigestFigures): DigestFiguresResponse {
  const { queries, failures, user_errors, elapsed_ms, cpu_ms, processed_bytes } = figures.totals;
  return {
    ...{ queries, failures, userErrors: user_errors, errors: figures.errors() },
    ...{ elapsedMillis: elapsed_ms, cpuMillis: cpu_ms, processedBytes: processed_bytes },
    ...{ elapsed: figures.percentiles('elapsed'), queued: figures.percentiles('queued') },
    ...{ cpu: figures.percentiles('cpu'), bytes: figures.percentiles('bytes'), memory: figures.percentiles('memory') },
  };
}
