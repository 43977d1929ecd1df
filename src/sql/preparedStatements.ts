import { constants, zstdDecompressSync } from 'node:zlib';
import { urlDecoded } from './urlEncoding.ts';

/** The text of a prepared statement, or the error of its header; undefined for an unknown name. */
export type PreparedText = string | { readonly errorMessage: string } | undefined;

/** Prepared statements by name; names are case-sensitive. A map of texts is one. */
export interface PreparedTexts {
  get(name: string): PreparedText;
}

/** Prepared statements of a request, or the error of their header: with statements if a name is only repeated. */
export type PreparedStatements =
  | { readonly statements: PreparedTexts; readonly errorMessage: string | null }
  | { readonly statements: null; readonly errorMessage: string };

export const MAX_PREPARED_STATEMENTS = 1_000;

const ZSTD_PREFIX = '$zstd:';
/** Maximum length of a header part that an error repeats. */
const SHOWN_PAIR = 100;
/** Smallest value of the decoder's window limit: clients' compressors use windows of up to 8 MB (RFC 8878 §3.1.1.1.2). */
const MIN_WINDOW_LOG = 23;
/** `%` without two hexadecimal digits after it. */
const wrongEscape = /%(?![0-9a-fA-F]{2})/;

const none: PreparedStatements = { statements: new Map(), errorMessage: null };

/** A header that cannot be read; never leaves this file. */
class HeaderFailure extends Error {}

/**
 * Indexes the headers of prepared statements as the engine reads them: lines and comma lists of `name=value`, trimmed,
 * both sides URL-encoded. The value is optionally `$zstd:` and its zstd-compressed text in base64url
 * (docs/sql-analysis.md). The last of equal names counts. Only names are decoded here; a value is decoded when the
 * statement is looked up. The cost is linear in the size of the headers.
 * @param lines values of the header's lines
 * @param maxBytes maximum size of all decoded names and values of the request
 */
export function preparedStatements(lines: readonly string[], maxBytes: number): PreparedStatements {
  if (lines.length === 0) return none;
  return orFailure(
    () => {
      const statements = new EncodedStatements(maxBytes);
      for (const line of lines) statements.addLine(line);
      return { statements, errorMessage: statements.errorMessage };
    },
    (errorMessage) => ({ statements: null, errorMessage }),
  );
}

function orFailure<T, F>(work: () => T, failed: (message: string) => F): T | F {
  try {
    return work();
  } catch (error) {
    if (error instanceof HeaderFailure) return failed(error.message);
    throw error;
  }
}

interface EncodedStatement {
  readonly encodedName: string;
  readonly value: string;
}

/** Encoded statements of one request, with the remaining byte limit for decoding. */
class EncodedStatements implements PreparedTexts {
  errorMessage: string | null = null;
  readonly #encoded = new Map<string, EncodedStatement>();
  readonly #maxBytes: number;
  #remaining: number;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
    this.#remaining = maxBytes;
  }

  /** Adds a comma list; empty parts are ignored. */
  addLine(line: string): void {
    for (const part of line.split(',')) {
      const pair = trimmed(part);
      if (pair !== '') this.#addPair(pair);
    }
  }

  get(name: string): PreparedText {
    return orFailure(
      () => this.#text(name),
      (errorMessage) => ({ errorMessage }),
    );
  }

  #text(name: string): string | undefined {
    const encoded = this.#encoded.get(name)?.value;
    if (encoded === undefined) return undefined;
    this.#spend(encoded.length);
    const decoded = urlDecoded(encoded);
    if (!decoded.startsWith(ZSTD_PREFIX)) return decoded;
    const bytes = this.#decompressed(decoded.slice(ZSTD_PREFIX.length));
    this.#spend(bytes.length);
    return bytes.toString('utf8');
  }

  #addPair(pair: string): void {
    const at = pair.indexOf('=');
    if (at < 0 || at === pair.length - 1 || pair.includes('=', at + 1)) {
      throw new HeaderFailure(`preparedStatement must be formatted as name=value, but is ${shortened(pair)}`);
    }
    const wrong = wrongEscape.exec(pair);
    if (wrong !== null) {
      throw new HeaderFailure(`preparedStatement has a wrong URL escape: ${pair.slice(wrong.index, wrong.index + 3)}`);
    }
    const encodedName = trimmed(pair.slice(0, at));
    this.#spend(at);
    const name = urlDecoded(encodedName);
    const before = this.#encoded.get(name);
    if (before !== undefined) {
      const message = `preparedStatement has several statements named ${shortened(name)}`;
      // The engine takes the last one, unless the names are encoded differently.
      if (before.encodedName !== encodedName) throw new HeaderFailure(message);
      this.errorMessage ??= message;
    } else if (this.#encoded.size >= MAX_PREPARED_STATEMENTS) {
      throw new HeaderFailure(`preparedStatement has more than ${MAX_PREPARED_STATEMENTS} statements`);
    }
    this.#encoded.set(name, { encodedName, value: trimmed(pair.slice(at + 1)) });
  }

  #decompressed(encoded: string): Buffer {
    if (!/^[A-Za-z0-9_-]+=*$/.test(encoded)) throw new HeaderFailure('preparedStatement is not base64url after $zstd:');
    try {
      return zstdDecompressSync(Buffer.from(encoded, 'base64url'), {
        maxOutputLength: Math.max(this.#remaining, 1),
        // The decoder reserves a window of the size that the text names.
        params: {
          [constants.ZSTD_d_windowLogMax]: Math.max(MIN_WINDOW_LOG, Math.ceil(Math.log2(this.#maxBytes))),
        },
      });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') this.#spend(Number.POSITIVE_INFINITY);
      throw new HeaderFailure('preparedStatement cannot be decompressed as zstd');
    }
  }

  #spend(bytes: number): void {
    this.#remaining -= bytes;
    if (this.#remaining >= 0) return;
    throw new HeaderFailure(`preparedStatement is longer than ${this.#maxBytes} bytes when decompressed`);
  }
}

/** Trims white space as the engine does. */
function trimmed(text: string): string {
  let start = 0;
  let end = text.length;
  while (start < end && isSpace(text.charCodeAt(start))) start += 1;
  while (end > start && isSpace(text.charCodeAt(end - 1))) end -= 1;
  return text.slice(start, end);
}

/** True for white space that a header can contain: ASCII white space, NEL and NBSP. */
function isSpace(unit: number): boolean {
  return unit === 0x20 || (unit >= 0x09 && unit <= 0x0d) || unit === 0x85 || unit === 0xa0;
}

function shortened(text: string): string {
  return text.length > SHOWN_PAIR ? `${text.slice(0, SHOWN_PAIR)}…` : text;
}
