import type { ServerResponse } from 'node:http';

/** Requests of clients that are not answered in full, of all listeners; a clean stop waits for them. */
export class OpenRequests {
  readonly #open = new Set<ServerResponse>();
  #draining = false;
  #onIdle: (() => void) | null = null;

  /** Requests not answered in full. */
  get count(): number {
    return this.#open.size;
  }

  /** Notes a request at its begin; its end shows by the response. */
  add(response: ServerResponse): void {
    this.#open.add(response);
    if (this.#draining) response.shouldKeepAlive = false;
    response.on('close', () => {
      this.#open.delete(response);
      if (this.#open.size === 0) this.#onIdle?.();
    });
  }

  /** From now on answers end their connection (`Connection: close`), so that clients go elsewhere. */
  drain(): void {
    this.#draining = true;
    for (const response of this.#open) if (!response.headersSent) response.shouldKeepAlive = false;
  }

  /** Resolves with true once no request is open, with false when the time is over. */
  idle(timeoutMs: number): Promise<boolean> {
    if (this.#open.size === 0) return Promise.resolve(true);
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const timer = setTimeout(() => resolve(false), timeoutMs);
    this.#onIdle = () => resolve(true);
    return promise.finally(() => {
      clearTimeout(timer);
      this.#onIdle = null;
    });
  }
}
