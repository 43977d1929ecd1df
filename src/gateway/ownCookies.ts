/**
 * A `Cookie` header's value without certain cookies (design.md, fixed point 13: the gateway's own go to nobody else).
 * @returns the remaining pairs; empty when none is left
 */
export function withoutCookies(value: string, names: ReadonlySet<string>): string {
  if (names.size === 0) return value;
  return value
    .split(';')
    .filter((pair) => !names.has(pair.slice(0, pair.indexOf('=') < 0 ? undefined : pair.indexOf('=')).trim()))
    .map((pair) => pair.trim())
    .filter((pair) => pair !== '')
    .join('; ');
}
