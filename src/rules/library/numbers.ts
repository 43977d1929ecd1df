import { type Evaluation, EvaluationError } from '../evaluation.ts';
import { compareDouble, compareNatural } from '../values/operators.ts';
import { doubleText, floatText, javaText } from '../values/text.ts';
import {
  doubleToInt,
  doubleToLong,
  isNumber,
  JavaLong,
  type JavaNumberObject,
  JavaSmallInt,
  toDouble,
  type Value,
} from '../values/value.ts';
import { LibraryClass } from './javaClass.ts';
import { double, float, long, MethodTable, objectMethods, short } from './methodTable.ts';

type AnyNumber = number | JavaNumberObject;

const asLong = (value: AnyNumber): bigint => (value instanceof JavaLong ? value.value : doubleToLong(toDouble(value)));

export const numberMethods = new MethodTable('Number', 'operands')
  .include(objectMethods)
  .add('intValue', [], (_e, self: AnyNumber) =>
    self instanceof JavaLong ? Number(BigInt.asIntN(32, self.value)) : doubleToInt(toDouble(self)),
  )
  .add('longValue', [], (_e, self: AnyNumber) => long(asLong(self)))
  .add('doubleValue', [], (_e, self: AnyNumber) => double(toDouble(self)))
  .add('floatValue', [], (_e, self: AnyNumber) => float(toDouble(self)))
  .add('shortValue', [], (_e, self: AnyNumber) => short(doubleToInt(toDouble(self))))
  .add('compareTo', ['any'], (e, self: AnyNumber, other) => compareNatural(self, other, e))
  .add('isNaN', [], (_e, self: AnyNumber) => Number.isNaN(toDouble(self)))
  .add('isInfinite', [], (_e, self: AnyNumber) => Math.abs(toDouble(self)) === Number.POSITIVE_INFINITY);

export const booleanMethods = new MethodTable('Boolean', 'operands')
  .include(objectMethods)
  .add('booleanValue', [], (_e, self: boolean) => self)
  .add('compareTo', ['boolean'], (_e, self: boolean, other) => Number(self) - Number(other));

const INT_MIN = -2_147_483_648;
const INT_MAX = 2_147_483_647;
const LONG_MIN = -9_223_372_036_854_775_808n;
const LONG_MAX = 9_223_372_036_854_775_807n;

function parseWhole(text: string | null, radix: number, low: bigint, high: bigint): bigint {
  const digits = text !== null && radix >= 2 && radix <= 36 && /^[+-]?[0-9a-zA-Z]{1,70}$/.test(text) ? text : null;
  let value = 0n;
  let isValid = digits !== null;
  for (const char of (digits ?? '').replace(/^[+-]/, '').toLowerCase()) {
    const digit = Number.parseInt(char, 36);
    if (digit >= radix) isValid = false;
    value = value * BigInt(radix) + BigInt(digit);
  }
  if (digits?.startsWith('-') === true) value = -value;
  if (!isValid || value < low || value > high) throw new EvaluationError('the text is not a whole number of this type');
  return value;
}

const parseInteger = (text: string | null, radix = 10): number =>
  Number(parseWhole(text, radix, BigInt(INT_MIN), BigInt(INT_MAX)));
const parseLong = (text: string | null, radix = 10): bigint => parseWhole(text, radix, LONG_MIN, LONG_MAX);

function parseDouble(text: string | null): number {
  const trimmed = text?.trim() ?? '';
  // Unambiguous, so the expression takes time linear to the text.
  if (/^[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[dDfF]?$/.test(trimmed)) {
    return Number(trimmed.replace(/[dDfF]$/, ''));
  }
  if (/^[+-]?Infinity$/.test(trimmed)) return Number(trimmed.replace('+', ''));
  if (/^[+-]?NaN$/.test(trimmed)) return Number.NaN;
  throw new EvaluationError('the text is not a number');
}

export const integerClass = new LibraryClass('Integer', ['int'])
  .field('MAX_VALUE', INT_MAX)
  .field('MIN_VALUE', INT_MIN)
  .field('SIZE', 32)
  .field('BYTES', 4);
integerClass.statics
  .add('parseInt', ['string?'], (_e, _self, text) => parseInteger(text))
  .add('parseInt', ['string?', 'int'], (_e, _self, text, radix) => parseInteger(text, radix))
  .add('valueOf', ['int'], (_e, _self, value) => value)
  .add('valueOf', ['string?'], (_e, _self, text) => parseInteger(text))
  .add('toString', ['int'], (_e, _self, value) => String(value))
  .add('toString', ['int', 'int'], (_e, _self, value, radix) => value.toString(radix >= 2 && radix <= 36 ? radix : 10))
  .add('toHexString', ['int'], (_e, _self, value) => (value >>> 0).toString(16))
  .add('toBinaryString', ['int'], (_e, _self, value) => (value >>> 0).toString(2))
  .add('toOctalString', ['int'], (_e, _self, value) => (value >>> 0).toString(8))
  .add('bitCount', ['int'], (_e, _self, value) => [...(value >>> 0).toString(2)].filter((bit) => bit === '1').length)
  .add('signum', ['int'], (_e, _self, value) => Math.sign(value))
  .add('hashCode', ['int'], (_e, _self, value) => value)
  .add('compare', ['int', 'int'], (_e, _self, a, b) => (a < b ? -1 : a > b ? 1 : 0))
  .add('max', ['int', 'int'], (_e, _self, a, b) => Math.max(a, b))
  .add('min', ['int', 'int'], (_e, _self, a, b) => Math.min(a, b))
  .add('sum', ['int', 'int'], (_e, _self, a, b) => (a + b) | 0);
integerClass.constructors
  .add('new', ['int'], (_e, _self, value) => value)
  .add('new', ['string?'], (_e, _self, text) => parseInteger(text));

export const longClass = new LibraryClass('Long', ['long'])
  .field('MAX_VALUE', long(LONG_MAX))
  .field('MIN_VALUE', long(LONG_MIN))
  .field('SIZE', 64)
  .field('BYTES', 8);
longClass.statics
  .add('parseLong', ['string?'], (_e, _self, text) => long(parseLong(text)))
  .add('parseLong', ['string?', 'int'], (_e, _self, text, radix) => long(parseLong(text, radix)))
  .add('valueOf', ['long'], (_e, _self, value) => long(value))
  .add('valueOf', ['string?'], (_e, _self, text) => long(parseLong(text)))
  .add('toString', ['long'], (_e, _self, value) => String(value))
  .add('toHexString', ['long'], (_e, _self, value) => BigInt.asUintN(64, value).toString(16))
  .add('signum', ['long'], (_e, _self, value) => (value > 0n ? 1 : value < 0n ? -1 : 0))
  .add('compare', ['long', 'long'], (_e, _self, a, b) => (a < b ? -1 : a > b ? 1 : 0))
  .add('max', ['long', 'long'], (_e, _self, a, b) => long(a > b ? a : b))
  .add('min', ['long', 'long'], (_e, _self, a, b) => long(a < b ? a : b))
  .add('sum', ['long', 'long'], (_e, _self, a, b) => long(a + b));
longClass.constructors
  .add('new', ['long'], (_e, _self, value) => long(value))
  .add('new', ['string?'], (_e, _self, text) => long(parseLong(text)));

export const doubleClass = new LibraryClass('Double', ['double'])
  .field('MAX_VALUE', double(Number.MAX_VALUE))
  .field('MIN_VALUE', double(Number.MIN_VALUE))
  .field('POSITIVE_INFINITY', double(Number.POSITIVE_INFINITY))
  .field('NEGATIVE_INFINITY', double(Number.NEGATIVE_INFINITY))
  .field('NaN', double(Number.NaN));
doubleClass.statics
  .add('parseDouble', ['string?'], (_e, _self, text) => double(parseDouble(text)))
  .add('valueOf', ['double'], (_e, _self, value) => double(value))
  .add('valueOf', ['string?'], (_e, _self, text) => double(parseDouble(text)))
  .add('toString', ['double'], (_e, _self, value) => doubleText(value))
  .add('isNaN', ['double'], (_e, _self, value) => Number.isNaN(value))
  .add('isInfinite', ['double'], (_e, _self, value) => Math.abs(value) === Number.POSITIVE_INFINITY)
  .add('isFinite', ['double'], (_e, _self, value) => Number.isFinite(value))
  .add('compare', ['double', 'double'], (_e, _self, a, b) => compareDouble(a, b))
  .add('max', ['double', 'double'], (_e, _self, a, b) => double(Math.max(a, b)))
  .add('min', ['double', 'double'], (_e, _self, a, b) => double(Math.min(a, b)))
  .add('sum', ['double', 'double'], (_e, _self, a, b) => double(a + b));
doubleClass.constructors
  .add('new', ['double'], (_e, _self, value) => double(value))
  .add('new', ['string?'], (_e, _self, text) => double(parseDouble(text)));

export const floatClass = new LibraryClass('Float', ['float']);
floatClass.statics
  .add('parseFloat', ['string?'], (_e, _self, text) => float(parseDouble(text)))
  .add('valueOf', ['float'], (_e, _self, value) => float(value))
  .add('valueOf', ['string?'], (_e, _self, text) => float(parseDouble(text)))
  .add('toString', ['float'], (_e, _self, value) => floatText(Math.fround(value)))
  .add('isNaN', ['float'], (_e, _self, value) => Number.isNaN(value));

export const shortClass = new LibraryClass('Short', ['short']).field('MAX_VALUE', short(32_767));
shortClass.statics
  .add('parseShort', ['string?'], (_e, _self, text) => short(Number(parseWhole(text, 10, -32_768n, 32_767n))))
  .add('valueOf', ['string?'], (_e, _self, text) => short(Number(parseWhole(text, 10, -32_768n, 32_767n))));

export const byteClass = new LibraryClass('Byte', ['byte']);
byteClass.statics.add(
  'parseByte',
  ['string?'],
  (_e, _self, text) => new JavaSmallInt('byte', Number(parseWhole(text, 10, -128n, 127n))),
);

export const numberClass = new LibraryClass('Number', ['int', 'long', 'float', 'double', 'short', 'byte']);

function isTrue(text: string | null): boolean {
  return text !== null && text.length === 4 && text.toLowerCase() === 'true';
}

export const booleanClass = new LibraryClass('Boolean', ['boolean']).field('TRUE', true).field('FALSE', false);
booleanClass.statics
  .add('parseBoolean', ['string?'], (_e, _self, text) => isTrue(text))
  .add('valueOf', ['boolean'], (_e, _self, value) => value)
  .add('valueOf', ['string?'], (_e, _self, text) => isTrue(text))
  .add('toString', ['boolean'], (_e, _self, value) => String(value))
  .add('logicalAnd', ['boolean', 'boolean'], (_e, _self, a, b) => a && b)
  .add('logicalOr', ['boolean', 'boolean'], (_e, _self, a, b) => a || b)
  .add('logicalXor', ['boolean', 'boolean'], (_e, _self, a, b) => a !== b);
booleanClass.constructors
  .add('new', ['boolean'], (_e, _self, value) => value)
  .add('new', ['string?'], (_e, _self, text) => isTrue(text));

function exactInt(value: number): number {
  if (value < INT_MIN || value > INT_MAX) throw new EvaluationError('integer overflow');
  return value;
}

function exactLong(value: bigint): Value {
  if (value < LONG_MIN || value > LONG_MAX) throw new EvaluationError('long overflow');
  return long(value);
}

function notZero<T extends number | bigint>(value: T): T {
  if (Number(value) === 0) throw new EvaluationError('division by zero');
  return value;
}

const floorDiv = (a: bigint, b: bigint): bigint => {
  const quotient = a / notZero(b);
  return a % b !== 0n && a < 0n !== b < 0n ? quotient - 1n : quotient;
};
const floorMod = (a: bigint, b: bigint): bigint => a - floorDiv(a, b) * b;

/** Math.rint: the nearest whole number, halves to the even one. */
function rint(value: number): number {
  const floor = Math.floor(value);
  const rest = value - floor;
  if (rest !== 0.5) return Math.round(value);
  return floor % 2 === 0 ? floor : floor + 1;
}

/** Math.round(double): floor(x + 1/2) without the error of the addition. */
const round = (value: number): number => Math.round(value);

/** The class Math; StrictMath is the same. */
export const mathClass = new LibraryClass('Math').field('PI', double(Math.PI)).field('E', double(Math.E));

function addMath(name: string, run: (value: number) => number): void {
  mathClass.statics.add(name, ['double'], (_e, _self, value) => double(run(value)));
}

for (const [name, run] of Object.entries({
  floor: Math.floor,
  ceil: Math.ceil,
  sqrt: Math.sqrt,
  cbrt: Math.cbrt,
  exp: Math.exp,
  expm1: Math.expm1,
  log: Math.log,
  log10: Math.log10,
  log1p: Math.log1p,
  sin: Math.sin,
  cos: Math.cos,
  tan: Math.tan,
  asin: Math.asin,
  acos: Math.acos,
  atan: Math.atan,
  sinh: Math.sinh,
  cosh: Math.cosh,
  tanh: Math.tanh,
  signum: Math.sign,
  rint,
  toRadians: (value: number) => (value / 180) * Math.PI,
  toDegrees: (value: number) => (value * 180) / Math.PI,
})) {
  addMath(name, run);
}

mathClass.statics
  .add('abs', ['int'], (_e, _self, a) => Math.abs(a) | 0)
  .add('abs', ['long'], (_e, _self, a) => long(a < 0n ? -a : a))
  .add('abs', ['float'], (_e, _self, a) => float(Math.abs(a)))
  .add('abs', ['double'], (_e, _self, a) => double(Math.abs(a)))
  .add('max', ['int', 'int'], (_e, _self, a, b) => Math.max(a, b))
  .add('max', ['long', 'long'], (_e, _self, a, b) => long(a > b ? a : b))
  .add('max', ['float', 'float'], (_e, _self, a, b) => float(Math.max(a, b)))
  .add('max', ['double', 'double'], (_e, _self, a, b) => double(Math.max(a, b)))
  .add('min', ['int', 'int'], (_e, _self, a, b) => Math.min(a, b))
  .add('min', ['long', 'long'], (_e, _self, a, b) => long(a < b ? a : b))
  .add('min', ['float', 'float'], (_e, _self, a, b) => float(Math.min(a, b)))
  .add('min', ['double', 'double'], (_e, _self, a, b) => double(Math.min(a, b)))
  .add('pow', ['double', 'double'], (_e, _self, a, b) => double(a ** b))
  .add('hypot', ['double', 'double'], (_e, _self, a, b) => double(Math.hypot(a, b)))
  .add('atan2', ['double', 'double'], (_e, _self, a, b) => double(Math.atan2(a, b)))
  .add('round', ['float'], (_e, _self, a) => doubleToInt(round(a)))
  .add('round', ['double'], (_e, _self, a) => long(doubleToLong(round(a))))
  .add('random', [], (e) => double(e.sources.random()), 'chance')
  .add('addExact', ['int', 'int'], (_e, _self, a, b) => exactInt(a + b))
  .add('addExact', ['long', 'long'], (_e, _self, a, b) => exactLong(a + b))
  .add('subtractExact', ['int', 'int'], (_e, _self, a, b) => exactInt(a - b))
  .add('subtractExact', ['long', 'long'], (_e, _self, a, b) => exactLong(a - b))
  .add('multiplyExact', ['int', 'int'], (_e, _self, a, b) => exactInt(a * b))
  .add('multiplyExact', ['long', 'long'], (_e, _self, a, b) => exactLong(a * b))
  .add('negateExact', ['int'], (_e, _self, a) => exactInt(-a))
  .add('incrementExact', ['int'], (_e, _self, a) => exactInt(a + 1))
  .add('toIntExact', ['long'], (_e, _self, a) => exactInt(Number(a)))
  .add('floorDiv', ['int', 'int'], (_e, _self, a, b) => Math.floor(a / notZero(b)) | 0)
  .add('floorDiv', ['long', 'long'], (_e, _self, a, b) => long(floorDiv(a, b)))
  .add('floorMod', ['int', 'int'], (_e, _self, a, b) => Number(floorMod(BigInt(a), BigInt(b))))
  .add('floorMod', ['long', 'long'], (_e, _self, a, b) => long(floorMod(a, b)))
  .add('clamp', ['long', 'int', 'int'], (_e, _self, value, low, high) => clampToInt(value, low, high))
  .add('clamp', ['long', 'long', 'long'], (_e, _self, value, low, high) =>
    long(value < low ? low : value > high ? high : value),
  )
  .add('clamp', ['double', 'double', 'double'], (_e, _self, value, low, high) =>
    double(Math.min(Math.max(value, low), high)),
  );

function clampToInt(value: bigint, low: number, high: number): number {
  if (low > high) throw new EvaluationError('Math.clamp: the lower bound is above the upper one');
  return value < BigInt(low) ? low : value > BigInt(high) ? high : Number(value);
}

/** Converts a value to a variable's declared type, e.g. `int x = "5"`. */
export function convertTo(javaType: string, value: Value, e: Evaluation): Value {
  if (value === null) return null;
  if (typeof value === 'string') e.text(value.length);
  const fail = (): never => {
    throw new EvaluationError(`the value is no ${javaType}`);
  };
  const whole = (low: bigint, high: bigint): bigint => {
    if (typeof value === 'string') return parseWhole(value, 10, low, high);
    return isNumber(value) ? BigInt.asIntN(64, asLong(value)) : fail();
  };
  const decimal = (): number => {
    if (typeof value === 'string') return parseDouble(value);
    return isNumber(value) ? toDouble(value) : fail();
  };
  switch (javaType) {
    case 'int':
    case 'Integer':
      return typeof value === 'number' ? value : Number(BigInt.asIntN(32, whole(BigInt(INT_MIN), BigInt(INT_MAX))));
    case 'long':
    case 'Long':
      return long(whole(LONG_MIN, LONG_MAX));
    case 'double':
    case 'Double':
      return double(decimal());
    case 'float':
    case 'Float':
      return float(decimal());
    case 'boolean':
    case 'Boolean':
      return typeof value === 'boolean' ? value : fail();
    case 'String':
      return javaText(value, e);
    default:
      return value;
  }
}
