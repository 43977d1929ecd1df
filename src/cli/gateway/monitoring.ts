import { httpClientSettings } from '../../config/httpClient.ts';
import { CheckClient } from '../../gateway/health/checkClient.ts';
import type { CredentialsRefusal } from '../../gateway/health/checkCredentials.ts';
import { healthChecks } from '../../gateway/health/checks.ts';
import { HealthMonitors } from '../../gateway/health/healthMonitors.ts';
import type { ClusterTls } from '../../gateway/tls/clusterTls.ts';
import { checkSettings, monitorSettings } from '../settings.ts';
import type { GatewayContext } from './context.ts';
import type { Control } from './control.ts';

/** Creates the health checks of all clusters; `start` them later. */
export function openMonitors(context: GatewayContext, { table, operator }: Control, tls: ClusterTls): HealthMonitors {
  const { config, names, logger, metrics, clock, random, onClose } = context;
  const client = new CheckClient(httpClientSettings(config, 'monitor').connectTimeout, tls);
  onClose(() => client.close());
  const kinds = healthChecks(client, names, checkSettings(config));
  const credentials = {
    configured: config.backendState,
    // Authors of other sources operate the gateway.
    trustsResources: config.resources.source !== 'kubernetes',
    ofCluster: (cluster: string, proxyTo: string) => operator.healthCredentials(cluster, proxyTo),
    report: (cluster: string, refusal: CredentialsRefusal | null) =>
      operator.controller.reportHealthCredentials(cluster, refusal),
  };
  const monitors = new HealthMonitors(
    { table, kinds, credentials, logger, registry: metrics, clock, random },
    monitorSettings(config),
  );
  onClose(() => monitors.stop());
  return monitors;
}
