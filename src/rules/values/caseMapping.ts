import { type Evaluation, SHORT_TEXT } from '../evaluation.ts';

/** Longer texts are mapped in pieces, with budget checks in between. */
const PIECE = 65_536;
/** Maximum distance of a cut from a piece's end. */
const REACH = 1024;
/** Units of mapping one character: special ones take several times as long as others. */
const UNITS_A_CHARACTER = 8;

export function lowerCase(text: string, e: Evaluation): string {
  return mapped(text, (piece) => piece.toLowerCase(), e);
}

export function upperCase(text: string, e: Evaluation): string {
  return mapped(text, (piece) => piece.toUpperCase(), e);
}

/** `String.toLowerCase(Locale)` in a language with special rules. */
export function lowerCaseIn(text: string, language: string, e: Evaluation): string {
  return mapped(text, (piece) => piece.toLocaleLowerCase(language), e);
}

/** `String.toUpperCase(Locale)` in a language with special rules. */
export function upperCaseIn(text: string, language: string, e: Evaluation): string {
  return mapped(text, (piece) => piece.toLocaleUpperCase(language), e);
}

function mapped(text: string, map: (piece: string) => string, e: Evaluation): string {
  if (text.length <= SHORT_TEXT) return map(text);
  const pieces: string[] = [];
  let length = 0;
  for (let start = 0; start < text.length; ) {
    const end = endOfPiece(text, start);
    e.text(UNITS_A_CHARACTER * (end - start));
    const piece = map(text.slice(start, end));
    length += piece.length;
    e.reserveText(length, piece.length);
    pieces.push(piece);
    start = end;
  }
  return pieces.join('');
}

/**
 * Returns the end of a piece: the lower case of a capital sigma depends on whether letters stand before and after it.
 * If no such position is near (as within thousands of sigmas), anywhere but within a surrogate pair.
 */
function endOfPiece(text: string, start: number): number {
  const end = start + PIECE;
  if (end >= text.length) return text.length;
  for (let at = end; at > end - REACH; at -= 1) {
    if (!isPlain(text, at - 1)) continue;
    const isSigma = text.charCodeAt(at) === SIGMA;
    if (isSigma ? isLetter(text, at + 1) : isPlain(text, at)) return at;
  }
  return isLowSurrogate(text.charCodeAt(end)) ? end - 1 : end;
}

const SIGMA = 0x3a3;

function isLetter(text: string, index: number): boolean {
  const unit = text.charAt(index);
  return unit.toLowerCase() !== unit.toUpperCase();
}

/** A space, or a letter with two cases that is not a sigma. */
function isPlain(text: string, index: number): boolean {
  const unit = text.charCodeAt(index);
  return unit === 32 || (unit !== SIGMA && isLetter(text, index));
}

function isLowSurrogate(unit: number): boolean {
  return unit >= 0xdc00 && unit <= 0xdfff;
}
