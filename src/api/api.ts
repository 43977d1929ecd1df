import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import Fastify, { type FastifySchema } from 'fastify';
import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import type { TSchema } from 'typebox';
import type { ExplainRequest } from '../gateway/analysis/explainRequest.ts';
import type { RequestBodies } from '../gateway/bodies/requestBodies.ts';
import type { ClusterChanges } from '../gateway/health/clusterChanges.ts';
import type { Clock } from '../model/clock.ts';
import type { ProductNames } from '../model/names.ts';
import { compileCheck } from '../model/validation.ts';
import type { AppliedChange } from '../operator/registry/appliedChange.ts';
import type { InventoryCluster } from '../operator/registry/clusterInventory.ts';
import type { ClusterRegistry } from '../operator/registry/clusterRegistry.ts';
import type { GroupInventory } from '../operator/registry/groupInventory.ts';
import type { GroupTables } from '../operator/registry/groupWrites.ts';
import type { LimitRegistry } from '../operator/registry/limitRegistry.ts';
import type { RoutingRules } from '../operator/registry/routingRules.ts';
import type { RoutingTableHolder } from '../routing/tableHolder.ts';
import type { ExactMatchSelectorRepository } from '../store/exactMatchSelectors.ts';
import type { QueryHistoryRepository } from '../store/historyRepository.ts';
import type { TransactionRepository } from '../store/owners.ts';
import type { QueryCounts } from '../store/queryCounts.ts';
import type { QueryRates } from '../store/queryRates.ts';
import type { QueuedQueryRepository } from '../store/queuedQueryRepository.ts';
import type { HistoryWriter } from '../store/store.ts';
import { readBodies } from './apiBody.ts';
import { type AuditRoutes, auditRoutes } from './auditRoutes.ts';
import type { AuditTrail } from './auth/audit.ts';
import type { Authentication } from './auth/authentication.ts';
import { guardRoutes } from './auth/guard.ts';
import { loginRoutes } from './auth/loginRoutes.ts';
import { pageRoutes } from './auth/pageRoutes.ts';
import { securitySchemes } from './auth/securitySchemes.ts';
import { clusterRoutes } from './clusterRoutes.ts';
import { type ClusterQueriesLookup, drainRoutes } from './drainRoutes.ts';
import { entityRoutes } from './entityRoutes.ts';
import { errorHandler, malformed } from './errors.ts';
import { eventRoutes } from './events/eventRoutes.ts';
import { type TopicVersions, versionBeside, versionOfText } from './events/topics.ts';
import { explainRoutes, type OutcomeLookup } from './explainRoutes.ts';
import { groupRoutes } from './groupRoutes.ts';
import { healthRoutes } from './healthRoutes.ts';
import { type HeldDeletionRoutes, heldDeletionRoutes } from './heldDeletionRoutes.ts';
import { type ImpactDependencies, impactRoutes } from './impactRoutes.ts';
import { indexPage } from './indexPage.ts';
import { type JwksRoutes, jwksRoutes } from './jwksRoutes.ts';
import { limitRoutes } from './limitRoutes.ts';
import { answerUnserved } from './methods.ts';
import { measureCalls, metricsRoutes, registerMetrics } from './metricsRoutes.ts';
import { collectOpenapi, openapiRoute } from './openapi.ts';
import { overviewRoutes } from './overview/overviewRoutes.ts';
import { type ProblemSources, ProblemWatch } from './overview/problemWatch.ts';
import type { ComponentState, Readiness } from './processReadiness.ts';
import { publicRoutes } from './publicRoutes.ts';
import { rejectUnknownParameters } from './queryParameters.ts';
import { type QueryRoutes, queryRoutes } from './queryRoutes.ts';
import { QueueEntries } from './queueEntries.ts';
import { queueRoutes } from './queueRoutes.ts';
import { registryRoutes } from './registryRoutes.ts';
import { declaredGroupsRoute } from './resourceGroups/declaredRoute.ts';
import { groupExplainRoute } from './resourceGroups/explainRoute.ts';
import { resourceGroupRoutes, webappResourceGroupRoutes } from './resourceGroups/resourceGroupRoutes.ts';
import { type RuleHitRoutes, ruleHitRoutes } from './ruleHitRoutes.ts';
import { ruleRoutes } from './ruleRoutes.ts';
import { type RunningQueryRoutes, runningQueryRoutes } from './runningQueryRoutes.ts';
import { scalingRoutes, type WaitingQueriesCount } from './scalingRoutes.ts';
import { searchRoutes } from './searchRoutes.ts';
import { type UserInterfaceRoutes, userInterfaceRoutes } from './userInterface/userInterfaceRoutes.ts';
import { viewRoutes } from './viewRoutes.ts';
import { backendRoutes } from './webapp/backendRoutes.ts';
import { configurationRoutes } from './webapp/configurationRoutes.ts';
import { exactSelectorRoutes } from './webapp/exactSelectorRoutes.ts';
import { historyRoutes } from './webapp/historyRoutes.ts';
import { routingRuleRoutes } from './webapp/routingRuleRoutes.ts';

export interface ApiDependencies {
  readonly registry: ClusterRegistry;
  readonly inventory: () => readonly InventoryCluster[];
  /** Grows whenever `inventory`, or the health of its clusters, changes; counts of queries do not matter. */
  readonly inventoryStateVersion: () => number;
  readonly table: RoutingTableHolder;
  readonly clusterChanges: ClusterChanges;
  readonly replica: string;
  /** `routing.defaultRoutingGroup`. */
  readonly defaultGroup: string;
  readonly readiness: Readiness;
  /** All metrics of the process; the API adds its own, the clusters' and the process's. */
  readonly metrics: Registry;
  readonly logger: Logger;
  readonly bodies: RequestBodies;
  readonly authentication: Authentication;
  /** Gives the names by which queries of callers are known; left out or null: those that they log in with. */
  readonly queryUser?: ((name: string) => string | null) | null;
  /** The audit in the database; left out, changes are in the log alone, and `/api/audit` is not served. */
  readonly audit?: AuditTrail & AuditRoutes;
  readonly onChange: (change: AppliedChange) => void;
  /** Null: the resource group family is switched off (`resourceGroups.enabled`). */
  readonly resourceGroups: GroupTables | null;
  /** Which of these rows resources declare; left out or null: it is not served. */
  readonly declaredGroups?: Pick<GroupInventory, 'of'> | null;
  /** Null: rules are neither listed nor explained. */
  readonly rules: RuleDependencies | null;
  /** Routing groups and query limits; null: `/api/groups` and `/api/limits` are not served. */
  readonly limits: LimitRegistry | null;
  /** Null: `/api/heldDeletions` is not served. */
  readonly heldDeletions: HeldDeletionRoutes['controller'] | null;
  /** Left out, `/api/queries/running` is not served. */
  readonly running?: RunningQueryRoutes;
  readonly runningQueries: ClusterQueriesLookup;
  readonly waitingQueries: WaitingQueriesCount;
  /** Null: `/api/queue` is not served. */
  readonly queuedQueries: QueuedQueryRepository | null;
  /** Null: neither `/api/queries` nor `/api/statistics` is served. */
  readonly queries: QueryRoutes | null;
  /** Null: neither the web application's calls nor the JSON views are served. */
  readonly webapp: WebappDependencies | null;
  /** Keys of tokens for clusters; null without keys and JWKS. */
  readonly publishedKeys: JwksRoutes['published'] | null;
  readonly stopping: () => boolean;
  /** Null: no user interface is served, and `/` is a plain page. */
  readonly userInterface: Omit<UserInterfaceRoutes, 'names'> | null;
}

export interface RuleDependencies {
  readonly routingRules: Pick<
    RoutingRules,
    'inventory' | 'inventoryVersion' | 'groupsNamed' | 'list' | 'byName' | 'update' | 'create' | 'delete'
  >;
  readonly explain: ExplainRequest;
  /** Counts of decisions by rule, with their clock. */
  readonly hits: RuleHitRoutes;
  readonly history: QueryHistoryRepository;
  readonly transactions: Pick<TransactionRepository, 'get'>;
  readonly buffered: HistoryWriter['findBuffered'];
  readonly impact: ImpactDependencies;
  /** Outcomes of queries, including those not in the database yet. */
  readonly outcomes: OutcomeLookup;
}

export interface WebappDependencies {
  readonly history: QueryHistoryRepository;
  readonly queryCounts: QueryCounts;
  /** `dataStore.queryHistoryHoursRetention`, as it is now. */
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

/** Makes the API: one Fastify instance without a server of its own, every family of routes a plugin. */
export async function createApi(dependencies: ApiDependencies, options: ApiOptions): Promise<Api> {
  const { registry, inventory, table, readiness, metrics, logger, authentication } = dependencies;
  const { resourceGroups, webapp, rules, userInterface } = dependencies;
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
  const hasPages = () => userInterface?.built != null && userInterface.enabled;
  answerUnserved(app, { names, version, hasPages });
  registerMetrics({ metrics, table, version });
  measureCalls(app, metrics);

  const { onChange, audit = null, queryUser = null } = dependencies;
  rejectUnknownParameters(app, names);
  guardRoutes(app, authentication, logger, onChange, webapp, audit, queryUser);
  await collectOpenapi(app, { product: names.product, version, schemes: securitySchemes(authentication) });
  await app.register(loginRoutes, { authentication, logger });
  await app.register(pageRoutes, authentication);
  app.decorate('readsStrings', names.isReference);
  await app.register(registryRoutes, { registry, names });
  const { clusterChanges: changes, replica, defaultGroup } = dependencies;
  await app.register(drainRoutes, { table, runningQueries: dependencies.runningQueries, changes });
  const { runningQueries, waitingQueries } = dependencies;
  await app.register(scalingRoutes, { table, runningQueries, waitingQueries });
  if (dependencies.heldDeletions !== null) {
    await app.register(heldDeletionRoutes, { controller: dependencies.heldDeletions });
  }
  await app.register(clusterRoutes, { inventory, registry, table, changes, replica, defaultGroup, names });
  if (dependencies.limits !== null) {
    await app.register(groupRoutes, { limits: dependencies.limits, table, defaultGroup, names });
    await app.register(limitRoutes, { limits: dependencies.limits, names });
  }
  await app.register(publicRoutes, { registry, table, names });
  const allReadiness = withAuthentication(readiness, authentication);
  await app.register(healthRoutes, { readiness: allReadiness, table, names });
  await app.register(metricsRoutes, { metrics, table, version });
  const { publishedKeys } = dependencies;
  if (publishedKeys !== null) await app.register(jwksRoutes, { published: publishedKeys });
  if (resourceGroups !== null) {
    await app.register(resourceGroupRoutes, { stores: resourceGroups, names });
    await app.register(groupExplainRoute, { stores: resourceGroups });
    await app.register(entityRoutes, { registry, stores: resourceGroups, names });
    const { declaredGroups } = dependencies;
    if (declaredGroups != null) await app.register(declaredGroupsRoute, { inventory: declaredGroups });
  }
  if (webapp !== null) {
    const { history, queryCounts, exactMatchSelectors, clock, startedAt, disablePages } = webapp;
    await app.register(backendRoutes, { logger, registry, table, names });
    await app.register(historyRoutes, {
      ...{ logger, history, queued: dependencies.queuedQueries },
      ...{ counts: queryCounts, table, clock, startedAt },
    });
    const list = dependencies.queries?.list ?? null;
    await app.register(searchRoutes, { history, queued: dependencies.queuedQueries, list });
    const problems = problemWatch(dependencies, webapp);
    if (problems !== null) app.addHook('onClose', async () => problems.stop());
    await app.register(overviewRoutes, {
      ...{ metrics, table, readiness: allReadiness, counts: queryCounts, clock, startedAt, version },
      ...{ problems, rates: webapp.incidents?.rates ?? null },
      keptHours: webapp.keptHours,
    });
    await app.register(configurationRoutes, { logger, disablePages });
    await app.register(viewRoutes, { registry, history, table, names });
    if (resourceGroups !== null) {
      await app.register(webappResourceGroupRoutes, { logger, stores: resourceGroups });
      await app.register(exactSelectorRoutes, { logger, exactMatchSelectors, clock });
    }
  }
  if (dependencies.running !== undefined) await app.register(runningQueryRoutes, dependencies.running);
  if (dependencies.audit !== undefined) await app.register(auditRoutes, { repository: dependencies.audit.repository });
  const { queuedQueries } = dependencies;
  const entries = queuedQueries === null ? null : new QueueEntries(queuedQueries, table);
  if (queuedQueries !== null && entries !== null) await app.register(queueRoutes, { queuedQueries, entries });
  if (dependencies.queries !== null) await app.register(queryRoutes, dependencies.queries);
  if (rules !== null) {
    const { routingRules, explain, history, transactions, buffered, outcomes, impact } = rules;
    await app.register(routingRuleRoutes, { logger, rules: routingRules, names });
    await app.register(ruleRoutes, { rules: routingRules, names });
    await app.register(impactRoutes, { rules: routingRules, ...impact });
    await app.register(ruleHitRoutes, rules.hits);
    await app.register(explainRoutes, {
      ...{ explain, history, transactions, buffered, outcomes, names },
      ...{ queued: queuedQueries, entries },
    });
  }
  await app.register(eventRoutes, {
    topics: topicsOf(dependencies, allReadiness),
    stopping: dependencies.stopping,
    logger,
  });
  if (userInterface !== null) await app.register(userInterfaceRoutes, { ...userInterface, names });
  await app.register(indexPage, { names, version, hasPages });
  await app.register(openapiRoute);
  await app.ready();
  return { handler: (request, response) => app.routing(request, response), close: () => app.close() };
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
