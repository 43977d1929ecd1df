import { type CharSet, charSet, charsOf, complement, escapeSets, intersection, lineTerminators, posixSets, withBothCases } from './charSet.ts'; // biome-ignore format: one line

/** A mistake in a regular expression, or syntax that RE2 does not have. */
export class PatternError extends Error {
  /** UTF-16 units before the mistake. */
  readonly offset: number;

  constructor(message: string, offset: number) {
    super(`${message} at ${offset + 1}`);
    this.offset = offset;
  }
}

/** A look-ahead at the start of a pattern: another pattern that a whole text must match, or must not match. */
export interface LookAhead {
  readonly pattern: string;
  readonly isPositive: boolean;
}

/** A pattern in the syntax of RE2. */
export interface Re2Pattern {
  readonly pattern: string;
  readonly lookAheads: readonly LookAhead[];
  /** Instructions that RE2 makes of the pattern when it writes out repetitions, about. */
  readonly size: number;
}

/** Longest pattern in UTF-16 units. */
const MAX_LENGTH = 4096;
/** Deepest nesting of groups and classes. */
const MAX_DEPTH = 50;
/** RE2 compiles a pattern of this size in a few milliseconds. */
const MAX_SIZE = 10_000;
/** Each look-ahead is matched against the whole text. */
const MAX_LOOK_AHEADS = 16;
const MAX_INTERSECTIONS = 20;
/** RE2 looks up the other case of each character of a class: larger classes get both cases here. */
const WIDE_CLASS = 2000;
/** A Unicode property has hundreds of ranges. */
const PROPERTY_SIZE = 64;
const RANGES_PER_INSTRUCTION = 64;

/**
 * Translates a pattern of `java.util.regex` to RE2's syntax (docs/rules.md#regular-expressions).
 * @param allowsLookAheads look-aheads at the start become patterns of their own, for matching whole texts
 * @throws PatternError
 */
export function toRe2(pattern: string, allowsLookAheads = false): Re2Pattern {
  if (pattern.length > MAX_LENGTH) throw new PatternError(`longer than ${MAX_LENGTH} characters`, MAX_LENGTH);
  return new Translator(pattern, allowsLookAheads).translate();
}

interface Part {
  readonly text: string;
  readonly size: number;
  /** The characters that the part stands for, if it stands for exactly one character. */
  readonly set?: CharSet;
}

/** A class such as `[a-z\p{L}]`: ranges, and Unicode properties in RE2's syntax. */
interface ClassContent {
  readonly set: CharSet;
  readonly properties: readonly string[];
}

/** A possessive repetition means the same as a greedy one if the next character cannot be one that it repeats. */
interface Possessive {
  readonly set: CharSet;
  readonly offset: number;
}

class Translator {
  readonly #source: string;
  readonly #allowsLookAheads: boolean;
  readonly #lookAheads: LookAhead[] = [];
  #at = 0;
  #depth = 0;
  /** Flags i, s and d that are set. */
  #flags = '';

  constructor(source: string, allowsLookAheads: boolean) {
    this.#source = source;
    this.#allowsLookAheads = allowsLookAheads;
  }

  translate(): Re2Pattern {
    const { text, size } = this.#leadingLookAheads();
    const body = this.#alternatives(true);
    if (this.#next !== '') throw new PatternError("has a ')' without its '('", this.#at);
    if (this.#lookAheads.length > 0 && body.isChoice) {
      throw new PatternError('a look-ahead is allowed only at the start of the pattern', 0);
    }
    return { pattern: text + body.text, lookAheads: this.#lookAheads, size: this.#checkedSize(size + body.size) };
  }

  get #next(): string {
    const point = this.#source.codePointAt(this.#at);
    return point === undefined ? '' : String.fromCodePoint(point);
  }

  /** Returns what the sticky expression matches at the cursor, and moves on. */
  #take(form: RegExp): RegExpExecArray | null {
    form.lastIndex = this.#at;
    const match = form.exec(this.#source);
    if (match !== null) this.#at += match[0].length;
    return match;
  }

  /** Flags and look-aheads before anything else. */
  #leadingLookAheads(): Part {
    let text = '';
    let size = 0;
    while (this.#allowsLookAheads) {
      const start = this.#at;
      const flags = this.#take(/\(\?([a-zA-Z]*)(?:-([a-zA-Z]*))?\)/y);
      if (flags !== null) {
        text += this.#change(flags, ')', start);
        continue;
      }
      const head = this.#take(/\^?\(\?([=!])/y);
      if (head === null) break;
      if (this.#lookAheads.length >= MAX_LOOK_AHEADS) {
        throw new PatternError(`more than ${MAX_LOOK_AHEADS} look-aheads`, start);
      }
      const body = this.#groupBody(start);
      size += body.size;
      this.#lookAheads.push({ pattern: `${text}(?:${body.text})(?s:.*)`, isPositive: head[1] === '=' });
    }
    return { text, size };
  }

  #alternatives(isTop: boolean): Part & { readonly isChoice: boolean } {
    let { text, size } = this.#sequence(isTop);
    let isChoice = false;
    while (this.#next === '|') {
      this.#at += 1;
      isChoice = true;
      const branch = this.#sequence(isTop);
      text += `|${branch.text}`;
      size = this.#checkedSize(size + branch.size + 1);
    }
    return { text, size, isChoice };
  }

  #sequence(isTop: boolean): Part {
    let text = '';
    let size = 0;
    let before: Possessive | undefined;
    for (;;) {
      const offset = this.#at;
      const next = this.#next;
      if (next === '' || next === '|' || next === ')') {
        if (before !== undefined && !isTop) throw possessiveError(before.offset);
        return { text, size };
      }
      const part = this.#part(next, offset);
      const { quantifier, rounds, isOptional, isPossessive } = this.#quantifier();
      if (before !== undefined && next !== '$') {
        const isClear = part.set !== undefined && !isOptional && intersection(before.set, part.set).length === 0;
        if (!isClear) throw possessiveError(before.offset);
        before = undefined;
      }
      if (isPossessive) {
        if (part.set === undefined) throw possessiveError(this.#at - 1);
        before = { set: part.set, offset: this.#at - 1 };
      }
      text += part.text + quantifier;
      size = this.#checkedSize(size + part.size * rounds + (quantifier === '' ? 0 : 1));
    }
  }

  #quantifier(): { quantifier: string; rounds: number; isOptional: boolean; isPossessive: boolean } {
    const match = this.#take(/([*+?]|\{(\d+)(?:(,)(\d*))?\})([?+]?)/y);
    if (match === null) return { quantifier: '', rounds: 1, isOptional: false, isPossessive: false };
    const [, repeated = '', low, , high, mode] = match;
    return {
      quantifier: repeated + (mode === '?' ? '?' : ''),
      rounds: Math.max(1, Number(low ?? 0), Number(high ?? 0)),
      isOptional: repeated === '*' || repeated === '?' || Number(low) === 0,
      isPossessive: mode === '+',
    };
  }

  #part(next: string, offset: number): Part {
    this.#at += next.length;
    switch (next) {
      case '(':
        return this.#nested(() => this.#group(offset));
      case '[':
        return this.#nested(() => {
          const { isNegated, ...content } = this.#class(offset);
          return this.#classPart(content, isNegated);
        });
      case '.':
        if (this.#flags.includes('s')) return { text: '(?s:.)', size: 1, set: complement([]) };
        return this.#classPart(
          { set: this.#flags.includes('d') ? charsOf('\n') : lineTerminators, properties: [] },
          true,
        );
      case '^':
      case '$':
        return { text: next, size: 1 };
      case '*':
      case '+':
      case '?':
        throw new PatternError(`has a ${next} with nothing to repeat before it`, offset);
      case '{':
        throw new PatternError('has a { that repeats nothing; write \\{ for the character', offset);
      case '\\':
        return this.#escape(offset);
      default:
        return this.#literal(next);
    }
  }

  #literal(character: string): Part {
    return { text: quoted(character), size: 1, set: this.#folded(charsOf(character)) };
  }

  #folded(set: CharSet): CharSet {
    return this.#flags.includes('i') ? withBothCases(set) : set;
  }

  /** After `(`. */
  #group(offset: number): Part {
    const before = this.#flags;
    const flags = this.#take(/\?([a-zA-Z]*)(?:-([a-zA-Z]*))?([:)])/y);
    if (flags?.[3] === ')') return { text: this.#change(flags, ')', offset), size: 0 };
    let opening = '(';
    if (flags !== null) opening = this.#change(flags, ':', offset);
    else if (this.#next === '?') {
      const name = this.#take(/\?<[a-zA-Z][a-zA-Z0-9]*>/y);
      if (name === null) throw this.#unavailableGroup(offset);
      opening += name[0];
    }
    const body = this.#groupBody(offset);
    this.#flags = before;
    return { text: `${opening}${body.text})`, size: body.size + 2 };
  }

  #groupBody(offset: number): Part {
    const before = this.#flags;
    const body = this.#alternatives(false);
    if (this.#next !== ')') throw new PatternError("has a '(' without its ')'", offset);
    this.#at += 1;
    this.#flags = before;
    return body;
  }

  #unavailableGroup(offset: number): PatternError {
    const head = this.#source.slice(this.#at, this.#at + 3);
    if (head.startsWith('?>')) return new PatternError('atomic groups are not available; use a plain group', offset);
    const isLookBehind = /^\?<[=!]/.test(head);
    if (!isLookBehind && !/^\?[=!]/.test(head))
      return new PatternError('has a (? that begins no kind of group', offset);
    const what = isLookBehind ? 'look-behind is not available' : 'look-ahead is not available';
    if (!this.#allowsLookAheads) {
      return new PatternError(`${what}; list what matches instead, such as (ann|bob)`, offset);
    }
    const fix = isLookBehind ? what : 'a look-ahead is allowed only at the start of the pattern';
    return new PatternError(`${fix}; combine two patterns with && or !`, offset);
  }

  /** Sets flags; returns RE2's text for those that RE2 has. */
  #change([, on = '', off = '']: RegExpExecArray, end: ':' | ')', offset: number): string {
    const unknown = /[^imsdu]/.exec(on + off)?.[0];
    if (unknown !== undefined) throw new PatternError(`the flag ${unknown} is not available`, offset);
    this.#flags = [...this.#flags.replace(new RegExp(`[${off}]`, 'g'), ''), ...on].join('');
    const own = (flags: string): string => flags.replace(/[^im]/g, '');
    const text = own(on) + (own(off) === '' ? '' : `-${own(off)}`);
    if (end === ':') return `(?${text}:`;
    return text === '' ? '' : `(?${text})`;
  }

  /** After a backslash outside of classes. */
  #escape(offset: number): Part {
    const next = this.#next;
    if (next === 'Q') {
      const end = this.#source.indexOf('\\E', this.#at);
      const text = this.#source.slice(this.#at + 1, end < 0 ? undefined : end);
      this.#at = end < 0 ? this.#source.length : end + 2;
      return { text: [...text].map(quoted).join(''), size: text.length };
    }
    if ('bBAz'.includes(next) && next !== '') {
      this.#at += 1;
      return { text: `\\${next}`, size: 1 };
    }
    if (next === 'R') {
      this.#at += 1;
      return { text: '(?:\\r\\n|[\\n\\x0b\\f\\r\\x{85}\\x{2028}\\x{2029}])', size: 4 };
    }
    if (/[1-9k]/.test(next)) {
      throw new PatternError('back references are not available; write what the group stands for', offset);
    }
    const atom = this.#atom(offset);
    return typeof atom === 'number' ? this.#literal(String.fromCodePoint(atom)) : this.#classPart(atom, false);
  }

  /** One character, or the content of a class such as `\d`, after a backslash. */
  #atom(offset: number): number | ClassContent {
    const next = this.#next;
    if (next === '') throw new PatternError('ends with a backslash', offset);
    const code = this.#take(
      /0([0-3]?[0-7]{1,2})|x([0-9a-fA-F]{2})|x\{(?:0*)([0-9a-fA-F]{1,6})\}|u([0-9a-fA-F]{4})|c([\x40-\x5f])/y,
    );
    if (code !== null) {
      const [, octal, hex = code[3] ?? code[4], , , control] = code;
      if (octal !== undefined) return Number.parseInt(octal, 8);
      const value = control === undefined ? Number.parseInt(hex as string, 16) : control.charCodeAt(0) ^ 64;
      if (value <= 0x10ffff) return value;
      throw new PatternError('has a character beyond Unicode', offset);
    }
    const property = this.#take(/([pP])(?:\{([A-Za-z_]+)\}|([A-Z]))/y);
    if (property !== null) return propertyContent(property[2] ?? property[3] ?? '', property[1] === 'P');
    this.#at += next.length;
    const set = escapeSets[next];
    if (set !== undefined) return { set, properties: [] };
    const control = { a: 7, e: 27, f: 12, n: 10, r: 13, t: 9 }[next];
    if (control !== undefined) return control;
    if (/[a-zA-Z0-9]/.test(next)) throw new PatternError(`\\${next} is not available`, offset);
    return next.codePointAt(0) as number;
  }

  /** After `[`. */
  #class(offset: number): ClassContent & { readonly isNegated: boolean } {
    const isNegated = this.#take(/\^/y) !== null;
    const operands: ClassContent[] = [];
    let items: ClassContent[] = [];
    const close = () => {
      if (items.length > 0) operands.push(unionOf(items));
      items = [];
    };
    let isEmpty = true;
    while (this.#next !== ']' || isEmpty) {
      const start = this.#at;
      if (this.#next === '') throw new PatternError("has a '[' without its ']'", offset);
      if (this.#take(/&&/y) !== null) {
        close();
        if (operands.length > MAX_INTERSECTIONS) {
          throw new PatternError(`more than ${MAX_INTERSECTIONS} && in a class`, start);
        }
      } else if (this.#take(/\[/y) !== null) {
        const { isNegated: isInnerNegated, ...inner } = this.#nested(() => this.#class(start));
        if (isInnerNegated && inner.properties.length > 0) {
          throw new PatternError('a negated class with \\p of Unicode cannot be nested', start);
        }
        items.push(isInnerNegated ? { set: complement(inner.set), properties: [] } : inner);
      } else {
        items.push(this.#range());
      }
      isEmpty = false;
    }
    this.#at += 1;
    close();
    const [first = { set: [], properties: [] }, ...others] = operands;
    if (others.length > 0 && operands.some(({ properties }) => properties.length > 0)) {
      throw new PatternError('&& cannot be combined with \\p of Unicode here', offset);
    }
    const set = others.reduce((all, other) => intersection(all, other.set), first.set);
    return { set, properties: first.properties, isNegated };
  }

  #range(): ClassContent {
    const offset = this.#at;
    const from = this.#classAtom();
    if (typeof from !== 'number') return from;
    if (this.#take(/-(?![[\]]|$)/y) === null) return { set: [[from, from]], properties: [] };
    const to = this.#classAtom();
    if (typeof to === 'number' && to >= from) return { set: [[from, to]], properties: [] };
    throw new PatternError('has a range of characters that ends before it begins', offset);
  }

  #classAtom(): number | ClassContent {
    const offset = this.#at;
    const next = this.#next;
    this.#at += next.length;
    return next === '\\' ? this.#atom(offset) : (next.codePointAt(0) ?? 0);
  }

  #classPart({ set, properties }: ClassContent, isNegated: boolean): Part {
    const size = 1 + PROPERTY_SIZE * properties.length + Math.trunc(set.length / RANGES_PER_INSTRUCTION);
    if (properties.length > 0) return { text: classText(set, properties, isNegated), size };
    const isWide = set.reduce((sum, [from, to]) => sum + to - from, 0) > WIDE_CLASS;
    const own = isNegated ? complement(set) : set;
    const text =
      isWide && this.#flags.includes('i')
        ? `(?-i:${classText(withBothCases(set), [], isNegated)})`
        : classText(set, [], isNegated);
    return { text, size: size + (isWide ? 4 : 0), set: this.#folded(own) };
  }

  #nested<T>(read: () => T): T {
    this.#depth += 1;
    if (this.#depth > MAX_DEPTH) throw new PatternError(`nests deeper than ${MAX_DEPTH} levels`, this.#at);
    const result = read();
    this.#depth -= 1;
    return result;
  }

  #checkedSize(size: number): number {
    if (size <= MAX_SIZE) return size;
    const message = 'repetitions multiply to more than 10,000 characters, groups and classes; use smaller counts';
    throw new PatternError(message, Math.max(0, this.#at - 1));
  }
}

function possessiveError(offset: number): PatternError {
  const message = 'a possessive quantifier is allowed only if the next character cannot be one that it repeats';
  return new PatternError(message, offset);
}

const quoted = (character: string): string => (/[\\.+*?()|[\]{}^$]/.test(character) ? `\\${character}` : character);

function unionOf(items: readonly ClassContent[]): ClassContent {
  return { set: charSet(items.flatMap(({ set }) => set)), properties: items.flatMap(({ properties }) => properties) };
}

/** Names of Java for Unicode properties that RE2 names otherwise. */
const javaProperties: Readonly<Record<string, string>> = {
  javaLowerCase: 'Ll',
  javaUpperCase: 'Lu',
  IsAlphabetic: 'L',
  IsDigit: 'Nd',
};

/** RE2 rejects unknown names. */
function propertyContent(name: string, isNegated: boolean): ClassContent {
  const posix = Object.hasOwn(posixSets, name) ? posixSets[name] : undefined;
  if (posix !== undefined) return { set: isNegated ? complement(posix) : posix, properties: [] };
  const own = javaProperties[name] ?? name.replace(/^Is/, '');
  return { set: [], properties: [`\\${isNegated ? 'P' : 'p'}{${own}}`] };
}

/** A class in RE2's syntax. */
function classText(set: CharSet, properties: readonly string[], isNegated: boolean): string {
  const hex = (code: number): string => `\\x{${code.toString(16)}}`;
  const ranges = set.map(([from, to]) => (from === to ? hex(from) : `${hex(from)}-${hex(to)}`));
  const inner = [...ranges, ...properties].join('');
  if (inner === '') return isNegated ? '(?s:.)' : '[^\\x{0}-\\x{10ffff}]';
  return `[${isNegated ? '^' : ''}${inner}]`;
}
