/** Header lines as Node's `rawHeaders`: name, value, name, value, … in order of arrival. */
export type RawHeaders = readonly string[];

/**
 * True if a header line has the given name, ignoring case (RFC 9110 §5.1). Compares lengths first, and creates no
 * lower-case text: a request has about ten lines, and a dozen headers are looked up in it.
 * @param key name in lower case
 */
export function isHeader(name: string, key: string): boolean {
  if (name.length !== key.length) return false;
  for (let index = name.length - 1; index >= 0; index -= 1) {
    const unit = name.charCodeAt(index);
    const expected = key.charCodeAt(index);
    if (unit !== expected && (unit < 65 || unit > 90 || unit + 32 !== expected)) return false;
  }
  return true;
}

/**
 * Value of a header's first line. `request.headers` has the first, the last or all joined, depending on the name.
 * @param key name in lower case
 */
export function firstHeader(headers: RawHeaders, key: string): string | undefined {
  for (let index = 0; index < headers.length; index += 2) {
    if (isHeader(headers[index] as string, key)) return headers[index + 1];
  }
  return undefined;
}

/**
 * Values of a header's lines.
 * @param key name in lower case
 */
export function headerValues(headers: RawHeaders, key: string): readonly string[] {
  let values: string[] | null = null;
  for (let index = 0; index + 1 < headers.length; index += 2) {
    if (!isHeader(headers[index] as string, key)) continue;
    values ??= [];
    values.push(headers[index + 1] as string);
  }
  return values ?? noValues;
}
const noValues: readonly string[] = [];

/** Value of a header, of several lines joined with commas; null if missing. */
export function headerValue(headers: RawHeaders, key: string): string | null {
  let joined: string | null = null;
  for (let index = 0; index + 1 < headers.length; index += 2) {
    if (!isHeader(headers[index] as string, key)) continue;
    joined = joined === null ? (headers[index + 1] as string) : `${joined},${headers[index + 1]}`;
  }
  return joined;
}
