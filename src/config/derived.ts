import { productNames } from '../model/names.ts';
import type { StrategyName } from '../model/strategies.ts';
import type { GatewayConfig } from './gatewayConfig.ts';
import { openidProviders } from './issuerChecks.ts';
import { isSlip, nearest } from './nearest.ts';
import { THIS_MACHINE } from './openAccess.ts';
import type { ConfigNote } from './problem.ts';
import { pageNames } from './schema/access.ts';

/** The configuration after derived values, with notes about keys that could not be used. */
export interface Derived {
  readonly config: GatewayConfig;
  readonly notes: readonly ConfigNote[];
}

/** The note for a configuration without authentication. */
const unguarded =
  'is not configured, so the gateway listens on this machine alone (127.0.0.1 and ::1); configure it (docs/authentication.md), or add the line "authentication: none" to let every call pass on all addresses';

/** Class of the reference that routes by query counts (docs/compatibility.md#the-query-count-router). */
const queryCountRouter = /(^|\.)QueryCountBasedRouterProvider$/;
const QUERY_COUNT_STRATEGY: StrategyName = 'leastLoaded';

/**
 * Fills in what follows from other keys: metric names under the product's name, the strategy that `modules` of the
 * reference stand for, the mode of engines' pages, the time limit of checks that an existing file sets at the HTTP
 * client, and the address of a gateway without authentication.
 * @param lineOf line of a key, null if the file does not give it
 * @param productName the product name that `{product}` stands for
 */
export function derive(
  config: GatewayConfig,
  lineOf: (field: string) => number | null,
  productName: string = config.protocol.productName,
): Derived {
  const notes: ConfigNote[] = [];
  const strategyGiven = lineOf('routing.strategy') !== null;
  const byQueryCount = config.modules.some((module) => queryCountRouter.test(module));
  config.modules.forEach((module, index) => {
    if (queryCountRouter.test(module)) return;
    const message = `accepted, without effect: classes cannot be loaded here ("${module}")`;
    notes.push({ field: `modules[${index}]`, line: lineOf('modules'), message });
  });
  const pages: readonly string[] = pageNames;
  for (const page of config.uiConfiguration.disablePages) {
    if (pages.includes(page)) continue;
    const field = 'uiConfiguration.disablePages';
    const meant = nearest(page, pages);
    const hint = meant !== null && isSlip(page, meant) ? `; did you mean ${meant}?` : '';
    const message = `accepted, without effect: there is no page "${page}"; there are ${pages.join(', ')}${hint}`;
    notes.push({ field, line: lineOf(field), message });
  }
  const note = (field: string, message: string) => notes.push({ field, line: lineOf(field), message });
  if (config.routing.defaultRoutingGroup === '') {
    note(
      'routing.defaultRoutingGroup',
      'is empty, so that queries are refused for which no group is determined; write the name of a group',
    );
  }
  if (config.dataStore.queryHistoryHoursRetention < 1) {
    note(
      'dataStore.queryHistoryHoursRetention',
      'keeps no history for longer than two hours: it is emptied then; write the number of hours',
    );
  }
  const routing =
    byQueryCount && !strategyGiven ? { ...config.routing, strategy: QUERY_COUNT_STRATEGY } : config.routing;
  const isUnguarded = config.authentication === null && lineOf('server.address') === null;
  if (isUnguarded) notes.push({ field: 'authentication', line: lineOf('authentication'), message: unguarded });
  const server = {
    ...config.server,
    enginePages: config.server.enginePages ?? enginePages(config),
    ...(isUnguarded ? { address: THIS_MACHINE } : {}),
  };
  const monitor = deriveMonitor(config, lineOf, productName);
  const authentication = deriveAuthentication(config, lineOf, note);
  const routingRules = deriveRules(config, note);
  return { config: { ...config, authentication, server, routing, routingRules, monitor }, notes };
}

type Note = (field: string, message: string) => void;

/**
 * `none` means that every call passes where it stands in place of the section alone: in the section the reference takes it
 * for a way of logging in that is not there, as any other word, and users log in by what there is.
 */
function deriveAuthentication(
  { authentication }: GatewayConfig,
  lineOf: (field: string) => number | null,
  note: Note,
): GatewayConfig['authentication'] {
  if (authentication === null) return null;
  const field = 'authentication.defaultType';
  const { defaultType, form, kubernetes, tokenIssuers } = authentication;
  const providers = openidProviders(authentication);
  const isWord = defaultType === 'none' && lineOf(field) === null;
  if (isWord) return authentication;
  if (form === null && providers.length === 0 && kubernetes === null && Object.keys(tokenIssuers).length === 0) {
    note(
      'authentication',
      'holds neither form nor oauth, so that nobody can log in and calls of the API are refused, as in Trino Gateway; queries are served. Configure one of them (docs/authentication.md), or write "authentication: none" in its place to let every call pass',
    );
  } else if (
    defaultType === 'none' ||
    (defaultType === 'form' && form === null) ||
    (defaultType === 'oauth' && providers.length === 0)
  ) {
    const message = `accepted, without effect: there is no authentication.${defaultType}, so users log in by what there is`;
    note(field, message);
  }
  return defaultType === 'none' ? { ...authentication, defaultType: null } : authentication;
}

/** Without the URL of its external service the reference routes by header, without a word. */
function deriveRules({ routingRules }: GatewayConfig, note: Note): GatewayConfig['routingRules'] {
  const { rulesType, rulesEngineEnabled, rulesExternalConfiguration } = routingRules;
  if (rulesType !== 'EXTERNAL' || rulesEngineEnabled === false || rulesExternalConfiguration.urlPath !== null) {
    return routingRules;
  }
  note(
    'routingRules.rulesType',
    'is EXTERNAL without routingRules.rulesExternalConfiguration.urlPath, so that no service is asked and the header of the routing group decides, as in Trino Gateway; write the URL of the service, or routingRules.rulesEngineEnabled: false',
  );
  return { ...routingRules, rulesEngineEnabled: false };
}

/**
 * Mode of engines' pages where the file does not set it. In Kubernetes a user who may create a cluster is not always
 * an administrator of the gateway, so its pages share an origin with the API only where the file states so.
 */
function enginePages({ resources, server }: GatewayConfig): 'proxy' | 'redirect' {
  return resources.source === 'kubernetes' && server.adminHosts.length === 0 ? 'redirect' : 'proxy';
}

function deriveMonitor(
  { monitor, protocol, serverConfig }: GatewayConfig,
  lineOf: (field: string) => number | null,
  productName: string,
): GatewayConfig['monitor'] {
  const product = productNames(productName, protocol.clusterHeaders).clusterProduct.toLowerCase();
  const metricName = (metric: string): string => metric.replaceAll('{product}', product);
  const clientTimeout = serverConfig['monitor.http-client.request-timeout'];
  return {
    ...monitor,
    metricsEndpoint: monitor.metricsEndpoint.replace(/^\/?/, '/'),
    timeout: lineOf('monitor.timeout') === null ? (clientTimeout ?? monitor.timeout) : monitor.timeout,
    runningQueriesMetricName: metricName(monitor.runningQueriesMetricName),
    queuedQueriesMetricName: metricName(monitor.queuedQueriesMetricName),
    metricMinimumValues: renameKeys(monitor.metricMinimumValues, metricName),
    metricMaximumValues: renameKeys(monitor.metricMaximumValues, metricName),
  };
}

function renameKeys(map: Readonly<Record<string, number>>, rename: (key: string) => string): Record<string, number> {
  const renamed: Record<string, number> = Object.create(null);
  for (const [key, value] of Object.entries(map)) renamed[rename(key)] = value;
  return renamed;
}
