import { classOf, DIGIT, HEX, WORD } from './characters.ts';
import { T } from './kinds.ts';

const { DECIMAL_VALUE, DIGIT_IDENTIFIER, DOUBLE_VALUE, INTEGER_VALUE } = T;

/** End of `('_'? digit)+` after a prefix such as `0x`, digits of class `mask` up to character `highest`; `from` if none. */
function prefixedDigits(text: string, from: number, mask: number, highest: number): number {
  let at = from;
  for (;;) {
    let c = text.charCodeAt(at);
    const digit = c === 95 ? at + 1 : at;
    c = text.charCodeAt(digit);
    if ((classOf(c) & mask) === 0 || c > highest) return at;
    at = digit + 1;
  }
}

/** End of `digit ('_'? digit)*`; there is a digit at `from`. */
function decimalInteger(text: string, from: number): number {
  let at = from + 1;
  for (;;) {
    const c = text.charCodeAt(at);
    if (c >= 48 && c <= 57) at += 1;
    else if (c === 95 && (classOf(text.charCodeAt(at + 1)) & DIGIT) !== 0) at += 2;
    else return at;
  }
}

/** End of `digit*`. */
function digits(text: string, from: number): number {
  let at = from;
  while ((classOf(text.charCodeAt(at)) & DIGIT) !== 0) at += 1;
  return at;
}

/** End of `E [+-]? digit+` at `from`; -1 if there is no exponent. */
function exponent(text: string, from: number): number {
  if ((text.charCodeAt(from) | 32) !== 101) return -1;
  const sign = text.charCodeAt(from + 1);
  const at = sign === 43 || sign === 45 ? from + 2 : from + 1;
  const end = digits(text, at);
  return end > at ? end : -1;
}

/** End of the number lexed last; its kind is the return value (avoids an object for the pair). */
export let numberEnd = 0;

/**
 * The longest of the number forms and of identifiers starting with a digit, as ANTLR takes it; the first of equally
 * long forms.
 */
export function lexNumber(text: string, start: number): number {
  const integerEnd = decimalInteger(text, start);
  const after = text.charCodeAt(integerEnd);
  // Most numbers are plain ones: all other forms continue with a point, a letter or an underscore.
  if (after !== 46 && (classOf(after) & WORD) === 0) {
    numberEnd = integerEnd;
    return INTEGER_VALUE;
  }
  let end = integerEnd;
  let kind: number = INTEGER_VALUE;
  if (text.charCodeAt(start) === 48) {
    const mark = text.charCodeAt(start + 1) | 32;
    let prefixed = start + 2;
    if (mark === 120) prefixed = prefixedDigits(text, start + 2, HEX, 127);
    else if (mark === 111) prefixed = prefixedDigits(text, start + 2, DIGIT, 55);
    else if (mark === 98) prefixed = prefixedDigits(text, start + 2, DIGIT, 49);
    if (prefixed > start + 2) end = Math.max(end, prefixed);
  }
  if (after === 46) {
    const fraction = integerEnd + 1;
    end = (classOf(text.charCodeAt(fraction)) & DIGIT) !== 0 ? decimalInteger(text, fraction) : fraction;
    kind = DECIMAL_VALUE;
  }
  const plain = digits(text, start);
  const fraction = text.charCodeAt(plain) === 46 ? digits(text, plain + 1) : plain;
  const double = exponent(text, fraction);
  if (double > end) {
    end = double;
    kind = DOUBLE_VALUE;
  }
  let word = start + 1;
  while ((classOf(text.charCodeAt(word)) & WORD) !== 0) word += 1;
  if (word > end) {
    end = word;
    kind = DIGIT_IDENTIFIER;
  }
  numberEnd = end;
  return kind;
}

export function lexFraction(text: string, start: number): number {
  numberEnd = decimalInteger(text, start + 1);
  const double = exponent(text, digits(text, start + 1));
  if (double > numberEnd) {
    numberEnd = double;
    return DOUBLE_VALUE;
  }
  return DECIMAL_VALUE;
}
