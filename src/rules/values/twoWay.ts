import type { Evaluation } from '../evaluation.ts';

/** Comparisons after which they are counted in the evaluation's budget. */
const COUNTED_AT_ONCE = 16_384;

/**
 * Index of the first or last occurrence of a part in a text: in time linear to both (Crochemore and Perrin, Two-way
 * string-matching, Journal of the ACM 38, 1991).
 * @returns the occurrence's index in the text, or -1
 */
export function twoWaySearch(text: string, part: string, end: 'first' | 'last', e: Evaluation): number {
  if (part.length > text.length) return -1;
  e.text(4 * (text.length + part.length));
  const isLast = end === 'last';
  const index = search(unitsOf(text, isLast), unitsOf(part, isLast), e);
  return index < 0 || !isLast ? index : text.length - part.length - index;
}

/** Units of a text as an array: several times as fast to read as the string. */
function unitsOf(text: string, isReversed: boolean): Uint16Array {
  const bytes = Buffer.from(text, 'utf16le');
  const units = new Uint16Array(bytes.buffer, bytes.byteOffset, text.length);
  return isReversed ? units.reverse() : units;
}

function search(text: Uint16Array, part: Uint16Array, e: Evaluation): number {
  const { end, period } = criticalFactorization(part, e);
  const isPeriodic = startsAgain(part, end, period);
  const shift = isPeriodic ? period : Math.max(end + 1, part.length - end - 1) + 1;
  let at = 0;
  /** Last index of the part that is known to match, in a periodic one. */
  let matchEnd = -1;
  let work = 0;
  while (at <= text.length - part.length) {
    const start = Math.max(end, matchEnd) + 1;
    let right = start;
    while (right < part.length && part[right] === text[at + right]) right += 1;
    work += right - start + 1;
    if (right < part.length) {
      at += right - end;
      matchEnd = -1;
    } else {
      let left = end;
      while (left > matchEnd && part[left] === text[at + left]) left -= 1;
      work += end - left;
      if (left <= matchEnd) return at;
      at += shift;
      matchEnd = isPeriodic ? part.length - period - 1 : -1;
    }
    if (work > COUNTED_AT_ONCE) {
      e.text(work);
      work = 0;
    }
  }
  return -1;
}

/** True if the part's first piece, up to `end`, occurs again one period later. */
function startsAgain(part: Uint16Array, end: number, period: number): boolean {
  for (let index = 0; index <= end; index += 1) {
    if (period + index >= part.length || part[index] !== part[period + index]) return false;
  }
  return true;
}

interface Factorization {
  /** Index of the last unit of the part's first piece; -1: it is empty. */
  readonly end: number;
  readonly period: number;
}

function criticalFactorization(part: Uint16Array, e: Evaluation): Factorization {
  const a = maximalSuffix(part, 1, e);
  const b = maximalSuffix(part, -1, e);
  return a.end > b.end ? a : b;
}

/** The greatest suffix by the order of units, or (`order` -1) by the reversed one. */
function maximalSuffix(part: Uint16Array, order: 1 | -1, e: Evaluation): Factorization {
  let end = -1;
  let start = 0;
  let offset = 1;
  let period = 1;
  let work = 0;
  while (start + offset < part.length) {
    const difference = ((part[start + offset] as number) - (part[end + offset] as number)) * order;
    if (difference < 0) {
      start += offset;
      offset = 1;
      period = start - end;
    } else if (difference === 0) {
      if (offset === period) {
        start += period;
        offset = 1;
      } else offset += 1;
    } else {
      end = start;
      start = end + 1;
      offset = 1;
      period = 1;
    }
    work += 1;
    if (work > COUNTED_AT_ONCE) {
      e.text(work);
      work = 0;
    }
  }
  return { end, period };
}
