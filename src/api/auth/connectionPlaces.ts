/** Bounds of connections; times in milliseconds. */
export interface ConnectionBounds {
  readonly places: number;
  readonly waiting: number;
  readonly timeout: number;
}

/** Places of connections to a server: who finds none free waits in order, within bounds. */
export class ConnectionPlaces {
  readonly #bounds: ConnectionBounds;
  #free: number;
  /** Wake-up functions of waiting users, in order. */
  readonly #waiting = new Set<() => void>();

  constructor(bounds: ConnectionBounds) {
    this.#bounds = bounds;
    this.#free = bounds.places;
  }

  /**
   * Takes a place, which has to be released.
   * @throws Error where too many wait already, or no place becomes free in time
   */
  async take(): Promise<void> {
    const { places, waiting, timeout } = this.#bounds;
    if (this.#free > 0) {
      this.#free -= 1;
      return;
    }
    if (this.#waiting.size >= waiting) {
      throw new Error(`${places} connections are in use, and ${waiting} uses wait for one`);
    }
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const timer = setTimeout(() => {
      this.#waiting.delete(enter);
      reject(new Error(`${places} connections are in use, and none became free within ${timeout} ms`));
    }, timeout);
    const enter = () => {
      clearTimeout(timer);
      resolve();
    };
    this.#waiting.add(enter);
    await promise;
  }

  /** Gives a place back: who waits first has it. */
  give(): void {
    const [next] = this.#waiting;
    if (next === undefined) {
      this.#free += 1;
      return;
    }
    this.#waiting.delete(next);
    next();
  }
}
