import { API_GROUP_VERSION } from '../../src/model/resource.ts';
import type { KubeApi } from '../../src/operator/sources/kubernetes/kubeApi.ts';
import { Stopwatch } from './figures.ts';
import { CLUSTERS, inParallel, RULES } from './largeSet.ts';

/**
 * The least time that statuses take on this machine: those of the rules of the large set and as many more as it has clusters,
 * with the conditions that a rule has after its first look, written without a gateway, a database and anybody who watches.
 */
export async function runStatusFloor(
  api: KubeApi,
  namespace: string,
  apply: (index: number) => Promise<unknown>,
): Promise<void> {
  await inParallel(CLUSTERS + RULES, apply);
  const time = new Stopwatch();
  await inParallel(CLUSTERS + RULES, (index) => {
    const place = { kind: 'RoutingRule', namespace, name: `r${index}` } as const;
    const head = { apiVersion: API_GROUP_VERSION, kind: place.kind, metadata: { name: place.name, namespace } };
    return api.applyStatus(place, { ...head, status: status() }, 'engine-gateway');
  });
  console.log(
    `${CLUSTERS + RULES} statuses without a gateway: written after ${time.text}, ${time.processors(0)}: no gateway can be faster here`,
  );
}

function status(): object {
  const lastTransitionTime = new Date().toISOString();
  const condition = (type: string, message: string): object => ({
    type,
    status: 'True',
    reason: type,
    message,
    observedGeneration: 1,
    lastTransitionTime,
  });
  return {
    observedGeneration: 1,
    routesTo: 'group g1',
    conditions: [
      condition('Accepted', 'the rule compiles'),
      condition('ResolvedRefs', 'what the rule routes to exists'),
      condition('Programmed', 'the rule decides requests'),
      condition('Ready', 'accepted, in the routing table and in the database'),
    ],
  };
}
