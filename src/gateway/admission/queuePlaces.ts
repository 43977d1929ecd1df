import { FairQueue } from '../../admission/fairQueue.ts';
import { type AdmissionPolicy, DEFAULT_QUEUE } from '../../routing/admissionPolicy.ts';
import type { QueuePosition } from './admission.ts';
import { LimitDemands } from './limitDemands.ts';

export interface PlacedSubmission {
  readonly id: string;
  readonly group: string;
  readonly user: string | null;
  readonly source: string | null;
  /** Time at which an administrator moved it to the front; null for never. Times have one unit and one clock. */
  readonly movedAt: number | null;
}

/** Computes the positions of all queued submissions, as if one replica had all of them. */
export class QueuePlaces {
  readonly #demands = new LimitDemands();

  /**
   * Positions of submissions by id, each in its routing group: users (or sources) take turns, by weight.
   * @param submissions queued submissions, oldest first
   */
  of(policy: AdmissionPolicy, submissions: readonly PlacedSubmission[]): ReadonlyMap<string, QueuePosition> {
    const queues = new Map<string, FairQueue<string>>();
    for (const { id, group, user, source } of submissions) {
      const queue = queues.get(group) ?? new FairQueue<string>();
      queues.set(group, queue);
      const { fairBy } = policy.groups.get(group)?.queue ?? DEFAULT_QUEUE;
      const { weight } = this.#demands.of(policy, group, user ?? '', source ?? '');
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
}
