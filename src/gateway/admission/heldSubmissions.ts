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

/** What a submission is held with. */
interface Holding {
  readonly response: EventEmitter;
  readonly resolve: (refusal: Refusal | null) => void;
  readonly reject: (error: Error) => void;
  /** Null where nobody takes it over. */
  readonly handOver: HandOver | null;
  readonly giveUp: AbortController;
  readonly isOver: () => void;
}

/** How a submission waits, as far as its request is held. */
type HeldWait = Pick<AdmissionWait, 'atMost' | 'late' | 'noteLate' | 'begin'>;

/**
 * A submission that is held. It lets go of its request as soon as that is over, and of all that hangs on it: the turn that it
 * waits for, which keeps this object, may come hours after somebody took it over.
 */
class Held {
  #holding: Holding | null;
  #timer: NodeJS.Timeout | null = null;
  #turn: Promise<Refusal | null> | null = null;
  readonly #leave = () => this.#end()?.giveUp.abort();

  constructor(holding: Holding) {
    this.#holding = holding;
  }

  /** @param atMost milliseconds after which it is refused with `late`, unless somebody takes it over before */
  waitFor(turn: Promise<Refusal | null>, { atMost, late, noteLate }: Omit<HeldWait, 'begin'>): void {
    const holding = this.#holding;
    if (holding === null) return;
    const { response, handOver } = holding;
    this.#turn = turn;
    const isTakenFirst = handOver !== null && handOver.after < atMost;
    this.#timer = isTakenFirst
      ? setTimeout(() => this.#give(handOver), handOver.after)
      : setTimeout(() => {
          noteLate?.();
          this.#refuse(late);
        }, atMost);
    response.on('close', this.#leave);
    follow(turn, this);
  }

  /** Its turn has come, or it was refused instead. */
  settle(refusal: Refusal | null): void {
    this.#end()?.resolve(refusal);
  }

  /** The wait failed: a defect. */
  fail(error: Error): void {
    const holding = this.#end();
    holding?.giveUp.abort();
    holding?.reject(error);
  }

  /** The gateway stops: it is taken over, or refused. */
  endEarly(refusal: Refusal): void {
    const handOver = this.#holding?.handOver ?? null;
    if (handOver === null) this.#refuse(refusal);
    else this.#give(handOver);
  }

  #refuse(refusal: Refusal): void {
    const holding = this.#end();
    holding?.giveUp.abort();
    holding?.resolve(refusal);
  }

  #give(handOver: HandOver): void {
    const turn = this.#turn;
    const holding = this.#end();
    if (holding !== null && turn !== null) handOver.take(turn, holding.giveUp);
  }

  /** @returns what it was held with; null where it was over before */
  #end(): Holding | null {
    const holding = this.#holding;
    if (holding === null) return null;
    this.#holding = null;
    this.#turn = null;
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    holding.response.off('close', this.#leave);
    holding.isOver();
    return holding;
  }
}

/** Apart from methods that know the request: what is called at the end keeps all that is known where it was made. */
function follow(turn: Promise<Refusal | null>, held: Held): void {
  turn.then(
    (refusal) => held.settle(refusal),
    (error: unknown) => held.fail(error as Error),
  );
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
    { begin, ...wait }: HeldWait,
    handOver: HandOver | null = null,
  ): Promise<Refusal | null> {
    if (this.#waiting.size >= this.#limit) return Promise.resolve(tooMany);
    const { promise, resolve, reject } = Promise.withResolvers<Refusal | null>();
    const giveUp = new AbortController();
    const entry = new Held({ response, resolve, reject, handOver, giveUp, isOver: () => this.#waiting.delete(entry) });
    this.#waiting.add(entry);
    // Neither the time nor the client's end can come between the answer and what is done upon it: they are events, and
    // this is a microtask. So nobody is admitted and given up at once.
    entry.waitFor(begin(giveUp.signal), wait);
    return promise;
  }

  /** Ends all holding, as the gateway stops: each is taken over, or refused. */
  endAll(refusal: Refusal): void {
    for (const entry of [...this.#waiting]) entry.endEarly(refusal);
  }
}
