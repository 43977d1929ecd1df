import { FairQueue } from '../../admission/fairQueue.ts';
import { type AdmissionPolicy, DEFAULT_QUEUE } from '../../routing/admissionPolicy.ts';
import type { ListedQueuedQuery } from '../../store/store.ts';
import type { QueuePosition } from './admission.ts';
import { LimitDemands } from './limitDemands.ts';

/**
 * Positions of all queued submissions by id, as if one replica had all of them: in each routing group users (or sources)
 * take turns, by weight.
 * @param submissions oldest first
 */
export function queuePlaces(
  policy: AdmissionPolicy,
  submissions: readonly ListedQueuedQuery[],
): ReadonlyMap<string, QueuePosition> {
  const demands = new LimitDemands();
  const queues = new Map<string, FairQueue<string>>();
  for (const { id, group, user, source } of submissions) {
    const queue = queues.getOrInsertComputed(group, () => new FairQueue());
    const { fairBy } = policy.groups.get(group)?.queue ?? DEFAULT_QUEUE;
    const { weight } = demands.of(policy, { group, user: user ?? '', source: source ?? '', groups: [] });
    queue.push((fairBy === 'user' ? user : source) ?? '', weight, id);
  }
  const moved = submissions.filter(({ movedAt }) => movedAt !== null);
  for (const { id, group } of moved.toSorted((one, other) => (one.movedAt ?? 0) - (other.movedAt ?? 0))) {
    queues.get(group)?.moveFirst(id);
  }
  const places = new Map<string, QueuePosition>();
  for (const queue of queues.values()) {
    const order = queue.inOrder();
    for (const [index, id] of order.entries()) places.set(id, { position: index + 1, waiting: order.length });
  }
  return places;
}
