/** Kinds of health checks (docs/health.md#types-of-checks). Configuration, CRD and their pages derive from this list. */
export const monitorTypes = ['INFO_API', 'METRICS', 'JDBC', 'JMX', 'UI_API', 'NOOP'] as const;

/** A kind of health check. */
export type MonitorType = (typeof monitorTypes)[number];

/** The kind of clusters that name none, where the configuration names none either. */
export const DEFAULT_MONITOR_TYPE: MonitorType = 'INFO_API';
