/**
 * Tokens of one text: kinds and places in arrays that are used again for the next text. Comments and white space are left
 * out. After the last token there are at least `LOOKAHEAD` entries of kind EOF, so that a parser may peek without asking.
 */
export interface TokenBuffer {
  kinds: Uint16Array;
  /** Offsets in UTF-16 units: first unit of the token … */
  starts: Int32Array;
  /** … and the unit after its last one. */
  ends: Int32Array;
  /** Number of tokens without EOF. */
  count: number;
  /** The text has more than `MAX_TOKENS` tokens: those after them are left out. */
  isCut: boolean;
}

/** Most tokens of a text: what they and the names among them take is bounded so. */
export const MAX_TOKENS = 4_000_000;
/** EOF entries behind the last token. */
export const LOOKAHEAD = 8;
/** Buffers larger than this many tokens are not kept after use. */
const KEPT_TOKENS = 1 << 16;

/** The buffer that every text uses again. */
export const sharedBuffer: TokenBuffer = {
  kinds: new Uint16Array(1024),
  starts: new Int32Array(1024),
  ends: new Int32Array(1024),
  count: 0,
  isCut: false,
};

/** Doubles the room of a buffer. */
export function grow(buffer: TokenBuffer): void {
  const size = buffer.kinds.length * 2;
  const kinds = new Uint16Array(size);
  kinds.set(buffer.kinds);
  const starts = new Int32Array(size);
  starts.set(buffer.starts);
  const ends = new Int32Array(size);
  ends.set(buffer.ends);
  buffer.kinds = kinds;
  buffer.starts = starts;
  buffer.ends = ends;
}

/** Gives large arrays back to the memory manager; to be called when the tokens are no longer used. */
export function releaseTokens(): void {
  if (sharedBuffer.kinds.length <= KEPT_TOKENS) return;
  sharedBuffer.kinds = new Uint16Array(1024);
  sharedBuffer.starts = new Int32Array(1024);
  sharedBuffer.ends = new Int32Array(1024);
}
