import { type Evaluation, EvaluationError, SHORT_TEXT } from '../evaluation.ts';
import { JavaArray, JavaCollection, JavaList, JavaMap, JavaSet } from './collections.ts';
import { describe } from './describe.ts';
import { javaText } from './text.ts';
import { compareText, equalTexts, includesText } from './textSearch.ts';
import {
  doubleToInt,
  doubleToLong,
  isNumber,
  JavaChar,
  JavaDouble,
  JavaFloat,
  JavaLong,
  type JavaNumberObject,
  JavaOptional,
  JavaSmallInt,
  javaEquals,
  sameElements,
  toDouble,
  type Value,
} from './value.ts';

export type ArithmeticOperator = '-' | '*' | '/' | '%';

/** Strings that count as numbers in `==`, `<` and arithmetic. */
const NUMERIC = /^-?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)$/;

function numericText(text: string): number | null {
  // The first character decides for nearly every text.
  const first = text.charCodeAt(0);
  if (!(first <= 57 && (first >= 48 || first === 45 || first === 46))) return null;
  return text.length <= 400 && NUMERIC.test(text) ? Number(text) : null;
}

/** A value as a number of mixed arithmetic, or null. */
function asNumber(value: Value): number | null {
  if (typeof value === 'string') return numericText(value);
  if (value instanceof JavaChar) return numericText(value.text);
  return isNumber(value) ? toDouble(value) : null;
}

/** Rank of a number's type: the result of mixed arithmetic has the higher one. Strings rank below int. */
function rank(value: Value): number {
  if (typeof value === 'number') return 3;
  if (value instanceof JavaDouble) return 6;
  if (value instanceof JavaFloat) return 5;
  if (value instanceof JavaLong) return 4;
  return value instanceof JavaSmallInt ? 2 : 1;
}

/** `a + b`: a sum of two numbers, an extended list, otherwise the concatenated texts. */
export function add(a: Value, b: Value, e: Evaluation): Value {
  if (typeof a === 'string' && typeof b === 'string') {
    e.reserveText(a.length + b.length);
    return a + b;
  }
  if (isNumber(a) && isNumber(b)) return sum(a, b);
  if (a instanceof JavaList) {
    e.reserveElements(a.items.length + 1, a.items.length + 1);
    return new JavaList([...a.items, b]);
  }
  const left = javaText(a, e);
  const right = javaText(b, e);
  e.reserveText(left.length + right.length);
  return left + right;
}

function sum(a: number | JavaNumberObject, b: number | JavaNumberObject): Value {
  if (typeof a === 'number' && typeof b === 'number') return (a + b) | 0;
  if (a instanceof JavaLong && b instanceof JavaLong) return new JavaLong(a.value + b.value);
  return ofRank(toDouble(a) + toDouble(b), Math.max(rank(a), rank(b)));
}

function ofRank(value: number, type: number): Value {
  if (type === 6 || type === 1) return new JavaDouble(value);
  if (type === 5) return new JavaFloat(value);
  if (type === 4) return new JavaLong(doubleToLong(value));
  return doubleToInt(value);
}

/**
 * `- * / %`. Numeric strings count as numbers; any other operand returns null, as in MVEL. Two ints (or two longs)
 * divide to a double; mixed types are calculated as doubles and converted to the wider type.
 */
export function arithmetic(operator: ArithmeticOperator, a: Value, b: Value, offset: number): Value {
  if (typeof a === 'number' && typeof b === 'number') return intArithmetic(operator, a, b, offset);
  if (a instanceof JavaLong && b instanceof JavaLong) return longArithmetic(operator, a.value, b.value, offset);
  const left = asNumber(a);
  const right = asNumber(b);
  if (left === null || right === null) return null;
  const type = Math.max(rank(a), rank(b));
  if (operator === '-') return ofRank(left - right, type);
  if (operator === '*') return ofRank(left * right, type);
  return ofRank(operator === '/' ? left / right : left % right, type);
}

function intArithmetic(operator: ArithmeticOperator, a: number, b: number, offset: number): Value {
  if (operator === '-') return (a - b) | 0;
  if (operator === '*') return Math.imul(a, b);
  if (operator === '/') return new JavaDouble(a / b);
  if (b === 0) throw new EvaluationError('% by zero', offset);
  return (a % b) | 0;
}

function longArithmetic(operator: ArithmeticOperator, a: bigint, b: bigint, offset: number): Value {
  if (operator === '-') return new JavaLong(a - b);
  if (operator === '*') return new JavaLong(a * b);
  if (operator === '/') return new JavaDouble(Number(a) / Number(b));
  if (b === 0n) throw new EvaluationError('% by zero', offset);
  return new JavaLong(a % b);
}

export function negate(value: Value, offset: number): Value {
  if (typeof value === 'number') return -value | 0;
  if (value instanceof JavaLong) return new JavaLong(-value.value);
  if (value instanceof JavaDouble) return new JavaDouble(-value.value);
  if (value instanceof JavaFloat) return new JavaFloat(-value.value);
  if (value instanceof JavaSmallInt) return -value.value;
  throw new EvaluationError(`- needs a number, not ${describe(value)}`, offset);
}

/** Strings that equal false in `== true`. */
const FALSE_WORDS = new Set(['false', 'no', 'off', '0', '']);
const MAX_FALSE_WORD_LENGTH = 5;

/** `a == b` (docs/rules.md#comparing). */
export function looseEquals(a: Value, b: Value, e: Evaluation, offset: number): boolean {
  if (typeof a === 'string' && typeof b === 'string') return equalTexts(a, b, e);
  if (a === b) return true;
  if (a === null || b === null) return false;
  if (typeof a === 'boolean') return typeof b !== 'boolean' && booleanEquals(a, b);
  if (typeof b === 'boolean') return booleanEquals(b, a);
  if (a instanceof JavaChar || b instanceof JavaChar) return charEquals(a, b, offset);
  if (isNumber(a) || isNumber(b)) return numberEquals(a, b);
  if (a instanceof JavaArray && b instanceof JavaArray) return sameElements(a.items, b.items, e);
  return javaEquals(a, b, e);
}

function booleanEquals(a: boolean, b: Value): boolean {
  if (typeof b === 'string') return a === !(b.length <= MAX_FALSE_WORD_LENGTH && FALSE_WORDS.has(b.toLowerCase()));
  if (isNumber(b)) return a === toDouble(b) > 0;
  return false;
}

function charEquals(a: Value, b: Value, offset: number): boolean {
  const text = (value: Value): string | null =>
    value instanceof JavaChar ? value.text : typeof value === 'string' ? value : null;
  const left = text(a);
  const right = text(b);
  if (left !== null && right !== null) return left === right;
  const number = isNumber(a) ? toDouble(a) : isNumber(b) ? toDouble(b) : null;
  if (number === null) return false;
  const digit = numericText(left ?? right ?? '');
  if (digit === null) throw new EvaluationError('a char that is no digit cannot be compared with a number', offset);
  return digit === number;
}

function numberEquals(a: Value, b: Value): boolean {
  if (a instanceof JavaLong && b instanceof JavaLong) return a.value === b.value;
  const left = asNumber(a);
  const right = asNumber(b);
  return left !== null && right !== null && left === right;
}

export type ComparisonOperator = '<' | '<=' | '>' | '>=';

/** `a < b`, `<=`, `>`, `>=`; false with null on either side. */
export function compare(operator: ComparisonOperator, a: Value, b: Value, e: Evaluation, offset: number): boolean {
  if (a === null || b === null) return false;
  if (typeof a === 'number' && typeof b === 'number') return decide(operator, a, b);
  if (typeof a === 'string' && typeof b === 'string') {
    const length = Math.min(a.length, b.length);
    if (length > SHORT_TEXT) e.text(length);
    return decide(operator, a, b);
  }
  if (a instanceof JavaLong && b instanceof JavaLong) return decide(operator, a.value, b.value);
  if (a instanceof JavaChar && b instanceof JavaChar) return decide(operator, a.text, b.text);
  if ((a instanceof JavaChar && typeof b === 'string') || (typeof a === 'string' && b instanceof JavaChar)) {
    return decide(operator, typeof a === 'string' ? a : a.text, typeof b === 'string' ? b : b.text);
  }
  if (isNumber(a) || isNumber(b)) return compareWithNumber(operator, a, b, offset);
  throw new EvaluationError(`${operator} cannot compare ${describe(a)} with ${describe(b)}`, offset);
}

function compareWithNumber(operator: ComparisonOperator, a: Value, b: Value, offset: number): boolean {
  const left = asNumber(a);
  const right = asNumber(b);
  if (left !== null && right !== null) return decide(operator, left, right);
  const other = left === null ? a : b;
  if (typeof other === 'string' || other instanceof JavaChar || typeof other === 'boolean') {
    throw new EvaluationError(`${operator} cannot compare ${describe(a)} with ${describe(b)}`, offset);
  }
  return false;
}

function decide<T extends string | number | bigint>(operator: ComparisonOperator, a: T, b: T): boolean {
  if (operator === '<') return a < b;
  if (operator === '<=') return a <= b;
  return operator === '>' ? a > b : a >= b;
}

/** Natural order of Java's sorted collections, `Collections.min` and `compareTo`. */
export function compareNatural(a: Value, b: Value, e: Evaluation): number {
  if (typeof a === 'string' && typeof b === 'string') return compareText(a, b, e);
  if (typeof a === 'number' && typeof b === 'number') return a < b ? -1 : a > b ? 1 : 0;
  if (typeof a === 'boolean' && typeof b === 'boolean') return Number(a) - Number(b);
  if (a instanceof JavaLong && b instanceof JavaLong) return a.value < b.value ? -1 : a.value > b.value ? 1 : 0;
  if (a instanceof JavaChar && b instanceof JavaChar) return a.text.charCodeAt(0) - b.text.charCodeAt(0);
  if (
    (a instanceof JavaDouble && b instanceof JavaDouble) ||
    (a instanceof JavaFloat && b instanceof JavaFloat) ||
    (a instanceof JavaSmallInt && b instanceof JavaSmallInt)
  ) {
    return compareDouble(a.value, b.value);
  }
  throw new EvaluationError(`${describe(a)} and ${describe(b)} have no order`);
}

/** `Double.compare`: -0.0 before 0.0, NaN after everything. */
export function compareDouble(a: number, b: number): number {
  if (a < b) return -1;
  if (a > b) return 1;
  if (a === b && a !== 0) return 0;
  const place = (value: number): number => (Number.isNaN(value) ? 2 : Object.is(value, -0) ? 0 : 1);
  return Math.sign(place(a) - place(b));
}

/** `a contains b`: false if a is null or empty. */
export function contains(a: Value, b: Value, e: Evaluation): boolean {
  if (typeof a === 'string') return b !== null && includesText(a, typeof b === 'string' ? b : javaText(b, e), e);
  if (a === null || typeof a !== 'object') return false;
  if (a instanceof JavaSet) return a.has(b, e);
  if (a instanceof JavaMap) return a.get(b, e) !== undefined;
  if (a instanceof JavaList || a instanceof JavaArray || a instanceof JavaCollection) {
    return includesValue(a.items, b, e);
  }
  return false;
}

export function includesValue(items: readonly Value[], value: Value, e: Evaluation): boolean {
  return indexOfValue(items, value, e) >= 0;
}

/** Index of the first element that equals a value, or -1. */
export function indexOfValue(items: readonly Value[], value: Value, e: Evaluation): number {
  return items.findIndex(equalTo(value, e));
}

/** Index of the last element that equals a value, or -1. */
export function lastIndexOfValue(items: readonly Value[], value: Value, e: Evaluation): number {
  return items.findLastIndex(equalTo(value, e));
}

function equalTo(value: Value, e: Evaluation): (item: Value) => boolean {
  return (item) => {
    e.step();
    return javaEquals(item, value, e);
  };
}

/** `value == empty`: null, blank text, zero, false, an empty list or set (MVEL's BlankLiteral). */
export function isBlank(value: Value, e: Evaluation): boolean {
  if (value === null || value === false) return true;
  if (typeof value === 'string') return value === '0' || isBlankText(value, e);
  if (isNumber(value)) return toDouble(value) === 0;
  if (value instanceof JavaList || value instanceof JavaArray || value instanceof JavaCollection) {
    return value.items.length === 0;
  }
  if (value instanceof JavaOptional) return false;
  return value instanceof JavaSet && value.size === 0;
}

/** True for a text that only consists of white space. */
export function isBlankText(text: string, e: Evaluation): boolean {
  if (text.length > SHORT_TEXT) e.text(text.length);
  return !/\S/.test(text);
}

/** The operand of `&&`, `||`, `!`, `?:` and `if`: strictly a boolean. */
export function requireBoolean(value: Value, what: string, offset: number): boolean {
  if (typeof value === 'boolean') return value;
  throw new EvaluationError(`${what} needs true or false, not ${describe(value)}`, offset);
}
