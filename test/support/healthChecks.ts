import { type HealthCheckOptions, openHealthChecks } from '../../src/gateway/health/checkKinds.ts';
import type { UserCheckSettings } from '../../src/gateway/health/checkSettings.ts';
import type { MonitorSettings } from '../../src/gateway/health/clusterMonitor.ts';
import { productNames } from '../../src/model/names.ts';
import { verifyingTls } from './defaults.ts';

/** The configuration's defaults for product `Engine`. */
const defaultUserCheckSettings: UserCheckSettings = {
  retries: 0,
  queryTimeout: 10_000,
  metricsEndpoint: '/metrics',
  runningQueriesMetric: 'engine_execution_name_QueryManager_RunningQueries',
  queuedQueriesMetric: 'engine_execution_name_QueryManager_QueuedQueries',
  metricMinimums: { engine_metadata_name_DiscoveryNodeManager_ActiveNodeCount: 1 },
  metricMaximums: {},
  forwardedProto: false,
  maxAnswer: 16 * 1024 ** 2,
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
  settings: Partial<UserCheckSettings> = {},
  more: Partial<HealthCheckOptions> = {},
): ReturnType<typeof openHealthChecks> {
  return openHealthChecks({
    names: productNames('Engine'),
    settings: { ...defaultUserCheckSettings, ...settings },
    connectTimeout: 2_000,
    tls: verifyingTls,
    ...more,
  });
}
