import { zstdDecompressSync } from 'node:zlib';

/** Prepared statements by name, or why the header cannot be read. */
export type PreparedStatements =
  | { readonly statements: ReadonlyMap<string, string>; readonly errorMessage: null }
  | { readonly statements: null; readonly errorMessage: string };

const ZSTD_PREFIX = '$zstd:';
/** No prepared statement. */
const noPrepared: ReadonlyMap<string, string> = new Map();

/** A header that cannot be read; never leaves this file. */
class HeaderFailure extends Error {}

/**
 * Reads the header of prepared statements: lines and comma lists of `name=value`, both sides URL-encoded, the value
 * perhaps `$zstd:` and its zstd-compressed text in base64url (contract.md §9). Nothing is trimmed.
 * @param lines values of the header's lines
 * @param maxBytes largest decompressed statement
 */
export function preparedStatements(lines: readonly string[], maxBytes: number): PreparedStatements {
  if (lines.length === 0) return { statements: noPrepared, errorMessage: null };
  const statements = new Map<string, string>();
  try {
    for (const line of lines) {
      for (const pair of splitDroppingEmptyTail(line, ',')) {
        const parts = splitDroppingEmptyTail(pair, '=');
        if (parts.length !== 2) {
          throw new HeaderFailure(`preparedStatement must be formatted as name=value, but is ${pair}`);
        }
        const [encodedName, encodedText] = parts as [string, string];
        const name = urlDecode(encodedName);
        if (statements.has(name)) throw new HeaderFailure(`preparedStatement has several statements named ${name}`);
        statements.set(name, urlDecode(decompressed(encodedText, maxBytes)));
      }
    }
  } catch (error) {
    if (error instanceof HeaderFailure) return { statements: null, errorMessage: error.message };
    throw error;
  }
  return { statements, errorMessage: null };
}

/** Parts between separators without the empty ones at the end, as Java's `String.split`; the empty text is one part. */
function splitDroppingEmptyTail(text: string, separator: string): readonly string[] {
  const parts = text.split(separator);
  if (parts.length === 1) return parts;
  while (parts.length > 0 && parts[parts.length - 1] === '') parts.pop();
  return parts;
}

function decompressed(text: string, maxBytes: number): string {
  if (!text.startsWith(ZSTD_PREFIX)) return text;
  const encoded = text.slice(ZSTD_PREFIX.length);
  if (!/^[A-Za-z0-9_-]+=*$/.test(encoded)) throw new HeaderFailure('preparedStatement is no base64url after $zstd:');
  try {
    return zstdDecompressSync(Buffer.from(encoded, 'base64url'), { maxOutputLength: maxBytes }).toString('utf8');
  } catch (error) {
    const tooLarge = (error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE';
    throw new HeaderFailure(
      tooLarge
        ? `preparedStatement is longer than ${maxBytes} bytes when decompressed`
        : 'preparedStatement cannot be decompressed as zstd',
    );
  }
}

const utf8 = new TextDecoder();

/** Decodes `application/x-www-form-urlencoded` text; wrong UTF-8 becomes U+FFFD, a wrong escape is an error. */
function urlDecode(text: string): string {
  const plain = text.replaceAll('+', ' ');
  if (!plain.includes('%')) return plain;
  return plain.replace(/(?:%[^%]?[^%]?)+/g, (run) => decodeEscapes(run));
}

/** Decodes escapes; each is `%` and two hexadecimal digits. */
function decodeEscapes(run: string): string {
  const bytes: number[] = [];
  for (let at = 0; at < run.length; at += 3) {
    const digits = run.slice(at + 1, at + 3);
    if (run[at] !== '%' || !/^[0-9a-fA-F]{2}$/.test(digits)) {
      throw new HeaderFailure(`preparedStatement has a wrong URL escape: ${run.slice(at, at + 3)}`);
    }
    bytes.push(Number.parseInt(digits, 16));
  }
  return utf8.decode(new Uint8Array(bytes));
}
