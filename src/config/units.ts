import { durationUnits } from '../model/engineUnits.ts';

/** Bytes of one unit of a size; steps of 1024. */
const sizeUnits: Readonly<Record<string, number>> = { B: 1, kB: 1024, MB: 1024 ** 2, GB: 1024 ** 3 };

/** Other names of units, for hints. */
const otherNames: Readonly<Record<string, string>> = Object.fromEntries(
  Object.entries({
    ...{ s: 'sec secs second seconds', m: 'min mins minute minutes', h: 'hour hours hr', d: 'day days' },
    ...{ ms: 'msec millis', us: 'µs', B: 'b', kB: 'k K kb KB KiB', MB: 'M mb Mb MiB', GB: 'G g gb Gb GiB' },
  }).flatMap(([unit, names]) => names.split(' ').map((name) => [name, unit])),
);

export type UnitResult = { readonly value: number } | { readonly wrong: string };

/**
 * Reads a duration such as `30s` or `1.5h`.
 * @returns milliseconds; fractions stay for units below a millisecond
 */
export function parseDuration(text: string): UnitResult {
  return parse(text, durationUnits, 'duration', '30s', 's');
}

/**
 * Reads a size such as `16MB`.
 * @returns whole bytes
 */
export function parseSize(text: string): UnitResult {
  const result = parse(text, sizeUnits, 'size', '16MB', 'B');
  return 'value' in result ? { value: Math.round(result.value) } : result;
}

function parse(
  text: string,
  units: Readonly<Record<string, number>>,
  noun: string,
  example: string,
  likelyUnit: string,
): UnitResult {
  const match = /^\s*(\d+(?:\.\d+)?)\s*([\p{L}µ]*)\s*$/u.exec(text);
  const number = match?.[1];
  const unit = match?.[2];
  const unitNames = Object.keys(units).join(', ');
  if (number === undefined || unit === undefined) {
    return { wrong: `must be a ${noun} such as ${example} (units ${unitNames}), not "${text}"` };
  }
  if (unit === '') return { wrong: `needs a unit: write ${number}${likelyUnit} (units ${unitNames})` };
  const factor = Object.hasOwn(units, unit) ? units[unit] : undefined;
  if (factor === undefined) {
    const likely = Object.hasOwn(otherNames, unit) ? otherNames[unit] : undefined;
    const hint = likely !== undefined && Object.hasOwn(units, likely) ? `; write ${number}${likely}` : '';
    return { wrong: `has the unknown unit "${unit}" (units ${unitNames})${hint}` };
  }
  const value = Number(number) * factor;
  if (!Number.isFinite(value)) return { wrong: `is too large a ${noun}` };
  return { value };
}

/** Writes milliseconds as a duration in the largest unit that keeps it whole, e.g. `1m`, `1500ms`. */
export function formatDuration(milliseconds: number): string {
  return format(milliseconds, durationUnits, 'ms');
}

/** Writes bytes as a size in the largest unit that keeps it whole, e.g. `16MB`, `1500B`. */
export function formatSize(bytes: number): string {
  return format(bytes, sizeUnits, 'B');
}

function format(value: number, units: Readonly<Record<string, number>>, zeroUnit: string): string {
  if (value === 0) return `0${zeroUnit}`;
  const largestFirst = Object.entries(units).reverse();
  for (const [unit, factor] of largestFirst) {
    const count = value / factor;
    if (Number.isInteger(count) && count * factor === value && count < 1e21) return `${count}${unit}`;
  }
  // Below the smallest unit's precision: plain decimals, as the parser takes no exponent.
  const [smallest, factor] = largestFirst.at(-1) as [string, number];
  return `${(value / factor).toFixed(6).replace(/\.?0+$/, '')}${smallest}`;
}
