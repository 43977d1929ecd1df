const PERCENT = 0x25;
const PLUS = 0x2b;
const SPACE = 0x20;

/**
 * Decodes `application/x-www-form-urlencoded` text as Java's `URLDecoder` does; invalid UTF-8 becomes U+FFFD. Linear in
 * the size of the text.
 * @param text only with valid escapes: `%` and two hexadecimal digits; other text is returned unchanged
 */
export function urlDecoded(text: string): string {
  if (!text.includes('%')) return text.includes('+') ? text.replaceAll('+', ' ') : text;
  const bytes = Buffer.from(text, 'utf8');
  let length = 0;
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at] as number;
    if (byte === PERCENT) {
      const value = (digit(bytes[at + 1]) << 4) | digit(bytes[at + 2]);
      if (value < 0) return text;
      bytes[length] = value;
      at += 2;
    } else bytes[length] = byte === PLUS ? SPACE : byte;
    length += 1;
  }
  return bytes.toString('utf8', 0, length);
}

/** Value of a hexadecimal digit; -1 for any other byte or undefined. */
function digit(byte: number | undefined): number {
  if (byte === undefined) return -1;
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  const lower = byte | 0x20;
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x57 : -1;
}
