import { CompileError } from '../language/source.ts';

/** Flags of a pattern, as they are at a place of it. */
export interface Flags {
  readonly ignoreCase: boolean;
  readonly dotAll: boolean;
  readonly comments: boolean;
  readonly unixLines: boolean;
}

const MAX_DEPTH = 50;

/** A place in a Java pattern, to go on from: what groups and classes have in common. */
export class PatternReader {
  protected readonly pattern: string;
  protected offset = 0;
  protected flags: Flags = { ignoreCase: false, dotAll: false, comments: false, unixLines: false };
  #depth = 0;

  constructor(pattern: string) {
    this.pattern = pattern;
  }

  protected error(message: string, offset = this.offset): CompileError {
    return new CompileError(`regular expression: ${message} at ${offset + 1}`, offset);
  }

  protected startsWith(text: string): boolean {
    return this.pattern.startsWith(text, this.offset);
  }

  protected accept(text: string): boolean {
    if (!this.startsWith(text)) return false;
    this.offset += text.length;
    return true;
  }

  protected next(): string {
    const code = this.pattern.codePointAt(this.offset);
    if (code === undefined) throw this.error('it ends too early');
    const char = String.fromCodePoint(code);
    this.offset += char.length;
    return char;
  }

  /** Reads a group or class, within the depth that is allowed. */
  protected nested<Result>(read: () => Result): Result {
    this.#depth += 1;
    if (this.#depth > MAX_DEPTH) throw this.error(`nested deeper than ${MAX_DEPTH}`);
    const result = read();
    this.#depth -= 1;
    return result;
  }

  /** White space and comments, which mean nothing while the flag `x` is set. */
  protected skipComment(): boolean {
    if (/^\s/.test(this.pattern.charAt(this.offset))) {
      this.offset += 1;
      return true;
    }
    if (!this.startsWith('#')) return false;
    const end = this.pattern.indexOf('\n', this.offset);
    this.offset = end < 0 ? this.pattern.length : end;
    return true;
  }

  /** The character of an escape that stands for one. */
  protected escapedChar(char: string, offset: number): string {
    const simple: Readonly<Record<string, string>> = { n: '\n', t: '\t', r: '\r', f: '\f', a: '\u0007', e: '\u001b' };
    if (Object.hasOwn(simple, char)) return simple[char] ?? char;
    if (char === 'x' || char === 'u') return this.#hexChar(char, offset);
    if (/[a-zA-Z0-9]/.test(char)) throw this.error(`\\${char} is not available`, offset);
    return char;
  }

  #hexChar(kind: string, offset: number): string {
    const rest = this.pattern.slice(this.offset, this.offset + 12);
    const digits = (kind === 'u' ? /^[0-9a-fA-F]{4}/ : /^(?:[0-9a-fA-F]{2}|\{[0-9a-fA-F]{1,6}\})/).exec(rest)?.[0];
    const code = digits === undefined ? Number.NaN : Number.parseInt(digits.replace(/[{}]/g, ''), 16);
    if (digits === undefined || !(code <= 0x10ffff)) throw this.error(`\\${kind} needs a hexadecimal number`, offset);
    this.offset += digits.length;
    return String.fromCodePoint(code);
  }

  /** After `\Q`: everything up to `\E`. */
  protected quotedText(): string {
    const end = this.pattern.indexOf('\\E', this.offset);
    const text = this.pattern.slice(this.offset, end < 0 ? undefined : end);
    this.offset = end < 0 ? this.pattern.length : end + 2;
    return text;
  }
}
