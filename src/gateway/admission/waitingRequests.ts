import type { EventEmitter } from 'node:events';
import type { Refusal } from '../../routing/refusal.ts';

const MAX_WAITING = 10_000;

/**
 * End of a request's wait: admitted (null) or rejected; or its time is over, its client disconnected, or the gateway
 * stops.
 */
export type WaitEnd = Refusal | null | 'late' | 'left' | 'stopped';

const tooMany: Refusal = {
  reason: 'overloaded',
  message: 'Too many queries wait at this gateway; send it again in a moment.',
  queryId: null,
};

/**
 * A request that waits. It releases the request when that is over: the pending turn, which references this object, may
 * come hours later.
 */
interface Waiting {
  end: ((how: WaitEnd) => void) | null;
  fail: ((error: Error) => void) | null;
}

/** Requests that wait until their submissions are admitted. */
export class WaitingRequests {
  readonly #waiting = new Set<Waiting>();

  /**
   * Lets a request wait. Events cannot interleave between the end and its use, which is a microtask: no submission is
   * admitted and abandoned.
   * @param response emits `close` when its client disconnects
   * @param turn its admission (null) or rejection
   * @param atMost maximum wait in milliseconds, from the time when `hasToWait` is fulfilled
   * @throws the error of the turn: a defect
   */
  hold(
    response: EventEmitter,
    turn: Promise<Refusal | null>,
    atMost: number,
    hasToWait: Promise<unknown> = Promise.resolve(),
  ): Promise<WaitEnd> {
    if (this.#waiting.size >= MAX_WAITING) return Promise.resolve(tooMany);
    const { promise, resolve, reject } = Promise.withResolvers<WaitEnd>();
    let timer: NodeJS.Timeout | undefined;
    const leave = () => waiting.end?.('left');
    const over = () => {
      clearTimeout(timer);
      response.off('close', leave);
      this.#waiting.delete(waiting);
      waiting.end = null;
      waiting.fail = null;
    };
    const waiting: Waiting = {
      end: (how) => {
        over();
        resolve(how);
      },
      fail: (error) => {
        over();
        reject(error);
      },
    };
    this.#waiting.add(waiting);
    response.on('close', leave);
    follow(turn, waiting);
    void hasToWait.then(() => {
      if (waiting.end !== null) timer = setTimeout(() => waiting.end?.('late'), atMost);
    });
    return promise;
  }

  /** Ends all waits when the gateway stops. */
  endAll(): void {
    for (const { end } of [...this.#waiting]) end?.('stopped');
  }
}

/** Separate from functions with access to the request: the closure would keep the request in memory. */
function follow(turn: Promise<Refusal | null>, waiting: Waiting): void {
  turn.then(
    (refusal) => waiting.end?.(refusal),
    (error: unknown) => waiting.fail?.(error as Error),
  );
}
