import { isUtf8 } from 'node:buffer';
import { constants, zstdDecompressSync } from 'node:zlib';
import { urlDecoded, urlDecodedBytes } from './urlEncoding.ts';

/** The text of a prepared statement, or why the header does not hold one; undefined for a name that is not there. */
export type PreparedText = string | { readonly errorMessage: string } | undefined;

/** Prepared statements by name; names are case-sensitive. A map of texts is one. */
export interface PreparedTexts {
  get(name: string): PreparedText;
}

/** Prepared statements of a request, or why the header cannot be read. */
export type PreparedStatements =
  | { readonly statements: PreparedTexts; readonly errorMessage: null }
  | { readonly statements: null; readonly errorMessage: string };

/** Most statements in the headers of one request. */
export const MAX_PREPARED_STATEMENTS = 1_000;

const ZSTD_PREFIX = '$zstd:';
/** Longest part of a header that an error repeats. */
const SHOWN_PAIR = 100;
/** Smallest value of the decoder's window limit: clients' compressors use windows of up to 8 MB (RFC 8878 §3.1.1.1.2). */
const MIN_WINDOW_LOG = 23;
/** `%` that two hexadecimal digits do not follow. */
const wrongEscape = /%(?![0-9a-fA-F]{2})/;

const none: PreparedStatements = { statements: new Map(), errorMessage: null };

/** A header that cannot be read; never leaves this file. */
class HeaderFailure extends Error {}

/**
 * Indexes the headers of prepared statements: lines and comma lists of `name=value`, both sides URL-encoded, the value
 * optionally `$zstd:` and its zstd-compressed text in base64url (docs/sql-analysis.md). Nothing is trimmed. Only names are
 * decoded here; a value is decoded when the statement is looked up. The cost is linear in the size of the headers.
 * @param lines values of the header's lines
 * @param maxBytes most bytes that all decoded names and values of the request may have together
 */
export function preparedStatements(lines: readonly string[], maxBytes: number): PreparedStatements {
  if (lines.length === 0) return none;
  return orFailure(
    () => {
      const statements = new EncodedStatements(maxBytes);
      for (const line of lines) statements.addLine(line);
      return { statements, errorMessage: null };
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

/** Statements of one request, encoded; and how many bytes may still be decoded for it. */
class EncodedStatements implements PreparedTexts {
  readonly #encoded = new Map<string, string>();
  readonly #maxBytes: number;
  #remaining: number;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
    this.#remaining = maxBytes;
  }

  /** Adds a comma list; empty parts at its end are ignored, as by Java's `String.split`. */
  addLine(line: string): void {
    let end = line.length;
    while (end > 0 && line[end - 1] === ',') end -= 1;
    if (end === 0 && line !== '') return;
    for (let start = 0; ; ) {
      const comma = line.indexOf(',', start);
      const stop = comma < 0 || comma >= end ? end : comma;
      this.#addPair(line.slice(start, stop));
      if (stop === end) return;
      start = stop + 1;
    }
  }

  /** The text of a statement, decoded now. */
  get(name: string): PreparedText {
    return orFailure(
      () => this.#text(name),
      (errorMessage) => ({ errorMessage }),
    );
  }

  #text(name: string): string | undefined {
    const encoded = this.#encoded.get(name);
    if (encoded === undefined) return undefined;
    if (!encoded.startsWith(ZSTD_PREFIX)) {
      this.#spend(encoded.length);
      return urlDecoded(encoded);
    }
    const bytes = this.#decompressed(encoded.slice(ZSTD_PREFIX.length));
    this.#spend(bytes.length);
    // Bytes that are not UTF-8 become U+FFFD before escapes are decoded, so that both never form a character together.
    const text = urlDecodedBytes(isUtf8(bytes) ? bytes : Buffer.from(bytes.toString('utf8')));
    if (text === null) throw new HeaderFailure('preparedStatement has a wrong URL escape in its compressed text');
    return text;
  }

  #addPair(pair: string): void {
    let end = pair.length;
    while (end > 0 && pair[end - 1] === '=') end -= 1;
    const at = pair.indexOf('=');
    const isPair = at >= 0 && at < end && pair.lastIndexOf('=', end - 1) === at;
    if (!isPair)
      throw new HeaderFailure(`preparedStatement must be formatted as name=value, but is ${shortened(pair)}`);
    const value = pair.slice(at + 1, end);
    const wrong = wrongEscape.exec(pair);
    if (wrong !== null && (wrong.index < at || !value.startsWith(ZSTD_PREFIX))) {
      throw new HeaderFailure(`preparedStatement has a wrong URL escape: ${pair.slice(wrong.index, wrong.index + 3)}`);
    }
    if (this.#encoded.size >= MAX_PREPARED_STATEMENTS) {
      throw new HeaderFailure(`preparedStatement has more than ${MAX_PREPARED_STATEMENTS} statements`);
    }
    this.#spend(at);
    const name = urlDecoded(pair.slice(0, at));
    if (this.#encoded.has(name)) {
      throw new HeaderFailure(`preparedStatement has several statements named ${shortened(name)}`);
    }
    this.#encoded.set(name, value);
  }

  #decompressed(encoded: string): Buffer {
    if (!/^[A-Za-z0-9_-]+$/.test(encoded)) throw new HeaderFailure('preparedStatement is not base64url after $zstd:');
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

function shortened(text: string): string {
  return text.length > SHOWN_PAIR ? `${text.slice(0, SHOWN_PAIR)}…` : text;
}
