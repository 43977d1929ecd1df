import type { EventEmitter } from 'node:events';
import type { Refusal } from '../../routing/refusal.ts';
import type { AdmissionWait } from './admission.ts';

/** Submissions that may be held at a time, whatever lets them wait. */
const MAX_HELD = 10_000;

const tooMany: Refusal = {
  reason: 'overloaded',
  message: 'Too many queries wait at this gateway; send it again in a moment.',
  queryId: null,
};

/** Holds submissions that have to wait: until they are admitted, for a time, and as long as their clients are there. */
export class HeldSubmissions {
  readonly #waiting = new Set<(refusal: Refusal) => void>();
  readonly #limit: number;

  /** @param limit most submissions that are held at a time */
  constructor(limit: number = MAX_HELD) {
    this.#limit = limit;
  }

  /**
   * Holds a submission.
   * @param response emits `close` when its client goes away
   * @returns null once it is admitted, or why it is refused; never settles where the client goes away
   * @throws what the wait rejects with: a defect
   */
  hold(response: EventEmitter, { atMost, late, begin }: AdmissionWait): Promise<Refusal | null> {
    if (this.#waiting.size >= this.#limit) return Promise.resolve(tooMany);
    const { promise, resolve, reject } = Promise.withResolvers<Refusal | null>();
    const giveUp = new AbortController();
    const end = () => {
      clearTimeout(timer);
      response.off('close', leave);
      this.#waiting.delete(refuse);
    };
    const leave = () => {
      end();
      giveUp.abort();
    };
    const refuse = (refusal: Refusal) => {
      leave();
      resolve(refusal);
    };
    const timer = setTimeout(refuse, atMost, late);
    response.on('close', leave);
    this.#waiting.add(refuse);
    // Neither the time nor the client's end can come between the answer and what is done upon it: they are events, and
    // this is a microtask. So nobody is admitted and given up at once.
    begin(giveUp.signal).then(
      (refusal) => {
        if (giveUp.signal.aborted) return;
        end();
        resolve(refusal);
      },
      (error: unknown) => {
        if (giveUp.signal.aborted) return;
        leave();
        reject(error as Error);
      },
    );
    return promise;
  }

  /** Refuses all that are held: the gateway stops. */
  refuseAll(refusal: Refusal): void {
    for (const refuse of [...this.#waiting]) refuse(refusal);
  }
}
