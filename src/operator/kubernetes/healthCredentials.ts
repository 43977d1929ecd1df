import type { Clock } from '../../model/clock.ts';
import { API_GROUP, type Resource } from '../../model/resource.ts';
import type { KubeApi } from './kubeApi.ts';
import { kubeCode, kubeReason } from './kubeErrors.ts';

/** Label that a Secret must have before the gateway reads it for health checks. */
export const HEALTH_CREDENTIALS_LABEL = `${API_GROUP}/health-credentials`;

/** User and password of a cluster's health checks, or why there are none. Never logged. */
export type HealthCredentials =
  | { readonly ok: true; readonly username: string; readonly password: string }
  | { readonly ok: false; readonly message: string };

interface ReadSecret {
  readonly credentials: HealthCredentials;
  /** The API server did not say what the Secret holds. */
  readonly away: boolean;
}

/** How long a Secret is used before it is read again. Milliseconds. */
const MAX_AGE_MS = 60_000;

/**
 * Reads the Secrets that `spec.healthCheck.credentialsSecretRef` names: of the resource's own namespace only, and only
 * those that are labelled for it, so that whoever may write a cluster cannot have any Secret sent to an address of theirs.
 */
export class SecretCredentials {
  readonly #api: Pick<KubeApi, 'readSecret'>;
  readonly #clock: Clock;
  readonly #read = new Map<string, { readonly at: number; readonly result: Promise<ReadSecret> }>();

  constructor(api: Pick<KubeApi, 'readSecret'>, clock: Clock) {
    this.#api = api;
    this.#clock = clock;
  }

  /** The credentials of a cluster's resource; null when it names none. */
  async of(resource: Resource): Promise<HealthCredentials | null> {
    const check = resource.spec.healthCheck as
      | { readonly credentialsSecretRef?: { readonly name: string } }
      | undefined;
    const name = check?.credentialsSecretRef?.name;
    if (name === undefined) return null;
    const key = `${resource.metadata.namespace}/${name}`;
    const now = this.#clock.monotonic();
    const known = this.#read.get(key);
    if (known !== undefined && now - known.at < MAX_AGE_MS) return (await known.result).credentials;
    const result = this.#readSecret(resource.metadata.namespace, name);
    this.#read.set(key, { at: now, result });
    const { credentials, away } = await result;
    if (credentials.ok) return credentials;
    this.#read.delete(key);
    const before = away ? await known?.result : undefined;
    if (known === undefined || before?.credentials.ok !== true) return credentials;
    // The API server is away: health checks go on with what it said last, and it is asked again at each of them.
    this.#read.set(key, known);
    return before.credentials;
  }

  async #readSecret(namespace: string, name: string): Promise<ReadSecret> {
    const failed = (message: string, away = false): ReadSecret => ({
      credentials: { ok: false, message: `Secret ${namespace}/${name} ${message}` },
      away,
    });
    try {
      const { labels, data } = await this.#api.readSecret(namespace, name);
      if (labels[HEALTH_CREDENTIALS_LABEL] !== 'true') {
        return failed(`must be labelled ${HEALTH_CREDENTIALS_LABEL}=true to be read`);
      }
      const { username, password } = data;
      if (username === undefined || password === undefined) return failed('must have the keys username and password');
      return { credentials: { ok: true, username, password }, away: false };
    } catch (error) {
      const code = kubeCode(error);
      if (code === 404) return failed('does not exist');
      // 401 and 403 as well come from an API server that restarts; neither says anything about the Secret.
      return failed(`cannot be read: ${kubeReason(error)}`, true);
    }
  }
}
