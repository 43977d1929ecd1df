import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import Fastify, { type FastifySchema } from 'fastify';
import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import type { TSchema } from 'typebox';
import type { RequestBodies } from '../gateway/bodies/requestBodies.ts';
import type { Clock } from '../model/clock.ts';
import type { ProductNames } from '../model/names.ts';
import { compileCheck } from '../model/validation.ts';
import type { Controller } from '../operator/reconcile/controller.ts';
import type { GroupTables, GroupWrites } from '../operator/registry/groupWrites.ts';
import type { LimitRegistry } from '../operator/registry/limitRegistry.ts';
import type { AppliedChange } from '../operator/registry/resourceWrites.ts';
import type { RoutingRules } from '../operator/registry/routingRules.ts';
import type { AuditRepository } from '../store/auditRepository.ts';
import type { ExactMatchSelectorRepository } from '../store/exactMatchSelectors.ts';
import type { QueryHistoryRepository } from '../store/historyRepository.ts';
import type { QueryCounts } from '../store/queryCounts.ts';
import type { QueryRates } from '../store/queryRates.ts';
import type { QueuedQueryRepository } from '../store/queuedQueryRepository.ts';
import type { RuleHits } from '../store/ruleHits.ts';
import { readBodies } from './apiBody.ts';
import { auditRoutes } from './audit.ts';
import type { AuditTrail } from './auth/audit.ts';
import type { Authentication } from './auth/authentication.ts';
import { guardRoutes } from './auth/guard.ts';
import { loginRoutes } from './auth/loginRoutes.ts';
import { configurationRoute, pageRoutes } from './auth/pageRoutes.ts';
import { securitySchemes } from './auth/securitySchemes.ts';
import { type ClusterParts, clusterRoutes, heldDeletionRoutes } from './clusters.ts';
import { errorHandler, malformed } from './errors.ts';
import { eventRoutes } from './events/eventStreams.ts';
import { type TopicVersions, versionBeside, versionOfText } from './events/topics.ts';
import { type ExplainParts, explainRoutes } from './explain.ts';
import { groupExplainRoute } from './groupExplain.ts';
import { historyRoutes, searchRoutes, viewRoutes } from './history.ts';
import { type ImpactParts, impactRoutes } from './impact.ts';
import { indexPage } from './indexPage.ts';
import { limitRoutes } from './limits.ts';
import { respondUnserved } from './methods.ts';
import { measureCalls, metricsRoutes, registerMetrics } from './metricsRoutes.ts';
import { collectOpenapi, openapiRoute } from './openapi.ts';
import { overviewRoutes } from './overview/overviewRoutes.ts';
import { type ProblemSources, ProblemWatch } from './overview/problemWatch.ts';
import { type ComponentState, healthRoutes, jwksRoutes, type PublishedKeys, type Readiness } from './probes.ts';
import { type QueryParts, queryRoutes, type RunningParts, runningQueryRoutes } from './queries.ts';
import { rejectUnknownParameters } from './queryParameters.ts';
import { queueLister, queueRoutes } from './queue.ts';
import { backendRoutes, publicRoutes, registryRoutes } from './registry.ts';
import {
  declaredGroupsRoute,
  entityRoutes,
  exactSelectorRoutes,
  resourceGroupRoutes,
  webappGroupRoutes,
} from './resourceGroups.ts';
import type { RouteContext } from './routes.ts';
import { ruleRoutes, webappRuleRoutes } from './rules.ts';
import { type UserInterfaceParts, userInterfaceRoutes } from './userInterface.ts';

/** Parts of the API. Routes of parts that are null are not served. */
export interface ApiDependencies extends ClusterParts {
  /** Grows whenever `inventory`, or the health of its clusters, changes; counts of queries do not matter. */
  readonly inventoryStateVersion: () => number;
  readonly readiness: Readiness;
  /** All metrics of the process; the API adds its own, the clusters' and the process's. */
  readonly metrics: Registry;
  readonly logger: Logger;
  readonly bodies: RequestBodies;
  readonly authentication: Authentication;
  /** Gives the names by which queries of callers are known; left out or null: those that they log in with. */
  readonly queryUser?: ((name: string) => string | null) | null;
  /** The audit in the database; if it is missing, changes are only in the log. */
  readonly audit?: AuditTrail & { readonly repository: Pick<AuditRepository, 'list'> };
  readonly onChange: (change: AppliedChange) => void;
  /** Null: switched off (`resourceGroups.enabled`). */
  readonly resourceGroups: GroupTables | null;
  readonly declaredGroups?: Pick<GroupWrites, 'of'> | null;
  readonly rules: RuleDependencies | null;
  /** Routing groups and query limits. */
  readonly limits: LimitRegistry | null;
  readonly heldDeletions: Pick<Controller, 'heldDeletions' | 'confirmDeletions'> | null;
  readonly running?: RunningParts;
  readonly queuedQueries: QueuedQueryRepository | null;
  readonly queries: QueryParts | null;
  /** The web application's calls and the JSON views. */
  readonly webapp: WebappDependencies | null;
  /** Keys of tokens for clusters. */
  readonly publishedKeys: PublishedKeys | null;
  readonly stopping: () => boolean;
  /** Null: `/` is a plain page. */
  readonly userInterface: UserInterfaceParts | null;
}

export interface RuleDependencies extends ExplainParts {
  readonly routingRules: RoutingRules;
  /** Counts of decisions by rule, with their clock. */
  readonly hits: { readonly hits: RuleHits; readonly clock: Clock };
  readonly impact: ImpactParts;
}

export interface WebappDependencies {
  readonly history: QueryHistoryRepository;
  readonly queryCounts: QueryCounts;
  /** `dataStore.queryHistoryHoursRetention`. */
  readonly keptHours: number;
  /** Left out, what is wrong now is not served, nor are rates. */
  readonly incidents?: IncidentDependencies;
  readonly exactMatchSelectors: ExactMatchSelectorRepository;
  readonly clock: Clock;
  /** Milliseconds since 1970 at which the process started. */
  readonly startedAt: number;
  /** `uiConfiguration.disablePages`. */
  readonly disablePages: readonly string[];
  /** `uiConfiguration.hiddenPageCalls`. */
  readonly hiddenPageCalls: 'refuse' | 'allow';
}

export interface IncidentDependencies extends Pick<ProblemSources, 'ruleConditions' | 'leader' | 'queued'> {
  readonly rates: QueryRates;
}

export interface ApiOptions {
  readonly names: ProductNames;
  readonly version: string;
  /** Longest body in bytes; longer ones get a response 413. */
  readonly bodyLimit: number;
}

/** The REST API as a handler for a `node:http` server that others share. */
export interface Api {
  /** Responds to every request it is given; 404 for paths that are not the API's. */
  handler(request: IncomingMessage, response: ServerResponse): void;
  /** Waits for running calls; later ones get a response 503. */
  close(): Promise<void>;
}

/** Makes the API: one Fastify instance without its own server, to which each family of routes is added. */
export async function createApi(dependencies: ApiDependencies, options: ApiOptions): Promise<Api> {
  const { metrics, table, logger, authentication, webapp, userInterface } = dependencies;
  const { names, version, bodyLimit } = options;
  const onError = errorHandler(logger);
  const app = Fastify({
    bodyLimit,
    genReqId: () => randomUUID(),
    frameworkErrors: onError,
    rewriteUrl: ({ url = '' }) => names.ownTarget(url),
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 4096 },
  });

  app.setErrorHandler(onError);
  readBodies(app, dependencies.bodies, bodyLimit);
  // Query and path are checked here; bodies by the routes, whose messages know the fields. Responses are not rewritten.
  app.setValidatorCompiler<FastifySchema & TSchema>(({ schema, httpPart }) => {
    if (httpPart === 'body' || httpPart === 'headers') return () => true;
    const check = compileCheck(schema);
    return (value: unknown) => {
      const checked = check(value);
      return checked.ok ? true : { error: malformed(checked.problems) };
    };
  });
  app.setSerializerCompiler(() => (value) => JSON.stringify(value));

  app.addHook('onRequest', async (request, reply) => {
    reply.headers({ 'X-Request-Id': request.id, 'X-Content-Type-Options': 'nosniff', 'Cache-Control': 'no-store' });
  });
  const page = { names, version, hasPages: userInterface?.built != null && userInterface.enabled };
  respondUnserved(app, page);
  registerMetrics(metrics, table, version);
  measureCalls(app, metrics);
  rejectUnknownParameters(app, names);
  const { onChange, audit = null, queryUser = null } = dependencies;
  guardRoutes(app, authentication, logger, onChange, webapp, audit, queryUser);
  await collectOpenapi(app, names.product, version, securitySchemes(authentication));
  const api = { ...dependencies, app, names, version };
  const readiness = withAuthentication(dependencies.readiness, authentication);
  addRoutes(api, readiness);
  if (userInterface !== null) userInterfaceRoutes(api, userInterface);
  indexPage(api, page);
  openapiRoute(api);
  await app.ready();
  return { handler: (request, response) => app.routing(request, response), close: () => app.close() };
}

type ApiContext = ApiDependencies & RouteContext & { readonly version: string };

function addRoutes(api: ApiContext, readiness: Readiness): void {
  const { table, resourceGroups, webapp, rules, queuedQueries, queries, audit } = api;
  loginRoutes(api, api.authentication);
  pageRoutes(api, api.authentication);
  registryRoutes(api);
  clusterRoutes(api);
  publicRoutes(api);
  healthRoutes(api, readiness);
  metricsRoutes(api);
  if (api.heldDeletions !== null) heldDeletionRoutes(api, api.heldDeletions);
  if (api.limits !== null) limitRoutes(api, api.limits);
  if (api.publishedKeys !== null) jwksRoutes(api, api.publishedKeys);
  if (resourceGroups !== null) {
    resourceGroupRoutes(api, resourceGroups);
    groupExplainRoute(api, resourceGroups);
    entityRoutes(api, resourceGroups);
    if (api.declaredGroups != null) declaredGroupsRoute(api, api.declaredGroups);
  }
  if (webapp !== null) {
    webappRoutes(api, webapp, readiness);
    if (resourceGroups !== null) {
      webappGroupRoutes(api, resourceGroups);
      exactSelectorRoutes(api, webapp.exactMatchSelectors, webapp.clock);
    }
  }
  if (api.running !== undefined) runningQueryRoutes(api, api.running);
  if (audit !== undefined) auditRoutes(api, audit.repository);
  const listQueue = queuedQueries === null ? null : queueLister(queuedQueries, table);
  if (queuedQueries !== null && listQueue !== null) queueRoutes(api, queuedQueries, listQueue);
  if (queries !== null) queryRoutes(api, queries);
  if (rules !== null) {
    webappRuleRoutes(api, rules.routingRules);
    ruleRoutes(api, rules.routingRules, rules.hits);
    impactRoutes(api, rules.routingRules, rules.impact);
    explainRoutes(api, rules, queuedQueries, listQueue);
  }
  eventRoutes(api, { topics: topicsOf(api, readiness), stopping: api.stopping, logger: api.logger });
}

function webappRoutes(api: ApiContext, webapp: WebappDependencies, readiness: Readiness): void {
  const { history, queryCounts, clock, startedAt, keptHours, incidents } = webapp;
  const search = { history, queued: api.queuedQueries };
  const problems = problemWatch(api, webapp);
  if (problems !== null) api.app.addHook('onClose', async () => problems.stop());
  backendRoutes(api);
  historyRoutes(api, search, queryCounts, clock, startedAt);
  searchRoutes(api, search, api.queries?.list ?? null);
  const rates = incidents?.rates ?? null;
  overviewRoutes(api, readiness, { counts: queryCounts, clock, startedAt, keptHours, rates, problems });
  configurationRoute(api, webapp.disablePages);
  viewRoutes(api, history);
}

/** Looks for what is wrong, from now on; null if nothing states what it needs. */
function problemWatch(
  { table, inventory, defaultGroup, rules, readiness, logger }: ApiDependencies,
  { incidents, clock }: WebappDependencies,
): ProblemWatch | null {
  if (incidents === undefined) return null;
  const routingRules = rules?.routingRules ?? null;
  const sources = { table, inventory, defaultRoutingGroup: defaultGroup, readiness, clock, logger };
  const watch = new ProblemWatch({ ...sources, ...incidents, rules: routingRules });
  watch.start();
  return watch;
}

/** Versions of the lists that are served, and of what the gateway lacks. */
function topicsOf(
  { inventoryStateVersion, rules, limits, queuedQueries }: ApiDependencies,
  readiness: Readiness,
): TopicVersions {
  return {
    health: versionBeside(async () => troubleText(await readiness.components())),
    clusters: inventoryStateVersion,
    ...(rules === null ? {} : { rules: () => rules.routingRules.inventoryVersion() }),
    ...(limits === null ? {} : { groups: () => limits.version(), limits: () => limits.version() }),
    ...(queuedQueries === null ? {} : { queue: versionOfText(() => queuedQueries.listVersion()) }),
  };
}

/** Which components are in trouble; their messages change each second. */
function troubleText(components: readonly ComponentState[]): string {
  return components
    .filter(({ ok }) => !ok)
    .map(({ name, hasMistakes = false }) => `${name} ${hasMistakes}`)
    .join();
}

/** Adds the way callers are recognised, so that an open API is visible. */
function withAuthentication(readiness: Readiness, authentication: Authentication): Readiness {
  return {
    notReadyBecause: () => readiness.notReadyBecause(),
    components: async () => [...(await readiness.components()), authentication.state()],
  };
}
