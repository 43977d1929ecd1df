/** Start of the injected wall clock, milliseconds since the epoch. */
export const START = Date.UTC(2026, 0, 1);

/**
 * Replaces parts of a text that differ between two runs of one program: addresses, ports, times, durations, random ids.
 * @param names literal texts of the run, such as its folder, and their replacements
 */
export function scrub(text: string, names: Readonly<Record<string, string>> = {}): string {
  let result = text;
  for (const [name, replacement] of Object.entries(names)) result = result.replaceAll(name, replacement);
  return result
    .replace(/\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)?/g, 'TIME')
    .replace(/\b20\d\d-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?/g, 'TIME')
    .replace(/\b17[67]\d{10}\b/g, 'MILLIS')
    .replace(/\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/g, 'UUID')
    .replace(/\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} 20\d\d \d\d:\d\d:\d\d GMT/g, 'DATE')
    .replace(/(127\.0\.0\.1|localhost|\[::1\]):\d{2,5}/g, '$1:PORT')
    .replace(/\b\d+(?:\.\d+)? ?(?:ms|milliseconds)\b/g, 'N ms');
}

/**
 * Replaces values by their types, so that only the form of a JSON value is compared. An array becomes an object with the
 * form of its members under `[]`.
 */
export function shapeOf(value: unknown): unknown {
  if (value === null) return 'null';
  if (Array.isArray(value)) return value.length === 0 ? {} : { '[]': value.map(shapeOf).reduce(merge) };
  if (typeof value !== 'object') return typeof value;
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, shapeOf(member)]));
}

function merge(a: unknown, b: unknown): unknown {
  if (typeof a === 'string' && typeof b === 'string') {
    return [...new Set([...a.split('|'), ...b.split('|')])].sort().join('|');
  }
  if (!isObject(a) || !isObject(b)) return isObject(a) ? a : b;
  const keys = new Set([...Object.keys(a), ...Object.keys(b)]);
  const member = (key: string) => (key in a && key in b ? merge(a[key], b[key]) : (a[key] ?? b[key]));
  return Object.fromEntries([...keys].map((key) => [key, member(key)]));
}

/** True if a value is an object other than an array. */
export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
