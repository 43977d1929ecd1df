import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** Least bytes of heads after which garbage is collected. */
const LEAST_BYTES = 16 * 1024 ** 2;

/**
 * Has the garbage of large heads over HTTP/2 collected in time. Their texts lie in memory of the HTTP/2 library, outside
 * of V8's heap, and are freed when V8 collects the strings that stand for them; but V8 does not count that memory, and so
 * collects too late: refused heads alone would fill the memory of the process.
 */
export class HeadGarbage {
  readonly #limit: number;
  readonly #collect: () => void;
  #bytes = 0;

  /**
   * @param memory that all requests may take, bytes: an eighth of it, and 16 MB at least, may be garbage
   * @param collect collects all garbage
   */
  constructor(memory: number, collect: () => void = collectGarbage) {
    this.#limit = Math.max(memory / 8, LEAST_BYTES);
    this.#collect = collect;
  }

  /** Notes a head that has come, of which the most may soon be garbage. */
  add(bytes: number): void {
    this.#bytes += bytes;
    if (this.#bytes <= this.#limit) return;
    this.#bytes = 0;
    this.#collect();
  }
}

let gc: (() => void) | null = null;

/** Collects all garbage at once; V8 hands its function out to contexts that are made while the flag is set. */
function collectGarbage(): void {
  if (gc === null) {
    setFlagsFromString('--expose-gc');
    gc = runInNewContext('gc') as () => void;
    setFlagsFromString('--no-expose-gc');
  }
  gc();
}
