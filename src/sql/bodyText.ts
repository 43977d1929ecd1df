/** Character encodings of bodies by IANA name or alias, in lower case. */
const encodings: ReadonlyMap<string, 'utf8' | 'latin1' | 'ascii'> = new Map([
  ['utf-8', 'utf8'],
  ['utf8', 'utf8'],
  ['csutf8', 'utf8'],
  ['iso-8859-1', 'latin1'],
  ['iso8859-1', 'latin1'],
  ['iso_8859-1', 'latin1'],
  ['iso-ir-100', 'latin1'],
  ['latin1', 'latin1'],
  ['l1', 'latin1'],
  ['ibm819', 'latin1'],
  ['cp819', 'latin1'],
  ['us-ascii', 'ascii'],
  ['ascii', 'ascii'],
  ['us', 'ascii'],
  ['ansi_x3.4-1968', 'ascii'],
  ['iso646-us', 'ascii'],
  ['iso-ir-6', 'ascii'],
]);

/** Returns `charset` of a Content-Type in lower case; null if it is missing. */
function declaredCharset(contentType: string): string | null {
  if (!contentType.includes(';')) return null;
  // The engine takes the last of several; a quoted parameter can hold another one.
  if (contentType.split(/charset/i).length > 2) return 'ambiguous';
  const match = /;\s*charset\s*=\s*(?:"([^"]*)"|([^\s;]*))/i.exec(contentType);
  return match === null ? null : (match[1] ?? match[2] ?? '').trim().toLowerCase();
}

/**
 * Returns the text of a body; null if its charset is not supported. The default charset is UTF-8. Bytes that are
 * invalid in the charset become U+FFFD. A text with a known charset is returned unchanged.
 * @param contentType value of the header; null if missing
 * @param utf8 the bytes as UTF-8, if they are already decoded
 */
export function bodyText(body: string | Uint8Array, contentType: string | null, utf8?: string): string | null {
  const charset = contentType === null ? null : declaredCharset(contentType);
  const encoding = charset === null ? 'utf8' : encodings.get(charset);
  if (encoding === undefined) return null;
  if (typeof body === 'string') return body;
  if (encoding === 'utf8' && utf8 !== undefined) return utf8;
  const bytes = Buffer.isBuffer(body) ? body : Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  if (encoding === 'utf8') return bytes.toString('utf8');
  const text = bytes.toString('latin1');
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the range of ASCII.
  return encoding === 'latin1' ? text : text.replace(/[^\x00-\x7f]/g, '\ufffd');
}
