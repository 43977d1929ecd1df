import type { Registry } from 'prom-client';

export interface MetricValue {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** Values of a counter or gauge as `/metrics` would show them now; none if no part has registered it. */
export async function metricValues(metrics: Registry, name: string): Promise<readonly MetricValue[]> {
  const metric = metrics.getSingleMetric(name);
  if (metric === undefined) return [];
  const { values } = await metric.get();
  return values.map(({ labels, value }) => ({
    value,
    labels: Object.fromEntries(Object.entries(labels).map(([label, text]) => [label, String(text)])),
  }));
}

/** Sum of all values of a metric; 0 where they are missing. */
export async function metricTotal(metrics: Registry, name: string): Promise<number> {
  const values = await metricValues(metrics, name);
  return values.reduce((sum, { value }) => sum + value, 0);
}
