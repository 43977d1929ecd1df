import { brotliDecompressSync, gunzipSync, inflateSync, constants as zlib, zstdDecompressSync } from 'node:zlib';

/** A response to a submission holds its id within this many bytes. */
export const MAX_HELD_BYTES = 65_536;

/** Query id found in the first bytes of a response. */
export type IdSearch = { readonly id: string } | 'absent' | 'incomplete';

/**
 * Finds the string `id` of a JSON object from its first bytes (docs/protocol.md#learning). Looks at the object's own
 * members only, and stops at the id: engines write it first.
 * @param text bytes of the response as latin1; ids are ASCII
 */
export function findId(text: string): IdSearch {
  if (text.startsWith('{"id":"')) {
    const end = text.indexOf('"', 7);
    if (end < 0) return 'incomplete';
    const id = text.slice(7, end);
    if (!id.includes('\\')) return { id: detached(id) };
  }
  return scan(text);
}

/** A copy: a part of a text keeps the whole of it in memory, and ids are remembered for long. */
function detached(part: string): string {
  return ` ${part}`.slice(1);
}

/** Bytes of an encoded response that are decoded at most: its next URI and its error stand there. */
const MAX_DECODED_BYTES = MAX_HELD_BYTES;
/** Less is not the start of a response that is longer than the limit: the next URI may stand behind it. */
const MIN_DECODED_BYTES = 4096;
/** Precision with which the input is found that decodes to the limit. */
const ENCODED_STEP_BYTES = 4;
/** Members of a gzip stream; servers send one. */
const MAX_GZIP_MEMBERS = 16;
const GZIP_MEMBER = Buffer.from([0x1f, 0x8b, 0x08]);
/** log2 of the largest window of brotli; encoders use 22. */
const MAX_BROTLI_WINDOW = 22;
/** log2 of the largest window of zstd (RFC 9659). */
const MAX_ZSTD_WINDOW = 23;
/** zstd decodes whole blocks of at most this size (RFC 8878 §3.1.1.2.4). */
const ZSTD_BLOCK_BYTES = 131_072;

interface Decoder {
  /** Decodes up to the end of the input, also if the stream is longer. */
  decode(bytes: Buffer): Buffer;
  /** True if less input costs less. Brotli decodes a whole window before it returns any of it. */
  readonly isGradual: boolean;
}

const deflated = { finishFlush: zlib.Z_SYNC_FLUSH, maxOutputLength: MAX_DECODED_BYTES };
const gunzip: Decoder = {
  decode: (bytes) => {
    if (hasManyMembers(bytes)) throw new RangeError(`more than ${MAX_GZIP_MEMBERS} members`);
    return gunzipSync(bytes, deflated);
  },
  isGradual: true,
};
const decoders: ReadonlyMap<string, Decoder> = new Map([
  ['gzip', gunzip],
  ['x-gzip', gunzip],
  ['deflate', { decode: (bytes) => inflateSync(bytes, deflated), isGradual: true }],
  [
    'br',
    {
      decode: (bytes) => {
        if (brotliWindow(bytes) > MAX_BROTLI_WINDOW) throw new RangeError(`a window over 2^${MAX_BROTLI_WINDOW}`);
        const options = { finishFlush: zlib.BROTLI_OPERATION_FLUSH, maxOutputLength: MAX_DECODED_BYTES };
        return brotliDecompressSync(bytes, options);
      },
      isGradual: false,
    },
  ],
  [
    'zstd',
    {
      decode: (bytes) =>
        zstdDecompressSync(bytes, {
          finishFlush: zlib.ZSTD_e_flush,
          maxOutputLength: MAX_DECODED_BYTES + ZSTD_BLOCK_BYTES,
          params: { [zlib.ZSTD_d_windowLogMax]: MAX_ZSTD_WINDOW },
        }),
      isGradual: true,
    },
  ],
]);

/**
 * Returns the start of an encoded response, decoded: at most 64 kB. Null if the encoding is unknown, the stream is
 * broken or one that no server sends, or too little of it can be decoded within the limit.
 * @param encoding value of Content-Encoding
 */
export function decodeStart(bytes: Buffer, encoding: string): Buffer | null {
  const decoder = decoders.get(encoding.trim().toLowerCase());
  if (decoder === undefined) return null;
  let start: Buffer = noBytes;
  // The synchronous decoders of Node return nothing of what is over the limit: an input is looked for that is just below.
  let fitting = 0;
  let tooLong = bytes.length;
  let size = bytes.length;
  do {
    try {
      start = decoder.decode(bytes.subarray(0, size)).subarray(0, MAX_DECODED_BYTES);
      if (size === bytes.length) return start;
      if (start.length >= MAX_DECODED_BYTES / 2) break;
      fitting = size;
    } catch (error) {
      const isTooLong = (error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE';
      if (!isTooLong || !decoder.isGradual) return null;
      tooLong = size;
    }
    size = (fitting + tooLong) >> 1;
  } while (tooLong - fitting > ENCODED_STEP_BYTES);
  return start.length < MIN_DECODED_BYTES ? null : start;
}
const noBytes = Buffer.alloc(0);

/** True if bytes that begin a member (RFC 1952) occur too often. */
function hasManyMembers(bytes: Buffer): boolean {
  let members = 0;
  for (let at = bytes.indexOf(GZIP_MEMBER); at >= 0; at = bytes.indexOf(GZIP_MEMBER, at + GZIP_MEMBER.length)) {
    members += 1;
    if (members > MAX_GZIP_MEMBERS) return true;
  }
  return false;
}

/** log2 of the window of a brotli stream if it is over 17, else less (RFC 7932 §9.1). */
function brotliWindow(bytes: Buffer): number {
  const first = bytes[0] ?? 0;
  return (first & 1) === 0 ? 16 : 17 + ((first >> 1) & 7);
}

const string = /"(?:[^"\\]|\\.)*"/y;
const space = /[\s]*/y;
const scalar = /[^\s,{}[\]"]+/y;

function scan(text: string): IdSearch {
  let position = skip(space, text, 0);
  if (position >= text.length) return 'incomplete';
  if (text[position] !== '{') return 'absent';
  position++;
  for (;;) {
    position = skip(space, text, position);
    if (text[position] === ',') position = skip(space, text, position + 1);
    if (position >= text.length) return 'incomplete';
    if (text[position] !== '"') return 'absent';
    const keyEnd = skip(string, text, position);
    if (keyEnd === position) return 'incomplete';
    const key = text.slice(position + 1, keyEnd - 1);
    position = skip(space, text, keyEnd);
    if (position >= text.length) return 'incomplete';
    if (text[position] !== ':') return 'absent';
    position = skip(space, text, position + 1);
    const valueEnd = skipValue(text, position);
    if (valueEnd < 0) return 'incomplete';
    if (key === 'id') {
      const value = text.slice(position, valueEnd);
      if (value[0] !== '"') return 'absent';
      try {
        return { id: JSON.parse(value) as string };
      } catch {
        return 'absent';
      }
    }
    position = valueEnd;
  }
}

/** Position after the value, or -1 when the text ends within it. */
function skipValue(text: string, start: number): number {
  let position = start;
  let depth = 0;
  while (position < text.length) {
    const character = text[position];
    if (character === '"') {
      const end = skip(string, text, position);
      if (end === position) return -1;
      position = end;
    } else if (character === '{' || character === '[') {
      depth++;
      position++;
    } else if (character === '}' || character === ']') {
      if (depth === 0) return position;
      depth--;
      position++;
    } else if (character === ',' && depth === 0) return position;
    else if (character !== undefined && ',: \n\r\t'.includes(character)) {
      position++;
      continue;
    } else {
      position = Math.max(skip(scalar, text, position), position + 1);
      if (position >= text.length) return -1;
    }
    if (depth === 0) return position;
  }
  return -1;
}

function skip(expression: RegExp, text: string, position: number): number {
  expression.lastIndex = position;
  return expression.test(text) ? expression.lastIndex : position;
}
