/**
 * Kinds of health checks (docs/health.md#types-of-checks). Configuration, CRD and their pages derive from this list.
 */
export const monitorTypes = ['INFO_API', 'METRICS', 'JDBC', 'JMX', 'UI_API', 'NOOP'] as const;

/** Kinds as `spec.healthCheck.type` of a cluster names them. */
export const monitorChoices = {
  InfoAPI: 'INFO_API',
  Metrics: 'METRICS',
  JDBC: 'JDBC',
  JMX: 'JMX',
  UIAPI: 'UI_API',
  None: 'NOOP',
} as const satisfies Readonly<Record<string, MonitorType>>;

/** Kinds in the order of Trino Gateway; its configuration may name one by number. */
export const numberedMonitorTypes: readonly MonitorType[] = ['NOOP', 'INFO_API', 'UI_API', 'JDBC', 'JMX', 'METRICS'];

export type MonitorType = (typeof monitorTypes)[number];

/** The default kind of clusters. */
export const DEFAULT_MONITOR_TYPE: MonitorType = 'INFO_API';
