/**
 * Numbers the states of something that is made of immutable parts: the number grows whenever a part is another than at
 * the last look. A look compares and makes nothing, so that it costs far less than what is made of the parts.
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

/**
 * Numbers the states of something that has thousands of parts: they are looked through only once one of a few marks
 * changed, which stand for them.
 */
export class MarkedChangeCount {
  readonly #marks = new ChangeCount();
  readonly #parts = new ChangeCount();
  #mark = 0;
  #count = 0;

  /**
   * The number of the present state, from 1. @param marks one of them is another whenever a part is @param parts as for
   * {@link ChangeCount.of}
   */
  of(marks: Iterable<unknown>, parts: () => Iterable<unknown>): number {
    const mark = this.#marks.of(marks);
    if (mark === this.#mark) return this.#count;
    this.#mark = mark;
    this.#count = this.#parts.of(parts());
    return this.#count;
  }
}
