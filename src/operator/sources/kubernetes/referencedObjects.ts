import { LRUCache } from 'lru-cache';
import type { ObjectData } from '../../../kinds/serviceLookup.ts';
import type { Clock } from '../../../model/clock.ts';
import { growingTo } from '../../../model/growingCache.ts';
import { hostMatches, hostOf } from '../../../model/hostPattern.ts';
import { API_GROUP, type Resource } from '../../../model/resource.ts';
import { servicesOf } from '../../../rules/tenancy.ts';
import type { KubeApi } from './kubeApi.ts';
import { kubeCode, kubeReason } from './kubeErrors.ts';

/** Label of a Secret that may be used for connections to clusters: the consent of its owner. */
export const CLUSTER_TLS_LABEL = `${API_GROUP}/cluster-tls`;

/** Time after which an object is read again, in milliseconds. */
const REFRESH_MS = 60_000;
/** Maximum number of objects; the one that was asked about first is forgotten. */
const MAX_OBJECTS = 10_000;

type Kind = 'ConfigMap' | 'Secret';

interface Entry {
  readonly kind: Kind;
  readonly namespace: string;
  readonly name: string;
  result: ObjectData;
}

/**
 * Data of ConfigMaps and Secrets that clusters refer to. An object is read when it is asked about first, and every minute
 * from then on; only those with a reference are ever read. While one cannot be read, its last data stay.
 */
export class ReferencedObjects {
  readonly #api: Pick<KubeApi, 'readObject'>;
  readonly #notify: () => void;
  readonly #entries = new LRUCache<string, Entry>(growingTo(MAX_OBJECTS));
  #timer: NodeJS.Timeout | null = null;

  /** @param notify called when an object became known, changed or went */
  constructor(api: Pick<KubeApi, 'readObject'>, notify: () => void) {
    this.#api = api;
    this.#notify = notify;
  }

  get(kind: Kind, namespace: string, name: string): ObjectData {
    const key = `${kind}/${namespace}/${name}`;
    const before = this.#entries.get(key);
    if (before !== undefined) return before.result;
    const message = `${kind} ${namespace}/${name} is being read`;
    const entry: Entry = { kind, namespace, name, result: { ok: false, reason: 'RefPending', message } };
    this.#entries.set(key, entry);
    void this.#read(entry);
    this.#timer ??= setInterval(() => {
      for (const each of this.#entries.values()) void this.#read(each);
    }, REFRESH_MS).unref();
    return entry.result;
  }

  stop(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
  }

  /** Never rejects. */
  async #read(entry: Entry): Promise<void> {
    const result = await this.#current(entry);
    if (JSON.stringify(result) === JSON.stringify(entry.result)) return;
    entry.result = result;
    this.#notify();
  }

  async #current({ kind, namespace, name, result }: Entry): Promise<ObjectData> {
    const failed = (reason: string, message: string): ObjectData => ({
      ...{ ok: false, reason },
      message: `${kind} ${namespace}/${name} ${message}`,
    });
    try {
      const { labels, data } = await this.#api.readObject(kind, namespace, name);
      if (kind === 'Secret' && labels[CLUSTER_TLS_LABEL] !== 'true')
        return failed('RefNotLabelled', `must be labelled ${CLUSTER_TLS_LABEL}=true to be used`);
      return { ok: true, data };
    } catch (error) {
      if (kubeCode(error) === 404) return failed('RefNotFound', 'does not exist');
      return result.ok ? result : failed('RefUnreadable', `cannot be read: ${kubeReason(error)}`);
    }
  }
}

/** Labels of Secrets with credentials, by the field that names them. */
const credentialsLabels = {
  healthCheck: `${API_GROUP}/health-credentials`,
  replayAs: `${API_GROUP}/replay-credentials`,
} as const;
/** Fields of a spec that name a Secret with credentials. */
type CredentialsField = keyof typeof credentialsLabels;

/** Reason that there are no credentials, as of the condition `HealthCredentials`. */
interface Missing {
  readonly ok: false;
  readonly reason: string;
  readonly message: string;
  /** The API server did not state what the Secret holds. */
  readonly isAway?: boolean;
}
/** User and password of a Secret, or why they are missing. Never logged. */
export type HealthCredentials = { readonly ok: true; readonly username: string; readonly password: string } | Missing;

/** Fields about credentials of `spec.healthCheck`, or of `spec.replayAs`. */
interface CredentialsSpec {
  readonly credentialsSecretRef?: { readonly name: string };
  readonly credentialsHosts?: readonly string[];
}

/** Time that a Secret is used before it is read again. Milliseconds. */
const MAX_AGE_MS = 60_000;
/** Most Secrets that are remembered; the one read first is forgotten. */
const MAX_CACHED = 10_000;

/**
 * Reads the Secrets that `credentialsSecretRef` of a field names: of the resource's own namespace only, and only those
 * that are labelled for it. They go to `credentialsHosts`, by default to Services of that namespace.
 */
export class SecretCredentials {
  readonly #api: Pick<KubeApi, 'readObject'>;
  readonly #clock: Clock;
  readonly #read = new LRUCache<string, { readonly at: number; readonly result: Promise<HealthCredentials> }>(
    growingTo(MAX_CACHED),
  );

  constructor(api: Pick<KubeApi, 'readObject'>, clock: Clock) {
    this.#api = api;
    this.#clock = clock;
  }

  /**
   * The credentials of a resource; null when it names none.
   * @param field `healthCheck` of a cluster, `replayAs` of a replay
   * @param proxyTo the URL that they would be sent to
   * @param notGranted reason that Secrets of its namespace may not be sent there, or null
   */
  async of(
    resource: Resource,
    field: CredentialsField,
    proxyTo: string,
    notGranted: string | null,
  ): Promise<HealthCredentials | null> {
    const { credentialsSecretRef, credentialsHosts } = (resource.spec[field] ?? {}) as CredentialsSpec;
    if (credentialsSecretRef === undefined) return null;
    const { name } = credentialsSecretRef;
    const { namespace } = resource.metadata;
    const rejection = hostRejection(resource, name, field, credentialsHosts, proxyTo);
    if (rejection !== null) return { ok: false, reason: 'HostNotAllowed', message: rejection };
    if (notGranted !== null) return { ok: false, reason: 'HostNotGranted', message: notGranted };
    return await this.#secret(namespace, name, credentialsLabels[field]);
  }

  async #secret(namespace: string, name: string, label: string): Promise<HealthCredentials> {
    const key = `${label} ${namespace}/${name}`;
    const now = this.#clock.monotonic();
    const entry = this.#read.get(key);
    if (entry !== undefined && now - entry.at < MAX_AGE_MS) return await entry.result;
    const result = this.#readSecret(namespace, name, label);
    this.#read.set(key, { at: now, result });
    const read = await result;
    if (read.ok) return read;
    this.#read.delete(key);
    const before = read.isAway ? await entry?.result : undefined;
    if (entry === undefined || before?.ok !== true) return read;
    // The API server is unavailable: health checks continue with what it said last, and it is asked again at each of them.
    this.#read.set(key, entry);
    return before;
  }

  async #readSecret(namespace: string, name: string, label: string): Promise<HealthCredentials> {
    const failed = (reason: string, message: string, isAway = false): HealthCredentials => ({
      ...{ ok: false, reason, message: `Secret ${namespace}/${name} ${message}`, isAway },
    });
    try {
      const { labels, data } = await this.#api.readObject('Secret', namespace, name);
      if (labels[label] !== 'true') {
        return failed('SecretNotLabelled', `must be labelled ${label}=true to be read`);
      }
      const { username, password } = data;
      if (username === undefined || password === undefined) {
        return failed('SecretIncomplete', 'must have the keys username and password');
      }
      return { ok: true, username, password };
    } catch (error) {
      const code = kubeCode(error);
      if (code === 404) return failed('SecretNotFound', 'does not exist');
      // 401 and 403 come from an API server that restarts as well; neither states anything about the Secret.
      if (code === 403) return failed('SecretForbidden', `${missingRole(namespace)} (${kubeReason(error)})`, true);
      return failed('SecretUnreadable', `cannot be read: ${kubeReason(error)}`, true);
    }
  }
}

function missingRole(namespace: string): string {
  return `cannot be read: the gateway's service account needs a Role and a RoleBinding in namespace ${namespace} that let it get Secrets there; manifests/health-credentials and the value rbac.secretNamespaces of the Helm chart have them`;
}

/** Returns the reason that a Secret may not be sent to a URL, with the fix; null if it may. */
function hostRejection(
  { metadata: { namespace } }: Resource,
  name: string,
  field: CredentialsField,
  hosts: readonly string[] | undefined,
  proxyTo: string,
): string | null {
  const allowed = hosts ?? servicesOf(namespace);
  if (hostMatches(allowed, proxyTo)) return null;
  const host = hostOf(proxyTo);
  const fix = `credentialsHosts: ${JSON.stringify([...(hosts ?? []), host])}`;
  const targets = hosts === undefined ? `Services of namespace ${namespace}` : hosts.join(', ');
  return `spec.${field}.credentialsHosts does not name ${host}: Secret ${namespace}/${name} is sent to ${targets} only; write ${fix}`;
}
