import { forwardedHeaders, type UserCheckOptions, type UserCheckSettings, userHeaders } from './checkSettings.ts';
import type { CheckCredentials, CheckResult, CheckTarget, UserCheck } from './healthCheck.ts';
import { parseMetrics } from './openMetrics.ts';

/** METRICS: HEALTHY while all named metrics exist and are within their bounds (docs/health.md#types-of-checks). */
export class MetricsCheck implements UserCheck {
  readonly needsUser = true;
  readonly #options: UserCheckOptions;

  constructor(options: UserCheckOptions) {
    this.#options = options;
  }

  async check(target: CheckTarget, credentials: CheckCredentials, signal: AbortSignal): Promise<CheckResult> {
    const { client, settings } = this.#options;
    const names = metricsOf(settings);
    const query = names.map((name) => `name%5B%5D=${encodeURIComponent(name)}`).join('&');
    const answer = await client.read(
      target.proxyTo,
      {
        method: 'GET',
        path: `${target.path ?? settings.metricsEndpoint}?${query}`,
        headers: {
          accept: 'application/openmetrics-text, text/plain;q=0.5',
          ...userHeaders(this.#options, credentials, true),
          ...forwardedHeaders(settings),
        },
        maxBytes: settings.maxAnswer,
        retries: settings.retries,
      },
      credentials,
      signal,
    );
    return answer.ok ? judge(answer.endpoint, parseMetrics(answer.text), names, settings) : answer.result;
  }
}

function metricsOf(settings: UserCheckSettings): readonly string[] {
  const { queuedQueriesMetric, runningQueriesMetric, metricMinimums, metricMaximums } = settings;
  return [
    ...new Set([
      runningQueriesMetric,
      queuedQueriesMetric,
      ...Object.keys(metricMinimums),
      ...Object.keys(metricMaximums),
    ]),
  ];
}

function judge(
  endpoint: string,
  values: ReadonlyMap<string, number>,
  needed: readonly string[],
  settings: UserCheckSettings,
): CheckResult {
  const { queuedQueriesMetric, runningQueriesMetric, metricMinimums, metricMaximums } = settings;
  const missing = needed.filter((name) => !values.has(name));
  const counts = { queued: values.get(queuedQueriesMetric) ?? 0, running: values.get(runningQueriesMetric) ?? 0 };
  if (missing.length > 0) {
    const keys = 'monitor.…MetricName, metricMinimumValues and metricMaximumValues say which are asked for';
    return { health: 'UNHEALTHY', reason: `${endpoint}: the answer has no metric ${missing.join(', ')} (${keys})` };
  }
  const outside = needed.flatMap((name) => {
    const value = values.get(name) ?? 0;
    const [least, greatest] = [metricMinimums[name], metricMaximums[name]];
    if (least !== undefined && value < least) return [`${name} is ${value}, at least ${least} is healthy`];
    if (greatest !== undefined && value > greatest) return [`${name} is ${value}, at most ${greatest} is healthy`];
    return [];
  });
  return outside.length > 0
    ? { health: 'UNHEALTHY', reason: `${endpoint}: ${outside.join('; ')}`, ...counts }
    : { health: 'HEALTHY', reason: `${endpoint}: ${needed.length} metrics are there and within bounds`, ...counts };
}
