import { totalmem } from 'node:os';
import { stringify } from 'yaml';
import { productNames } from '../model/names.ts';
import type { Secret } from '../model/secret.ts';
import { openidProviders } from './consistency.ts';
import { type FieldSchema, isSlip, nearest } from './fields.ts';
import { configFields, type GatewayConfig } from './gatewayConfig.ts';
import { MASK, maskUrls } from './logger.ts';
import { THIS_MACHINE } from './openAccess.ts';
import { pageNames } from './schema/access.ts';
import type { ConfigNote } from './source.ts';
import { formatDuration, formatSize } from './units.ts';

/** The configuration after derived values, with notes about keys that could not be used. */
interface Derived {
  readonly config: GatewayConfig;
  readonly notes: readonly ConfigNote[];
}

/** Class of the reference that routes by query counts (docs/compatibility.md#the-query-count-router). */
const queryCountRouter = /(^|\.)QueryCountBasedRouterProvider$/;

/** Notes about a configuration that has no authentication, or none that lets a user log in. */
const unguarded =
  'is not configured, so the gateway listens on this machine alone (127.0.0.1 and ::1); configure it (docs/authentication.md), or add the line "authentication: none" to let every call pass on all addresses';
const closed =
  'holds neither form nor oauth, so that nobody can log in and calls of the API are refused, as in Trino Gateway; queries are served. Configure one of them (docs/authentication.md), or write "authentication: none" in its place to let every call pass';

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
  const { authentication, modules, monitor, resources, routing, routingRules, server, uiConfiguration } = config;
  const notes: ConfigNote[] = [];
  const note = (field: string, message: string): void => void notes.push({ field, line: lineOf(field), message });
  modules.forEach((module, index) => {
    if (queryCountRouter.test(module)) return;
    note(`modules[${index}]`, `accepted, without effect: classes cannot be loaded here ("${module}")`);
  });
  for (const page of uiConfiguration.disablePages) {
    if (pageNames.some((name) => name === page)) continue;
    const meant = nearest(page, pageNames);
    const hint = meant !== null && isSlip(page, meant) ? `; did you mean ${meant}?` : '';
    const message = `accepted, without effect: there is no page "${page}"; there are ${pageNames.join(', ')}${hint}`;
    note('uiConfiguration.disablePages', message);
  }
  if (routing.defaultRoutingGroup === '') {
    const message = `is empty, so that queries are refused for which no group is determined; write the name of a group`;
    note('routing.defaultRoutingGroup', message);
  }
  if (config.dataStore.queryHistoryHoursRetention < 1) {
    const message = `keeps no history for longer than two hours: it is emptied then; write the number of hours`;
    note('dataStore.queryHistoryHoursRetention', message);
  }
  const isUnguarded = authentication === null && lineOf('server.address') === null;
  if (isUnguarded) note('authentication', unguarded);
  const { rulesType, rulesEngineEnabled, rulesExternalConfiguration } = routingRules;
  const isWithoutService =
    rulesType === 'EXTERNAL' && rulesEngineEnabled !== false && rulesExternalConfiguration.urlPath === null;
  if (isWithoutService) {
    const message = `is EXTERNAL without routingRules.rulesExternalConfiguration.urlPath, so that no service is asked and the header of the routing group decides, as in Trino Gateway; write the URL of the service, or routingRules.rulesEngineEnabled: false`;
    note('routingRules.rulesType', message);
  }
  const byQueryCount = modules.some((module) => queryCountRouter.test(module)) && lineOf('routing.strategy') === null;
  // In Kubernetes a user who may create a cluster is not always an administrator of the gateway.
  const sharesOrigin = resources.source === 'kubernetes' && server.adminHosts.length === 0;
  const enginePages = server.enginePages ?? (sharesOrigin ? 'redirect' : 'proxy');
  const clientTimeout = config.serverConfig['monitor.http-client.request-timeout'];
  const product = productNames(productName, config.protocol.clusterHeaders).clusterProduct.toLowerCase();
  const metricName = (metric: string): string => metric.replaceAll('{product}', product);
  return {
    config: {
      ...config,
      authentication: deriveAuthentication(authentication, lineOf, note),
      server: { ...server, enginePages, ...(isUnguarded ? { address: THIS_MACHINE } : {}) },
      routing: byQueryCount ? { ...routing, strategy: 'leastLoaded' } : routing,
      routingRules: isWithoutService ? { ...routingRules, rulesEngineEnabled: false } : routingRules,
      monitor: {
        ...monitor,
        metricsEndpoint: monitor.metricsEndpoint.replace(/^\/?/, '/'),
        timeout: lineOf('monitor.timeout') === null ? (clientTimeout ?? monitor.timeout) : monitor.timeout,
        runningQueriesMetricName: metricName(monitor.runningQueriesMetricName),
        queuedQueriesMetricName: metricName(monitor.queuedQueriesMetricName),
        metricMinimumValues: renameKeys(monitor.metricMinimumValues, metricName),
        metricMaximumValues: renameKeys(monitor.metricMaximumValues, metricName),
      },
    },
    notes,
  };
}

/**
 * `none` means that every call passes where it stands in place of the section alone: in the section the reference takes it
 * for a way of logging in that is not there, as any other word, and users log in by what there is.
 */
function deriveAuthentication(
  authentication: GatewayConfig['authentication'],
  lineOf: (field: string) => number | null,
  note: (field: string, message: string) => void,
): GatewayConfig['authentication'] {
  const field = 'authentication.defaultType';
  if (authentication === null || (authentication.defaultType === 'none' && lineOf(field) === null)) {
    return authentication;
  }
  const { defaultType, form, kubernetes, tokenIssuers } = authentication;
  const hasForm = form !== null;
  const hasProviders = openidProviders(authentication).length > 0;
  const isMissing = { none: true, form: !hasForm, oauth: !hasProviders };
  if (!hasForm && !hasProviders && kubernetes === null && Object.keys(tokenIssuers).length === 0) {
    note('authentication', closed);
  } else if (defaultType !== null && isMissing[defaultType]) {
    note(
      field,
      `accepted, without effect: there is no authentication.${defaultType}, so users log in by what there is`,
    );
  }
  return defaultType === 'none' ? { ...authentication, defaultType: null } : authentication;
}

function renameKeys(map: Readonly<Record<string, number>>, rename: (key: string) => string): Record<string, number> {
  const renamed: Record<string, number> = Object.create(null);
  for (const [key, value] of Object.entries(map)) renamed[rename(key)] = value;
  return renamed;
}

/**
 * The effective configuration as YAML in the file's own form: every key that has an effect, defaults included,
 * secrets masked. Without the masks it reads back as the same configuration.
 */
export function effectiveYaml(config: GatewayConfig): string {
  return stringify(printable(configFields, config), { lineWidth: 0 });
}

function printable(schema: FieldSchema, value: unknown): unknown {
  if (value === null || value === undefined) return null;
  if (schema.secret === true) return value === '' || (value as Secret).text === '' ? '' : MASK;
  const { items, properties = {}, shorthand } = schema;
  const values = value as Readonly<Record<string, unknown>>;
  switch (schema.kind) {
    case 'section': {
      if (shorthand !== undefined && values[shorthand.key] === shorthand.word) return shorthand.word;
      const shown = Object.entries(properties).filter(([, child]) => child.withoutEffect === undefined);
      return Object.fromEntries(shown.map(([name, child]) => [name, printable(child, values[name])]));
    }
    case 'map':
      return new Map(Object.entries(values).map(([key, each]) => [key, items && printable(items, each)]));
    case 'list':
      return (value as readonly unknown[]).map((each) => items && printable(items, each));
    case 'duration':
      return formatDuration(value as number);
    case 'size':
      return formatSize(value as number);
    default:
      return typeof value === 'string' ? maskUrls(value) : value;
  }
}

/** The request memory is this share of the memory that the process may take: a body is buffered as bytes and as text. */
const SHARE = 8;
const LEAST = 16 * 1024 ** 2;
const MOST = 512 * 1024 ** 2;
/** As many times the largest submission that is buffered is the least: three quarters of it are for large bodies. */
const MAX_SUBMISSIONS_SIZE = 2;
/** Request memory for each connection over HTTP/2, bytes. */
const HTTP2_CONNECTION = 1024 ** 2;
const MIN_HTTP2_CONNECTIONS = 32;

/** Limits that go by the memory of the process. */
export interface RequestMemoryLimits {
  /** Bytes of request bodies that are buffered. */
  readonly memory: number;
  /** Most connections of clients over HTTP/2. */
  readonly http2Connections: number;
}

/**
 * The limits of the configuration and of the process's memory (docs/serving.md#memory-of-requests).
 * @param memoryLimit bytes that the process may take
 */
export function requestMemoryLimits(
  { server, requestAnalyzerConfig }: Pick<GatewayConfig, 'server' | 'requestAnalyzerConfig'>,
  memoryLimit: number = processMemoryLimit(),
): RequestMemoryLimits {
  const byDefault = Math.min(Math.max(Math.floor(memoryLimit / SHARE), LEAST), MOST);
  const memory = server.requestMemory ?? Math.max(byDefault, leastRequestMemory(requestAnalyzerConfig.maxBodySize));
  return {
    memory,
    http2Connections:
      server.maxHttp2Connections ?? Math.max(Math.floor(memory / HTTP2_CONNECTION), MIN_HTTP2_CONNECTIONS),
  };
}

/** The least value of `server.requestMemory`. @param maxAnalyzedBody `requestAnalyzerConfig.maxBodySize` */
export function leastRequestMemory(maxAnalyzedBody: number): number {
  return MAX_SUBMISSIONS_SIZE * maxAnalyzedBody;
}

/** Bytes that the process may take: of its cgroup, else of the machine. */
export function processMemoryLimit(): number {
  // 0, or more than there is, if no limit is set.
  const constrained = process.constrainedMemory();
  return constrained > 0 ? Math.min(constrained, totalmem()) : totalmem();
}
