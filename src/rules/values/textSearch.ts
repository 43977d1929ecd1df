import { type Evaluation, SHORT_TEXT } from '../evaluation.ts';
import { twoWaySearch } from './twoWay.ts';

/** V8 searches forwards for parts up to this length in linear time (Boyer-Moore with both of its rules). */
const LINEAR_PART = 250;
/** V8 searches products of both lengths up to this in less than a millisecond with any algorithm. */
const SMALL_PRODUCT = 1 << 20;
/** Longer texts are searched in pieces, with budget checks in between. */
const PIECE = 65_536;
const COMPARED_PIECE = 4096;

/** True if two texts are equal. Counts characters that are read. */
export function equalTexts(a: string, b: string, e: Evaluation): boolean {
  if (a.length !== b.length) return false;
  if (a.length > SHORT_TEXT) e.text(a.length);
  return a === b;
}

/** `String.indexOf(part, from)` as JavaScript and Java have it, in linear time. */
export function indexOf(text: string, part: string, from: number, e: Evaluation): number {
  const start = Math.min(Math.max(from, 0), text.length);
  const length = text.length - start;
  if (part.length > length) return -1;
  if (length <= PIECE && (part.length <= LINEAR_PART || length * part.length <= SMALL_PRODUCT)) {
    if (length > SHORT_TEXT) e.text(length);
    return text.indexOf(part, start);
  }
  if (part.length <= LINEAR_PART) return indexInPieces(text, part, start, e);
  const index = twoWaySearch(start === 0 ? text : text.slice(start), part, 'first', e);
  return index < 0 ? -1 : start + index;
}

function indexInPieces(text: string, part: string, start: number, e: Evaluation): number {
  for (let at = start; ; at += PIECE) {
    e.text(PIECE);
    const index = text.slice(at, at + PIECE + part.length - 1).indexOf(part);
    if (index >= 0) return at + index;
    if (at + PIECE + part.length > text.length) return -1;
  }
}

/** `String.lastIndexOf(part, from)` in linear time; V8's own takes the product of both lengths. */
export function lastIndexOf(text: string, part: string, from: number, e: Evaluation): number {
  const length = Math.min(text.length, Math.max(from, 0) + part.length);
  if (part.length > length) return -1;
  if (length > SHORT_TEXT) e.text(length);
  if (part.length <= 1 || length * part.length <= SMALL_PRODUCT) return text.lastIndexOf(part, from);
  return twoWaySearch(length === text.length ? text : text.slice(0, length), part, 'last', e);
}

export function includesText(text: string, part: string, e: Evaluation): boolean {
  return indexOf(text, part, 0, e) >= 0;
}

/**
 * The first index at which two texts differ, at most the length of the shorter one. Native code skips equal pieces, the
 * others are read unit by unit; both are counted by piece.
 * @param isSame true if two different units count as equal
 */
export function firstDifference(a: string, b: string, e: Evaluation, isSame?: (index: number) => boolean): number {
  const length = Math.min(a.length, b.length);
  for (let start = 0; start < length; start += COMPARED_PIECE) {
    const end = Math.min(start + COMPARED_PIECE, length);
    if (length > SHORT_TEXT) e.text(end - start);
    if (length > COMPARED_PIECE && a.slice(start, end) === b.slice(start, end)) continue;
    for (let index = start; index < end; index += 1) {
      if (a.charCodeAt(index) !== b.charCodeAt(index) && isSame?.(index) !== true) return index;
    }
  }
  return length;
}

/** `String.compareTo`: difference of the first differing units, otherwise of the lengths. */
export function compareText(a: string, b: string, e: Evaluation): number {
  const at = firstDifference(a, b, e);
  return at < a.length && at < b.length ? a.charCodeAt(at) - b.charCodeAt(at) : a.length - b.length;
}
