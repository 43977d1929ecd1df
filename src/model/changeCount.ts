/**
 * Numbers the states of immutable parts: the number grows whenever a part has changed since the last call. A call only
 * compares, which is far cheaper than processing the parts.
 */
export class ChangeCount {
  readonly #parts: unknown[] = [];
  #count = 0;

  /** The number of the present state, from 1. @param parts always in the same order; compared by `Object.is` */
  of(parts: Iterable<unknown>): number {
    let index = 0;
    let differs = this.#count === 0;
    for (const part of parts) {
      if (index >= this.#parts.length || !Object.is(this.#parts[index], part)) {
        this.#parts[index] = part;
        differs = true;
      }
      index += 1;
    }
    if (index < this.#parts.length) {
      this.#parts.length = index;
      differs = true;
    }
    if (differs) this.#count += 1;
    return this.#count;
  }
}
