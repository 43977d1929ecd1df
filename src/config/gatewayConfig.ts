import { each, listOf, section, type ValueOf } from './fields.ts';
import {
  authentication,
  authorization,
  clientCertificateJwtAuthentication,
  gatewayCookieConfiguration,
  oauth2GatewayCookieConfiguration,
  pagePermissions,
  presetUsers,
  uiConfiguration,
} from './schema/access.ts';
import {
  admission,
  audit,
  databaseCache,
  dataStore,
  queryEvents,
  queryHistory,
  resourceGroups,
} from './schema/data.ts';
import { userGroups, userMapping } from './schema/identity.ts';
import {
  backendState,
  clusterStatsConfiguration,
  logging,
  monitor,
  protocol,
  resources,
  server,
} from './schema/operations.ts';
import { proxiedPaths, requestAnalyzerConfig, routing, routingRules, sizeClasses } from './schema/routing.ts';
import { serverConfig } from './schema/serverConfig.ts';

/** The whole configuration file: the reference's keys (docs/compatibility.md#configuration) and the gateway's own. */
export const configFields = section(
  'The configuration of Engine Gateway.',
  {
    protocol,
    resources,
    server,
    serverConfig,
    dataStore,
    databaseCache,
    queryHistory,
    queryEvents,
    audit,
    admission,
    routing,
    routingRules,
    sizeClasses,
    requestAnalyzerConfig,
    monitor,
    clusterStatsConfiguration,
    backendState,
    ...proxiedPaths,
    gatewayCookieConfiguration,
    oauth2GatewayCookieConfiguration,
    resourceGroups,
    authentication,
    authorization,
    clientCertificateJwtAuthentication,
    userMapping,
    userGroups,
    presetUsers,
    pagePermissions,
    uiConfiguration,
    logging,
    modules: listOf(
      'Classes that the reference loads; its query-count router stands for routing.strategy leastLoaded, others change nothing.',
      each(),
    ),
    managedApps: listOf('Classes that the reference starts.', each(), {
      withoutEffect: 'classes cannot be loaded here',
    }),
  },
  { ignored: { distributedCacheConfiguration: 'replicas share what they know by the database' } },
);

/**
 * The configuration with every default filled in: durations in milliseconds, sizes in bytes, null if a key is not
 * set. Frozen; a change of the file gives a new one.
 */
export type GatewayConfig = ValueOf<typeof configFields>;
