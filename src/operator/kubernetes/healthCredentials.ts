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

/** How long a Secret is used before it is read again. Milliseconds. */
const MAX_AGE_MS = 60_000;

/**
 * Reads the Secrets that `spec.healthCheck.credentialsSecretRef` names: of the resource's own namespace only, and only
 * those that are labelled for it, so that whoever may write a cluster cannot have any Secret sent to an address of theirs.
 */
export class SecretCredentials {
  readonly #api: Pick<KubeApi, 'readSecret'>;
  readonly #clock: Clock;
  readonly #read = new Map<string, { readonly at: number; readonly result: Promise<HealthCredentials> }>();

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
    if (known !== undefined && now - known.at < MAX_AGE_MS) return await known.result;
    const result = this.#readSecret(resource.metadata.namespace, name);
    this.#read.set(key, { at: now, result });
    const credentials = await result;
    if (!credentials.ok) this.#read.delete(key);
    return credentials;
  }

  async #readSecret(namespace: string, name: string): Promise<HealthCredentials> {
    const failed = (message: string): HealthCredentials => ({
      ok: false,
      message: `Secret ${namespace}/${name} ${message}`,
    });
    try {
      const { labels, data } = await this.#api.readSecret(namespace, name);
      if (labels[HEALTH_CREDENTIALS_LABEL] !== 'true') {
        return failed(`must be labelled ${HEALTH_CREDENTIALS_LABEL}=true to be read`);
      }
      const { username, password } = data;
      if (username === undefined || password === undefined) return failed('must have the keys username and password');
      return { ok: true, username, password };
    } catch (error) {
      return failed(kubeCode(error) === 404 ? 'does not exist' : `cannot be read: ${kubeReason(error)}`);
    }
  }
}
