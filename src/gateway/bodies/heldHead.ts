import type { BodyPace } from './bodyPaces.ts';
import type { HeldMemory } from './requestMemory.ts';

/**
 * What a byte of a head takes: as it comes, joined, as texts of its lines, and again on its way to a cluster. The parser
 * alone takes twice its size at the end.
 */
export const BYTES_PER_HEAD_BYTE = 4;

/** Heads up to this size are not charged: those of ordinary requests have a thousand bytes, and their objects take more. */
export const FREE_HEAD_BYTES = 4_096;

/** The memory and the pace of a large head that comes in many pieces. */
export class HeldHead {
  readonly #memory: HeldMemory;
  readonly #pace: BodyPace;
  readonly #onRefused: () => void;

  /** @param onRefused called where there is no memory for it */
  constructor(memory: HeldMemory, pace: BodyPace, onRefused: () => void) {
    this.#memory = memory;
    this.#pace = pace;
    this.#onRefused = onRefused;
  }

  /**
   * Notes how much has come.
   * @param bytes of the head
   * @returns false where there is no memory for it
   */
  growTo(bytes: number): boolean {
    this.#pace.received = bytes;
    if (this.#memory.growTo(bytes * BYTES_PER_HEAD_BYTE)) return true;
    this.#onRefused();
    return false;
  }

  /** The head is there, or not read any more: its pace does not matter; its memory does, until the connection ends. */
  endPace(): void {
    this.#pace.end();
  }

  /** The connection is over. */
  release(): void {
    this.#pace.end();
    this.#memory.release();
  }
}
