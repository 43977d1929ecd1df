/** Encodings that a body's text is read in; names as IANA registers them, with their aliases, in lower case. */
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

/** `charset` of a Content-Type in lower case; null when it declares none. */
function declaredCharset(contentType: string): string | null {
  if (!contentType.includes(';')) return null;
  // The engine takes the last of several; a quoted parameter can hold another one.
  if (contentType.split(/charset/i).length > 2) return 'ambiguous';
  const match = /;\s*charset\s*=\s*(?:"([^"]*)"|([^\s;]*))/i.exec(contentType);
  return match === null ? null : (match[1] ?? match[2] ?? '').trim().toLowerCase();
}

/**
 * Text of a body; null when its charset is none that is read here. Without a declared charset it is UTF-8. Bytes that
 * are wrong in the charset become U+FFFD. A text is given back as it is, if its declared charset is known.
 * @param contentType value of the header; null when there is none
 * @param utf8 the bytes as UTF-8, where they have been decoded already
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
