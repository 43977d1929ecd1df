import type { ServerResponse } from 'node:http';

/** Requests of clients that are without a complete response, of all listeners; a clean stop waits for them. */
export class OpenRequests {
  /**
   * Places of open requests; null if one is free. A `Set` would rebuild its table over and over, and old tables
   * that wait for collection keep all responses of their time: three times the work for the garbage collector.
   */
  readonly #places: (ServerResponse | null)[] = [];
  readonly #free: number[] = [];
  #draining = false;
  #onIdle: (() => void) | null = null;

  get count(): number {
    return this.#places.length - this.#free.length;
  }

  /** Notes a request at its begin; its end shows by the response. */
  add(response: ServerResponse): void {
    const place = this.#free.pop() ?? this.#places.length;
    this.#places[place] = response;
    if (this.#draining) response.shouldKeepAlive = false;
    response.on('close', () => {
      this.#places[place] = null;
      this.#free.push(place);
      if (this.count === 0) this.#onIdle?.();
    });
  }

  /** From now on answers end their connection (`Connection: close`), so that clients go elsewhere. */
  drain(): void {
    this.#draining = true;
    for (const response of this.#places) if (response?.headersSent === false) response.shouldKeepAlive = false;
  }

  idle(timeoutMs: number): Promise<boolean> {
    if (this.count === 0) return Promise.resolve(true);
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const timer = setTimeout(() => resolve(false), timeoutMs);
    this.#onIdle = () => resolve(true);
    return promise.finally(() => {
      clearTimeout(timer);
      this.#onIdle = null;
    });
  }
}
