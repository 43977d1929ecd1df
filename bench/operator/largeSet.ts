import type { KubeApi, KubeObject } from '../../src/operator/sources/kubernetes/kubeApi.ts';
import { clusterManifest, ruleManifest } from '../../test/support/kubeRig.ts';

export const CLUSTERS = 500;
export const RULES = 5_000;

/** How many of the set's resources have a status. */
export interface StatusCounts {
  /** Of any version. */
  readonly written: number;
  /** About what the resource is now, and accepted. A burst leaves rules whose groups are gone, which are not ready. */
  readonly current: number;
}

/** 500 clusters in 50 groups and 5,000 rules in a namespace, applied as kubectl does. */
export class LargeSet {
  readonly #api: KubeApi;
  readonly #namespace: string;
  readonly #urls: readonly string[];

  /** @param urls of the engines, one for each cluster */
  constructor(api: KubeApi, namespace: string, urls: readonly string[]) {
    this.#api = api;
    this.#namespace = namespace;
    this.#urls = urls;
  }

  async applyAll(): Promise<void> {
    await inParallel(CLUSTERS, (index) => this.applyCluster(index, `g${index % 50}`));
    await inParallel(RULES, (index) => this.applyRule(index, { routingGroup: `g${index % 50}` }));
  }

  /** Has a cluster in a routing group. */
  applyCluster(index: number, routingGroup: string): Promise<KubeObject> {
    return this.#apply('EngineCluster', clusterManifest(`c${index}`, { proxyTo: this.#urls[index], routingGroup }));
  }

  /** Has the rule on the source `sINDEX` route somewhere. */
  applyRule(index: number, routeTo: object): Promise<KubeObject> {
    const condition = `request.getHeader("X-Engine-Source") == "s${index}"`;
    return this.#apply('RoutingRule', ruleManifest(`r${index}`, { condition, routeTo }));
  }

  /** Statuses as the API server has them now. */
  async statuses(): Promise<StatusCounts> {
    let [written, current] = [0, 0];
    for (const kind of ['EngineCluster', 'RoutingRule'] as const) {
      let token: string | undefined;
      do {
        const page = await this.#api.list(kind, this.#namespace, 1_000, token);
        for (const object of page.items) {
          if (object.status !== undefined) written += 1;
          if (isCurrent(object)) current += 1;
        }
        token = page.metadata.continue;
      } while (token !== undefined && token !== '');
    }
    return { written, current };
  }

  #apply(kind: 'EngineCluster' | 'RoutingRule', document: object): Promise<KubeObject> {
    const namespace = this.#namespace;
    const { metadata } = document as { readonly metadata: { readonly name: string } };
    const body = { ...document, metadata: { ...metadata, namespace } };
    return this.#api.apply({ kind, namespace, name: metadata.name }, body, 'kubectl', true);
  }
}

function isCurrent({ metadata, status }: KubeObject): boolean {
  const { observedGeneration, conditions = [] } = (status ?? {}) as {
    readonly observedGeneration?: number;
    readonly conditions?: readonly { readonly type: string; readonly status: string }[];
  };
  return (
    observedGeneration === metadata.generation &&
    conditions.some(({ type, status: value }) => type === 'Accepted' && value === 'True')
  );
}

/** Works on so many numbers, 16 at once. */
export async function inParallel(count: number, work: (index: number) => Promise<unknown>): Promise<void> {
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < count) {
      const index = next;
      next += 1;
      await work(index);
    }
  };
  await Promise.all(Array.from({ length: 16 }, worker));
}
