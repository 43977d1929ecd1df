import { type Evaluation, EvaluationError } from '../evaluation.ts';
import { describe } from '../values/describe.ts';
import { javaText } from '../values/text.ts';
import { hashOf, JavaChar, JavaDouble, JavaFloat, JavaLong, JavaSmallInt, type Value } from '../values/value.ts';

const SPECIFIER = /%(?:([0-9]{1,4})\$)?([-#+ 0,(]*)([0-9]{0,6})(?:\.([0-9]{1,4}))?([a-zA-Z%])/y;

interface Specifier {
  readonly flags: string;
  readonly width: number;
  readonly precision: number | null;
  readonly conversion: string;
}

/**
 * `String.format` (java.util.Formatter) with the conversions s S d x X o f e b B c h n %.
 * @throws EvaluationError for other conversions, missing arguments and arguments of another type
 */
export function format(pattern: string, args: readonly Value[], e: Evaluation): string {
  let next = 0;
  let output = '';
  let counted = 0;
  let offset = 0;
  while (offset < pattern.length) {
    const percent = pattern.indexOf('%', offset);
    if (percent < 0) {
      output += pattern.slice(offset);
      break;
    }
    output += pattern.slice(offset, percent);
    SPECIFIER.lastIndex = percent;
    const match = SPECIFIER.exec(pattern);
    if (match === null) throw new EvaluationError('String.format: a % is not followed by a known conversion');
    offset = SPECIFIER.lastIndex;
    const [, position, flags = '', width = '', precision, conversion = ''] = match;
    const specifier = {
      flags,
      width: Number(width),
      precision: precision === undefined ? null : Number(precision),
      conversion,
    };
    e.step();
    if (conversion === 'n') output += '\n';
    else if (conversion === '%') output += pad('%', specifier);
    else {
      const index = position === undefined ? next++ : Number(position) - 1;
      const value = args[index];
      if (value === undefined) throw new EvaluationError(`String.format: argument ${index + 1} is missing`);
      output += convert(specifier, value, e);
    }
    e.reserveText(output.length, output.length - counted);
    counted = output.length;
  }
  e.reserveText(output.length, output.length - counted);
  return output;
}

function convert(specifier: Specifier, value: Value, e: Evaluation): string {
  const { conversion, precision } = specifier;
  const lower = conversion.toLowerCase();
  const isUpper = conversion !== lower;
  const text = (): string => {
    switch (lower) {
      case 's':
        return cut(javaText(value, e), precision);
      case 'b':
        return cut(String(value === null ? false : typeof value === 'boolean' ? value : true), precision);
      case 'h':
        return value === null ? 'null' : (hashOf(value, e) >>> 0).toString(16);
      case 'c':
        return value === null ? 'null' : charText(value);
      default:
        return value === null ? 'null' : numberText(specifier, lower, value);
    }
  };
  const piece = pad(text(), specifier);
  return isUpper ? piece.toUpperCase() : piece;
}

function cut(text: string, precision: number | null): string {
  return precision === null ? text : text.slice(0, precision);
}

function charText(value: Value): string {
  if (value instanceof JavaChar) return value.text;
  if (typeof value === 'number' && value >= 0 && value <= 0x10ffff) return String.fromCodePoint(value);
  throw mismatch('c', value);
}

function mismatch(conversion: string, value: Value): EvaluationError {
  return new EvaluationError(`String.format: %${conversion} cannot print ${describe(value)}`);
}

function numberText(specifier: Specifier, conversion: string, value: Value): string {
  if (conversion === 'd' || conversion === 'x' || conversion === 'o') {
    const whole = wholeNumber(value);
    if (whole === null) throw mismatch(conversion, value);
    if (conversion === 'd')
      return signed(specifier, whole < 0n, grouped(specifier, String(whole < 0n ? -whole : whole)));
    const size = value instanceof JavaLong ? 64 : 32;
    const digits = BigInt.asUintN(size, whole).toString(conversion === 'x' ? 16 : 8);
    return zeroPad(specifier, digits, '');
  }
  if (conversion !== 'f' && conversion !== 'e') {
    throw new EvaluationError(`String.format: %${conversion} is not available`);
  }
  if (!(value instanceof JavaDouble || value instanceof JavaFloat)) throw mismatch(conversion, value);
  const number = value.value;
  if (!Number.isFinite(number)) return Number.isNaN(number) ? 'NaN' : number > 0 ? 'Infinity' : '-Infinity';
  const magnitude = Math.abs(number);
  const digits = Math.min(specifier.precision ?? 6, 100);
  const isNegative = number < 0 || Object.is(number, -0);
  if (conversion === 'f') return signed(specifier, isNegative, grouped(specifier, fixed(magnitude, digits)));
  const text = magnitude.toExponential(digits).replace(/e([+-])([0-9])$/, 'e$10$2');
  return signed(specifier, isNegative, text);
}

/** Java rounds half up where `toFixed` looks at the binary value; both agree but for exact decimal halves. */
function fixed(magnitude: number, digits: number): string {
  if (magnitude >= 1e21) return BigInt(magnitude).toString() + (digits > 0 ? `.${'0'.repeat(digits)}` : '');
  const shortest = String(magnitude);
  const [whole = '0', fraction = ''] = shortest.includes('e')
    ? magnitude.toFixed(Math.min(digits + 1, 100)).split('.')
    : shortest.split('.');
  if (fraction.length <= digits) return digits === 0 ? whole : `${whole}.${fraction.padEnd(digits, '0')}`;
  const scaled = BigInt(whole + fraction.slice(0, digits)) + (fraction.charAt(digits) >= '5' ? 1n : 0n);
  const text = scaled.toString().padStart(digits + 1, '0');
  return digits === 0 ? text : `${text.slice(0, -digits)}.${text.slice(-digits)}`;
}

function wholeNumber(value: Value): bigint | null {
  if (typeof value === 'number') return BigInt(value);
  if (value instanceof JavaLong) return value.value;
  return value instanceof JavaSmallInt ? BigInt(value.value) : null;
}

function grouped(specifier: Specifier, digits: string): string {
  if (!specifier.flags.includes(',')) return digits;
  const [whole = '', fraction] = digits.split('.');
  const withCommas = whole.replace(/\B(?=(?:[0-9]{3})+$)/g, ',');
  return fraction === undefined ? withCommas : `${withCommas}.${fraction}`;
}

function signed(specifier: Specifier, isNegative: boolean, digits: string): string {
  if (isNegative && specifier.flags.includes('(')) return `(${zeroPad(specifier, digits, '()').slice(0)})`;
  const sign = isNegative ? '-' : specifier.flags.includes('+') ? '+' : specifier.flags.includes(' ') ? ' ' : '';
  return sign + zeroPad(specifier, digits, sign);
}

function zeroPad(specifier: Specifier, digits: string, sign: string): string {
  if (!specifier.flags.includes('0')) return digits;
  return digits.padStart(Math.min(specifier.width, 100_000) - sign.length, '0');
}

function pad(text: string, specifier: Specifier): string {
  if (specifier.width > 100_000) throw new EvaluationError('String.format: a width of more than 100000');
  return specifier.flags.includes('-') ? text.padEnd(specifier.width) : text.padStart(specifier.width);
}
