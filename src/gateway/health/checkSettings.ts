import type { ProductNames } from '../../model/names.ts';
import { basicAuthorization, type CheckClient } from './checkClient.ts';
import type { CheckCredentials } from './healthCheck.ts';

/** Settings of the checks with a user; times in milliseconds, sizes in bytes. */
export interface UserCheckSettings {
  /** `monitor.retries` */
  readonly retries: number;
  /** `monitor.queryTimeout` */
  readonly queryTimeout: number;
  /** `monitor.metricsEndpoint` */
  readonly metricsEndpoint: string;
  /** `monitor.runningQueriesMetricName` */
  readonly runningQueriesMetric: string;
  /** `monitor.queuedQueriesMetricName` */
  readonly queuedQueriesMetric: string;
  /** `monitor.metricMinimumValues`, inclusive */
  readonly metricMinimums: Readonly<Record<string, number>>;
  /** `monitor.metricMaximumValues`, inclusive */
  readonly metricMaximums: Readonly<Record<string, number>>;
  /** `backendState.xForwardedProtoHeader` */
  readonly forwardedProto: boolean;
  /** `monitor.http-client.max-response-content-length` */
  readonly maxAnswer: number;
}

export interface UserCheckOptions {
  readonly client: CheckClient;
  readonly names: ProductNames;
  readonly settings: UserCheckSettings;
}

/** Headers that identify the user: the user's name, or Basic authentication with a password. */
export function userHeaders(
  { names }: Pick<UserCheckOptions, 'names'>,
  credentials: CheckCredentials,
  withPassword: boolean,
): Readonly<Record<string, string>> {
  return withPassword && credentials.password !== ''
    ? { authorization: basicAuthorization(credentials) }
    : names.clusterHeaders('User', credentials.username);
}

/** `X-Forwarded-Proto: https` if configured, for engines that only accept a login behind TLS. */
export function forwardedHeaders({ forwardedProto }: UserCheckSettings): Record<string, string> {
  return forwardedProto ? { 'x-forwarded-proto': 'https' } : {};
}

export function isSecure(proxyTo: string): boolean {
  return proxyTo.startsWith('https:');
}
