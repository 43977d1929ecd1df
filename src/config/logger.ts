import {
  type Bindings,
  type ChildLoggerOptions,
  type DestinationStream,
  type Logger,
  pino,
  stdSerializers,
  stdTimeFunctions,
} from 'pino';
import { MASK, maskUrls } from './secrets.ts';

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
