import { keywords, T } from './kinds.ts';

const HASH_SIZE = 2048;
const MAX_KEYWORD_LENGTH = 17;

/** Adds a character to the hash of a word, ignoring case. The hash of the empty word is 0. */
export const hashWith = (hash: number, c: number): number => (hash * 31 + (c & 0xdf)) | 0;

/** Open-addressing table of the keywords: kind, and position of the word in `keywordChars`. */
const hashKinds = new Uint16Array(HASH_SIZE);
const hashStarts = new Uint16Array(HASH_SIZE);
const hashLengths = new Uint8Array(HASH_SIZE);
const keywordChars = new Uint8Array(8192);
{
  let next = 0;
  for (const [word, kind] of keywords) {
    let hash = 0;
    for (let i = 0; i < word.length; i += 1) hash = hashWith(hash, word.charCodeAt(i));
    let slot = hash & (HASH_SIZE - 1);
    while (hashKinds[slot] !== 0) slot = (slot + 1) & (HASH_SIZE - 1);
    hashKinds[slot] = kind;
    hashStarts[slot] = next;
    hashLengths[slot] = word.length;
    for (let i = 0; i < word.length; i += 1) keywordChars[next + i] = word.charCodeAt(i);
    next += word.length;
  }
}

/** Kind of the word from `start` to `end`, whose characters are letters, digits and `_`; `hash` of all of them by `hashWith`. */
export function wordKind(text: string, start: number, end: number, hash: number): number {
  const length = end - start;
  if (length > MAX_KEYWORD_LENGTH) return T.IDENTIFIER;
  let slot = hash & (HASH_SIZE - 1);
  for (;;) {
    const kind = hashKinds[slot] as number;
    if (kind === 0) return T.IDENTIFIER;
    if (hashLengths[slot] === length) {
      const from = hashStarts[slot] as number;
      let i = 0;
      while (i < length) {
        const c = text.charCodeAt(start + i);
        if ((c >= 97 ? c - 32 : c) !== keywordChars[from + i]) break;
        i += 1;
      }
      if (i === length) return kind;
    }
    slot = (slot + 1) & (HASH_SIZE - 1);
  }
}
