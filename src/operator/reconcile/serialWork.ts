/** Runs work of the same name one after the other, whether what came before succeeded or not. */
export class SerialWork {
  readonly #last = new Map<string, Promise<unknown>>();

  /** Rejects as the work does. */
  async run<T>(name: string, work: () => Promise<T>): Promise<T> {
    const before = this.#last.get(name) ?? Promise.resolve();
    const own = before.then(work, work);
    this.#last.set(name, own);
    try {
      return await own;
    } finally {
      if (this.#last.get(name) === own) this.#last.delete(name);
    }
  }

  /** Resolves when all that is under way has ended. */
  async settled(): Promise<void> {
    await Promise.allSettled(this.#last.values());
  }
}
