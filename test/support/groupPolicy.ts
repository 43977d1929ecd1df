import { DEFAULT_QUEUE, type GroupPolicy, type QueuePolicy } from '../../src/routing/admissionPolicy.ts';

/** What a `RoutingGroup` declares that says nothing but its name, and more. */
export function groupPolicy(
  name: string,
  { queue, ...more }: Partial<Omit<GroupPolicy, 'queue'>> & { readonly queue?: Partial<QueuePolicy> } = {},
): GroupPolicy {
  return {
    name,
    strategy: null,
    affinity: { by: 'user' },
    fallbacks: [],
    fallbackWhen: 'unavailable',
    bestEffort: false,
    maxRunning: null,
    queue: { ...DEFAULT_QUEUE, ...queue },
    survival: null,
    ...more,
  };
}

/** The groups of a routing table's policy by name. */
export function groupsOf(...policies: readonly GroupPolicy[]): ReadonlyMap<string, GroupPolicy> {
  return new Map(policies.map((policy) => [policy.name, policy]));
}
