import type { HealthCheck } from '../../model/engineCluster.ts';
import type { CheckCredentials } from './healthCheck.ts';

/** Credentials of a cluster's own Secret, or why they cannot be had; as the operator reads them. */
export type ClusterCredentials =
  | { readonly ok: true; readonly username: string; readonly password: string }
  | { readonly ok: false; readonly message: string };

/** Where the credentials of checks come from. */
export interface CredentialSources {
  /** `backendState`; null where it is not configured. */
  readonly configured: () => { readonly username: string; readonly password: string } | null;
  /** Those of the Secret that a cluster names, by registry name; null when it names none. */
  readonly ofCluster: (cluster: string) => Promise<ClusterCredentials | null>;
}

/** Credentials for a check, or the reason why there are none. */
export type FoundCredentials =
  | { readonly ok: true; readonly credentials: CheckCredentials }
  /** `lasting`: no check can be made until somebody mends it; else it may pass, as an API server that is away. */
  | { readonly ok: false; readonly lasting: boolean; readonly reason: string };

/**
 * The credentials of a cluster's checks: those of the Secret it names, else `backendState`'s. A Secret that cannot be
 * read is never made up for by the configured ones: they would go to an address that they are not meant for.
 * @param signal ends the wait for the Secret
 */
export async function findCredentials(
  sources: CredentialSources,
  cluster: string,
  healthCheck: HealthCheck | null,
  signal: AbortSignal,
): Promise<FoundCredentials> {
  const secret = healthCheck?.credentialsSecretRef?.name;
  if (secret !== undefined) {
    const from = `Secret ${secret} (spec.healthCheck.credentialsSecretRef)`;
    const found = await orAborted(sources.ofCluster(cluster), signal);
    if (found === 'aborted') return { ok: false, lasting: false, reason: `${from} could not be read in time` };
    if (found === null) return { ok: false, lasting: false, reason: `${from} is not known yet` };
    if (!found.ok) return { ok: false, lasting: false, reason: found.message };
    return { ok: true, credentials: { username: found.username, password: found.password, from } };
  }
  const configured = sources.configured();
  if (configured !== null) return { ok: true, credentials: { ...configured, from: 'backendState' } };
  const reason = 'this type of health check needs a user: set backendState or spec.healthCheck.credentialsSecretRef';
  return { ok: false, lasting: true, reason };
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
