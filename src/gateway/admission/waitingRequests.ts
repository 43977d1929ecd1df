import type { EventEmitter } from 'node:events';
import type { Refusal } from '../../routing/refusal.ts';
import type { AdmissionWait } from './admission.ts';

const MAX_WAITING = 10_000;

const tooMany: Refusal = {
  reason: 'overloaded',
  message: 'Too many queries wait at this gateway; send it again in a moment.',
  queryId: null,
};

/** Takes over a submission after the maximum wait of its client request. */
export interface HandOver {
  /** Milliseconds. */
  readonly after: number;
  /**
   * Called once, when that time is over or the gateway stops; from then on the wait belongs to the callee.
   * @param turn settles as `AdmissionWait.begin` does
   * @param giveUp aborted to abandon the wait
   */
  readonly take: (turn: Promise<Refusal | null>, giveUp: AbortController) => void;
}

interface Holding {
  readonly response: EventEmitter;
  readonly resolve: (refusal: Refusal | null) => void;
  readonly reject: (error: Error) => void;
  /** Null without a takeover. */
  readonly handOver: HandOver | null;
  readonly giveUp: AbortController;
  readonly isOver: () => void;
}

/** Fields of a wait that concern the client's request. */
type RequestWait = Pick<AdmissionWait, 'atMost' | 'late' | 'noteLate' | 'begin' | 'hasToWait'>;

/**
 * A submission with a waiting request. It releases the request and its dependencies when that is over: the pending
 * turn, which references this object, may come hours after a takeover.
 */
class WaitingRequest {
  #holding: Holding | null;
  #timer: NodeJS.Timeout | null = null;
  #turn: Promise<Refusal | null> | null = null;
  readonly #leave = () => this.#end()?.giveUp.abort();

  constructor(holding: Holding) {
    this.#holding = holding;
  }

  /** @param atMost milliseconds after which it is rejected with `late`, unless it is taken over before */
  waitFor(turn: Promise<Refusal | null>, wait: Omit<RequestWait, 'begin'>): void {
    if (this.#holding === null) return;
    this.#turn = turn;
    this.#holding.response.on('close', this.#leave);
    follow(turn, this);
    if (wait.hasToWait === undefined) this.startTimer(wait);
    else void wait.hasToWait.then(() => this.startTimer(wait));
  }

  startTimer({ atMost, late, noteLate }: Omit<RequestWait, 'begin'>): void {
    const holding = this.#holding;
    if (holding === null) return;
    const { handOver } = holding;
    const isTakenFirst = handOver !== null && handOver.after < atMost;
    this.#timer = isTakenFirst
      ? setTimeout(() => this.#give(handOver), handOver.after)
      : setTimeout(() => {
          noteLate?.();
          this.#reject(late());
        }, atMost);
  }

  /** Ends the wait: admitted or rejected. */
  settle(refusal: Refusal | null): void {
    this.#end()?.resolve(refusal);
  }

  /** The wait failed: a defect. */
  fail(error: Error): void {
    const holding = this.#end();
    holding?.giveUp.abort();
    holding?.reject(error);
  }

  /** The gateway stops: it is taken over, or rejected. */
  endEarly(refusal: Refusal): void {
    const handOver = this.#holding?.handOver ?? null;
    if (handOver === null) this.#reject(refusal);
    else this.#give(handOver);
  }

  #reject(refusal: Refusal): void {
    const holding = this.#end();
    holding?.giveUp.abort();
    holding?.resolve(refusal);
  }

  #give(handOver: HandOver): void {
    const turn = this.#turn;
    const holding = this.#end();
    if (holding !== null && turn !== null) handOver.take(turn, holding.giveUp);
  }

  /** @returns the request; null if it ended before */
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

/** Separate from methods with access to the request: the closure would keep the request in memory. */
function follow(turn: Promise<Refusal | null>, waiting: WaitingRequest): void {
  turn.then(
    (refusal) => waiting.settle(refusal),
    (error: unknown) => waiting.fail(error as Error),
  );
}

/** Lets client requests wait until their submissions are admitted, the time is over, or the client disconnects. */
export class WaitingRequests {
  readonly #waiting = new Set<WaitingRequest>();
  readonly #limit: number;

  /** @param limit maximum number of waiting requests */
  constructor(limit: number = MAX_WAITING) {
    this.#limit = limit;
  }

  /**
   * Lets a request wait.
   * @param response emits `close` when its client disconnects
   * @param handOver takeover after a time, or null
   * @returns null once it is admitted, or its rejection; never settles if the client disconnects, or after a takeover
   * @throws the wait's error: a defect
   */
  hold(
    response: EventEmitter,
    { begin, ...wait }: RequestWait,
    handOver: HandOver | null = null,
  ): Promise<Refusal | null> {
    if (this.#waiting.size >= this.#limit) return Promise.resolve(tooMany);
    const { promise, resolve, reject } = Promise.withResolvers<Refusal | null>();
    const giveUp = new AbortController();
    const entry = new WaitingRequest({
      response,
      resolve,
      reject,
      handOver,
      giveUp,
      isOver: () => this.#waiting.delete(entry),
    });
    this.#waiting.add(entry);
    // Neither the timeout nor the client's disconnect can interleave between the result and its use: they are events,
    // and this is a microtask. So no submission is admitted and abandoned at the same time.
    entry.waitFor(begin(giveUp.signal), wait);
    return promise;
  }

  /** Ends all waits when the gateway stops: each is taken over, or rejected. */
  endAll(refusal: Refusal): void {
    for (const entry of [...this.#waiting]) entry.endEarly(refusal);
  }
}
