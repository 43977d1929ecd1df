import { type CharacterTest, endsLine, isWordAscii, isWordUnicode, type PatternFlags } from './characterTest.ts';
import { PatternError } from './patternParser.ts';

/** A text as its code points. */
export type CodePoints = ArrayLike<number>;

/** Whether a place between characters is of a kind. @param at from 0, the start of the text, to its length */
export type Boundary = (text: CodePoints, at: number) => boolean;

const LINE_FEED = 10;
const CARRIAGE_RETURN = 13;

const atStart: Boundary = (_text, at) => at === 0;
const atEnd: Boundary = (text, at) => at === text.length;

/** Between a carriage return and its line feed, which are one line terminator. */
const isWithinLineEnd: Boundary = (text, at) =>
  at > 0 && at < text.length && text[at] === LINE_FEED && text[at - 1] === CARRIAGE_RETURN;

const afterLineEnd: Boundary = (text, at) =>
  at !== text.length && (at === 0 || (endsLine(text[at - 1] as number) && !isWithinLineEnd(text, at)));
const beforeLineEnd: Boundary = (text, at) =>
  at === text.length || (endsLine(text[at] as number) && !isWithinLineEnd(text, at));
const beforeLastLineEnd: Boundary = (text, at) => {
  const left = text.length - at;
  const isPair = left === 2 && text[at] === CARRIAGE_RETURN && text[at + 1] === LINE_FEED;
  return left === 0 || isPair || (left === 1 && beforeLineEnd(text, at));
};

const afterLineFeed: Boundary = (text, at) => at !== text.length && (at === 0 || text[at - 1] === LINE_FEED);
const beforeLineFeed: Boundary = (text, at) => at === text.length || text[at] === LINE_FEED;
const beforeLastLineFeed: Boundary = (text, at) => text.length - at <= 1 && beforeLineFeed(text, at);

const nonSpacingMark = /^\p{Mn}$/u;
const letterOrDigit = /^[\p{L}\p{Nd}]$/u;

/** Whether a mark at a place belongs to a letter or digit before it; Java counts it as a word's part then. */
function isMarkOfWord(text: CodePoints, at: number): boolean {
  for (let place = at; place >= 0; place -= 1) {
    const character = String.fromCodePoint(text[place] as number);
    if (!nonSpacingMark.test(character)) return place < at && letterOrDigit.test(character);
  }
  return false;
}

function wordBoundary(isWord: CharacterTest): Boundary {
  const isWordAt = (text: CodePoints, at: number): boolean => {
    if (at < 0 || at >= text.length) return false;
    const point = text[at] as number;
    return isWord(point) || (point >= 0x300 && isMarkOfWord(text, at));
  };
  return (text, at) => isWordAt(text, at - 1) !== isWordAt(text, at);
}

const asciiWord = wordBoundary(isWordAscii);
const unicodeWord = wordBoundary(isWordUnicode);

/**
 * The meaning of `^`, `$` or what a letter after a backslash stands for.
 * @throws PatternError for grapheme boundaries, which are not available here
 */
export function boundaryOf(letter: string, flags: PatternFlags, offset: number): Boundary {
  const { multiline, unixLines, unicodeClasses } = flags;
  switch (letter) {
    case '^':
      if (!multiline) return atStart;
      return unixLines ? afterLineFeed : afterLineEnd;
    case '$':
      if (!multiline) return unixLines ? beforeLastLineFeed : beforeLastLineEnd;
      return unixLines ? beforeLineFeed : beforeLineEnd;
    case 'A':
    case 'G':
      return atStart;
    case 'z':
      return atEnd;
    case 'Z':
      return unixLines ? beforeLastLineFeed : beforeLastLineEnd;
    case 'b':
      return unicodeClasses ? unicodeWord : asciiWord;
    case 'B': {
      const boundary = unicodeClasses ? unicodeWord : asciiWord;
      return (text, at) => !boundary(text, at);
    }
    default:
      throw new PatternError(`has \\${letter}, which is not available`, offset);
  }
}
