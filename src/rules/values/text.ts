import { type Evaluation, EvaluationError, SHORT_TEXT } from '../evaluation.ts';
import { MAX_VALUE_DEPTH } from '../limits.ts';
import { JavaArray, JavaCollection, JavaEntry, JavaList, JavaMap, JavaSet } from './collections.ts';
import { compareNatural } from './operators.ts';
import {
  compareByText,
  JavaBuilder,
  JavaChar,
  JavaClass,
  JavaDouble,
  JavaFloat,
  JavaLong,
  type JavaObject,
  JavaOptional,
  JavaSmallInt,
  kindName,
  type Value,
} from './value.ts';

/** Text of a double as Java writes it: 3.0, 1.0E10, 1.0E-5, NaN, Infinity (Double.toString, JDK 19 and newer). */
export function doubleText(value: number): string {
  return decimalText(value, (magnitude) => magnitude.toExponential());
}

/** Text of a float: the fewest digits that parse to the same float. */
export function floatText(value: number): string {
  return decimalText(value, (magnitude) => {
    for (let digits = 0; digits < 9; digits += 1) {
      const text = magnitude.toExponential(digits);
      if (Math.fround(Number(text)) === magnitude) return text;
    }
    return magnitude.toExponential();
  });
}

function decimalText(value: number, shortest: (magnitude: number) => string): string {
  if (Number.isNaN(value)) return 'NaN';
  const sign = value < 0 || Object.is(value, -0) ? '-' : '';
  const magnitude = Math.abs(value);
  if (magnitude === Number.POSITIVE_INFINITY) return `${sign}Infinity`;
  if (magnitude === 0) return `${sign}0.0`;
  const [mantissa = '0', exponentText = '0'] = shortest(magnitude).split('e');
  const digits = mantissa.replace('.', '');
  const exponent = Number(exponentText);
  if (magnitude < 1e-3 || magnitude >= 1e7) {
    return `${sign}${digits.charAt(0)}.${digits.slice(1) || '0'}E${exponent}`;
  }
  if (exponent < 0) return `${sign}0.${'0'.repeat(-exponent - 1)}${digits}`;
  const whole = digits.slice(0, exponent + 1).padEnd(exponent + 1, '0');
  return `${sign}${whole}.${digits.slice(exponent + 1) || '0'}`;
}

/** Text functions of kinds outside this module. */
const ownText = new Map<string, (value: JavaObject) => string>();

export function textBy(kind: JavaObject['kind'], text: (value: JavaObject) => string): void {
  ownText.set(kind, text);
}

/** Has values of a kind written, and compared, by a text. */
export function byText(kind: JavaObject['kind'], text: (value: JavaObject) => string): void {
  textBy(kind, text);
  compareByText(kind, text);
}

/** `String.valueOf(value)`; null gives "null". */
export function javaText(value: Value, e: Evaluation): string {
  if (typeof value === 'string') return value;
  if (value === null || typeof value !== 'object') return String(value);
  const scalar = scalarText(value);
  if (scalar !== null) {
    if (scalar.length > SHORT_TEXT) e.reserveText(scalar.length);
    return scalar;
  }
  const sink = new TextSink(e);
  write(value, sink, e, 0);
  return sink.text();
}

function scalarText(value: JavaObject): string | null {
  if (value instanceof JavaLong || value instanceof JavaSmallInt) return String(value.value);
  if (value instanceof JavaDouble) return doubleText(value.value);
  if (value instanceof JavaFloat) return floatText(value.value);
  if (value instanceof JavaChar) return value.text;
  if (value instanceof JavaBuilder) return value.text;
  if (value instanceof JavaClass) return `class ${value.text}`;
  const own = ownText.get(value.kind);
  return own === undefined ? null : own(value);
}

/** Collects text and stops before it exceeds the budget. */
class TextSink {
  readonly #parts: string[] = [];
  #length = 0;
  readonly #evaluation: Evaluation;

  constructor(evaluation: Evaluation) {
    this.#evaluation = evaluation;
  }

  add(part: string): void {
    this.#length += part.length;
    this.#evaluation.reserveText(this.#length, part.length);
    this.#parts.push(part);
  }

  text(): string {
    return this.#parts.join('');
  }
}

function write(value: Value, sink: TextSink, e: Evaluation, depth: number): void {
  if (value === null || typeof value !== 'object') {
    sink.add(String(value));
    return;
  }
  const scalar = scalarText(value);
  if (scalar !== null) {
    sink.add(scalar);
    return;
  }
  if (depth >= MAX_VALUE_DEPTH) throw new EvaluationError(`a value is nested deeper than ${MAX_VALUE_DEPTH}`);
  if (value instanceof JavaList || value instanceof JavaArray || value instanceof JavaCollection) {
    writeAll('[', value.items, ']', sink, e, depth);
  } else if (value instanceof JavaSet) {
    writeAll('[', value.ordered(e, compareNatural), ']', sink, e, depth);
  } else if (value instanceof JavaMap) {
    writeAll('{', value.ordered(e, compareNatural), '}', sink, e, depth);
  } else if (value instanceof JavaEntry) {
    write(value.key, sink, e, depth + 1);
    sink.add('=');
    write(value.value, sink, e, depth + 1);
  } else if (value instanceof JavaOptional) {
    if (value.value === null) sink.add('Optional.empty');
    else writeAll('Optional[', [value.value], ']', sink, e, depth);
  } else {
    sink.add(kindName(value.kind));
  }
}

function writeAll(
  open: string,
  items: readonly Value[],
  close: string,
  sink: TextSink,
  e: Evaluation,
  depth: number,
): void {
  sink.add(open);
  items.forEach((item, index) => {
    e.step();
    if (index > 0) sink.add(', ');
    write(item, sink, e, depth + 1);
  });
  sink.add(close);
}
