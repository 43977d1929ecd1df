import { type Attempt, FairQueue } from '../../admission/fairQueue.ts';
import { durationText } from '../../model/durationText.ts';
import type { Refusal } from '../../routing/refusal.ts';
import type { AdmissionWait } from './admission.ts';
import type { WaitingRoom, WaitingSubmission } from './waitingRoom.ts';

/** The wait ends by itself; this only guards against a defect. */
const GUARD_MS = 5_000;

interface Place {
  readonly submission: WaitingSubmission;
  readonly admitted: () => void;
}

/**
 * Lets submissions wait in fair order within each routing group. Where the gateway can keep them, it does so for as long as
 * their group says; else requests of clients are held for a short time and then refused.
 */
export class HoldingRoom implements WaitingRoom {
  readonly #queues = new Map<string, FairQueue<Place>>();
  readonly #isKeeping: boolean;
  readonly #now: () => number;
  #isScheduled = false;

  /**
   * @param isKeeping whether the gateway can keep submissions whose clients are answered meanwhile
   * @param now monotonic milliseconds
   */
  constructor(isKeeping: boolean, now: () => number) {
    this.#isKeeping = isKeeping;
    this.#now = now;
  }

  wait(submission: WaitingSubmission): Pick<AdmissionWait, 'atMost' | 'hold' | 'late' | 'whenUnkept' | 'begin'> {
    if (this.#isKeeping) {
      const { holdMs, maxWaitMs } = submission;
      return {
        atMost: maxWaitMs,
        hold: holdMs,
        late: lateRefusal(submission),
        whenUnkept: () => (submission.takeAnyway() ? null : submission.refusal()),
        begin: (signal) => this.#hold(submission, signal),
      };
    }
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
    const { group, flow, weight, holdMs, waitedMs } = submission;
    const leave = () => {
      if (timer !== null) clearTimeout(timer);
      signal.removeEventListener('abort', leave);
      const queue = this.#queues.get(group);
      queue?.remove(place);
      if (queue?.size === 0) this.#queues.delete(group);
    };
    const place: Place = {
      submission,
      admitted: () => {
        if (timer !== null) clearTimeout(timer);
        signal.removeEventListener('abort', leave);
        resolve(null);
      },
    };
    const timer = this.#isKeeping
      ? null
      : setTimeout(() => {
          leave();
          resolve(submission.takeAnyway() ? null : submission.refusal());
        }, holdMs);
    signal.addEventListener('abort', leave);
    let queue = this.#queues.get(group);
    if (queue === undefined) {
      queue = new FairQueue();
      this.#queues.set(group, queue);
    }
    // One that has waited before has its place again: those that came later stand behind it.
    queue.push(flow, weight, place, waitedMs > 0 ? this.#now() - waitedMs : Number.POSITIVE_INFINITY);
    this.admit();
    return promise;
  }
}

function lateRefusal(submission: WaitingSubmission): Refusal {
  const { message } = submission.refusal();
  const waited = `The query waited for ${durationText(submission.maxWaitMs)} (queue.maxWait of its routing group).`;
  return { reason: 'queue_timeout', message: `${waited} ${message}`, queryId: null };
}
