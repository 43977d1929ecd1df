import { CheckClient, type CheckSettings, healthChecks } from '../../src/gateway/health/checks.ts';
import type { HealthCheckKinds } from '../../src/gateway/health/healthCheck.ts';
import type { MonitorSettings } from '../../src/gateway/health/healthMonitors.ts';
import type { ClusterTls } from '../../src/gateway/tls/clusterTls.ts';
import { type ProductNames, productNames } from '../../src/model/names.ts';
import { verifyingTls } from './defaults.ts';

/** The configuration's defaults for product `Engine`. */
const defaultCheckSettings: CheckSettings = {
  retries: 0,
  queryTimeout: 10_000,
  metricsEndpoint: '/metrics',
  runningQueriesMetric: 'engine_execution_name_QueryManager_RunningQueries',
  queuedQueriesMetric: 'engine_execution_name_QueryManager_QueuedQueries',
  metricMinimums: { engine_metadata_name_DiscoveryNodeManager_ActiveNodeCount: 1 },
  metricMaximums: {},
  forwardedProto: false,
  maxResponse: 16 * 1024 ** 2,
};

/** Checks as the configuration's defaults make them, but one that is quick. */
export const defaultMonitorSettings: MonitorSettings = {
  type: 'INFO_API',
  interval: 60_000,
  timeout: 5_000,
  failureThreshold: 1,
  successThreshold: 1,
  serverErrorThreshold: 5,
  baseEjectionTime: 10_000,
  maxEjectionTime: 300_000,
  maxEjectionPercent: 50,
};

/** All kinds of checks with these settings; the caller closes them. */
export function openChecks(
  settings: Partial<CheckSettings> = {},
  { names = productNames('Engine'), tls = verifyingTls }: { names?: ProductNames; tls?: ClusterTls } = {},
): { readonly kinds: HealthCheckKinds; close(): Promise<void> } {
  const client = new CheckClient(2_000, tls);
  return {
    kinds: healthChecks(client, names, { ...defaultCheckSettings, ...settings }),
    close: () => client.close(),
  };
}
