import {
  type CharSet,
  charSet,
  charsOf,
  complement,
  escapeSets,
  intersection,
  lineTerminators,
  withBothCases,
} from './charSet.ts';
import { type ClassContent, ClassReader, classText } from './classReader.ts';

/** A look-ahead at the start of a pattern: a condition of its own on the text. */
export interface LookAhead {
  /** RE2 syntax. */
  readonly pattern: string;
  readonly isPositive: boolean;
}

/** Largest pattern, in instructions of RE2: it is compiled in a few milliseconds. */
const MOST_INSTRUCTIONS = 10_000;
/** Characters of a class from which on RE2 takes long to find their other cases. */
const WIDE = 2000;
/** Each possessive quantifier is checked against all that follows. */
const MOST_POSSESSIVE = 50;
/** Each look-ahead is matched against the whole text. */
const MOST_LOOK_AHEADS = 16;

/** A Java pattern in the syntax of RE2. */
export interface Translation {
  readonly pattern: string;
  /** Only for whole matches: the text must (not) start with these. */
  readonly lookAheads: readonly LookAhead[];
  /** Cost of compiling it, in instructions. */
  readonly size: number;
}

/** A piece of a pattern: its RE2 text and what it can start with (null: anything). */
interface Piece {
  readonly text: string;
  readonly first: CharSet | null;
  readonly canBeEmpty: boolean;
  /** Instructions that it takes when repetitions are written out, about. */
  readonly size: number;
  /** The piece repeats this set without giving back; checked against what follows. */
  readonly possessive: { readonly set: CharSet | null; readonly offset: number } | null;
}

/**
 * Translates `java.util.regex` syntax to RE2's. Meaning is kept or the pattern refused: back references, look-behind,
 * look-ahead other than at the start, atomic groups, and possessive quantifiers where giving back would matter.
 * @throws CompileError with the offset in the pattern
 */
export function translate(pattern: string): Translation {
  return new Translator(pattern).translate();
}

class Translator extends ClassReader {
  readonly #lookAheads: LookAhead[] = [];
  #aheadSize = 0;
  /** Inline flags that RE2 handles itself, as they stand before a look-ahead. */
  #leadingFlags = '';

  translate(): Translation {
    const prefix = this.#leading();
    const piece = this.#alternation(true);
    if (this.offset < this.pattern.length) throw this.error('an unmatched )');
    return {
      pattern: prefix + piece.text,
      lookAheads: this.#lookAheads,
      size: this.#checkedSize(this.#aheadSize + piece.size),
    };
  }

  /** Flags, `^` and look-aheads at the very start. */
  #leading(): string {
    let text = '';
    for (;;) {
      const flags = /^\(\?[idmsuxU-]+\)/.exec(this.pattern.slice(this.offset, this.offset + 16))?.[0];
      if (flags !== undefined) {
        this.offset += 2;
        const inline = this.#inlineFlags();
        this.#leadingFlags += inline;
        text += inline;
      } else if (this.startsWith('(?=') || this.startsWith('(?!')) {
        this.#lookAhead();
      } else if (this.startsWith('^(?=') || this.startsWith('^(?!')) {
        this.offset += 1;
      } else {
        return text;
      }
    }
  }

  #lookAhead(): void {
    const isPositive = this.startsWith('(?=');
    this.offset += 3;
    const piece = this.#group();
    if (this.#lookAheads.length >= MOST_LOOK_AHEADS) throw this.error(`more than ${MOST_LOOK_AHEADS} look-aheads`);
    this.#aheadSize += piece.size;
    this.#lookAheads.push({ pattern: `${this.#leadingFlags}(?:${piece.text})(?s:.*)`, isPositive });
  }

  #alternation(isTop: boolean): Piece {
    const branches = this.nested(() => {
      const read = [this.#sequence(isTop)];
      while (this.accept('|')) read.push(this.#sequence(isTop));
      return read;
    });
    return {
      text: branches.map((branch) => branch.text).join('|'),
      first: unionOf(branches.map((branch) => branch.first)),
      canBeEmpty: branches.some((branch) => branch.canBeEmpty),
      size: this.#checkedSize(sizeOf(branches) + branches.length),
      possessive: null,
    };
  }

  #sequence(isTop: boolean): Piece {
    const pieces: Piece[] = [];
    while (this.offset < this.pattern.length && !this.startsWith('|') && !this.startsWith(')')) {
      if (this.flags.comments && this.skipComment()) continue;
      pieces.push(this.#quantified());
    }
    this.#checkPossessive(pieces, isTop);
    return {
      text: pieces.map((piece) => piece.text).join(''),
      first: firstOf(pieces),
      canBeEmpty: pieces.every((piece) => piece.canBeEmpty),
      size: this.#checkedSize(sizeOf(pieces)),
      possessive: null,
    };
  }

  /** A possessive repetition means the same as a greedy one where what follows cannot start with what it repeats. */
  #checkPossessive(pieces: readonly Piece[], isTop: boolean): void {
    const count = pieces.filter(({ possessive }) => possessive !== null).length;
    if (count > MOST_POSSESSIVE) throw this.error(`more than ${MOST_POSSESSIVE} possessive quantifiers in a row`);
    pieces.forEach((piece, index) => {
      if (piece.possessive === null) return;
      const rest = pieces.slice(index + 1);
      const follows = firstOf(rest);
      const isClosed = isTop || !rest.every((other) => other.canBeEmpty);
      const { set, offset } = piece.possessive;
      if (set !== null && follows !== null && isClosed && intersection(set, follows).length === 0) return;
      throw this.error(
        'a possessive quantifier is allowed only where what follows cannot start with what it repeats',
        offset,
      );
    });
  }

  #quantified(): Piece {
    const start = this.offset;
    const atom = this.#atom();
    const quantifier = /^(?:[*+?]|\{[0-9]+(?:,[0-9]*)?\})/.exec(this.pattern.slice(this.offset, this.offset + 24))?.[0];
    if (quantifier === undefined) {
      if (this.startsWith('{')) throw this.error('{ must be a repetition such as {2,5}; write \\{ for the character');
      return atom;
    }
    this.offset += quantifier.length;
    const isPossessive = this.accept('+');
    const lazy = !isPossessive && this.accept('?') ? '?' : '';
    if (/^[*+?]/.test(this.pattern.charAt(this.offset))) throw this.error('a quantifier after a quantifier');
    const canBeEmpty = atom.canBeEmpty || quantifier === '*' || quantifier === '?' || /^\{0+[,}]/.test(quantifier);
    const possessive = isPossessive
      ? { set: /^(?:\(|\\Q)/.test(this.pattern.slice(start)) ? null : atom.first, offset: this.offset - 1 }
      : null;
    const size = this.#checkedSize(1 + atom.size * mostRounds(quantifier));
    return { text: atom.text + quantifier + lazy, first: atom.first, canBeEmpty, size, possessive };
  }

  /** Repetitions within repetitions multiply: RE2 writes them all out. */
  #checkedSize(size: number): number {
    if (size > MOST_INSTRUCTIONS) {
      throw this.error('repetitions multiply to more than 10,000 characters, groups and classes; use smaller counts');
    }
    return size;
  }

  #atom(): Piece {
    const offset = this.offset;
    const char = this.next();
    switch (char) {
      case '(':
        return this.#open();
      case '[':
        return this.#classPiece(this.characterClass());
      case '.':
        return this.#dot();
      case '^':
      case '$':
        return { text: char, first: [], canBeEmpty: true, size: 1, possessive: null };
      case '\\':
        return this.#escape();
      case '*':
      case '+':
      case '?':
      case '{':
        throw this.error(`${char} repeats nothing`, offset);
      default:
        return this.#literal(char);
    }
  }

  #dot(): Piece {
    if (this.flags.dotAll)
      return { text: '(?s:.)', first: [[0, 0x10ffff]], canBeEmpty: false, size: 1, possessive: null };
    return this.#setPiece(complement(this.flags.unixLines ? charsOf('\n') : lineTerminators));
  }

  #literal(char: string): Piece {
    const set = charsOf(char);
    const text = /[\\.+*?()|[\]{}^$]/.test(char) ? `\\${char}` : char;
    return {
      text,
      first: this.flags.ignoreCase ? withBothCases(set) : set,
      canBeEmpty: false,
      size: 1,
      possessive: null,
    };
  }

  #setPiece(set: CharSet): Piece {
    const content = { set, properties: [] };
    return {
      text: this.#classText(content, false),
      first: set,
      canBeEmpty: false,
      size: classSize(content),
      possessive: null,
    };
  }

  #classPiece({ content, isNegated }: { content: ClassContent; isNegated: boolean }): Piece {
    const set = content.properties.length > 0 ? null : isNegated ? complement(content.set) : content.set;
    const first = set !== null && this.flags.ignoreCase ? withBothCases(set) : set;
    return {
      text: this.#classText(content, isNegated),
      first,
      canBeEmpty: false,
      size: classSize(content),
      possessive: null,
    };
  }

  /** RE2 folds the characters of a range one by one: a wide one has its other case added here, as Java does it. */
  #classText(content: ClassContent, isNegated: boolean): string {
    const isWide = this.flags.ignoreCase && content.set.reduce((sum, [from, to]) => sum + to - from, 0) > WIDE;
    if (!isWide || content.properties.length > 0) return classText(content, isNegated);
    return `(?-i:${classText({ set: withBothCases(content.set), properties: [] }, isNegated)})`;
  }

  #open(): Piece {
    if (!this.accept('?')) return wrap('(', this.#group());
    if (this.accept(':')) return wrap('(?:', this.#group());
    if (this.startsWith('=') || this.startsWith('!')) {
      throw this.error('a look-ahead is allowed only at the start of the pattern');
    }
    if (this.startsWith('<=') || this.startsWith('<!')) throw this.error('look-behind is not available');
    if (this.startsWith('>')) throw this.error('atomic groups are not available');
    if (this.accept('<')) return this.#namedGroup();
    const before = this.flags;
    const inline = this.#inlineFlags();
    if (inline.endsWith(')') || inline === '')
      return { text: inline, first: [], canBeEmpty: true, size: 1, possessive: null };
    const piece = this.#group();
    this.flags = before;
    return wrap(inline, piece);
  }

  #namedGroup(): Piece {
    const name = /^[a-zA-Z][a-zA-Z0-9]*>/.exec(this.pattern.slice(this.offset))?.[0];
    if (name === undefined) throw this.error('a group name must be letters and digits');
    this.offset += name.length;
    return wrap(`(?<${name}`, this.#group());
  }

  /** After `(` or its prefix: the inside and the closing parenthesis. Flags set inside end with it. */
  #group(): Piece {
    const before = this.flags;
    const piece = this.#alternation(false);
    if (!this.accept(')')) throw this.error('a ) is missing');
    this.flags = before;
    return piece;
  }

  /** After `(?`: sets the flags; gives RE2's text for those that it handles itself. */
  #inlineFlags(): string {
    const match = /^([idmsuxU]*)(?:-([idmsuxU]*))?([):])/.exec(this.pattern.slice(this.offset, this.offset + 24));
    if (match === null) throw this.error('an unknown kind of group');
    const [all, on = '', off = '', end = ''] = match;
    if (on.includes('U')) throw this.error('the flag U is not available');
    this.offset += all.length;
    const has = (flag: string, before: boolean): boolean =>
      on.includes(flag) ? true : off.includes(flag) ? false : before;
    this.flags = {
      ignoreCase: has('i', this.flags.ignoreCase),
      dotAll: has('s', this.flags.dotAll),
      comments: has('x', this.flags.comments),
      unixLines: has('d', this.flags.unixLines),
    };
    const own = (flags: string): string => flags.replace(/[^im]/g, '');
    const text = own(on) + (own(off) === '' ? '' : `-${own(off)}`);
    if (end === ':') return `(?${text}:`;
    return text === '' ? '' : `(?${text})`;
  }

  #escape(): Piece {
    const offset = this.offset;
    const char = this.next();
    const set = Object.hasOwn(escapeSets, char) ? escapeSets[char] : undefined;
    if (set !== undefined) return this.#setPiece(set);
    switch (char) {
      case 'Q':
        return this.#quoted();
      case 'p':
      case 'P':
        return this.#classPiece({ content: this.property(char === 'P'), isNegated: false });
      case 'b':
      case 'B':
      case 'A':
      case 'z':
        return { text: `\\${char}`, first: [], canBeEmpty: true, size: 1, possessive: null };
      case 'R':
        return {
          text: '(?:\\r\\n|[\\n\\x0b\\f\\r\\x{85}\\x{2028}\\x{2029}])',
          first: lineTerminators,
          canBeEmpty: false,
          size: 4,
          possessive: null,
        };
      default:
    }
    if (/[1-9k]/.test(char)) throw this.error('back references are not available', offset);
    return this.#literal(this.escapedChar(char, offset));
  }

  #quoted(): Piece {
    const text = this.quotedText();
    const pieces = [...text].map((char) => this.#literal(char));
    return {
      // Java repeats the last character only.
      text: pieces.map((piece) => piece.text).join(''),
      first: firstOf(pieces),
      canBeEmpty: text === '',
      size: pieces.length,
      possessive: null,
    };
  }
}

function wrap(open: string, piece: Piece): Piece {
  return { ...piece, text: `${open}${piece.text})`, size: piece.size + 2 };
}

function sizeOf(pieces: readonly Piece[]): number {
  return pieces.reduce((sum, { size }) => sum + size, 0);
}

/** Unicode properties have hundreds of ranges, which each of their instructions holds. */
const PROPERTY_SIZE = 64;
const RANGES_AN_INSTRUCTION = 64;

function classSize({ set, properties }: ClassContent): number {
  const isWide = set.some(([from, to]) => to - from > WIDE);
  return 1 + PROPERTY_SIZE * properties.length + Math.trunc(set.length / RANGES_AN_INSTRUCTION) + (isWide ? 4 : 0);
}

/** How often a quantifier writes out what it repeats. */
function mostRounds(quantifier: string): number {
  return Math.max(1, ...(quantifier.match(/[0-9]+/g) ?? []).map(Number));
}

function unionOf(sets: readonly (CharSet | null)[]): CharSet | null {
  const ranges: CharSet[number][] = [];
  for (const set of sets) {
    if (set === null) return null;
    for (const range of set) ranges.push(range);
  }
  return charSet(ranges);
}

/** What a sequence can start with. */
function firstOf(pieces: readonly Piece[]): CharSet | null {
  const end = pieces.findIndex((piece) => !piece.canBeEmpty);
  return unionOf((end < 0 ? pieces : pieces.slice(0, end + 1)).map((piece) => piece.first));
}
