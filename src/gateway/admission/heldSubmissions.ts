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

/** Takes a submission over whose request has waited for as long as requests are held. */
export interface HandOver {
  /** Milliseconds. */
  readonly after: number;
  /**
   * Called once, when that time is over or the gateway stops; from then on the wait is the taker's.
   * @param turn settles as `AdmissionWait.begin` does
   * @param giveUp to be aborted when the wait is given up
   */
  readonly take: (turn: Promise<Refusal | null>, giveUp: AbortController) => void;
}

/** What ends the holding of a submission. */
interface Held {
  readonly refuse: (refusal: Refusal) => void;
  /** Null where nobody takes it over. */
  readonly handOver: (() => void) | null;
}

/** Holds submissions that have to wait: until they are admitted, for a time, and as long as their clients are there. */
export class HeldSubmissions {
  readonly #waiting = new Set<Held>();
  readonly #limit: number;

  /** @param limit most submissions that are held at a time */
  constructor(limit: number = MAX_HELD) {
    this.#limit = limit;
  }

  /**
   * Holds a submission.
   * @param response emits `close` when its client goes away
   * @param handOver who takes it over after a time; null for nobody
   * @returns null once it is admitted, or why it is refused; never settles where the client goes away, and where it is
   *   taken over
   * @throws what the wait rejects with: a defect
   */
  hold(
    response: EventEmitter,
    { atMost, late, begin }: Pick<AdmissionWait, 'atMost' | 'late' | 'begin'>,
    handOver: HandOver | null = null,
  ): Promise<Refusal | null> {
    if (this.#waiting.size >= this.#limit) return Promise.resolve(tooMany);
    const { promise, resolve, reject } = Promise.withResolvers<Refusal | null>();
    const giveUp = new AbortController();
    const end = () => {
      clearTimeout(timer);
      response.off('close', leave);
      this.#waiting.delete(entry);
    };
    const leave = () => {
      end();
      giveUp.abort();
    };
    const refuse = (refusal: Refusal) => {
      leave();
      resolve(refusal);
    };
    let isTaken = false;
    const give = (taker: HandOver) => {
      end();
      isTaken = true;
      taker.take(turn, giveUp);
    };
    const entry: Held = { refuse, handOver: handOver === null ? null : () => give(handOver) };
    const isTakenFirst = handOver !== null && handOver.after < atMost;
    const timer = isTakenFirst ? setTimeout(give, handOver.after, handOver) : setTimeout(refuse, atMost, late);
    response.on('close', leave);
    this.#waiting.add(entry);
    // Neither the time nor the client's end can come between the answer and what is done upon it: they are events, and
    // this is a microtask. So nobody is admitted and given up at once.
    const turn = begin(giveUp.signal);
    turn.then(
      (refusal) => {
        if (giveUp.signal.aborted || isTaken) return;
        end();
        resolve(refusal);
      },
      (error: unknown) => {
        if (giveUp.signal.aborted || isTaken) return;
        leave();
        reject(error as Error);
      },
    );
    return promise;
  }

  /** Ends all holding, as the gateway stops: each is taken over, or refused. */
  endAll(refusal: Refusal): void {
    for (const { refuse, handOver } of [...this.#waiting]) {
      if (handOver === null) refuse(refusal);
      else handOver();
    }
  }
}
