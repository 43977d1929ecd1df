/**
 * Tokens of one text: kinds and positions in arrays that are reused for the next text. Comments and white space are
 * left out. After the last token there are at least `LOOKAHEAD` entries of kind EOF, so that a parser may peek without
 * a check.
 */
export interface TokenBuffer {
  kinds: Uint16Array;
  /** Offsets of the first unit of each token, in UTF-16 units. */
  starts: Int32Array;
  ends: Int32Array;
  count: number;
  /** True if the text has more than `MAX_TOKENS` tokens; the rest are left out. */
  isCut: boolean;
}

export const MAX_TOKENS = 4_000_000;
/** EOF entries behind the last token. */
export const LOOKAHEAD = 8;
/** Buffers larger than this many tokens are not reused. */
const KEPT_TOKENS = 1 << 16;

export const sharedBuffer: TokenBuffer = {
  kinds: new Uint16Array(1024),
  starts: new Int32Array(1024),
  ends: new Int32Array(1024),
  count: 0,
  isCut: false,
};

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

/** Releases large arrays; call it when the tokens are no longer used. */
export function releaseTokens(): void {
  if (sharedBuffer.kinds.length <= KEPT_TOKENS) return;
  sharedBuffer.kinds = new Uint16Array(1024);
  sharedBuffer.starts = new Int32Array(1024);
  sharedBuffer.ends = new Int32Array(1024);
}
