import { createHash } from 'node:crypto';
import { type Evaluation, EvaluationError, SHORT_TEXT } from '../evaluation.ts';
import { MAX_VALUE_DEPTH } from '../limits.ts';
import { JavaArray, JavaCollection, JavaEntry, JavaList, JavaMap, JavaSet } from './collections.ts';
import { equalTexts } from './textSearch.ts';
import {
  JavaChar,
  JavaClass,
  JavaDouble,
  JavaFloat,
  JavaLong,
  type JavaObject,
  JavaOptional,
  JavaSmallInt,
  type Value,
} from './value.ts';

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
