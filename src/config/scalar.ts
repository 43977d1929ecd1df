import { type FieldSchema, isSlip, nearest } from './fields.ts';
import { formatChecks } from './formats.ts';
import { formatDuration, formatSize, parseDuration, parseSize } from './units.ts';

/** A value read from text, with what to note about how it is written; or what is wrong with the text. */
export type ScalarResult =
  | { readonly value: string | number | boolean | null; readonly note?: string }
  | { readonly wrong: string };

/** Reads one scalar's text by its key's schema; quoted or not makes no difference. */
export function readScalar(schema: FieldSchema, text: string): ScalarResult {
  switch (schema.kind) {
    case 'flag':
      return readFlag(schema, text);
    case 'integer':
      return readInteger(schema, text);
    case 'number':
      return readDecimal(schema, text);
    case 'duration':
      return bounded(schema, parseDuration(text), formatDuration);
    case 'size':
      return bounded(schema, parseSize(text), formatSize);
    case 'choice':
      return readChoice(schema, text);
    default:
      return readText(schema, text);
  }
}

function readText(schema: FieldSchema, text: string): ScalarResult {
  const wrong = schema.format === undefined ? null : formatChecks[schema.format](text);
  return wrong === null ? { value: text } : { wrong };
}

/** A value that Trino Gateway reads from a text in another form than its own. */
function readAs<T extends string | number | boolean>(value: T): { readonly value: T; readonly note: string } {
  return { value, note: `is read as ${value}, as in Trino Gateway; write ${value}` };
}

/** Words that mean a truth value; those of YAML 1.1 Trino Gateway reads too, and whole numbers, where 0 alone is false. */
const flags: Readonly<Record<string, boolean>> = { true: true, false: false };
const otherFlags: Readonly<Record<string, boolean>> = { yes: true, on: true, no: false, off: false };

function readFlag(schema: FieldSchema, text: string): ScalarResult {
  const word = text.toLowerCase();
  for (const words of [flags, schema.words ?? {}]) {
    if (Object.hasOwn(words, word)) return { value: words[word] as boolean };
  }
  if (/^[+-]?\d+$/.test(word)) return readAs(Number(word) !== 0);
  if (Object.hasOwn(otherFlags, word)) return readAs(otherFlags[word] as boolean);
  return { wrong: `must be true or false, not "${text}"` };
}

function readNumber(text: string, form: RegExp, noun: string): { readonly value: number } | { readonly wrong: string } {
  const value = form.test(text) ? Number(text.replaceAll('_', '')) : Number.NaN;
  return Number.isFinite(value) ? { value } : { wrong: `must be ${noun}, not "${text}"` };
}

function readInteger(schema: FieldSchema, text: string): ScalarResult {
  const isFraction = /^[+-]?\d+\.\d+$/.test(text);
  const digits = isFraction ? String(Math.trunc(Number(text))) : text;
  const result = bounded(schema, readNumber(digits, /^[+-]?\d[\d_]*$/, 'a whole number'), String);
  return isFraction && 'value' in result ? { ...result, note: readAs(digits).note } : result;
}

/** Numbers that are none, as Java writes them. */
const unusualNumbers: ReadonlyMap<string, number> = new Map([
  ['NaN', Number.NaN],
  ...['Infinity', 'INF', '+INF'].map((text) => [text, Number.POSITIVE_INFINITY] as const),
  ...['-Infinity', '-INF'].map((text) => [text, Number.NEGATIVE_INFINITY] as const),
]);

function readDecimal(schema: FieldSchema, text: string): ScalarResult {
  const unusual = schema.isBound === true ? unusualNumbers.get(text) : undefined;
  if (unusual !== undefined) {
    const meaning = Number.isNaN(unusual)
      ? 'is compared with nothing, as in Trino Gateway: the metric must only be there; leave it out, or write a number'
      : 'is no bound that a metric reaches; leave it out, or write a number';
    return { value: unusual, note: meaning };
  }
  const form = /^[+-]?(\d[\d_]*\.?\d*|\.\d+)([eE][+-]?\d+)?$/;
  return bounded(schema, readNumber(text, form, 'a number'), String);
}

function bounded(
  schema: FieldSchema,
  result: { readonly value: number } | { readonly wrong: string },
  format: (value: number) => string,
): ScalarResult {
  if ('wrong' in result) return result;
  const [minimum, maximum] = schema.range ?? [];
  if (minimum !== undefined && result.value < minimum) {
    return { wrong: `must be at least ${format(minimum)}, not ${format(result.value)}` };
  }
  if (maximum !== undefined && result.value > maximum) {
    return { wrong: `must be at most ${format(maximum)}, not ${format(result.value)}` };
  }
  return result;
}

function readChoice(schema: FieldSchema, text: string): ScalarResult {
  const values = schema.enum ?? [];
  if (values.includes(text)) return { value: text };
  // YAML 1.1, which Helm reads and writes, takes an unquoted off for false.
  if (text === 'false' && values.includes('off')) return { value: 'off' };
  const ordinal = /^\d{1,3}$/.test(text) ? schema.ordinals?.[Number(text)] : undefined;
  if (ordinal !== undefined) return readAs(ordinal);
  if (schema.others !== undefined) {
    return { value: null, note: `is none of ${values.join(', ')}, and so without effect: ${schema.others}` };
  }
  const near = nearest(text, values);
  const hint = near !== null && isSlip(text, near) ? `; did you mean ${near}?` : '';
  return { wrong: `must be one of ${values.join(', ')}, not "${text}"${hint}` };
}
