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
