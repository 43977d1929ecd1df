/** Numbers the states of immutable parts: the number grows whenever a part has changed since the last call. */
export class ChangeCount {
  #parts: readonly unknown[] = [];
  #count = 0;

  /** The number of the present state, from 1. @param parts always in the same order; compared by `Object.is` */
  of(parts: Iterable<unknown>): number {
    const present = [...parts];
    const isSame =
      present.length === this.#parts.length && present.every((part, index) => Object.is(part, this.#parts[index]));
    if (isSame && this.#count > 0) return this.#count;
    this.#parts = present;
    this.#count += 1;
    return this.#count;
  }
}
