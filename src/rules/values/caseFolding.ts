import type { Evaluation } from '../evaluation.ts';
import { firstDifference } from './textSearch.ts';

/** Units by unit, folded; 0 if not computed yet (U+0000 folds to itself). */
const folded = new Uint16Array(0x10000);

/** `Character.toLowerCase(Character.toUpperCase(unit))`; a character with a longer other case stays unchanged. */
function foldedUnit(unit: number): number {
  let result = folded[unit] as number;
  if (result === 0) {
    result = foldedCode(unit);
    folded[unit] = result;
  }
  return result;
}

function foldedCode(code: number): number {
  const size = code > 0xffff ? 2 : 1;
  const character = String.fromCodePoint(code);
  const upper = character.toUpperCase();
  const lower = (upper.length === size ? upper : character).toLowerCase();
  return lower.length === size ? (lower.codePointAt(0) ?? code) : code;
}

/**
 * `String.compareToIgnoreCase`: difference of the first characters that differ in more than case, otherwise of the
 * lengths.
 */
export function compareIgnoringCase(a: string, b: string, e: Evaluation): number {
  const at = firstDifference(a, b, e, (index) => {
    const same = foldedUnit(a.charCodeAt(index)) === foldedUnit(b.charCodeAt(index));
    return same || sameSupplementary(a, b, index);
  });
  if (at >= a.length || at >= b.length) return a.length - b.length;
  return foldedUnit(a.charCodeAt(at)) - foldedUnit(b.charCodeAt(at));
}

/** `String.equalsIgnoreCase`. */
export function sameIgnoringCase(a: string, b: string, e: Evaluation): boolean {
  return a.length === b.length && compareIgnoringCase(a, b, e) === 0;
}

/** Characters beyond U+FFFF differ in their second unit if they differ in case. */
function sameSupplementary(a: string, b: string, index: number): boolean {
  const [x, y] = [a.codePointAt(index - 1) ?? 0, b.codePointAt(index - 1) ?? 0];
  return x > 0xffff && y > 0xffff && foldedCode(x) === foldedCode(y);
}
