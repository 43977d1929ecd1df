import type { Alternatives, FlagChange, Group, PatternNode, Repetition } from '../../model/javaRegex/pattern.ts';
import { PatternError, parsePattern } from '../../model/javaRegex/patternParser.ts';
import { type CharSet, charSet, charsOf, complement, intersection, lineTerminators, withBothCases } from './charSet.ts';
import { atomContent, type ClassContent, classContent, classText, patternError } from './classTranslation.ts';

/** A look-ahead at the start of a pattern: a separate condition on the text. */
export interface LookAhead {
  /** RE2 syntax. */
  readonly pattern: string;
  readonly isPositive: boolean;
}

const MAX_DEPTH = 50;
/** Maximum size of a pattern, in instructions of RE2: it compiles in a few milliseconds. */
const MOST_INSTRUCTIONS = 10_000;
/** From this number of characters in a class, RE2 takes long to find their other cases. */
const WIDE = 2000;
/** Each possessive quantifier is checked against the whole rest. */
const MOST_POSSESSIVE = 50;
/** Each look-ahead is matched against the whole text. */
const MOST_LOOK_AHEADS = 16;

/** A Java pattern in the syntax of RE2. */
export interface Translation {
  readonly pattern: string;
  /** Only for whole matches: the text must (not) start with these. */
  readonly lookAheads: readonly LookAhead[];
  /** Cost of compilation, in instructions. */
  readonly size: number;
}

/** A piece of a pattern: its RE2 text and possible first characters (null: any). */
interface Piece {
  readonly text: string;
  readonly first: CharSet | null;
  readonly canBeEmpty: boolean;
  /** Approximate number of instructions with expanded repetitions. */
  readonly size: number;
  /** The piece repeats this set without backtracking; checked against the rest. */
  readonly possessive: { readonly set: CharSet | null; readonly offset: number } | null;
}

/**
 * Translates `java.util.regex` syntax to RE2's. Keeps the meaning or rejects the pattern: back references, look-behind,
 * look-ahead other than at the start, atomic groups, and possessive quantifiers if backtracking would matter.
 * @throws CompileError with the offset in the pattern
 */
export function translate(pattern: string): Translation {
  return new Translator().translate(parsed(pattern));
}

function parsed(pattern: string): Alternatives {
  try {
    return parsePattern(pattern, MAX_DEPTH);
  } catch (error) {
    throw error instanceof PatternError ? patternError(error.message, error.offset) : error;
  }
}

/** Flags that affect the translation of following pieces. */
interface FlagState {
  readonly ignoreCase: boolean;
  readonly dotAll: boolean;
  readonly unixLines: boolean;
}

class Translator {
  readonly #lookAheads: LookAhead[] = [];
  #aheadSize = 0;
  #flags: FlagState = { ignoreCase: false, dotAll: false, unixLines: false };

  translate(pattern: Alternatives): Translation {
    const [first = [], ...others] = pattern.branches;
    const { text: prefix, pieces } = others.length === 0 ? this.#leading(first) : { text: '', pieces: first };
    const piece = this.#alternatives([pieces, ...others], true);
    return {
      pattern: prefix + piece.text,
      lookAheads: this.#lookAheads,
      size: checkedSize(this.#aheadSize + piece.size, 0),
    };
  }

  /** Flags, `^` and look-aheads at the very start, and the rest. */
  #leading(pieces: readonly PatternNode[]): { readonly text: string; readonly pieces: readonly PatternNode[] } {
    let text = '';
    for (const [index, piece] of pieces.entries()) {
      if (piece.kind === 'flags') {
        text += this.#flagText(piece.flags, piece.offset, ')');
      } else if (isLookAhead(piece)) {
        this.#lookAhead(piece, text);
      } else if (!(piece.kind === 'anchor' && piece.letter === '^' && isLookAhead(pieces[index + 1]))) {
        return { text, pieces: pieces.slice(index) };
      }
    }
    return { text, pieces: [] };
  }

  /** @param flags inline flags that RE2 handles itself, as they stand before the look-ahead */
  #lookAhead({ form, body, offset }: Group, flags: string): void {
    const piece = this.#groupBody(body);
    if (this.#lookAheads.length >= MOST_LOOK_AHEADS) {
      throw patternError(`more than ${MOST_LOOK_AHEADS} look-aheads`, offset);
    }
    this.#aheadSize += piece.size;
    this.#lookAheads.push({ pattern: `${flags}(?:${piece.text})(?s:.*)`, isPositive: form === 'ahead' });
  }

  #alternatives(sequences: Alternatives['branches'], isTop: boolean): Piece {
    const branches = sequences.map((pieces) => this.#sequence(pieces, isTop));
    return {
      text: branches.map((branch) => branch.text).join('|'),
      first: unionOf(branches.map((branch) => branch.first)),
      canBeEmpty: branches.some((branch) => branch.canBeEmpty),
      size: checkedSize(sizeOf(branches) + branches.length, sequences[0]?.[0]?.offset ?? 0),
      possessive: null,
    };
  }

  #sequence(nodes: readonly PatternNode[], isTop: boolean): Piece {
    const pieces = nodes.map((node) => this.#piece(node));
    this.#checkPossessive(pieces, isTop);
    return {
      text: pieces.map((piece) => piece.text).join(''),
      first: firstOf(pieces),
      canBeEmpty: pieces.every((piece) => piece.canBeEmpty),
      size: checkedSize(sizeOf(pieces), nodes[0]?.offset ?? 0),
      possessive: null,
    };
  }

  /** A possessive repetition equals a greedy one if the rest cannot start with what it repeats. */
  #checkPossessive(pieces: readonly Piece[], isTop: boolean): void {
    const possessive = pieces.flatMap((piece) => piece.possessive ?? []);
    if (possessive.length > MOST_POSSESSIVE) {
      const { offset } = possessive[MOST_POSSESSIVE] as NonNullable<Piece['possessive']>;
      throw patternError(`more than ${MOST_POSSESSIVE} possessive quantifiers in a row`, offset);
    }
    pieces.forEach((piece, index) => {
      if (piece.possessive === null) return;
      const rest = pieces.slice(index + 1);
      const follows = firstOf(rest);
      const isClosed = isTop || !rest.every((other) => other.canBeEmpty);
      const { set, offset } = piece.possessive;
      if (set !== null && follows !== null && isClosed && intersection(set, follows).length === 0) return;
      throw patternError(
        'a possessive quantifier is allowed only where what follows cannot start with what it repeats',
        offset,
      );
    });
  }

  #piece(node: PatternNode): Piece {
    switch (node.kind) {
      case 'alternatives':
        return this.#alternatives(node.branches, false);
      case 'repetition':
        return this.#repetition(node);
      case 'group':
        return this.#group(node);
      case 'flags':
        return zeroWidth(this.#flagText(node.flags, node.offset, ')'));
      case 'class':
        return this.#classPiece(classContent(node), node.isNegated);
      case 'dot':
        return this.#dot();
      case 'anchor':
        return zeroWidth(node.letter);
      case 'boundary':
        return boundary(node.letter, node.offset);
      case 'backReference':
        throw patternError('back references are not available', node.offset);
      case 'nothing':
        throw patternError('{ repeats nothing', node.offset);
      case 'character':
        return this.#literal(String.fromCodePoint(node.codePoint));
      default:
        return this.#classPiece(atomContent(node), false);
    }
  }

  #repetition({ of, quantifier, minimum, maximum, mode, offset }: Repetition): Piece {
    const atom = this.#piece(of);
    const rounds = Math.max(1, minimum, Number.isFinite(maximum) ? maximum : 0);
    return {
      text: atom.text + quantifier + (mode === 'lazy' ? '?' : ''),
      first: atom.first,
      canBeEmpty: atom.canBeEmpty || minimum === 0,
      size: checkedSize(1 + atom.size * rounds, offset),
      possessive: mode === 'possessive' ? { set: of.kind === 'group' ? null : atom.first, offset } : null,
    };
  }

  #dot(): Piece {
    if (this.#flags.dotAll) {
      return { text: '(?s:.)', first: [[0, 0x10ffff]], canBeEmpty: false, size: 1, possessive: null };
    }
    const set = complement(this.#flags.unixLines ? charsOf('\n') : lineTerminators);
    return this.#classPiece({ set, properties: [] }, false);
  }

  #literal(char: string): Piece {
    const set = charsOf(char);
    const text = /[\\.+*?()|[\]{}^$]/.test(char) ? `\\${char}` : char;
    return {
      text,
      first: this.#flags.ignoreCase ? withBothCases(set) : set,
      canBeEmpty: false,
      size: 1,
      possessive: null,
    };
  }

  #classPiece(content: ClassContent, isNegated: boolean): Piece {
    const set = content.properties.length > 0 ? null : isNegated ? complement(content.set) : content.set;
    const first = set !== null && this.#flags.ignoreCase ? withBothCases(set) : set;
    return {
      text: this.#classText(content, isNegated),
      first,
      canBeEmpty: false,
      size: classSize(content),
      possessive: null,
    };
  }

  /** RE2 folds the characters of a range one by one: the other case of a wide range is added here, as Java does it. */
  #classText(content: ClassContent, isNegated: boolean): string {
    const isWide = this.#flags.ignoreCase && content.set.reduce((sum, [from, to]) => sum + to - from, 0) > WIDE;
    if (!isWide || content.properties.length > 0) return classText(content, isNegated);
    return `(?-i:${classText({ set: withBothCases(content.set), properties: [] }, isNegated)})`;
  }

  #group({ form, name, flags, body, offset }: Group): Piece {
    const before = this.#flags;
    const open = form === 'flags' ? this.#flagText(flags, offset, ':') : groupOpening(form, name, offset);
    const piece = wrap(open, this.#groupBody(body));
    this.#flags = before;
    return piece;
  }

  /** Flags set inside end with the group. */
  #groupBody({ branches }: Alternatives): Piece {
    const before = this.#flags;
    const piece = this.#alternatives(branches, false);
    this.#flags = before;
    return piece;
  }

  /** Sets the flags; returns RE2's text for flags that it handles itself. @param end text after the flags */
  #flagText({ on, off }: FlagChange, offset: number, end: ':' | ')'): string {
    if (on.includes('U')) throw patternError('the flag U is not available', offset);
    const has = (flag: string, before: boolean): boolean =>
      on.includes(flag) ? true : off.includes(flag) ? false : before;
    this.#flags = {
      ignoreCase: has('i', this.#flags.ignoreCase),
      dotAll: has('s', this.#flags.dotAll),
      unixLines: has('d', this.#flags.unixLines),
    };
    const own = (flags: string): string => flags.replace(/[^im]/g, '');
    const text = own(on) + (own(off) === '' ? '' : `-${own(off)}`);
    if (end === ':') return `(?${text}:`;
    return text === '' ? '' : `(?${text})`;
  }
}

function isLookAhead(node: PatternNode | undefined): node is Group {
  return node?.kind === 'group' && (node.form === 'ahead' || node.form === 'notAhead');
}

/** @throws CompileError for forms that RE2 does not support */
function groupOpening(form: Exclude<Group['form'], 'flags'>, name: string | null, offset: number): string {
  switch (form) {
    case 'capturing':
      return '(';
    case 'plain':
      return '(?:';
    case 'named':
      return `(?<${name}>`;
    case 'atomic':
      throw patternError('atomic groups are not available', offset);
    case 'behind':
    case 'notBehind':
      throw patternError('look-behind is not available', offset);
    default:
      throw patternError('a look-ahead is allowed only at the start of the pattern', offset);
  }
}

/** @throws CompileError for boundaries that RE2 does not support */
function boundary(letter: string, offset: number): Piece {
  if (letter === 'R') {
    const text = '(?:\\r\\n|[\\n\\x0b\\f\\r\\x{85}\\x{2028}\\x{2029}])';
    return { text, first: lineTerminators, canBeEmpty: false, size: 4, possessive: null };
  }
  if (!'bBAz'.includes(letter)) throw patternError(`\\${letter} is not available`, offset);
  return zeroWidth(`\\${letter}`);
}

function zeroWidth(text: string): Piece {
  return { text, first: [], canBeEmpty: true, size: 1, possessive: null };
}

/**
 * Nested repetitions multiply: RE2 expands them all.
 * @throws CompileError
 */
function checkedSize(size: number, offset: number): number {
  if (size <= MOST_INSTRUCTIONS) return size;
  throw patternError(
    'repetitions multiply to more than 10,000 characters, groups and classes; use smaller counts',
    offset,
  );
}

function wrap(open: string, piece: Piece): Piece {
  return { ...piece, text: `${open}${piece.text})`, size: piece.size + 2 };
}

function sizeOf(pieces: readonly Piece[]): number {
  return pieces.reduce((sum, { size }) => sum + size, 0);
}

/** Unicode properties have hundreds of ranges, which each of their instructions contains. */
const PROPERTY_SIZE = 64;
const RANGES_AN_INSTRUCTION = 64;

function classSize({ set, properties }: ClassContent): number {
  const isWide = set.some(([from, to]) => to - from > WIDE);
  return 1 + PROPERTY_SIZE * properties.length + Math.trunc(set.length / RANGES_AN_INSTRUCTION) + (isWide ? 4 : 0);
}

function unionOf(sets: readonly (CharSet | null)[]): CharSet | null {
  const ranges: CharSet[number][] = [];
  for (const set of sets) {
    if (set === null) return null;
    for (const range of set) ranges.push(range);
  }
  return charSet(ranges);
}

/** Possible first characters of a sequence. */
function firstOf(pieces: readonly Piece[]): CharSet | null {
  const end = pieces.findIndex((piece) => !piece.canBeEmpty);
  return unionOf((end < 0 ? pieces : pieces.slice(0, end + 1)).map((piece) => piece.first));
}
