import { type Evaluation, EvaluationError } from '../rules/evaluation.ts';
import { MAX_VALUE_DEPTH } from '../rules/limits.ts';
import { JavaArray, JavaCollection, JavaList, JavaMap, JavaSet } from '../rules/values/collections.ts';
import { compareNatural } from '../rules/values/operators.ts';
import { javaText } from '../rules/values/text.ts';
import {
  JavaChar,
  JavaClass,
  JavaDouble,
  JavaFloat,
  JavaLong,
  JavaObject,
  JavaOptional,
  JavaSmallInt,
  kindOf,
  type Value,
} from '../rules/values/value.ts';

/**
 * Adds values of a case's JSON to a map.
 * @throws EvaluationError if they are nested too deep or are too many
 */
export function fillMap(map: JavaMap, json: Readonly<Record<string, unknown>> | undefined, e: Evaluation): void {
  for (const [key, value] of Object.entries(json ?? {})) map.fill(key, fromJson(value, e, 0), e);
}

function fromJson(json: unknown, e: Evaluation, depth: number): Value {
  if (json === null || typeof json === 'string' || typeof json === 'boolean') return json;
  if (typeof json === 'number') {
    if (!Number.isInteger(json)) return new JavaDouble(json);
    return Math.abs(json) < 2 ** 31 ? json : new JavaLong(BigInt(json));
  }
  checkDepth(depth);
  if (Array.isArray(json)) {
    e.reserveElements(json.length, json.length);
    return new JavaList(json.map((item) => fromJson(item, e, depth + 1)));
  }
  const entries = Object.entries(json as object);
  const [first] = entries;
  if (first !== undefined && first[0] === '$set' && Array.isArray(first[1])) {
    const set = new JavaSet();
    for (const item of first[1]) set.fill(fromJson(item, e, depth + 1), e);
    return set;
  }
  const map = new JavaMap();
  for (const [key, value] of entries) map.fill(key, fromJson(value, e, depth + 1), e);
  return map;
}

function checkDepth(depth: number): void {
  if (depth >= MAX_VALUE_DEPTH) throw new EvaluationError(`a value is nested deeper than ${MAX_VALUE_DEPTH}`);
}

const PLAIN = [
  'boolean', 'int', 'long', 'double', 'float', 'short', 'byte', 'string', 'char', 'null', 'list', 'array', 'set', 'map',
  'collection', 'optional', 'class',
]; // biome-ignore format: a table

export function typeOf(value: Value): string {
  const kind = kindOf(value);
  return PLAIN.includes(kind) ? kind : 'object';
}

/**
 * A value as JSON.
 * @throws EvaluationError where it contains itself, is nested too deep, or is larger than one evaluation's budgets
 */
export function valueJson(value: Value, e: Evaluation, depth = 0): unknown {
  e.step();
  if (typeof value === 'string') e.reserveText(value.length);
  if (!(value instanceof JavaObject)) return value;
  if (value instanceof JavaDouble || value instanceof JavaFloat) return numberJson(value.value);
  if (value instanceof JavaLong) {
    return value.value >= BigInt(Number.MIN_SAFE_INTEGER) && value.value <= BigInt(Number.MAX_SAFE_INTEGER)
      ? Number(value.value)
      : String(value.value);
  }
  if (value instanceof JavaSmallInt) return value.value;
  if (value instanceof JavaChar) return value.text;
  if (value instanceof JavaClass) return value.name;
  checkDepth(depth);
  const all = (items: readonly Value[]): unknown[] => items.map((item) => valueJson(item, e, depth + 1));
  if (value instanceof JavaOptional) return value.value === null ? [] : all([value.value]);
  if (value instanceof JavaList || value instanceof JavaArray || value instanceof JavaCollection) {
    return all(value.items);
  }
  if (value instanceof JavaSet) return sorted(value.ordered(e, compareNatural), all);
  if (value instanceof JavaMap) {
    return Object.fromEntries(
      [...value.entries.values()].map((entry) => [javaText(entry.key, e), valueJson(entry.value, e, depth + 1)]),
    );
  }
  return javaText(value, e);
}

function numberJson(value: number): unknown {
  return Number.isFinite(value) ? value : String(value);
}

/** Elements of a set in a stable order: by their JSON. */
function sorted(items: readonly Value[], jsonOf: (items: readonly Value[]) => unknown[]): unknown[] {
  return jsonOf(items)
    .map((json) => ({ json, text: typeof json === 'object' ? JSON.stringify(json) : String(json) }))
    .sort((a, b) => (a.text < b.text ? -1 : a.text > b.text ? 1 : 0))
    .map(({ json }) => json);
}
