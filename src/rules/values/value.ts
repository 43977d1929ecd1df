import { createHash } from 'node:crypto';
import { type Evaluation, EvaluationError, SHORT_TEXT } from '../evaluation.ts';
import { MAX_VALUE_DEPTH } from '../limits.ts';
import { JavaArray, JavaCollection, JavaEntry, JavaList, JavaMap, JavaSet } from './collections.ts';
import { equalTexts } from './textSearch.ts';

/**
 * Values of the rules language. Four Java types are plain JavaScript primitives: null, boolean, String, and int as a
 * number (always a 32-bit integer). Every other value is an object of a class below, so that no JavaScript object with
 * properties of its own is ever reachable from a rule.
 */
export type Value = null | boolean | number | string | JavaObject;

/** Names of the kinds of values in messages. */
const kindNames = {
  null: 'null',
  boolean: 'Boolean',
  int: 'Integer',
  long: 'Long',
  float: 'Float',
  double: 'Double',
  short: 'Short',
  byte: 'Byte',
  char: 'Character',
  string: 'String',
  builder: 'StringBuilder',
  list: 'List',
  stack: 'Stack',
  queue: 'PriorityQueue',
  array: 'array',
  set: 'Set',
  map: 'Map',
  entry: 'Map.Entry',
  collection: 'Collection',
  iterator: 'Iterator',
  enumeration: 'Enumeration',
  stream: 'Stream',
  optional: 'Optional',
  class: 'Class',
  comparator: 'Comparator',
  date: 'Date',
  calendar: 'Calendar',
  uuid: 'UUID',
  locale: 'Locale',
  currency: 'Currency',
  tokenizer: 'StringTokenizer',
  joiner: 'StringJoiner',
  bitSet: 'BitSet',
  encoder: 'Base64.Encoder',
  decoder: 'Base64.Decoder',
  request: 'request',
  cookie: 'Cookie',
  user: 'user',
  userInfo: 'UserInfo',
  query: 'query',
  qualifiedName: 'QualifiedName',
};
export type ValueKind = keyof typeof kindNames;
export function kindName(kind: ValueKind): string {
  return kindNames[kind];
}

export abstract class JavaObject {
  abstract readonly kind: ValueKind;
}

/** A collection that a rule may change; it can be restored to its content before the rule. */
export abstract class Mutable extends JavaObject {
  /** Epoch of the rule that last saved it; 0: never. */
  savedEpoch = 0;
  /** Number of elements copied by a snapshot. */
  abstract readonly size: number;
  /** Saves the current content; returns a function that restores it. */
  abstract snapshot(): () => void;
}

/** A value that holds another one. */
export abstract class Holder<T> extends JavaObject {
  readonly value: T;

  constructor(value: T) {
    super();
    this.value = value;
  }
}

/** A value that is one text. */
export abstract class TextHolder extends JavaObject {
  readonly text: string;

  constructor(text: string) {
    super();
    this.text = text;
  }
}

/** A 64-bit integer. */
export class JavaLong extends Holder<bigint> {
  readonly kind = 'long';

  constructor(value: bigint) {
    super(BigInt.asIntN(64, value));
  }
}

export class JavaDouble extends Holder<number> {
  readonly kind = 'double';
}

/** A float: a number that is exact in 32 bits. */
export class JavaFloat extends Holder<number> {
  readonly kind = 'float';

  constructor(value: number) {
    super(Math.fround(value));
  }
}

/** A short or byte: only their name is left, as arithmetic converts them to int. */
export class JavaSmallInt extends Holder<number> {
  readonly kind: 'short' | 'byte';

  constructor(kind: 'short' | 'byte', value: number) {
    super(value);
    this.kind = kind;
  }
}

/** A char: one UTF-16 unit, a string of length 1. */
export class JavaChar extends TextHolder {
  readonly kind = 'char';
}

/** A class as a value, as in `x is Integer`: its name. It has no methods. */
export class JavaClass extends TextHolder {
  readonly kind = 'class';
}

/** An Optional; null: empty. */
export class JavaOptional extends Holder<Value> {
  readonly kind = 'optional';
}
export const emptyOptional = new JavaOptional(null);

export class JavaBuilder extends Mutable {
  readonly kind = 'builder';
  /** Strings are immutable: saving needs no copy. */
  readonly size = 0;
  text = '';

  override snapshot(): () => void {
    const { text } = this;
    return () => {
      this.text = text;
    };
  }
}

export type JavaNumberObject = JavaLong | JavaDouble | JavaFloat | JavaSmallInt;

export function kindOf(value: Value): ValueKind {
  if (value === null) return 'null';
  switch (typeof value) {
    case 'string':
      return 'string';
    case 'number':
      return 'int';
    case 'boolean':
      return 'boolean';
    default:
      return value.kind;
  }
}

/** True for int, long, float, double, short and byte. */
export function isNumber(value: Value): value is number | JavaNumberObject {
  return (
    typeof value === 'number' ||
    value instanceof JavaDouble ||
    value instanceof JavaLong ||
    value instanceof JavaFloat ||
    value instanceof JavaSmallInt
  );
}

export function toDouble(value: number | JavaNumberObject): number {
  return typeof value === 'number' ? value : Number(value.value);
}

/** A number of Java's `(int)` cast from a double: truncated, saturating, NaN is 0. */
export function doubleToInt(value: number): number {
  if (value >= 2_147_483_647) return 2_147_483_647;
  if (value <= -2_147_483_648) return -2_147_483_648;
  return Number.isNaN(value) ? 0 : Math.trunc(value) | 0;
}

const LONG_MAX = 9_223_372_036_854_775_807n;
const LONG_MIN = -9_223_372_036_854_775_808n;

/** A number of Java's `(long)` cast from a double: truncated, saturating, NaN is 0. */
export function doubleToLong(value: number): bigint {
  if (value >= 2 ** 63) return LONG_MAX;
  if (value <= -(2 ** 63)) return LONG_MIN;
  return Number.isNaN(value) ? 0n : BigInt(Math.trunc(value));
}

/** A primitive, or the object itself: equal for values that Java's `equals` considers equal. */
export type Key = string | number | bigint | boolean | null | JavaObject;

/**
 * Longer texts have a digest as their key. V8's maps distinguish texts of more than 16,383 characters only by their
 * lengths, so that each of many long ones would be compared with all others.
 */
const MAX_KEY_LENGTH = 8192;

/** True if a text is its own key. Other keys start with NUL, like keys of other types. */
export function isOwnKey(text: string): boolean {
  return text.length <= MAX_KEY_LENGTH && text.charCodeAt(0) !== 0;
}

function textKey(text: string, e: Evaluation): string {
  if (text.length > SHORT_TEXT) e.text(text.length);
  if (isOwnKey(text)) return text;
  return text.length <= MAX_KEY_LENGTH ? `\0s${text}` : `\0h${digestOf(text, e)}`;
}

function digestOf(text: string, e: Evaluation): string {
  e.text(4 * text.length);
  // As UTF-16: UTF-8 has one text for all lone surrogates.
  return `${text.length}:${createHash('sha256').update(text, 'utf16le').digest('base64')}`;
}

/**
 * The key of a value in sets and maps. Two values have the same key exactly if Java's `equals` returns true: types are
 * strict (1 is not 1L), lists, sets, maps and optionals compare by content.
 */
export function valueKey(value: Value, e: Evaluation, depth = 0): Key {
  switch (typeof value) {
    case 'string':
      return textKey(value, e);
    case 'number':
    case 'boolean':
      return value;
    default:
      return value === null ? null : objectKey(value, e, depth);
  }
}

function objectKey(value: JavaObject, e: Evaluation, depth: number): Key {
  if (value instanceof JavaLong) return value.value;
  if (value instanceof JavaDouble) return `\0d${Object.is(value.value, -0) ? '-0' : value.value}`;
  if (value instanceof JavaFloat) return `\0f${Object.is(value.value, -0) ? '-0' : value.value}`;
  if (value instanceof JavaSmallInt) return `\0${value.kind}${value.value}`;
  if (value instanceof JavaChar) return `\0c${value.text}`;
  if (value instanceof JavaClass) return `\0k${value.text}`;
  if (depth >= MAX_VALUE_DEPTH) throw tooDeep();
  if (value instanceof JavaList) return joined('l', value.items, e, depth, false);
  if (value instanceof JavaOptional) return joined('o', [value.value], e, depth, false);
  if (value instanceof JavaEntry) return joined('e', [value.key, value.value], e, depth, false);
  if (value instanceof JavaSet) return joined('t', [...value.elements.values()], e, depth, true);
  if (value instanceof JavaMap) return joined('m', [...value.entries.values()], e, depth, true);
  const own = ownKey.get(value.kind);
  return own === undefined ? value : `\0x${value.kind}:${textKey(reserve(own(value), e), e)}`;
}

/** Key functions of kinds outside this module that compare by content. */
const ownKey = new Map<string, (value: JavaObject) => string>();

function reserve(text: string, e: Evaluation): string {
  if (text.length > SHORT_TEXT) e.reserveText(text.length);
  return text;
}

export function compareByText(kind: JavaObject['kind'], text: (value: JavaObject) => string): void {
  ownKey.set(kind, text);
}

function joined(tag: string, items: readonly Value[], e: Evaluation, depth: number, isSorted: boolean): string {
  let length = 0;
  const parts: string[] = [];
  for (const item of items) {
    e.step();
    const key = valueKey(item, e, depth + 1);
    const part =
      typeof key === 'string'
        ? `s${key.length}:${key}`
        : typeof key === 'object'
          ? identity(key)
          : `${typeof key}${key}`;
    length += part.length + 1;
    e.reserveText(length, part.length);
    parts.push(part);
  }
  if (isSorted) parts.sort((a, b) => comparePart(a, b, e));
  const all = parts.join(',');
  return `\0${tag}${all.length > MAX_KEY_LENGTH ? `h${digestOf(all, e)}` : all}`;
}

function comparePart(a: string, b: string, e: Evaluation): number {
  e.comparison();
  const length = Math.min(a.length, b.length);
  if (length > SHORT_TEXT) e.text(length);
  return a < b ? -1 : a > b ? 1 : 0;
}

const identities = new WeakMap<JavaObject, number>();
let lastIdentity = 0;

function identity(value: JavaObject | null): string {
  if (value === null) return 'null';
  let number = identities.get(value);
  if (number === undefined) {
    lastIdentity += 1;
    number = lastIdentity;
    identities.set(value, number);
  }
  return `@${number}`;
}

/** Java's `a.equals(b)` with strict types; null equals only null. */
export function javaEquals(a: Value, b: Value, e: Evaluation, depth = 0): boolean {
  if (typeof a === 'string') return typeof b === 'string' && equalTexts(a, b, e);
  if (a === b) return true;
  if (a === null || b === null || typeof a !== 'object' || typeof b !== 'object') return false;
  if (a.kind !== b.kind) return false;
  if (a instanceof JavaLong) return b instanceof JavaLong && a.value === b.value;
  if (a instanceof JavaList) return b instanceof JavaList && sameElements(a.items, b.items, e, depth);
  if (a instanceof JavaArray || a instanceof JavaCollection) return false;
  if (a instanceof JavaSet) return b instanceof JavaSet && sameSet(a, b, e);
  if (a instanceof JavaMap) return b instanceof JavaMap && sameMap(a, b, e, depth);
  return valueKey(a, e, depth) === valueKey(b, e, depth);
}

/** Compares element by element with `equals`. */
export function sameElements(a: readonly Value[], b: readonly Value[], e: Evaluation, depth = 0): boolean {
  if (a.length !== b.length) return false;
  if (depth >= MAX_VALUE_DEPTH) throw tooDeep();
  for (let index = 0; index < a.length; index += 1) {
    e.step();
    if (!javaEquals(a[index] ?? null, b[index] ?? null, e, depth + 1)) return false;
  }
  return true;
}

function sameSet(a: JavaSet, b: JavaSet, e: Evaluation): boolean {
  if (a.size !== b.size) return false;
  for (const key of a.elements.keys()) {
    countLookup(key, e);
    if (!b.elements.has(key)) return false;
  }
  return true;
}

function sameMap(a: JavaMap, b: JavaMap, e: Evaluation, depth: number): boolean {
  if (a.size !== b.size) return false;
  if (depth >= MAX_VALUE_DEPTH) throw tooDeep();
  for (const [key, { value }] of a.entries) {
    countLookup(key, e);
    const other = b.entries.get(key);
    if (other === undefined || !javaEquals(value, other.value, e, depth + 1)) return false;
  }
  return true;
}

function countLookup(key: Key, e: Evaluation): void {
  e.step();
  if (typeof key === 'string' && key.length > SHORT_TEXT) e.text(key.length);
}

/** `String.hashCode()` (java.lang.String: s[0]*31^(n-1) + … + s[n-1] in 32 bits). */
function stringHash(text: string): number {
  return hashedOn(0, text, 0, text.length);
}

function hashedOn(before: number, text: string, start: number, end: number): number {
  let hash = before;
  for (let index = start; index < end; index += 1) hash = (Math.imul(hash, 31) + text.charCodeAt(index)) | 0;
  return hash;
}

/** Longer texts are hashed in pieces, with budget checks in between. */
const HASHED_PIECE = 65_536;

/** `String.hashCode()`, counted. */
export function textHash(text: string, e: Evaluation): number {
  if (text.length <= SHORT_TEXT) return stringHash(text);
  let hash = 0;
  for (let start = 0; start < text.length; start += HASHED_PIECE) {
    const end = Math.min(start + HASHED_PIECE, text.length);
    e.text(2 * (end - start));
    hash = hashedOn(hash, text, start, end);
  }
  return hash;
}

const bits = new DataView(new ArrayBuffer(8));

/** Java's `hashCode()`; 0 for null. */
export function hashOf(value: Value, e: Evaluation, depth = 0): number {
  if (value === null) return 0;
  if (typeof value === 'string') return textHash(value, e);
  if (typeof value === 'number') return value;
  if (typeof value === 'boolean') return value ? 1231 : 1237;
  if (value instanceof JavaLong) return longHash(value.value);
  if (value instanceof JavaDouble) {
    bits.setFloat64(0, value.value);
    return bits.getInt32(0) ^ bits.getInt32(4);
  }
  if (value instanceof JavaFloat) {
    bits.setFloat32(0, value.value);
    return bits.getInt32(0);
  }
  if (value instanceof JavaSmallInt) return value.value;
  if (value instanceof JavaChar) return value.text.charCodeAt(0);
  if (depth >= MAX_VALUE_DEPTH) throw tooDeep();
  if (value instanceof JavaOptional) return hashOf(value.value, e, depth + 1);
  if (value instanceof JavaEntry) return hashOf(value.key, e, depth + 1) ^ hashOf(value.value, e, depth + 1);
  if (value instanceof JavaList) {
    let hash = 1;
    for (const item of value.items) {
      e.step();
      hash = (Math.imul(31, hash) + hashOf(item, e, depth + 1)) | 0;
    }
    return hash;
  }
  if (value instanceof JavaSet) return sum(value.elements.values(), e, depth);
  if (value instanceof JavaMap) return sum(value.entries.values(), e, depth);
  const own = ownKey.get(value.kind);
  return own === undefined ? stringHash(identity(value)) : textHash(reserve(own(value), e), e);
}

function longHash(value: bigint): number {
  const unsigned = BigInt.asUintN(64, value);
  return Number(BigInt.asIntN(32, unsigned ^ (unsigned >> 32n)));
}

function sum(items: Iterable<Value>, e: Evaluation, depth: number): number {
  let hash = 0;
  for (const item of items) {
    e.step();
    hash = (hash + hashOf(item, e, depth + 1)) | 0;
  }
  return hash;
}

function tooDeep(): EvaluationError {
  return new EvaluationError(`a value is nested deeper than ${MAX_VALUE_DEPTH}`);
}
