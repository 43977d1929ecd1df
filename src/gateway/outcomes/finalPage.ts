/** Content of the last page of a query: figures of `stats`, and `error` (docs/protocol.md#outcomes). Null: missing. */
export interface FinalPage {
  readonly elapsedMillis: number | null;
  readonly queuedMillis: number | null;
  readonly cpuMillis: number | null;
  readonly processedRows: number | null;
  readonly processedBytes: number | null;
  readonly peakMemoryBytes: number | null;
  /** Null: the query succeeded. */
  readonly error: PageError | null;
}

/** The error of a page; its texts are as the cluster sent them, with a truncated message. */
export interface PageError {
  readonly name: string | null;
  readonly type: string | null;
  readonly code: number | null;
  readonly message: string | null;
}

/** Maximum size of a parsed string or number; messages are truncated to it. */
const MAX_TOKEN_BYTES = 8192;
/** Maximum number of scanned bytes of a page: the last page of an engine is short. */
const MAX_SCANNED_BYTES = 1_048_576;
/** Of a longer page the end is scanned: figures and error follow the rows. */
const TAIL_BYTES = 65_536;

/** Ends of longer strings are found by the native search, which has a setup cost. */
const NEAR_BYTES = 32;
const SHORT_TOKEN_BYTES = 64;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;

/** Scanned members of the page; only their scalar members are read. */
type Section = 'stats' | 'error';
type Value = string | number;

/**
 * Streaming scanner for the members of `stats` and `error` in a JSON object: nothing else is stored, so that rows,
 * segments of spooled results, stages and stack traces of any size cost no memory.
 */
class PageScanner {
  readonly values: Readonly<Record<Section, Map<string, Value>>> = { stats: new Map(), error: new Map() };
  isWhole = false;
  /** True if it has a member `error` that is an object. */
  hasError = false;
  #depth = 0;
  #isString = false;
  #isEscaped = false;
  #expectsKey = false;
  #section: Section | null = null;
  #key = '';
  #member = '';
  /** Bytes of the current string or number; null if it is skipped. */
  #token: number[] | null = null;

  push(bytes: Uint8Array): void {
    // Within a piece: start of the escape search, and position of the next escape.
    let nextEscape = -1;
    for (let at = 0; at < bytes.length && !this.isWhole; at++) {
      if (!this.#isString) {
        this.#structure(bytes[at] as number);
        continue;
      }
      if (this.#isEscaped) {
        this.#isEscaped = false;
        this.#take(bytes, at, at + 1);
        continue;
      }
      let end = at;
      const near = Math.min(bytes.length, at + NEAR_BYTES);
      while (end < near && bytes[end] !== QUOTE && bytes[end] !== BACKSLASH) end++;
      if (end === near && end < bytes.length) {
        if (nextEscape < end) nextEscape = positionOf(BACKSLASH, bytes, end);
        end = Math.min(nextEscape, positionOf(QUOTE, bytes, end));
      }
      this.#take(bytes, at, end);
      at = end;
      if (end === bytes.length) break;
      if (bytes[end] === QUOTE) {
        this.#isString = false;
        this.#endString();
      } else {
        this.#isEscaped = true;
        this.#take(bytes, end, end + 1);
      }
    }
  }

  /** Adds a part of a piece to the token, unless it is skipped. */
  #take(bytes: Uint8Array, start: number, end: number): void {
    const token = this.#token;
    if (token === null) return;
    const last = Math.min(end, bytes.length, start + MAX_TOKEN_BYTES - token.length);
    for (let at = start; at < last; at++) token.push(bytes[at] as number);
  }

  #structure(byte: number): void {
    switch (byte) {
      case QUOTE:
        this.#isString = true;
        this.#token = this.#isRead ? [] : null;
        return;
      case OPEN_OBJECT:
      case OPEN_ARRAY:
        this.#open(byte === OPEN_OBJECT);
        return;
      case CLOSE_OBJECT:
      case CLOSE_ARRAY:
        this.#endNumber();
        this.#depth -= 1;
        this.#expectsKey = false;
        if (this.#depth <= 1) this.#section = null;
        if (this.#depth <= 0) this.isWhole = true;
        return;
      case COMMA:
        this.#endNumber();
        this.#expectsKey = true;
        return;
      case COLON:
        this.#expectsKey = false;
        return;
      default:
        if (byte <= 0x20 || this.#depth !== 2 || this.#section === null || this.#expectsKey) return;
        this.#token ??= [];
        if (this.#token.length < MAX_TOKEN_BYTES) this.#token.push(byte);
    }
  }

  /** True for names of members of the page; names and values in a section. */
  get #isRead(): boolean {
    return this.#depth === 1 ? this.#expectsKey : this.#depth === 2 && this.#section !== null;
  }

  #open(isObject: boolean): void {
    this.#token = null;
    this.#depth += 1;
    this.#expectsKey = isObject;
    if (this.#depth !== 2) return;
    this.#section = isObject && (this.#key === 'stats' || this.#key === 'error') ? this.#key : null;
    if (this.#section === 'error') this.hasError = true;
  }

  #endString(): void {
    const token = this.#token;
    this.#token = null;
    if (token === null) return;
    const text = textOf(token);
    if (!this.#expectsKey) this.#keep(text);
    else if (this.#depth === 1) this.#key = text;
    else this.#member = text;
  }

  #endNumber(): void {
    const token = this.#token;
    this.#token = null;
    if (token === null || this.#depth !== 2) return;
    const number = Number(String.fromCharCode(...token.slice(0, 64)));
    if (Number.isFinite(number)) this.#keep(number);
  }

  #keep(value: Value): void {
    const section = this.#section;
    if (section !== null && wanted[section].has(this.#member)) this.values[section].set(this.#member, value);
  }
}

const wanted: Readonly<Record<Section, ReadonlySet<string>>> = {
  stats: new Set([
    ...['elapsedTimeMillis', 'queuedTimeMillis', 'cpuTimeMillis'],
    ...['processedRows', 'processedBytes', 'peakMemoryBytes'],
  ]),
  error: new Set(['message', 'errorCode', 'errorName', 'errorType']),
};

function isPlain(byte: number): boolean {
  return byte >= 0x20 && byte < 0x7f && byte !== BACKSLASH;
}

function positionOf(byte: number, bytes: Uint8Array, from: number): number {
  const position = bytes.indexOf(byte, from);
  return position < 0 ? bytes.length : position;
}

/** The text of a JSON string that may be truncated: omits an incomplete escape or character. */
function textOf(token: readonly number[]): string {
  // Nearly all are names: short, ASCII, without escapes.
  if (token.length <= SHORT_TOKEN_BYTES && token.every(isPlain)) return String.fromCharCode(...token);
  let text = Buffer.from(token).toString();
  const isCut = token.length >= MAX_TOKEN_BYTES;
  if (isCut) text = text.replace(/\ufffd$/, '');
  for (let tries = 0; tries < 7; tries++) {
    try {
      return JSON.parse(`"${text}"`) as string;
    } catch {
      if (!isCut) break;
      text = text.slice(0, -1);
    }
  }
  return '';
}

/** Reads the last page of a query on its way to the client, within a bound of memory and time. */
export class FinalPageReader {
  #scanner: PageScanner | null = new PageScanner();
  #scanned = 0;
  #tail: Buffer | null = null;
  #tailBytes = 0;

  /** Scans a decoded piece of the page without storing it. */
  push(bytes: Uint8Array): void {
    if (this.#scanner !== null && this.#scanned + bytes.length <= MAX_SCANNED_BYTES) {
      this.#scanned += bytes.length;
      this.#scanner.push(bytes);
      return;
    }
    this.#scanner = null;
    this.#keepTail(bytes);
  }

  /** Returns the page's content; null if it is incomplete and has no error at its start, or if it is too long. */
  end(): FinalPage | null {
    const scanner = this.#scanner ?? this.#ofTail();
    return scanner?.isWhole === true || scanner?.hasError === true ? pageOf(scanner) : null;
  }

  #keepTail(bytes: Uint8Array): void {
    this.#tail ??= Buffer.alloc(TAIL_BYTES);
    const end = bytes.length > TAIL_BYTES ? bytes.subarray(bytes.length - TAIL_BYTES) : bytes;
    const stays = Math.min(this.#tailBytes, TAIL_BYTES - end.length);
    this.#tail.copyWithin(0, this.#tailBytes - stays, this.#tailBytes);
    this.#tail.set(end, stays);
    this.#tailBytes = stays + end.length;
  }

  /** Scans figures and error, which follow the rows: the last members with these names. */
  #ofTail(): PageScanner | null {
    const tail = this.#tail?.subarray(0, this.#tailBytes);
    const start = tail?.lastIndexOf('"stats":{') ?? -1;
    if (tail === undefined || start < 0) return null;
    const scanner = new PageScanner();
    scanner.push(Buffer.from('{'));
    scanner.push(tail.subarray(start));
    return scanner;
  }
}

function pageOf({ values, hasError }: PageScanner): FinalPage {
  const { stats, error } = values;
  const number = (of: Map<string, Value>, name: string) => {
    const value = of.get(name);
    return typeof value === 'number' ? value : null;
  };
  const text = (name: string) => {
    const value = error.get(name);
    return typeof value === 'string' ? value : null;
  };
  return {
    elapsedMillis: number(stats, 'elapsedTimeMillis'),
    queuedMillis: number(stats, 'queuedTimeMillis'),
    cpuMillis: number(stats, 'cpuTimeMillis'),
    processedRows: number(stats, 'processedRows'),
    processedBytes: number(stats, 'processedBytes'),
    peakMemoryBytes: number(stats, 'peakMemoryBytes'),
    error: hasError
      ? { name: text('errorName'), type: text('errorType'), code: number(error, 'errorCode'), message: text('message') }
      : null,
  };
}
