import { type Attempt, FairQueue } from '../../admission/fairQueue.ts';
import { durationText } from '../../model/durationText.ts';
import type { Refusal } from '../../routing/refusal.ts';
import type { AdmissionWait, QueuePosition, WaitPlace } from './admission.ts';
import type { AdmissionQueue, WaitingSubmission } from './admissionQueue.ts';

/** The wait ends by itself; this only guards against a defect. */
const GUARD_MS = 5_000;

/** Up to this number, the position of a new submission is computed. */
const MAX_COUNTED = 2_000;
/** Maximum age of the positions that clients receive. */
const PLACES_MS = 1_000;

interface Place {
  readonly submission: WaitingSubmission;
  readonly admitted: () => void;
}

/** A snapshot of the positions in a group's queue. */
interface Places {
  /** Monotonic milliseconds. */
  readonly at: number;
  readonly positions: ReadonlyMap<WaitingSubmission, number>;
}

/**
 * Queues submissions in fair order within each routing group. If the gateway can store them, they wait up to their
 * group's limit; else requests of clients wait for a short time and are then rejected.
 */
export class FairAdmissionQueue implements AdmissionQueue {
  readonly #queues = new Map<string, FairQueue<Place>>();
  readonly #places = new Map<string, Places>();
  readonly #isKeeping: boolean;
  readonly #now: () => number;
  #isScheduled = false;

  /**
   * @param isKeeping true if the gateway can store submissions and respond to their clients meanwhile
   * @param now monotonic milliseconds
   */
  constructor(isKeeping: boolean, now: () => number) {
    this.#isKeeping = isKeeping;
    this.#now = now;
  }

  wait(
    submission: WaitingSubmission,
  ): Pick<AdmissionWait, 'place' | 'atMost' | 'hold' | 'late' | 'whenNotStored' | 'begin'> {
    const place = new QueuedPlaceState(submission, () => this.#positionOf(submission));
    if (this.#isKeeping) {
      const { holdMs, maxWaitMs } = submission;
      return {
        place,
        atMost: maxWaitMs,
        hold: holdMs,
        late: lateRefusal(submission),
        whenNotStored: () => (submission.takeAnyway() ? null : submission.refusal()),
        begin: (signal) => this.#hold(submission, place, signal),
      };
    }
    return {
      place,
      atMost: submission.holdMs + GUARD_MS,
      late: submission.refusal(),
      begin: (signal) => this.#hold(submission, place, signal),
    };
  }

  hasQueue(group: string): boolean {
    return this.#queues.has(group);
  }

  admit(): void {
    if (this.#isScheduled || this.#queues.size === 0) return;
    this.#isScheduled = true;
    // Lets newly acquired slots be used first.
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
      // At the end, so that each group is first at times: limits may count several of them.
      if (queue.size > 0) this.#queues.set(group, queue);
      else this.#places.delete(group);
    }
  }

  /** At most a second old, as all clients of a group ask each second; null for newer submissions. */
  #positionOf(submission: WaitingSubmission): QueuePosition | null {
    const { group } = submission;
    const queue = this.#queues.get(group);
    if (queue === undefined) return null;
    let places = this.#places.get(group);
    const now = this.#now();
    if (places === undefined || now - places.at >= PLACES_MS) {
      const positions = new Map(queue.inOrder().map((place, index) => [place.submission, index + 1]));
      places = { at: now, positions };
      this.#places.set(group, places);
    }
    const position = places.positions.get(submission);
    return position === undefined ? null : { position, waiting: places.positions.size };
  }

  #hold(submission: WaitingSubmission, held: QueuedPlaceState, signal: AbortSignal): Promise<Refusal | null> {
    const { promise, resolve } = Promise.withResolvers<Refusal | null>();
    const { group, flow, weight, holdMs, waitedMs } = submission;
    const leave = () => {
      if (timer !== null) clearTimeout(timer);
      signal.removeEventListener('abort', leave);
      const queue = this.#queues.get(group);
      queue?.remove(place);
      held.end();
      if (queue?.size === 0) this.#forget(group);
    };
    const place: Place = {
      submission,
      admitted: () => {
        if (timer !== null) clearTimeout(timer);
        signal.removeEventListener('abort', leave);
        held.end();
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
    const queue = this.#queues.get(group) ?? new FairQueue();
    this.#queues.set(group, queue);
    // A submission that waited before gets its position again: later ones stand behind it.
    queue.push(flow, weight, place, waitedMs > 0 ? this.#now() - waitedMs : Number.POSITIVE_INFINITY);
    const { size } = queue;
    const entry = size > MAX_COUNTED ? null : { position: queue.position(place), waiting: size };
    submission.noteEntry(entry);
    held.begin(entry, () => {
      this.#places.delete(group);
      queue.moveFirst(place);
      this.admit();
    });
    this.admit();
    return promise;
  }

  #forget(group: string): void {
    this.#queues.delete(group);
    this.#places.delete(group);
  }
}

class QueuedPlaceState implements WaitPlace {
  readonly #submission: WaitingSubmission;
  readonly #position: () => QueuePosition | null;
  /** Null while it does not wait. */
  #move: (() => void) | null = null;
  #isMoved = false;
  #entry: QueuePosition | null = null;

  constructor(submission: WaitingSubmission, position: () => QueuePosition | null) {
    this.#submission = submission;
    this.#position = position;
  }

  /**
   * @param entry its initial position
   * @param move moves it to the front
   */
  begin(entry: QueuePosition | null, move: () => void): void {
    this.#entry = entry;
    this.#move = move;
    if (this.#isMoved) move();
  }

  end(): void {
    this.#move = null;
  }

  why(): string {
    return this.#submission.why();
  }

  position(): QueuePosition | null {
    return this.#move === null ? null : (this.#position() ?? this.#entry);
  }

  moveFirst(): void {
    this.#isMoved = true;
    this.#submission.noteMoved();
    this.#move?.();
  }
}

function lateRefusal(submission: WaitingSubmission): Refusal {
  const { message } = submission.refusal();
  const waited = `The query waited for ${durationText(submission.maxWaitMs)} (queue.maxWait of its routing group).`;
  return { reason: 'queue_timeout', message: `${waited} ${message}`, queryId: null };
}
