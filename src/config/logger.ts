import { writeSync } from 'node:fs';
import {
  type Bindings,
  type ChildLoggerOptions,
  type DestinationStream,
  type Logger,
  pino,
  stdSerializers,
  stdTimeFunctions,
} from 'pino';

export type LogLevel = 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal';

/** Fields whose values are secrets, wherever they are logged; headers among them. */
const secretField =
  /^(.*[-_.])?(authorization|cookie|set-cookie|cookies|credentials?|extra-credential)$|password|passwd|secret|token|private_?key|api_?key/i;

/** Nesting to which fields are looked at; below it a value is replaced as a whole. */
const DEPTH = 8;

/**
 * Makes the program's log: JSON lines with level names and ISO times. The values of fields that hold secrets
 * (authorization, cookie, password, secret, token …) are masked in this one place, at any depth, in bindings of
 * children and in errors as well; so are passwords in URLs. Setting its level sets that of every child.
 */
export function createLogger(given: { readonly level: LogLevel; readonly destination: DestinationStream }): Logger {
  const options = {
    level: given.level,
    base: null,
    timestamp: stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }), log: masked },
    // Errors are plain objects by then.
    serializers: { err: (error: unknown) => error },
  };
  const logger: Logger = pino(options, given.destination);
  writeWhole(logger);
  maskChildren(logger);
  return logger;
}

/** Masks the bindings of children. They inherit this `child` from the root, as their own children do. */
function maskChildren(root: Logger): void {
  type MakeChild = (this: Logger, bindings: Bindings, options?: ChildLoggerOptions) => Logger;
  const makeChild = root.child as unknown as MakeChild;
  root.child = function child(this: Logger, bindings: Bindings, options?: ChildLoggerOptions) {
    return makeChild.call(this, masked(bindings), options);
  } as unknown as typeof root.child;
}

/** Internals of pino's loggers that create a line. */
interface PinoInternals {
  [pino.symbols.asJsonSym](fields: Record<string, unknown>, message: unknown, level: number, time: string): string;
  /** Start of a line by number of its level. */
  readonly [pino.symbols.lsCacheSym]: Readonly<Record<number, string>>;
  /** Bindings of a child as they stand in its lines. */
  readonly [pino.symbols.chindingsSym]: string;
}

/**
 * Makes lines of the same form as pino, but of all fields at once: each query has a line, and putting it together field
 * by field costs more than deciding where the query goes. Children inherit it.
 */
function writeWhole(logger: Logger): void {
  const parts = logger as unknown as PinoInternals;
  const byField = parts[pino.symbols.asJsonSym];
  parts[pino.symbols.asJsonSym] = function whole(this: PinoInternals, fields, message, level, time) {
    let text: string;
    try {
      text = JSON.stringify(masked(fields));
    } catch {
      // A value without JSON form, such as a BigInt: pino formats it.
      return byField.call(this, fields, message, level, time);
    }
    const own = text.length > '{}'.length ? `,${text.slice(1, -1)}` : '';
    const last = message === undefined ? '' : `,"msg":${JSON.stringify(message)}`;
    return `${this[pino.symbols.lsCacheSym][level]}${time}${this[pino.symbols.chindingsSym]}${own}${last}}\n`;
  };
}

/** Most lines hold no secret: they are not copied. */
function masked(fields: Record<string, unknown>): Record<string, unknown> {
  let result: Record<string, unknown> | null = null;
  for (const name of Object.keys(fields)) {
    const value = fields[name];
    const maskedValue = maskedField(name, value, DEPTH);
    if (maskedValue === value) continue;
    result ??= { ...fields };
    result[name] = maskedValue;
  }
  return result ?? fields;
}

function maskedField(name: string, value: unknown, depth: number): unknown {
  if (value === null || value === undefined || typeof value === 'boolean') return value;
  return isSecretField(name) ? MASK : maskedValue(value, depth);
}

/** True if fields of a name are secret: the same few names come with every line. */
const secretNames = new Map<string, boolean>();

function isSecretField(name: string): boolean {
  const cached = secretNames.get(name);
  const isSecret = cached ?? secretField.test(name);
  // Names made of data, such as those of headers, must not fill the memory.
  if (cached === undefined && secretNames.size < 2000) secretNames.set(name, isSecret);
  return isSecret;
}

function maskedValue(value: unknown, depth: number): unknown {
  if (typeof value === 'string') return maskUrls(value);
  if (typeof value !== 'object' || value === null) return value;
  if (depth === 0) return '[…]';
  if (value instanceof Error) return maskedValue(plainError(value), depth - 1);
  if (Array.isArray(value)) return value.map((item) => maskedValue(item, depth - 1));
  if (value instanceof Map) return maskedValue(Object.fromEntries(value), depth);
  if (value instanceof Set) return maskedValue([...value], depth);
  // Objects with a form of their own in JSON (dates, URLs) keep it.
  if ('toJSON' in value && typeof value.toJSON === 'function') return maskedValue(value.toJSON(), depth - 1);
  const result: Record<string, unknown> = {};
  for (const [name, inner] of Object.entries(value)) result[name] = maskedField(name, inner, depth - 1);
  return result;
}

/** An error's type, message, stack and own fields: libraries hang requests with their headers on errors. */
function plainError(error: Error): Record<string, unknown> {
  return { ...(stdSerializers.err(error) as unknown as Record<string, unknown>) };
}

/** Bytes that wait for a reader that has stalled. */
const MAX_WAITING = 64 * 1024 ** 2;
/** Characters that are written without waiting for more. */
const PORTION = 64 * 1024;
/** Time that a line waits for others at most, milliseconds. */
const PORTION_WAIT_MS = 15;
/** Time until what a reader did not take is tried again; doubled up to the longest while it takes nothing. Milliseconds. */
const MIN_PAUSE_MS = 1;
const MAX_PAUSE_MS = 20;
/** Time that the end of the process waits for a reader that takes nothing. */
const PATIENCE_MS = 10_000;

/** Nothing wakes who waits for it before the time. */
const pause = new Int32Array(new SharedArrayBuffer(4));

/**
 * Standard output for the log. Lines of up to 15 ms are written together: under load a call of the system for each
 * costs more than the lines themselves. A reader that stalls stops nothing: beyond `maxWaiting` lines are lost, and a
 * line states how many once it reads again.
 * @param maxWaiting bytes
 */
export function logOutput(maxWaiting = MAX_WAITING): LogOutput {
  return new LogOutput(maxWaiting);
}

/**
 * Lines on their way to standard output, in order. They are written by this thread, never by another one: what is on its
 * way there when the process ends is lost. A pipe that is full takes nothing, and does not keep the thread waiting.
 */
class LogOutput implements DestinationStream {
  // Read from the stream, whose making has a pipe not block.
  readonly #descriptor = process.stdout.fd ?? 1;
  readonly #maxWaiting: number;
  /** Lines of the last milliseconds. */
  #portion = '';
  #isEnding = false;
  /** Unread output; of the first buffer `#written` bytes are written. */
  #waiting: Buffer[] = [];
  #written = 0;
  #bytes = 0;
  #lost = 0;
  #timer: NodeJS.Timeout | null = null;
  #pauseMs = MIN_PAUSE_MS;

  constructor(maxWaiting: number) {
    this.#maxWaiting = maxWaiting;
    process.once('exit', () => {
      this.#isEnding = true;
      this.flushSync();
    });
  }

  write(line: string): void {
    if (this.#portion.length + line.length > PORTION) this.#pass();
    this.#portion += line;
    if (this.#isEnding) this.flushSync();
    else this.#passIn(PORTION_WAIT_MS);
  }

  /** Writes immediately what has not been written; for a few seconds at most where the reader takes nothing. */
  flushSync(): void {
    this.#pass();
    let patience = PATIENCE_MS;
    while (!this.#tryWrite() && patience > 0) {
      patience = this.#pauseMs === MIN_PAUSE_MS ? PATIENCE_MS : patience - this.#pauseMs;
      Atomics.wait(pause, 0, 0, this.#pauseMs);
    }
  }

  /** Lines that wait do not keep the process alive: they are written at its end. */
  #passIn(delayMs: number): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = null;
      this.#pass();
    }, delayMs).unref();
  }

  /** Writes the portion, or has it wait; lines beyond the bound are lost. */
  #pass(): void {
    const bytes = Buffer.from(this.#portion);
    this.#portion = '';
    if (this.#bytes + bytes.length > this.#maxWaiting) this.#lost += countOf(bytes);
    else if (bytes.length > 0) {
      this.#waiting.push(bytes);
      this.#bytes += bytes.length;
    }
    if (!this.#tryWrite()) this.#passIn(this.#pauseMs);
  }

  /** Writes what the reader takes now, and sets the pause until the next try; false when something is left. */
  #tryWrite(): boolean {
    const before = this.#bytes;
    const isDone = this.#writeTaken();
    const isTaken = isDone || this.#bytes < before;
    this.#pauseMs = isTaken ? MIN_PAUSE_MS : Math.min(MAX_PAUSE_MS, this.#pauseMs * 2);
    return isDone;
  }

  #writeTaken(): boolean {
    for (;;) {
      const [first] = this.#waiting;
      if (first === undefined) {
        if (this.#lost === 0) return true;
        const line = lossLine(this.#lost);
        this.#waiting.push(line);
        this.#bytes += line.length;
        this.#lost = 0;
        continue;
      }
      try {
        const count = writeSync(this.#descriptor, first, this.#written);
        this.#written += count;
        this.#bytes -= count;
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'EAGAIN') return false;
        // There is no reader any more, or no space: the lines are lost, and the program continues.
        for (const bytes of this.#waiting) this.#lost += countOf(bytes);
        this.#waiting = [];
        this.#written = 0;
        this.#bytes = 0;
        return true;
      }
      if (this.#written < first.length) continue;
      this.#waiting.shift();
      this.#written = 0;
    }
  }
}

function lossLine(lost: number): Buffer {
  const msg = 'nobody read the log: lines are missing';
  return Buffer.from(`${JSON.stringify({ level: 'warn', time: new Date().toISOString(), lost, msg })}\n`);
}

function countOf(bytes: Buffer): number {
  let count = 0;
  for (let at = bytes.indexOf(10); at >= 0; at = bytes.indexOf(10, at + 1)) count += 1;
  return count;
}

/** Placeholder of secrets in displayed configuration. */
export const MASK = '***';

/**
 * A text whose URLs show neither user info nor values of their query: `https://***@host/path?key=***`. JDBC URLs are
 * masked in each of their forms: `?key=value`, `;key=value`, `(key=value)` and `jdbc:family:user/password@host`.
 * Linear in the length of the text.
 */
export function maskUrls(text: string): string {
  if (!(text.includes('://') || text.includes('jdbc:')) || !/[@?;#=]/.test(text)) return text;
  return text.replace(/\S+/g, (word) => (word.includes('://') || word.includes('jdbc:') ? maskedUrl(word) : word));
}

function maskedUrl(word: string): string {
  const slashes = word.indexOf('://');
  const start = slashes >= 0 ? slashes + 3 : word.lastIndexOf(':', upTo(word, /[@?;]/)) + 1;
  const rest = word.slice(start);
  const end = upTo(rest, /[?#;]/);
  const head = rest.slice(0, end);
  const user = slashes >= 0 ? maskedUser(head) : maskedTo(head, head.lastIndexOf('@'));
  return word.slice(0, start) + maskedProperties(user) + maskedQuery(rest.slice(end));
}

/** User info ends at the last "@" of the authority; a "/" in a password makes a port that is not a number. */
function maskedUser(head: string): string {
  const authority = head.slice(0, upTo(head, /\//));
  const isWhole = /^[^:@]*(:\d*)?$|^\[[^\]]*\](:\d*)?$/.test(authority);
  return maskedTo(head, (authority.includes('@') || isWhole ? authority : head).lastIndexOf('@'));
}

function maskedTo(text: string, end: number): string {
  return end < 0 ? text : `${MASK}${text.slice(end)}`;
}

/** Hosts of MySQL's drivers may hold properties: `address=(host=h)(password=p)`. */
function maskedProperties(head: string): string {
  return head.includes('(') ? head.replace(/([(,][^=(),]*=)[^(),]*/g, `$1${MASK}`) : head;
}

/** Query (`?a=b&c=d`), properties (`;a=b;c=d`) and fragment; of a fragment only what has the form of a query. */
function maskedQuery(tail: string): string {
  const separators = tail.startsWith(';') ? /([;?&#])/ : /([?&#])/;
  let before = '';
  return tail
    .split(separators)
    .map((part, index) => {
      if (index % 2 === 1) {
        before = part;
        return part;
      }
      const equals = part.indexOf('=');
      if (equals >= 0) return `${part.slice(0, equals)}=${MASK}`;
      return part === '' || before === '#' ? part : MASK;
    })
    .join('');
}

function upTo(text: string, ends: RegExp): number {
  const end = text.search(ends);
  return end < 0 ? text.length : end;
}
