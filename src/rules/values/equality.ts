import { type Evaluation, EvaluationError } from '../evaluation.ts';
import { MAX_VALUE_DEPTH } from '../limits.ts';
import { JavaArray, JavaCollection, JavaEntry, JavaList, JavaMap, JavaSet } from './collections.ts';
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

/** A primitive, or the object itself, that is the same for values that Java's `equals` calls equal. */
export type Key = string | number | bigint | boolean | null | JavaObject;

/**
 * The key of a value in sets and maps. Two values have the same key exactly when Java's `equals` says so: types are
 * strict (1 is not 1L), lists, sets, maps and optionals go by content.
 */
export function keyOf(value: Value, e: Evaluation, depth = 0): Key {
  switch (typeof value) {
    case 'string':
      return value.charCodeAt(0) === 0 ? `\0s${value}` : value;
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
  if (value instanceof JavaClass) return `\0k${value.name}`;
  if (depth >= MAX_VALUE_DEPTH) throw tooDeep();
  if (value instanceof JavaList) return joined('l', value.items, e, depth, false);
  if (value instanceof JavaOptional) return joined('o', [value.value], e, depth, false);
  if (value instanceof JavaEntry) return joined('e', [value.key, value.value], e, depth, false);
  if (value instanceof JavaSet) return joined('t', [...value.elements.values()], e, depth, true);
  if (value instanceof JavaMap) return joined('m', [...value.entries.values()], e, depth, true);
  const own = ownKey.get(value.kind);
  return own === undefined ? value : `\0x${value.kind}:${own(value)}`;
}

/** Kinds outside this module that compare by content: how. */
const ownKey = new Map<string, (value: JavaObject) => string>();

/** Lets values of a kind compare by a text that is equal for equal values. */
export function compareByText(kind: JavaObject['kind'], text: (value: JavaObject) => string): void {
  ownKey.set(kind, text);
}

function joined(tag: string, items: readonly Value[], e: Evaluation, depth: number, sort: boolean): string {
  e.step(items.length);
  let length = 0;
  const parts = items.map((item) => {
    const key = keyOf(item, e, depth + 1);
    const part =
      typeof key === 'string'
        ? `s${key.length}:${key}`
        : typeof key === 'object'
          ? identity(key)
          : `${typeof key}${key}`;
    length += part.length;
    if (length > e.limits.stringLength) throw new EvaluationError('a collection is too large to be compared');
    return part;
  });
  if (sort) parts.sort();
  e.reserveText(length);
  return `\0${tag}${parts.join(',')}`;
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
  if (a === b) return true;
  if (a === null || b === null || typeof a !== 'object' || typeof b !== 'object') return false;
  if (a.kind !== b.kind) return false;
  if (a instanceof JavaList || a instanceof JavaArray || a instanceof JavaCollection) {
    if (!(a instanceof JavaList) || !(b instanceof JavaList)) return false;
    return sameElements(a.items, b.items, e, depth);
  }
  return keyOf(a, e, depth) === keyOf(b, e, depth);
}

/** Compares element by element with `equals`. */
export function sameElements(a: readonly Value[], b: readonly Value[], e: Evaluation, depth = 0): boolean {
  if (a.length !== b.length) return false;
  if (depth >= MAX_VALUE_DEPTH) throw tooDeep();
  e.step(a.length);
  return a.every((item, index) => javaEquals(item, b[index] ?? null, e, depth + 1));
}

/** `String.hashCode()` (java.lang.String: s[0]*31^(n-1) + … + s[n-1] in 32 bits). */
export function stringHash(text: string): number {
  let hash = 0;
  for (let index = 0; index < text.length; index += 1) hash = (Math.imul(hash, 31) + text.charCodeAt(index)) | 0;
  return hash;
}

const bits = new DataView(new ArrayBuffer(8));

/** Java's `hashCode()`; 0 for null. */
export function hashOf(value: Value, e: Evaluation, depth = 0): number {
  if (value === null) return 0;
  if (typeof value === 'string') return stringHash(value);
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
    e.step(value.items.length);
    return value.items.reduce<number>((hash, item) => (Math.imul(31, hash) + hashOf(item, e, depth + 1)) | 0, 1);
  }
  if (value instanceof JavaSet) return sum([...value.elements.values()], e, depth);
  if (value instanceof JavaMap) return sum([...value.entries.values()], e, depth);
  const own = ownKey.get(value.kind);
  return own === undefined ? stringHash(identity(value)) : stringHash(own(value));
}

function longHash(value: bigint): number {
  const unsigned = BigInt.asUintN(64, value);
  return Number(BigInt.asIntN(32, unsigned ^ (unsigned >> 32n)));
}

function sum(items: readonly Value[], e: Evaluation, depth: number): number {
  e.step(items.length);
  return items.reduce<number>((hash, item) => (hash + hashOf(item, e, depth + 1)) | 0, 0);
}

function tooDeep(): EvaluationError {
  return new EvaluationError(`a value is nested deeper than ${MAX_VALUE_DEPTH}`);
}
