/**
 * Value of the first cookie with a name in Cookie headers (RFC 6265 §4.2), without quotes.
 * @param name the name, or a test of names
 * @returns null if missing
 */
export function cookieValue(lines: readonly string[], name: string | ((cookie: string) => boolean)): string | null {
  const isMeant = typeof name === 'string' ? (cookie: string) => cookie === name : name;
  for (const line of lines) {
    // A client may send hundreds of thousands of pairs: most lines are skipped, and none is split to a list.
    if (typeof name === 'string' && !line.includes(name)) continue;
    for (let start = 0, end = 0; start < line.length; start = end + 1) {
      const semicolon = line.indexOf(';', start);
      end = semicolon < 0 ? line.length : semicolon;
      const pair = line.slice(start, end);
      const equals = pair.indexOf('=');
      if (equals < 0 || !isMeant(pair.slice(0, equals).trim())) continue;
      const value = pair.slice(equals + 1).trim();
      return value.length > 1 && value.startsWith('"') && value.endsWith('"') ? value.slice(1, -1) : value;
    }
  }
  return null;
}
