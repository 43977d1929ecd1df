import type { HealthCheck } from '../../kinds/engineCluster/spec.ts';
import { hostMatches, hostOf } from '../../model/hostPattern.ts';
import type { MonitorType } from '../../model/monitorType.ts';
import type { ClusterEntry } from '../../routing/routingTable.ts';
import type { CheckCredentials } from './healthCheck.ts';

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

/** Credentials in `backendState`. */
export interface ConfiguredCredentials {
  readonly username: string;
  readonly password: string;
  /** `backendState.allowedHosts`: host patterns; null if not set. */
  readonly allowedHosts: readonly string[] | null;
}

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

export interface CredentialsTarget extends Pick<ClusterEntry, 'name' | 'origin' | 'tls'> {
  readonly proxyTo: string;
  readonly healthCheck: HealthCheck | null;
  readonly type: MonitorType;
  /** `clusterStatsConfiguration.monitorType`. */
  readonly configuredType: MonitorType;
}

export type CredentialsLookup =
  | { readonly credentials: CheckCredentials }
  | {
      readonly credentials: null;
      /** True if no check is possible until a user changes something; else it may be temporary. */
      readonly lasting: boolean;
      readonly reason: string;
      /** For the condition; null while unknown. */
      readonly rejection: CredentialsRejection | null;
    };

/**
 * Finds the credentials of a cluster's checks: from its Secret, else `backendState` if allowed. An unusable Secret is
 * never replaced by the configured credentials: they would be sent to an unintended address.
 * @param signal ends the wait for the Secret
 */
export async function findCredentials(
  sources: CredentialSources,
  target: CredentialsTarget,
  signal: AbortSignal,
): Promise<CredentialsLookup> {
  const secret = target.healthCheck?.credentialsSecretRef?.name;
  if (secret !== undefined) {
    const from = `Secret ${secret} (spec.healthCheck.credentialsSecretRef)`;
    const credentials = await orAborted(sources.ofCluster(target.name, target.proxyTo), signal);
    if (credentials === 'aborted') return unknown(`${from} could not be read in time`);
    if (credentials === null) return unknown(`${from} is not known yet`);
    if (!credentials.ok) return rejection(credentials, false);
    return { credentials: { username: credentials.username, password: credentials.password, from } };
  }
  const { configured } = sources;
  if (configured === null) {
    const message = 'this type of health check needs a user: set backendState or spec.healthCheck.credentialsSecretRef';
    return rejection({ reason: 'NoCredentials', message });
  }
  const isTrusted = sources.trustsResources || target.origin === 'row';
  const rejected = configuredRejection(configured, target, isTrusted);
  if (rejected !== null) return rejection(rejected);
  const { username, password } = configured;
  return { credentials: { username, password, from: 'backendState' } };
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

function rejection({ reason, message }: CredentialsRejection, lasting = true): CredentialsLookup {
  return { credentials: null, lasting, reason: message, rejection: { reason, message } };
}

function unknown(reason: string): CredentialsLookup {
  return { credentials: null, lasting: false, reason, rejection: null };
}

/** The value of a promise; 'aborted' if the signal comes first. The signal is of one check, which ends soon. */
function orAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T | 'aborted'> {
  const { promise: aborted, resolve } = Promise.withResolvers<'aborted'>();
  if (signal.aborted) resolve('aborted');
  else signal.addEventListener('abort', () => resolve('aborted'), { once: true });
  return Promise.race([aborted, promise]);
}
