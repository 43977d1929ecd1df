/** Chunks below this size are copied together: each costs some hundred bytes in addition to its own. */
const SMALL_CHUNK = 4_096;
const MAX_SLAB_SIZE = 65_536;

const nothing = Buffer.alloc(0);

/** Bytes of a body as they come, at a cost in proportion to them, whatever the size of the chunks. */
export class BodyBytes {
  #first: Buffer = nothing;
  #more: Buffer[] | null = null;
  /** Copies of small chunks; the last of `#more` is its used part. */
  #slab: Buffer = nothing;
  #slabUsed = 0;
  #size = 0;

  /** Bytes so far. */
  get size(): number {
    return this.#size;
  }

  add(chunk: Buffer): void {
    if (this.#size === 0) this.#first = chunk;
    else if (chunk.length < SMALL_CHUNK || isPinning(chunk)) this.#copy(chunk);
    else {
      this.#closeSlab();
      this.#chunks().push(chunk);
    }
    this.#size += chunk.length;
  }

  /** All bytes so far in one piece. Nothing may be added after that. */
  joined(): Buffer {
    this.#closeSlab();
    if (this.#more !== null) return Buffer.concat(this.#more, this.#size);
    return isPinning(this.#first) ? ownCopy(this.#first) : this.#first;
  }

  #chunks(): Buffer[] {
    this.#more ??= [this.#first];
    return this.#more;
  }

  #copy(chunk: Buffer): void {
    this.#chunks();
    let from = 0;
    while (from < chunk.length) {
      if (this.#slabUsed === this.#slab.length) {
        this.#closeSlab();
        this.#slab = Buffer.allocUnsafeSlow(Math.min(Math.max(this.#size, SMALL_CHUNK), MAX_SLAB_SIZE));
      }
      const copied = chunk.copy(this.#slab, this.#slabUsed, from);
      this.#slabUsed += copied;
      from += copied;
    }
  }

  #closeSlab(): void {
    if (this.#slabUsed > 0) this.#chunks().push(this.#slab.subarray(0, this.#slabUsed));
    this.#slab = nothing;
    this.#slabUsed = 0;
  }
}

/** True if a chunk is a small part of the memory that it keeps from being freed. */
export function isPinning(chunk: Buffer): boolean {
  return chunk.buffer.byteLength > 2 * chunk.length + SMALL_CHUNK;
}

function ownCopy(chunk: Buffer): Buffer {
  const copy = Buffer.allocUnsafeSlow(chunk.length);
  chunk.copy(copy);
  return copy;
}
