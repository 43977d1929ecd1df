import { LRUCache } from 'lru-cache';
import type { ObjectData } from '../../../kinds/serviceLookup.ts';
import { growingTo } from '../../../model/growingCache.ts';
import { API_GROUP } from '../../../model/resource.ts';
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
