import type { FieldSchema } from './fields.ts';
import { formatChecks } from './formats.ts';
import { isSlip, nearest } from './nearest.ts';
import { formatDuration, formatSize, parseDuration, parseSize } from './units.ts';

/** A value read from text, or what is wrong with the text. */
export type ScalarResult = { readonly value: string | number | boolean } | { readonly wrong: string };

/** Reads one scalar's text by its key's schema; quoted or not makes no difference. */
export function readScalar(schema: FieldSchema, text: string): ScalarResult {
  switch (schema.kind) {
    case 'flag':
      return readFlag(schema, text);
    case 'integer':
      return bounded(schema, readNumber(text, /^[+-]?\d[\d_]*$/, 'a whole number'), String);
    case 'number':
      return bounded(schema, readNumber(text, /^[+-]?(\d[\d_]*\.?\d*|\.\d+)([eE][+-]?\d+)?$/, 'a number'), String);
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

/** Words of YAML 1.1 and of shells that mean a truth value elsewhere. */
const otherFlags: ReadonlyMap<string, string> = new Map([
  ['yes', 'true'],
  ['on', 'true'],
  ['1', 'true'],
  ['no', 'false'],
  ['off', 'false'],
  ['0', 'false'],
]);

function readFlag(schema: FieldSchema, text: string): ScalarResult {
  const word = text.toLowerCase();
  if (word === 'true' || word === 'false') return { value: word === 'true' };
  const value = Object.hasOwn(schema.words ?? {}, word) ? schema.words?.[word] : undefined;
  if (value !== undefined) return { value };
  const replacement = otherFlags.get(word);
  return { wrong: `must be true or false, not "${text}"${replacement === undefined ? '' : `; write ${replacement}`}` };
}

function readNumber(text: string, form: RegExp, noun: string): { readonly value: number } | { readonly wrong: string } {
  const value = form.test(text) ? Number(text.replaceAll('_', '')) : Number.NaN;
  return Number.isFinite(value) ? { value } : { wrong: `must be ${noun}, not "${text}"` };
}

function bounded(
  schema: FieldSchema,
  result: { readonly value: number } | { readonly wrong: string },
  format: (value: number) => string,
): ScalarResult {
  if ('wrong' in result) return result;
  const { minimum, maximum } = schema;
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
  const near = nearest(text, values);
  const hint = near !== null && isSlip(text, near) ? `; did you mean ${near}?` : '';
  return { wrong: `must be one of ${values.join(', ')}, not "${text}"${hint}` };
}
