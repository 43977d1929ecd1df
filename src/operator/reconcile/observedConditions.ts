import { observedConditions } from '../../kinds/dataPlaneFindings.ts';
import type { StatusDraft } from '../../kinds/status.ts';
import type { Clock } from '../../model/clock.ts';
import type { ResourceStatus } from '../../model/resource.ts';

/**
 * Conditions of what replicas observed, in the statuses of a leader that has not read yet what the one before it wrote last:
 * they stay as they are until then, so that they do not go and come back.
 */
export class ObservedConditions {
  readonly #clock: Clock;
  readonly #isUnavailable: () => boolean;
  /** Monotonic milliseconds; what was read from then on is complete. */
  #since: number;
  #isComplete = false;
  /** Resources whose conditions were left as they are, as `keyText` has them. */
  readonly #waiting = new Set<string>();

  /** @param isUnavailable whether the database cannot be read, so that it may take long */
  constructor(clock: Clock, isUnavailable: () => boolean) {
    this.#clock = clock;
    this.#isUnavailable = isUnavailable;
    this.#since = clock.monotonic();
  }

  /** To be called when the leadership changed. */
  awaitOthers(): void {
    this.#since = this.#clock.monotonic();
    this.#isComplete = false;
  }

  /**
   * Notes that what other replicas observed was read.
   * @param at when it was asked for, monotonic milliseconds
   * @returns keys of the resources whose status may change by it
   */
  noteOthers(at: number): readonly string[] {
    if (this.#isComplete || at < this.#since) return [];
    this.#isComplete = true;
    const keys = [...this.#waiting];
    this.#waiting.clear();
    return keys;
  }

  /** The draft of a status, with conditions as they are where others may have observed something else. */
  complete(key: string, draft: StatusDraft, present: ResourceStatus | undefined): StatusDraft {
    if (this.#isComplete) return draft;
    const conditions = [...draft.conditions];
    for (const type of observedConditions) {
      const before = present?.conditions?.find((condition) => condition.type === type);
      if (before === undefined || before.observedGeneration !== draft.observedGeneration) continue;
      const place = conditions.findIndex((condition) => condition.type === type);
      const isUnobserved = place < 0 || conditions[place]?.status === 'Unknown';
      // While the database is unavailable, what this replica observes itself is all that will come.
      if (before.status === 'Unknown' || (this.#isUnavailable() && !isUnobserved)) continue;
      const { lastTransitionTime: _, ...kept } = before;
      conditions.splice(place < 0 ? conditions.length : place, place < 0 ? 0 : 1, kept);
      this.#waiting.add(key);
    }
    return { ...draft, conditions };
  }
}
