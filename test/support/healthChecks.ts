import { checkSettings, monitorSettings } from '../../src/cli/settings.ts';
import { CheckClient, type CheckSettings, healthChecks } from '../../src/gateway/health/checks.ts';
import type { HealthCheckKinds } from '../../src/gateway/health/healthCheck.ts';
import type { MonitorSettings } from '../../src/gateway/health/healthMonitors.ts';
import type { ClusterTls } from '../../src/gateway/tls/clusterTls.ts';
import { type ProductNames, productNames } from '../../src/model/names.ts';
import { defaultConfig, verifyingTls } from './defaults.ts';

/** Checks as the configuration's defaults make them, but one that is quick. */
export const defaultMonitorSettings: MonitorSettings = {
  ...monitorSettings(defaultConfig),
  type: 'INFO_API',
  interval: 60_000,
  timeout: 5_000,
  failureThreshold: 1,
  successThreshold: 1,
};

/** All kinds of checks with these settings; the caller closes them. */
export function openChecks(
  settings: Partial<CheckSettings> = {},
  { names = productNames('Engine'), tls = verifyingTls }: { names?: ProductNames; tls?: ClusterTls } = {},
): { readonly kinds: HealthCheckKinds; close(): Promise<void> } {
  const client = new CheckClient(2_000, tls);
  return {
    kinds: healthChecks(client, names, { ...checkSettings(defaultConfig), retries: 0, ...settings }),
    close: () => client.close(),
  };
}
