import { type Attempt, FairQueue } from '../../admission/fairQueue.ts';
import type { Refusal } from '../../routing/refusal.ts';
import type { AdmissionWait } from './admission.ts';
import type { WaitingRoom, WaitingSubmission } from './waitingRoom.ts';

/** The wait ends by itself; this only guards against a defect. */
const GUARD_MS = 5_000;

interface Place {
  readonly submission: WaitingSubmission;
  readonly admitted: () => void;
}

/** Holds requests of clients for a short time, in fair order within each routing group; then they are refused. */
export class HoldingRoom implements WaitingRoom {
  readonly #queues = new Map<string, FairQueue<Place>>();
  #isScheduled = false;

  wait(submission: WaitingSubmission): Pick<AdmissionWait, 'atMost' | 'late' | 'begin'> {
    return {
      atMost: submission.holdMs + GUARD_MS,
      late: submission.refusal(),
      begin: (signal) => this.#hold(submission, signal),
    };
  }

  hasQueue(group: string): boolean {
    return this.#queues.has(group);
  }

  admit(): void {
    if (this.#isScheduled || this.#queues.size === 0) return;
    this.#isScheduled = true;
    // What took slots just now shall be done with that.
    queueMicrotask(() => {
      this.#isScheduled = false;
      this.#admitNow();
    });
  }

  #admitNow(): void {
    const full = new Set<string>();
    for (const [group, queue] of [...this.#queues]) {
      queue.admit(({ submission, admitted }): Attempt => {
        const attempt = submission.tryTake(full);
        if (attempt === 'admitted') admitted();
        return attempt;
      });
      this.#queues.delete(group);
      // At the end, so that each group is the first one at times: limits may count several of them.
      if (queue.size > 0) this.#queues.set(group, queue);
    }
  }

  #hold(submission: WaitingSubmission, signal: AbortSignal): Promise<Refusal | null> {
    const { promise, resolve } = Promise.withResolvers<Refusal | null>();
    const { group, flow, weight, holdMs } = submission;
    const leave = () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', leave);
      const queue = this.#queues.get(group);
      queue?.remove(place);
      if (queue?.size === 0) this.#queues.delete(group);
    };
    const place: Place = {
      submission,
      admitted: () => {
        clearTimeout(timer);
        signal.removeEventListener('abort', leave);
        resolve(null);
      },
    };
    const timer = setTimeout(() => {
      leave();
      resolve(submission.takeAnyway() ? null : submission.refusal());
    }, holdMs);
    signal.addEventListener('abort', leave);
    let queue = this.#queues.get(group);
    if (queue === undefined) {
      queue = new FairQueue();
      this.#queues.set(group, queue);
    }
    queue.push(flow, weight, place);
    this.admit();
    return promise;
  }
}
