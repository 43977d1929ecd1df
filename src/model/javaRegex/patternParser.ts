import type { Alternatives, CharacterClass, ClassAtom, ClassItem, FlagChange, PatternNode } from './pattern.ts';
import { isKnownProperty } from './properties.ts';
import { type Unquoted, unquoted } from './quotedText.ts';

/** Why Java refuses an expression. The message is a predicate, such as `ends with a backslash`. */
export class PatternError extends Error {
  /** Place in the expression, in UTF-16 units from 0. */
  readonly offset: number;

  constructor(message: string, offset: number) {
    super(message);
    this.offset = offset;
  }
}

/**
 * Reads a regular expression as `java.util.regex.Pattern` does. What it takes and refuses was compared with a real JDK on
 * generated expressions; names of Unicode blocks and characters are not looked up, and the length of look-behinds is left
 * to who needs it.
 * @param maxDepth deepest nesting of groups and classes
 * @throws PatternError
 */
export function parsePattern(pattern: string, maxDepth: number): Alternatives {
  return new PatternParser(unquoted(pattern), maxDepth).parse();
}

const noFlags: FlagChange = { on: '', off: '' };

/** Heads of groups that begin with `(?`. */
const groupForms = {
  '?:': 'plain',
  '?=': 'ahead',
  '?!': 'notAhead',
  '?<=': 'behind',
  '?<!': 'notBehind',
  '?>': 'atomic',
} as const;

class PatternParser {
  readonly #text: string;
  readonly #originOf: Unquoted['originOf'];
  readonly #maxDepth: number;
  readonly #names = new Set<string>();
  #at = 0;
  #depth = 0;
  /** `(?x)`: white space and comments are skipped. */
  #comments = false;

  constructor({ text, originOf }: Unquoted, maxDepth: number) {
    this.#text = text;
    this.#originOf = originOf;
    this.#maxDepth = maxDepth;
  }

  parse(): Alternatives {
    const whole = this.#alternatives();
    if (this.#at < this.#text.length) this.#fail("has a ')' without its '('");
    return whole;
  }

  #alternatives(): Alternatives {
    const offset = this.#offset;
    const branches = [this.#sequence()];
    while (this.#peek() === '|') {
      this.#at += 1;
      branches.push(this.#sequence());
    }
    return { kind: 'alternatives', branches, offset };
  }

  #sequence(): readonly PatternNode[] {
    const pieces: PatternNode[] = [];
    for (;;) {
      const character = this.#peek();
      if (character === '' || character === '|' || character === ')') return pieces;
      const piece = this.#piece(character);
      pieces.push(piece.kind === 'flags' ? piece : this.#repeated(piece));
    }
  }

  #piece(character: string): PatternNode {
    const offset = this.#offset;
    switch (character) {
      case '(':
        return this.#nested(() => this.#group());
      case '[':
        return this.#nested(() => this.#class());
      case '*':
      case '+':
      case '?':
        return this.#fail(`has a ${character} with nothing to repeat before it`);
      case '{':
        // Repeats nothing, which Java allows where the repetition itself is well-formed.
        return { kind: 'nothing', offset };
      case '\\':
        this.#at += 1;
        return this.#escape(offset);
      default:
        this.#at += character.length;
        if (character === '.') return { kind: 'dot', offset };
        if (character === '^' || character === '$') return { kind: 'anchor', letter: character, offset };
        return { kind: 'character', codePoint: character.codePointAt(0) as number, offset };
    }
  }

  #repeated(of: PatternNode): PatternNode {
    const quantifier = this.#quantifier();
    if (quantifier === null) return of;
    const { text, minimum, maximum } = quantifier;
    const suffix = this.#peek();
    const mode = suffix === '?' ? 'lazy' : suffix === '+' ? 'possessive' : 'greedy';
    if (mode !== 'greedy') this.#at += 1;
    const offset = this.#originOf(this.#at - 1);
    return { kind: 'repetition', of, quantifier: text, minimum, maximum, mode, offset };
  }

  #quantifier(): { readonly text: string; readonly minimum: number; readonly maximum: number } | null {
    const text = this.#peek();
    if (text === '{') return this.#counts();
    if (text !== '*' && text !== '+' && text !== '?') return null;
    this.#at += 1;
    return { text, minimum: text === '+' ? 1 : 0, maximum: text === '?' ? 1 : Number.POSITIVE_INFINITY };
  }

  /** `{n}`, `{n,}`, `{n,m}`; the cursor stands after the closing brace afterwards. */
  #counts(): { readonly text: string; readonly minimum: number; readonly maximum: number } {
    const match = /^\{(\d+)(?:(,)(\d*))?\}/.exec(this.#text.slice(this.#at, this.#at + 64));
    if (match === null) {
      return this.#fail('has a { that begins no repetition such as {2} or {1,3}; write \\{ for the character');
    }
    const [text, low = '', comma, high = ''] = match;
    const minimum = Number(low);
    const maximum = comma === undefined ? minimum : high === '' ? Number.POSITIVE_INFINITY : Number(high);
    if (minimum > 0x7fffffff || (Number.isFinite(maximum) && maximum > 0x7fffffff)) {
      this.#fail(`repeats too often: ${text}`);
    }
    if (maximum < minimum) this.#fail(`has a repetition that ends before it begins: ${text}`);
    this.#at += text.length;
    return { text, minimum, maximum };
  }

  #group(): PatternNode {
    const offset = this.#offset;
    const comments = this.#comments;
    this.#at += 1;
    let head: Pick<Extract<PatternNode, { kind: 'group' }>, 'form' | 'name' | 'flags'>;
    if (this.#text[this.#at] === '?') {
      const opened = this.#groupHead();
      if (opened === 'flags') return { kind: 'flags', flags: this.#flagChange(')'), offset };
      head = opened;
    } else {
      head = { form: 'capturing', name: null, flags: noFlags };
    }
    const body = this.#alternatives();
    if (this.#peek() !== ')') this.#fail("has a '(' without its ')'", offset);
    this.#at += 1;
    this.#comments = comments;
    return { kind: 'group', ...head, body, offset };
  }

  /** After `(`, at the `?`; `flags`: the group is only flags, which are not read yet. */
  #groupHead(): Pick<Extract<PatternNode, { kind: 'group' }>, 'form' | 'name' | 'flags'> | 'flags' {
    const rest = this.#text.slice(this.#at, this.#at + 64);
    const fixed = /^\?(?:[:=!>]|<[=!])/.exec(rest)?.[0] as keyof typeof groupForms | undefined;
    if (fixed !== undefined) {
      this.#at += fixed.length;
      return { form: groupForms[fixed], name: null, flags: noFlags };
    }
    const named = /^\?<([^>=!]*)>/.exec(this.#text.slice(this.#at));
    if (named !== null) {
      const name = this.#groupName(named[1] as string);
      this.#at += named[0].length;
      return { form: 'named', name, flags: noFlags };
    }
    const end = /^\?[imsducxU]*(?:-[imsduxcU]*)?([:)])/.exec(this.#text.slice(this.#at))?.[1];
    if (end === undefined) return this.#fail('has a (? that begins no kind of group');
    return end === ')' ? 'flags' : { form: 'flags', name: null, flags: this.#flagChange(':') };
  }

  /** Reads flags from their `?` to the end character, and has them in force. */
  #flagChange(end: string): FlagChange {
    const stop = this.#text.indexOf(end, this.#at);
    const [on = '', off = ''] = this.#text.slice(this.#at + 1, stop).split('-');
    this.#at = stop + 1;
    if (on.includes('x')) this.#comments = true;
    if (off.includes('x')) this.#comments = false;
    return { on, off };
  }

  #groupName(name: string): string {
    if (!/^[a-zA-Z][a-zA-Z0-9]*$/.test(name)) {
      this.#fail(`has a group name that is not letters and digits: ${JSON.stringify(name)}`);
    }
    if (this.#names.has(name)) this.#fail(`has two groups named ${name}`);
    this.#names.add(name);
    return name;
  }

  /** A class from its `[`; `inner`: the right side of `&&`, which ends before the `]` of the class it is in. */
  #class(inner = false): CharacterClass {
    const offset = this.#offset;
    if (!inner) this.#at += 1;
    const isNegated = this.#peek() === '^' && !inner;
    if (isNegated) this.#at += 1;
    let items: ClassItem[] = [];
    const operands: ClassItem[][] = [items];
    let isEmpty = true;
    for (;;) {
      const character = this.#peek();
      if (character === '') this.#fail("has a '[' without its ']'", offset);
      if (character === '[') {
        items.push(this.#nested(() => this.#class()));
      } else if (character === ']' && !isEmpty) {
        if (!inner) this.#at += 1;
        return { kind: 'class', isNegated, operands: operands.filter(({ length }) => length > 0), offset };
      } else if (character === '&' && this.#text[this.#at + 1] === '&') {
        this.#at += 2;
        const right = this.#rightOperands();
        if (isEmpty && right.length === 0) this.#fail('has a && with nothing at either side');
        operands.push(...right);
        items = operands.at(-1) as ClassItem[];
      } else {
        items.push(this.#range());
      }
      isEmpty = false;
    }
  }

  /** The right side of `&&`: none, one, or several where it has `&&` itself. */
  #rightOperands(): ClassItem[][] {
    const operands: ClassItem[][] = [];
    for (;;) {
      const character = this.#peek();
      if (character === ']' || character === '&') return operands;
      const part = this.#nested(() => this.#class(character !== '['));
      if (operands.length === 0) operands.push([]);
      if (character === '[') operands.at(-1)?.push(part);
      else {
        const [first = [], ...rest] = part.operands;
        operands.at(-1)?.push(...first);
        operands.push(...rest.map((items) => [...items]));
      }
    }
  }

  #range(): ClassItem {
    const low = this.#classAtom();
    if (low.kind !== 'character' || this.#peek() !== '-') return low;
    const next = this.#text[this.#at + 1];
    if (next === '[' || next === ']' || next === undefined) return low;
    this.#at += 1;
    this.#peek();
    const high = this.#classAtom();
    if (high.kind !== 'character' || high.codePoint < low.codePoint) {
      this.#fail('has a range of characters that ends before it begins', low.offset);
    }
    return { kind: 'range', from: low.codePoint, to: high.codePoint, offset: low.offset };
  }

  #classAtom(): ClassAtom {
    const offset = this.#offset;
    const character = this.#peek();
    if (character === '') return this.#fail("has a '[' without its ']'");
    this.#at += character.length;
    if (character === '\\') return this.#characterEscape(offset) ?? this.#classEscape(offset);
    return { kind: 'character', codePoint: character.codePointAt(0) as number, offset };
  }

  #classEscape(offset: number): ClassAtom {
    const letter = this.#character();
    if (/[a-zA-Z1-9]/.test(letter)) this.#fail(`has \\${letter} in a class, which is no character there`, offset);
    return this.#escapedSign(letter, offset);
  }

  /** After a backslash outside of classes. */
  #escape(offset: number): PatternNode {
    const atom = this.#characterEscape(offset);
    if (atom !== null) return atom;
    const letter = this.#character();
    if (/[1-9]/.test(letter)) {
      this.#at += 1;
      return { kind: 'backReference', offset };
    }
    if ('ABGRXZzb'.includes(letter)) {
      this.#at += 1;
      if (letter !== 'b' || !this.#text.startsWith('{g', this.#at)) return { kind: 'boundary', letter, offset };
      return { kind: 'boundary', letter: `b${this.#take(/^\{g\}/, '} after \\b{g')}`, offset };
    }
    if (letter === 'k') {
      this.#at += 1;
      const name = this.#take(/^<[a-zA-Z][a-zA-Z0-9]*>/, '<name> after \\k').slice(1, -1);
      if (!this.#names.has(name)) this.#fail(`refers to a group ${name} that is not before it`, offset);
      return { kind: 'backReference', offset };
    }
    if (/[a-zA-Z]/.test(letter)) this.#fail(`has an unknown escape \\${letter}`, offset);
    return this.#escapedSign(letter, offset);
  }

  #escapedSign(letter: string, offset: number): ClassAtom {
    this.#at += letter.length;
    return { kind: 'character', codePoint: letter.codePointAt(0) as number, offset };
  }

  /** What stands for one character after a backslash; null: something else, which is not read yet. */
  #characterEscape(offset: number): ClassAtom | null {
    const letter = this.#character();
    if (letter === '') return this.#fail('ends with a backslash');
    this.#at += letter.length;
    const character = (codePoint: number): ClassAtom => ({ kind: 'character', codePoint, offset });
    if ('dDhHsSvVwW'.includes(letter)) return { kind: 'set', letter, offset };
    const simple = { a: 7, e: 27, f: 12, n: 10, r: 13, t: 9 }[letter];
    if (simple !== undefined) return character(simple);
    switch (letter) {
      case 'p':
      case 'P':
        return { kind: 'property', name: this.#property(offset), isNegated: letter === 'P', offset };
      case '0':
        return character(Number.parseInt(this.#take(/^(?:[0-3][0-7]{0,2}|[4-7][0-7]?)/, 'octal digits after \\0'), 8));
      case 'x':
        return character(this.#hex(/^(?:[0-9a-fA-F]{2}|\{[0-9a-fA-F]+\})/, '\\x'));
      case 'u':
        return character(this.#hex(/^[0-9a-fA-F]{4}/, '\\u'));
      case 'c':
        return character((this.#take(/^./su, 'a character after \\c').codePointAt(0) ?? 0) ^ 64);
      case 'N':
        this.#take(/^\{[A-Za-z][A-Za-z0-9 -]+\}/, 'a character name in braces after \\N');
        return { kind: 'namedCharacter', offset };
      default:
        this.#at -= letter.length;
        return null;
    }
  }

  #hex(form: RegExp, mark: string): number {
    const digits = this.#take(form, `hexadecimal digits after ${mark}`);
    const value = Number.parseInt(digits.replace('{', ''), 16);
    if (value > 0x10ffff) this.#fail(`has ${mark}${digits}, which is beyond Unicode`);
    return value;
  }

  /** The name after `\p`. */
  #property(offset: number): string {
    const isBraced = this.#text[this.#at] === '{';
    const name = isBraced
      ? this.#take(/^\{[^}]+\}/, 'a name in braces after \\p').slice(1, -1)
      : this.#take(/^./su, 'a property after \\p');
    if (isKnownProperty(name)) return name;
    return this.#fail(`has an unknown property \\p${isBraced ? `{${name}}` : name}`, offset);
  }

  #take(form: RegExp, wanted: string): string {
    const [text] = form.exec(this.#text.slice(this.#at)) ?? this.#fail(`lacks ${wanted}`);
    this.#at += text.length;
    return text;
  }

  #nested<T>(read: () => T): T {
    this.#depth += 1;
    if (this.#depth > this.#maxDepth) this.#fail(`nests deeper than ${this.#maxDepth} levels`);
    const result = read();
    this.#depth -= 1;
    return result;
  }

  /** The next character that means something; empty at the end. */
  #peek(): string {
    while (this.#comments) {
      const skipped = /^(?:[ \t\n\v\f\r]+|#[^\n\r\u0085\u2028\u2029]*)/.exec(
        this.#text.slice(this.#at, this.#at + 4096),
      );
      if (skipped === null) break;
      this.#at += skipped[0].length;
    }
    return this.#character();
  }

  #character(): string {
    const point = this.#text.codePointAt(this.#at);
    return point === undefined ? '' : String.fromCodePoint(point);
  }

  get #offset(): number {
    return this.#originOf(this.#at);
  }

  #fail(message: string, offset = this.#offset): never {
    throw new PatternError(message, offset);
  }
}
