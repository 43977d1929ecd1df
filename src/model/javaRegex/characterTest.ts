import type { CharacterClass, ClassAtom, ClassItem } from './pattern.ts';
import { PatternError } from './patternParser.ts';

/** Whether a piece of an expression stands for a code point. */
export type CharacterTest = (codePoint: number) => boolean;

/** Flags that are in force at a piece; those of `java.util.regex.Pattern` by their letters in `(?…)`. */
export interface PatternFlags {
  /** `i` */
  readonly ignoreCase: boolean;
  /** `u`: with `i`, letters beyond ASCII too. */
  readonly unicodeCase: boolean;
  /** `U`: classes such as `\w` hold what Unicode says. */
  readonly unicodeClasses: boolean;
  /** `s` */
  readonly dotAll: boolean;
  /** `m` */
  readonly multiline: boolean;
  /** `d` */
  readonly unixLines: boolean;
}

const isAscii: CharacterTest = (point) => point < 0x80;
const isUpperAscii: CharacterTest = (point) => point >= 65 && point <= 90;
const isLowerAscii: CharacterTest = (point) => point >= 97 && point <= 122;
const isLetterAscii: CharacterTest = (point) => isUpperAscii(point) || isLowerAscii(point);
const isDigitAscii: CharacterTest = (point) => point >= 48 && point <= 57;
const isBlankAscii: CharacterTest = (point) => point === 32 || point === 9;
const isSpaceAscii: CharacterTest = (point) => point === 32 || (point >= 9 && point <= 13);
const isGraphAscii: CharacterTest = (point) => point > 32 && point < 127;
const isAlnumAscii: CharacterTest = (point) => isLetterAscii(point) || isDigitAscii(point);

/** `\w` without the flag U. */
export const isWordAscii: CharacterTest = (point) => isAlnumAscii(point) || point === 95;

/** What ends a line for `.`, `^` and `$`. */
export const endsLine: CharacterTest = (point) =>
  point === 10 || point === 13 || point === 0x85 || point === 0x2028 || point === 0x2029;

const isVertical: CharacterTest = (point) => endsLine(point) || point === 11 || point === 12;
const isHorizontal: CharacterTest = (point) =>
  isBlankAscii(point) ||
  point === 0xa0 ||
  point === 0x1680 ||
  point === 0x180e ||
  (point >= 0x2000 && point <= 0x200a) ||
  point === 0x202f ||
  point === 0x205f ||
  point === 0x3000;

const tests = new Map<string, CharacterTest>();

/** A test by an expression of JavaScript for one character. */
function unicode(expression: string): CharacterTest {
  let test = tests.get(expression);
  if (test === undefined) {
    const whole = new RegExp(`^${expression}$`, 'u');
    test = (point) => whole.test(String.fromCodePoint(point));
    tests.set(expression, test);
  }
  return test;
}

/** `\w` with the flag U. */
export const isWordUnicode = unicode('[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\p{Join_Control}]');

/** Letters of any case, for case properties under the flag i. */
const anyCase = '[\\p{Lowercase}\\p{Uppercase}\\p{Lt}]';
const unicodeGraph = '[^\\p{White_Space}\\p{Cc}\\p{Cs}\\p{Cn}]';
const unicodeBlank = '[\\p{Zs}\\t]';

/** Properties by their names after `Is`, in small letters. */
const binaryProperties: Readonly<Record<string, string>> = {
  ...{ alphabetic: '\\p{Alphabetic}', letter: '\\p{L}', ideographic: '\\p{Ideographic}', lowercase: '\\p{Lowercase}' },
  ...{ uppercase: '\\p{Uppercase}', titlecase: '\\p{Lt}', white_space: '\\p{White_Space}', control: '\\p{Cc}' },
  ...{ punctuation: '\\p{P}', hex_digit: '[\\p{Nd}\\p{Hex_Digit}]', assigned: '\\P{Cn}', digit: '\\p{Nd}' },
  ...{
    noncharacter_code_point: '\\p{Noncharacter_Code_Point}',
    alnum: '[\\p{Alphabetic}\\p{Nd}]',
    blank: unicodeBlank,
  },
  ...{ graph: unicodeGraph, join_control: '\\p{Join_Control}', emoji: '\\p{Emoji}', whitespace: '\\p{White_Space}' },
  print: `(?:${unicodeGraph}|${unicodeBlank})(?<!\\p{Cc})`,
  ...{ emoji_presentation: '\\p{Emoji_Presentation}', emoji_modifier: '\\p{Emoji_Modifier}' },
  ...{ emoji_modifier_base: '\\p{Emoji_Modifier_Base}', emoji_component: '\\p{Emoji_Component}' },
  ...{ extended_pictographic: '\\p{Extended_Pictographic}', hexdigit: '[\\p{Nd}\\p{Hex_Digit}]' },
  ...{ noncharactercodepoint: '\\p{Noncharacter_Code_Point}', joincontrol: '\\p{Join_Control}' },
  word: '[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\p{Join_Control}]',
};

const posixProperties: Readonly<Record<string, CharacterTest>> = {
  ...{ Lower: isLowerAscii, Upper: isUpperAscii, ASCII: isAscii, Alpha: isLetterAscii, Digit: isDigitAscii },
  ...{ Alnum: isAlnumAscii, Graph: isGraphAscii, Blank: isBlankAscii, Space: isSpaceAscii },
  Punct: (point) => isGraphAscii(point) && !isAlnumAscii(point),
  Print: (point) => point === 32 || isGraphAscii(point),
  Cntrl: (point) => point < 32 || point === 127,
  XDigit: (point) => isDigitAscii(point) || (point >= 65 && point <= 70) || (point >= 97 && point <= 102),
};

/** POSIX names under the flag U, as names of Unicode's properties. */
const unicodePosix: Readonly<Record<string, string>> = {
  ...{ Lower: 'lowercase', Upper: 'uppercase', Alpha: 'alphabetic', Digit: 'digit', Alnum: 'alnum', Graph: 'graph' },
  ...{ Blank: 'blank', Space: 'white_space', Punct: 'punctuation', Print: 'print', Cntrl: 'control' },
  XDigit: 'hex_digit',
};

/** Methods of `java.lang.Character` by their names after `java`. */
const javaProperties: Readonly<Record<string, string>> = {
  ...{ LowerCase: '\\p{Lowercase}', UpperCase: '\\p{Uppercase}', Alphabetic: '\\p{Alphabetic}' },
  ...{ Ideographic: '\\p{Ideographic}', TitleCase: '\\p{Lt}', Digit: '\\p{Nd}', Defined: '\\P{Cn}', Letter: '\\p{L}' },
  ...{ LetterOrDigit: '[\\p{L}\\p{Nd}]', SpaceChar: '\\p{Z}', ISOControl: '[\\0-\\x1f\\x7f-\\x9f]' },
  Whitespace: '(?![\\xa0\\u2007\\u202f])[\\p{Z}\\t-\\r\\x1c-\\x1f]',
};

function propertyTest(name: string, flags: PatternFlags, offset: number): CharacterTest {
  const equals = name.indexOf('=');
  const key = name.slice(0, Math.max(equals, 0)).toLowerCase();
  const value = name.slice(equals + 1);
  const folded = (expression: string): CharacterTest =>
    unicode(flags.ignoreCase && /^\\p\{(?:Lowercase|Uppercase|L[ult])\}$/.test(expression) ? anyCase : expression);
  const posix = (posixName: string): CharacterTest => {
    if (flags.ignoreCase && /^(?:Lower|Upper)$/.test(posixName)) return isLetterAscii;
    return posixProperties[posixName] as CharacterTest;
  };
  if (key === 'sc' || key === 'script') return scriptTest(value);
  if (key === 'gc' || key === 'general_category') {
    return Object.hasOwn(posixProperties, value) ? posix(value) : categoryTest(value, folded);
  }
  if (key !== '' || name.startsWith('In'))
    throw new PatternError('has a Unicode block, which is not available', offset);
  if (name.startsWith('java')) {
    const expression = javaProperties[name.slice(4)];
    if (expression !== undefined) return folded(expression);
    throw new PatternError(`has \\p{${name}}, which is not available`, offset);
  }
  if (name.startsWith('Is')) {
    const binary = binaryProperties[value.slice(2).toLowerCase()];
    if (binary !== undefined) return folded(binary);
    const rest = value.slice(2);
    if (Object.hasOwn(posixProperties, rest)) return posix(rest);
    return isCategoryName(rest) ? categoryTest(rest, folded) : scriptTest(rest);
  }
  if (!Object.hasOwn(posixProperties, name)) return categoryTest(name, folded);
  return flags.unicodeClasses && name !== 'ASCII'
    ? folded(binaryProperties[unicodePosix[name] as string] as string)
    : posix(name);
}

const isCategoryName = (name: string): boolean => /^(?:[A-Z][a-z]?|all|L1|LC|LD)$/.test(name);

function categoryTest(name: string, folded: (expression: string) => CharacterTest): CharacterTest {
  switch (name) {
    case 'all':
      return () => true;
    case 'L1':
      return (point) => point <= 0xff;
    case 'LC':
      return unicode('[\\p{Lu}\\p{Ll}\\p{Lt}]');
    case 'LD':
      return unicode('[\\p{L}\\p{Nd}]');
    default:
      return folded(`\\p{${name}}`);
  }
}

/** The parser has checked that the name is one; Java ignores its case. */
function scriptTest(name: string): CharacterTest {
  const capital = (text: string) => text.charAt(0).toUpperCase() + text.slice(1).toLowerCase();
  const words = name.split('_');
  const spellings = [
    words.map(capital).join('_'),
    [capital(words[0] ?? ''), ...words.slice(1)].join('_').toLowerCase(),
  ];
  for (const spelling of [spellings[0], capital(spellings[1] ?? '')]) {
    try {
      return unicode(`\\p{sc=${spelling}}`);
    } catch {
      // The other spelling, of names such as SignWriting_x, is tried next.
    }
  }
  return () => false;
}

function setTest(letter: string, flags: PatternFlags): CharacterTest {
  const unicodeSets: Readonly<Record<string, CharacterTest>> = {
    d: unicode('\\p{Nd}'),
    s: unicode('\\p{White_Space}'),
    w: isWordUnicode,
  };
  const asciiSets: Readonly<Record<string, CharacterTest>> = {
    ...{ d: isDigitAscii, s: isSpaceAscii, w: isWordAscii, h: isHorizontal, v: isVertical },
  };
  const small = letter.toLowerCase();
  const test = ((flags.unicodeClasses ? unicodeSets[small] : undefined) ?? asciiSets[small]) as CharacterTest;
  return letter === small ? test : (point) => !test(point);
}

/** The case mapping of one code point, as `java.lang.Character` has it: to one code point, or none. */
function mapped(point: number, toCase: (text: string) => string): number {
  const text = toCase(String.fromCodePoint(point));
  const first = text.codePointAt(0) as number;
  return text.length === String.fromCodePoint(first).length ? first : point;
}

const upper = (point: number): number => mapped(point, (text) => text.toUpperCase());
/** U+0130 alone has a small letter of its own that JavaScript writes with two code points. */
const lower = (point: number): number => (point === 0x130 ? 0x69 : mapped(point, (text) => text.toLowerCase()));

function rangeTest(from: number, to: number, flags: PatternFlags): CharacterTest {
  const isWithin: CharacterTest = (point) => point >= from && point <= to;
  if (!flags.ignoreCase) return from === to ? (point) => point === from : isWithin;
  if (flags.unicodeCase) {
    return (point) => {
      if (isWithin(point)) return true;
      const capital = upper(point);
      return isWithin(capital) || isWithin(lower(capital));
    };
  }
  return (point) => isWithin(point) || (isLetterAscii(point) && isWithin(point ^ 0x20));
}

function characterTest(codePoint: number, flags: PatternFlags): CharacterTest {
  if (!flags.ignoreCase || !flags.unicodeCase) return rangeTest(codePoint, codePoint, flags);
  const folded = lower(upper(codePoint));
  return (point) => point === codePoint || lower(upper(point)) === folded;
}

/**
 * What stands for one character.
 * @throws PatternError for what is not available here: names of Unicode blocks and of characters
 */
export function atomTest(atom: ClassAtom, flags: PatternFlags): CharacterTest {
  switch (atom.kind) {
    case 'character':
      return characterTest(atom.codePoint, flags);
    case 'set':
      return setTest(atom.letter, flags);
    case 'property': {
      const test = propertyTest(atom.name, flags, atom.offset);
      return atom.isNegated ? (point) => !test(point) : test;
    }
    case 'namedCharacter':
      throw new PatternError('has \\N, which is not available; write the character or \\x{…}', atom.offset);
  }
}

/** What a class in brackets holds. @throws PatternError as `atomTest` */
export function classTest({ operands, isNegated }: CharacterClass, flags: PatternFlags): CharacterTest {
  const all = operands.map((items) => unionTest(items, flags));
  const [first = () => false, ...others] = all;
  const test: CharacterTest =
    others.length === 0 ? first : (point) => first(point) && others.every((other) => other(point));
  return isNegated ? (point) => !test(point) : test;
}

function unionTest(items: readonly ClassItem[], flags: PatternFlags): CharacterTest {
  const parts = items.map((item) => {
    if (item.kind === 'range') return rangeTest(item.from, item.to, flags);
    return item.kind === 'class' ? classTest(item, flags) : atomTest(item, flags);
  });
  const [only] = parts;
  return parts.length === 1 && only !== undefined ? only : (point) => parts.some((part) => part(point));
}

/** `.` */
export function dotTest({ dotAll, unixLines }: PatternFlags): CharacterTest {
  if (dotAll) return () => true;
  return unixLines ? (point) => point !== 10 : (point) => !endsLine(point);
}
