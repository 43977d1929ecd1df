import { httpClientSettings } from '../../config/httpClient.ts';
import { HealthMonitors } from '../../gateway/healthMonitors.ts';
import { InfoCheck, noopCheck } from '../../gateway/infoCheck.ts';
import type { ClusterTls } from '../../gateway/tls/clusterTls.ts';
import { monitorSettings } from '../settings.ts';
import type { Control } from './control.ts';
import type { Frame } from './frame.ts';

/** Makes the health checks of all clusters; `start` them later. */
export function openMonitors(frame: Frame, { table }: Control, tls: ClusterTls): HealthMonitors {
  const { config, current, logger, metrics, clock, random, undo } = frame;
  const infoCheck = new InfoCheck({
    retries: () => current().monitor.retries,
    connectTimeout: httpClientSettings(config, 'monitor').connectTimeout,
    tls,
  });
  undo(() => infoCheck.close());
  const monitors = new HealthMonitors(
    { table, kinds: { INFO_API: infoCheck, NOOP: noopCheck }, logger, registry: metrics, clock, random },
    monitorSettings(config),
  );
  undo(() => monitors.stop());
  frame.onChange((next) => monitors.configure(monitorSettings(next)));
  return monitors;
}
