import type { HealthCheck } from '../../kinds/engineCluster/spec.ts';
import { hostMatches, hostOf } from '../../model/hostPattern.ts';
import type { MonitorType } from '../../model/monitorType.ts';
import type { ClusterEntry } from '../../routing/routingTable.ts';
import type { CheckCredentials } from './healthCheck.ts';

/** Why credentials are not sent to a cluster: reason and message of its condition `HealthCredentials`. */
export interface CredentialsRefusal {
  /** CamelCase. */
  readonly reason: string;
  /** Sentence for people, with the fix. */
  readonly message: string;
}

/** Credentials of a cluster's own Secret, or why they cannot be had; as the operator reads them. */
export type ClusterCredentials =
  | { readonly ok: true; readonly username: string; readonly password: string }
  | ({ readonly ok: false } & CredentialsRefusal);

/** `backendState`, as far as it is credentials. */
export interface ConfiguredCredentials {
  readonly username: string;
  readonly password: string;
  /** `backendState.allowedHosts`: host patterns; null where it is not set. */
  readonly allowedHosts: readonly string[] | null;
}

/** Where the credentials of checks come from. */
export interface CredentialSources {
  /** `backendState`; null where it is not configured. */
  readonly configured: ConfiguredCredentials | null;
  /**
   * Whether resources are written by those who run the gateway, as in a directory or the database. On an API server
   * they may be anybody's.
   */
  readonly trustsResources: boolean;
  /** Those of the Secret that a cluster names, by registry name, for checks at a URL; null when it names none. */
  readonly ofCluster: (cluster: string, proxyTo: string) => Promise<ClusterCredentials | null>;
  /** Called at each check with the reason why credentials were not sent; null when they were, or none are needed. */
  readonly report: (cluster: string, refusal: CredentialsRefusal | null) => void;
}

/** The cluster whose credentials are looked for. */
export interface CredentialsTarget extends Pick<ClusterEntry, 'name' | 'origin' | 'tls'> {
  /** URL that they are sent to. */
  readonly proxyTo: string;
  readonly healthCheck: HealthCheck | null;
  /** Type of the check that is made. */
  readonly type: MonitorType;
  /** `clusterStatsConfiguration.monitorType`. */
  readonly configuredType: MonitorType;
}

/** Credentials for a check, or the reason why there are none. */
export type CredentialsLookup =
  | { readonly ok: true; readonly credentials: CheckCredentials }
  | {
      readonly ok: false;
      /** No check can be made until somebody changes something; else it may pass, as an API server that is unavailable. */
      readonly lasting: boolean;
      readonly reason: string;
      /** For the condition; null while it is not known yet. */
      readonly refusal: CredentialsRefusal | null;
    };

/**
 * The credentials of a cluster's checks: those of the Secret it names, else `backendState`'s where these may go there. A
 * Secret that cannot be used is never replaced by the configured ones: they would go to an address that they are not
 * meant for.
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
    if (!credentials.ok) return refused(credentials, false);
    return { ok: true, credentials: { username: credentials.username, password: credentials.password, from } };
  }
  const { configured } = sources;
  if (configured === null) {
    const message = 'this type of health check needs a user: set backendState or spec.healthCheck.credentialsSecretRef';
    return refused({ reason: 'NoCredentials', message });
  }
  const isTrusted = sources.trustsResources || target.origin === 'row';
  const refusal = configuredRefusal(configured, target, isTrusted);
  if (refusal !== null) return refused(refusal);
  const { username, password } = configured;
  return { ok: true, credentials: { username, password, from: 'backendState' } };
}

/**
 * Why `backendState` may not be sent to a cluster; null when it may (docs/health.md#credentials). What a resource asks
 * for does not widen where it goes: its author could have it sent to a host of their own.
 */
function configuredRefusal(
  { password, allowedHosts }: ConfiguredCredentials,
  { proxyTo, type, configuredType, tls }: CredentialsTarget,
  isTrusted: boolean,
): CredentialsRefusal | null {
  // A name alone proves nothing to an engine: there is nothing to keep.
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

function refused({ reason, message }: CredentialsRefusal, lasting = true): CredentialsLookup {
  return { ok: false, lasting, reason: message, refusal: { reason, message } };
}

function unknown(reason: string): CredentialsLookup {
  return { ok: false, lasting: false, reason, refusal: null };
}

async function orAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T | 'aborted'> {
  if (signal.aborted) return 'aborted';
  const { promise: aborted, resolve } = Promise.withResolvers<'aborted'>();
  const onAbort = () => resolve('aborted');
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    return await Promise.race([promise, aborted]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}
