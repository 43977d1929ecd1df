import type { GatewayConfig } from '../../config/gatewayConfig.ts';
import { hostMatches, hostOf } from '../../model/hostPattern.ts';
import type { MonitorType } from '../../model/monitorType.ts';
import type { ClusterHealth } from '../../model/registryCluster.ts';
import type { ClusterEntry } from '../../routing/routingTable.ts';

export interface CheckResult {
  /** `inconclusive`: the last verdict stays. */
  readonly health: ClusterHealth | 'inconclusive';
  /** Sentence for users, e.g. `GET http://a:8080/v1/info: connection refused`. Never contains credentials. */
  readonly reason: string;
  readonly queued?: number;
  readonly running?: number;
  readonly workers?: number;
  readonly queuedByUser?: ReadonlyMap<string, number>;
  readonly version?: string | undefined;
  readonly coordinatorId?: string | undefined;
}

/** User and password of checks, and their source. Never logged. */
export interface CheckCredentials {
  readonly username: string;
  readonly password: string;
  /** The setting to fix when the cluster rejects them, e.g. `backendState`. */
  readonly from: string;
}

export interface CheckTarget {
  readonly cluster: string;
  /** URL without trailing slash. */
  readonly proxyTo: string;
  /** Path of the cluster's healthCheck; null: default of the kind. */
  readonly path: string | null;
}

export interface AnonymousCheck {
  readonly needsUser: false;
  /**
   * Checks a cluster once. Never rejects: a failure is a result.
   * @param signal aborted by the timeout, or when the cluster is removed
   */
  check(target: CheckTarget, signal: AbortSignal): Promise<CheckResult>;
}

export interface UserCheck {
  readonly needsUser: true;
  /** Time for one check in milliseconds, where it is another than `monitor.timeout` and the cluster has none of its own. */
  readonly timeout?: number;
  check(target: CheckTarget, credentials: CheckCredentials, signal: AbortSignal): Promise<CheckResult>;
}

export type HealthCheckKind = AnonymousCheck | UserCheck;

/** All kinds (docs/health.md#types-of-checks). */
export type HealthCheckKinds = Readonly<Record<MonitorType, HealthCheckKind>>;

/** Reason for not sending credentials to a cluster: reason and message of its condition `HealthCredentials`. */
export interface CredentialsRejection {
  readonly reason: string;
  /** Sentence for users, with the fix. */
  readonly message: string;
}

/** Credentials from a cluster's Secret, or the reason that they are unavailable; from the operator. */
export type ClusterCredentials =
  | { readonly ok: true; readonly username: string; readonly password: string }
  | ({ readonly ok: false } & CredentialsRejection);

type ConfiguredCredentials = Pick<NonNullable<GatewayConfig['backendState']>, 'username' | 'password' | 'allowedHosts'>;

export interface CredentialSources {
  /** `backendState`; null if it is not configured. */
  readonly configured: ConfiguredCredentials | null;
  /**
   * True if only the gateway's operators write resources, as in a directory or the database. On an API server other
   * users may write them.
   */
  readonly trustsResources: boolean;
  /** Credentials of the Secret that a cluster names, by registry name, for checks at a URL; null without a Secret. */
  readonly ofCluster: (cluster: string, proxyTo: string) => Promise<ClusterCredentials | null>;
  /** Called at each check with the reason for not sending credentials, or null. */
  readonly report: (cluster: string, rejection: CredentialsRejection | null) => void;
}

interface CredentialsTarget extends Pick<ClusterEntry, 'name' | 'origin' | 'tls' | 'proxyTo' | 'healthCheck'> {
  readonly type: MonitorType;
  /** `clusterStatsConfiguration.monitorType`. */
  readonly configuredType: MonitorType;
}

/**
 * Finds the credentials of a cluster's checks: from its Secret, else `backendState` if allowed. An unusable Secret is
 * never replaced by the configured credentials: they would be sent to an unintended address.
 * @param signal ends the wait for the Secret
 * @returns the credentials, or the result of the check without them
 */
export async function findCredentials(
  sources: CredentialSources,
  target: CredentialsTarget,
  signal: AbortSignal,
): Promise<CheckCredentials | CheckResult> {
  const accept = (username: string, password: string, from: string): CheckCredentials => {
    sources.report(target.name, null);
    return { username, password, from };
  };
  const reject = ({ reason, message }: CredentialsRejection, health: CheckResult['health']): CheckResult => {
    sources.report(target.name, { reason, message });
    return { health, reason: message };
  };
  const secret = target.healthCheck?.credentialsSecretRef?.name;
  if (secret !== undefined) {
    const from = `Secret ${secret} (spec.healthCheck.credentialsSecretRef)`;
    const credentials = await orAborted(sources.ofCluster(target.name, target.proxyTo), signal);
    if (credentials === 'aborted') return { health: 'inconclusive', reason: `${from} could not be read in time` };
    if (credentials === null) return { health: 'inconclusive', reason: `${from} is not known yet` };
    if (!credentials.ok) return reject(credentials, 'inconclusive');
    return accept(credentials.username, credentials.password, from);
  }
  const { configured } = sources;
  if (configured === null) {
    const message = 'this type of health check needs a user: set backendState or spec.healthCheck.credentialsSecretRef';
    return reject({ reason: 'NoCredentials', message }, 'UNHEALTHY');
  }
  const isTrusted = sources.trustsResources || target.origin === 'row';
  const rejection = configuredRejection(configured, target, isTrusted);
  if (rejection !== null) return reject(rejection, 'UNHEALTHY');
  return accept(configured.username, configured.password, 'backendState');
}

/**
 * Returns the reason that `backendState` may not be sent to a cluster; null if it may (docs/health.md#credentials). A
 * resource cannot extend the allowed hosts: its author could send it to their own host.
 */
function configuredRejection(
  { password, allowedHosts }: ConfiguredCredentials,
  { proxyTo, type, configuredType, tls }: CredentialsTarget,
  isTrusted: boolean,
): CredentialsRejection | null {
  // A name without a password proves nothing to an engine, and is no secret.
  if (password === '') return null;
  const host = hostOf(proxyTo);
  const allow = `have ${host} added to backendState.allowedHosts`;
  const ownSecret = 'name a Secret of your own in spec.healthCheck.credentialsSecretRef';
  if (allowedHosts !== null) {
    if (hostMatches(allowedHosts, proxyTo)) return null;
    const message = `backendState is not sent to ${host}: ${ownSecret}, or ${allow}`;
    return { reason: 'HostNotAllowed', message };
  }
  if (isTrusted) return null;
  if (type !== configuredType) {
    const message = `backendState is sent for checks of the type ${configuredType} (clusterStatsConfiguration.monitorType) only, not for ${type}, which the resource asks for: ${ownSecret}, or ${allow}`;
    return { reason: 'TypeNotConfigured', message };
  }
  if (!proxyTo.startsWith('https:')) {
    // Their checks send no password over plain HTTP.
    if (type === 'JDBC' || type === 'JMX') return null;
    const message = `backendState is not sent over plain HTTP to ${host}: use https, ${ownSecret}, or ${allow}`;
    return { reason: 'PlainHTTP', message };
  }
  if (tls?.insecureSkipVerify !== true) return null;
  const message = `backendState is not sent to ${host}, whose certificate is not verified (spec.tls.insecureSkipVerify): set spec.tls.caBundle, ${ownSecret}, or ${allow}`;
  return { reason: 'CertificateNotVerified', message };
}

/** The value of a promise; 'aborted' if the signal comes first. The signal is of one check, which ends soon. */
function orAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T | 'aborted'> {
  const { promise: aborted, resolve } = Promise.withResolvers<'aborted'>();
  if (signal.aborted) resolve('aborted');
  else signal.addEventListener('abort', () => resolve('aborted'), { once: true });
  return Promise.race([aborted, promise]);
}
