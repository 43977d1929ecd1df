import type { ProductNames } from '../../model/names.ts';
import { CheckClient, type CheckClientOptions } from './checkClient.ts';
import type { UserCheckSettings } from './checkSettings.ts';
import { type HealthCheckKinds, noopCheck } from './healthCheck.ts';
import { InfoCheck } from './infoCheck.ts';
import { JdbcCheck } from './jdbcCheck.ts';
import { JmxCheck } from './jmxCheck.ts';
import { MetricsCheck } from './metricsCheck.ts';
import { UiApiCheck } from './uiApiCheck.ts';

export interface HealthCheckOptions extends CheckClientOptions {
  readonly names: ProductNames;
  readonly settings: UserCheckSettings;
}

/** Creates all kinds of health checks over one set of connections, which `close` closes. */
export function openHealthChecks(options: HealthCheckOptions): {
  readonly kinds: HealthCheckKinds;
  close(): Promise<void>;
} {
  const client = new CheckClient(options);
  const { names, settings } = options;
  const user = { client, names, settings };
  return {
    kinds: {
      INFO_API: new InfoCheck(client, settings.retries),
      METRICS: new MetricsCheck(user),
      JDBC: new JdbcCheck(user),
      JMX: new JmxCheck(user),
      UI_API: new UiApiCheck(user),
      NOOP: noopCheck,
    },
    close: () => client.close(),
  };
}
