/** Header lines as Node's `rawHeaders`: name, value, name, value, … in the order they came. */
export type RawHeaders = readonly string[];

/**
 * Values of a header's lines.
 * @param key name in lower case
 */
export function headerValues(headers: RawHeaders, key: string): readonly string[] {
  let values: string[] | null = null;
  for (let i = 0; i + 1 < headers.length; i += 2) {
    const name = headers[i] as string;
    if (name.length !== key.length || name.toLowerCase() !== key) continue;
    values ??= [];
    values.push(headers[i + 1] as string);
  }
  return values ?? noValues;
}
const noValues: readonly string[] = [];

/** Value of a header, that of several lines joined with commas; null when there is none. */
export function headerValue(headers: RawHeaders, key: string): string | null {
  let joined: string | null = null;
  for (let i = 0; i + 1 < headers.length; i += 2) {
    const name = headers[i] as string;
    if (name.length !== key.length || name.toLowerCase() !== key) continue;
    joined = joined === null ? (headers[i + 1] as string) : `${joined},${headers[i + 1]}`;
  }
  return joined;
}
