/** Kinds of health checks (docs/health.md#types-of-checks). Configuration, CRD and their pages derive from this list. */
export const monitorTypes = ['INFO_API', 'METRICS', 'JDBC', 'JMX', 'UI_API', 'NOOP'] as const;

/** The same in the order of Trino Gateway, whose configuration may name one by its number. */
export const numberedMonitorTypes: readonly MonitorType[] = ['NOOP', 'INFO_API', 'UI_API', 'JDBC', 'JMX', 'METRICS'];

/** A kind of health check. */
export type MonitorType = (typeof monitorTypes)[number];

/** The kind of clusters that name none, where the configuration names none either. */
export const DEFAULT_MONITOR_TYPE: MonitorType = 'INFO_API';
