import type { Logger } from 'pino';
import { type Address, type ServiceLookup, type ServiceReference, serviceUrl } from '../../../kinds/serviceLookup.ts';
import type { Clock, Random } from '../../../model/clock.ts';
import { Informer } from './informer.ts';
import type { KubeApi } from './kubeApi.ts';

/** Options of a lookup of Services. */
export interface KubernetesServicesOptions {
  readonly api: KubeApi;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
}

/** Looks Services up: follows those of a namespace from the first reference to one of them on. */
export class KubernetesServices implements ServiceLookup {
  readonly #options: KubernetesServicesOptions;
  readonly #informers = new Map<string, Informer>();
  readonly #listeners = new Set<() => void>();
  #stopped = false;

  constructor(options: KubernetesServicesOptions) {
    this.#options = options;
  }

  address(reference: ServiceReference): Address {
    const { name, namespace, port } = reference;
    const informer = this.#follow(namespace);
    const unknown = (reason: string, message: string): Address => ({ ok: false, reason, message, final: false });
    const service = informer.get(`${namespace}/${name}`);
    if (service === null) {
      const { synced, available, reason } = informer.state;
      if (synced) return unknown('ServiceNotFound', `there is no Service ${namespace}/${name}`);
      const why = available || reason === null ? 'being looked up' : reason;
      return unknown('ServicePending', `Service ${namespace}/${name}: ${why}`);
    }
    const ports = (service.spec?.ports ?? []) as readonly { readonly port?: number }[];
    if (service.spec?.type !== 'ExternalName' && !ports.some((each) => each.port === port)) {
      const numbers = ports.map((each) => each.port).join(', ');
      return unknown(
        'ServicePortNotFound',
        `Service ${namespace}/${name} has no port ${port} (it has ${numbers || 'none'})`,
      );
    }
    const externalName: unknown = service.spec?.type === 'ExternalName' ? service.spec.externalName : undefined;
    return {
      ok: true,
      url: serviceUrl(reference),
      ...(typeof externalName === 'string' ? { externalName } : {}),
    };
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await Promise.all(this.#informers.values().map((informer) => informer.stop()));
  }

  #follow(namespace: string): Informer {
    const existing = this.#informers.get(namespace);
    if (existing !== undefined) return existing;
    const { api, clock, random, logger } = this.#options;
    const notify = (): void => {
      for (const listener of this.#listeners) listener();
    };
    const informer = new Informer({
      name: `Service in ${namespace}`,
      config: api.config,
      calls: api.calls,
      list: (limit, token) => api.listServices(namespace, limit, token),
      watchPath: `/api/v1/namespaces/${namespace}/services`,
      clock,
      random,
      logger,
      onChange: notify,
      onState: notify,
    });
    this.#informers.set(namespace, informer);
    if (!this.#stopped) informer.start();
    return informer;
  }
}
