import { brotliDecompressSync, gunzipSync, inflateSync, constants as zlib, zstdDecompressSync } from 'node:zlib';

/** An answer to a submission holds its id within this many bytes. */
export const MAX_HELD_BYTES = 65_536;

/** What the first bytes of an answer say about the query's id. */
export type IdSearch = { readonly id: string } | 'absent' | 'incomplete';

/**
 * Finds the string `id` of a JSON object from its first bytes (docs/protocol.md#learning). Looks at the object's own
 * members only, and stops at the id: engines write it first.
 * @param text bytes of the answer as latin1; ids are ASCII
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

/** A decoder that stops at the end of its input, whether that is whole or not. */
type Decoder = (bytes: Buffer, maxOutputLength: number) => Buffer;

const deflated = { finishFlush: zlib.Z_SYNC_FLUSH };
const gunzip: Decoder = (bytes, maxOutputLength) => gunzipSync(bytes, { ...deflated, maxOutputLength });
const decoders: ReadonlyMap<string, Decoder> = new Map([
  ['gzip', gunzip],
  ['x-gzip', gunzip],
  ['deflate', (bytes, maxOutputLength) => inflateSync(bytes, { ...deflated, maxOutputLength })],
  [
    'br',
    (bytes, maxOutputLength) =>
      brotliDecompressSync(bytes, { finishFlush: zlib.BROTLI_OPERATION_FLUSH, maxOutputLength }),
  ],
  ['zstd', (bytes, maxOutputLength) => zstdDecompressSync(bytes, { finishFlush: zlib.ZSTD_e_flush, maxOutputLength })],
]);
const MAX_DECODED_BYTES = 16 * MAX_HELD_BYTES;
/** Where the first bytes decode to more than that, fewer of them are decoded, down to so many. */
const LEAST_DECODED_BYTES = 64;

/**
 * Decodes the first bytes of an encoded answer as far as they go, or so many of them as decode to a megabyte; null when the
 * encoding is unknown or broken.
 * @param encoding value of Content-Encoding
 */
export function decodeStart(bytes: Buffer, encoding: string): Buffer | null {
  const decode = decoders.get(encoding.trim().toLowerCase());
  if (decode === undefined) return null;
  for (let size = bytes.length; ; size = size >> 2) {
    try {
      return decode(bytes.subarray(0, size), MAX_DECODED_BYTES);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ERR_BUFFER_TOO_LARGE' || size < LEAST_DECODED_BYTES) return null;
    }
  }
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
    else if (
      character === ',' ||
      character === ':' ||
      character === ' ' ||
      character === '\n' ||
      character === '\r' ||
      character === '\t'
    ) {
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
