import { type Evaluation, EvaluationError } from '../evaluation.ts';
import { javaPattern } from '../regex/javaPattern.ts';
import { compareIgnoringCase, sameIgnoringCase } from '../values/caseFolding.ts';
import { lowerCase, upperCase } from '../values/caseMapping.ts';
import { JavaArray, JavaList, JavaStream } from '../values/collections.ts';
import { isBlankText } from '../values/operators.ts';
import { javaText } from '../values/text.ts';
import { compareText, equalTexts, includesText, indexOf, lastIndexOf } from '../values/textSearch.ts';
import { JavaBuilder, JavaChar, JavaSmallInt, textHash, type Value } from '../values/value.ts';
import { bytesOf, UNITS_A_BYTE } from './base64.ts';
import { itemsOf } from './collections.ts';
import { format } from './format.ts';
import { LibraryClass } from './javaClass.ts';
import { JavaLocale, localeOf, lowerCaseOf, upperCaseOf } from './locales.ts';
import { char, MethodTable, objectMethods } from './methodTable.ts';

export const stringMethods = new MethodTable('String', 'operands')
  .add('length', [], (_e, self: string) => self.length)
  .add('isEmpty', [], (_e, self: string) => self === '')
  .add('isBlank', [], (e, self: string) => isBlankText(self, e))
  .add('toString', [], (_e, self: string) => self)
  .add('intern', [], (_e, self: string) => self)
  .add('hashCode', [], (e, self: string) => textHash(self, e))
  .add('equals', ['any'], (e, self: string, other) => typeof other === 'string' && equalTexts(self, other, e))
  .add('equalsIgnoreCase', ['string?'], (e, self: string, other) => other !== null && sameIgnoringCase(self, other, e))
  .add('contentEquals', ['string'], (e, self: string, other) => equalTexts(self, other, e))
  .add('compareTo', ['string'], (e, self: string, other) => compareText(self, other, e))
  .add('compareToIgnoreCase', ['string'], (e, self: string, other) => compareIgnoringCase(self, other, e))
  .add('contains', ['string'], (e, self: string, part) => includesText(self, part, e))
  .add('startsWith', ['string'], (_e, self: string, prefix) => self.startsWith(prefix))
  .add('startsWith', ['string', 'int'], (_e, self: string, prefix, from) => from >= 0 && self.startsWith(prefix, from))
  .add('endsWith', ['string'], (_e, self: string, suffix) => self.endsWith(suffix))
  .add('indexOf', ['string'], (e, self: string, part) => indexOf(self, part, 0, e))
  .add('indexOf', ['int'], (_e, self: string, code) => self.indexOf(codeText(code)))
  .add('indexOf', ['string', 'int'], (e, self: string, part, from) => indexOf(self, part, from, e))
  .add('lastIndexOf', ['string'], (e, self: string, part) => lastIndexOf(self, part, self.length, e))
  .add('lastIndexOf', ['int'], (_e, self: string, code) => self.lastIndexOf(codeText(code)))
  .add('lastIndexOf', ['string', 'int'], (e, self: string, part, from) =>
    from < 0 ? -1 : lastIndexOf(self, part, from, e),
  )
  .add('charAt', ['int'], (_e, self: string, index) => char(unitAt(self, index)))
  .add('codePointAt', ['int'], (_e, self: string, index) => {
    unitAt(self, index);
    return self.codePointAt(index) ?? 0;
  })
  .add('substring', ['int'], (e, self: string, from) => slice(e, self, from, self.length))
  .add('substring', ['int', 'int'], (e, self: string, from, to) => slice(e, self, from, to))
  .add('subSequence', ['int', 'int'], (e, self: string, from, to) => slice(e, self, from, to))
  .add('concat', ['string'], (e, self: string, other) => newText(e, self.length + other.length, () => self + other))
  .add('toLowerCase', [], (e, self: string) => lowerCase(self, e))
  .add('toUpperCase', [], (e, self: string) => upperCase(self, e))
  .add('toLowerCase', ['any'], (e, self: string, locale) => lowerCaseOf(self, localeOf(locale), e))
  .add('toUpperCase', ['any'], (e, self: string, locale) => upperCaseOf(self, localeOf(locale), e))
  // Java's trim removes every unit up to the space, strip only Unicode white space.
  .add('trim', [], (e, self: string) => trimControls(self, e))
  .add('strip', [], (_e, self: string) => self.trim())
  .add('stripLeading', [], (_e, self: string) => self.trimStart())
  .add('stripTrailing', [], (_e, self: string) => self.trimEnd())
  .add('replace', ['char', 'char'], (e, self: string, from, to) => replaceAll(e, self, from, to))
  .add('replace', ['string', 'string'], (e, self: string, from, to) => replaceAll(e, self, from, to))
  .add('repeat', ['int'], (e, self: string, count) => {
    if (count < 0) throw new EvaluationError('repeat needs a count of 0 or more');
    return newText(e, self.length * count, () => self.repeat(count));
  })
  .add('matches', ['string'], (e, self: string, pattern) => javaPattern(pattern, e).matches(self, e))
  .add('replaceAll', ['string', 'string'], (e, self: string, pattern, by) =>
    javaPattern(pattern, e).replace(self, by, true, e),
  )
  .add('replaceFirst', ['string', 'string'], (e, self: string, pattern, by) =>
    javaPattern(pattern, e).replace(self, by, false, e),
  )
  .addFresh('split', ['string'], (e, self: string, pattern) => new JavaArray(javaPattern(pattern, e).split(self, 0, e)))
  .addFresh(
    'split',
    ['string', 'int'],
    (e, self: string, pattern, limit) => new JavaArray(javaPattern(pattern, e).split(self, limit, e)),
  )
  .addFresh('toCharArray', [], (e, self: string) => new JavaArray(units(e, self).map(char)))
  .addFresh('chars', [], (e, self: string) => new JavaStream(units(e, self).map((unit) => unit.charCodeAt(0))))
  .addFresh('lines', [], (e, self: string) => new JavaStream(linesOf(e, self)))
  .add('regionMatches', ['int', 'string', 'int', 'int'], (e, self: string, from, other, otherFrom, length) => {
    const [own, others] = [region(self, from, length), region(other, otherFrom, length)];
    return own !== null && others !== null && equalTexts(own, others, e);
  })
  .add(
    'regionMatches',
    ['boolean', 'int', 'string', 'int', 'int'],
    (e, self: string, ignoresCase, from, other, otherFrom, length) => {
      const [own, others] = [region(self, from, length), region(other, otherFrom, length)];
      if (own === null || others === null) return false;
      return ignoresCase ? sameIgnoringCase(own, others, e) : equalTexts(own, others, e);
    },
  )
  .addFresh('getBytes', [], (e, self: string) => bytes(e, self))
  .add('indent', ['int'], (e, self: string, count) => indent(e, self, count))
  .addVariadic('formatted', [], (e, self: string, args) => format(self, args, e));

export const builderMethods = new MethodTable('StringBuilder', 'operands')
  .add('append', ['any'], (e, self: JavaBuilder, value) => {
    const text = javaText(value, e);
    e.reserveText(self.text.length + text.length, text.length);
    e.willChange(self);
    self.text += text;
    return self;
  })
  .add('reverse', [], (e, self: JavaBuilder) => {
    e.reserveText(self.text.length);
    e.willChange(self);
    self.text = reversed(self.text, e);
    return self;
  })
  .add('insert', ['int', 'any'], (e, self: JavaBuilder, index, value) => {
    if (index < 0 || index > self.text.length) throw new EvaluationError(`index ${index} is outside the text`);
    const text = javaText(value, e);
    e.reserveText(self.text.length + text.length);
    e.willChange(self);
    self.text = self.text.slice(0, index) + text + self.text.slice(index);
    return self;
  })
  .add('deleteCharAt', ['int'], (e, self: JavaBuilder, index) => {
    unitAt(self.text, index);
    return cut(e, self, index, index + 1, '');
  })
  .add('delete', ['int', 'int'], (e, self: JavaBuilder, from, to) => cut(e, self, from, to, ''))
  .add('replace', ['int', 'int', 'string'], (e, self: JavaBuilder, from, to, by) => cut(e, self, from, to, by))
  .add('setLength', ['int'], (e, self: JavaBuilder, length) => {
    if (length < 0) throw new EvaluationError('setLength needs 0 or more');
    e.reserveText(length);
    e.willChange(self);
    self.text = self.text.slice(0, length).padEnd(length, '\0');
    return null;
  })
  .add('length', [], (_e, self: JavaBuilder) => self.text.length)
  .add('isEmpty', [], (_e, self: JavaBuilder) => self.text === '')
  .add('toString', [], (_e, self: JavaBuilder) => self.text)
  .add('charAt', ['int'], (_e, self: JavaBuilder, index) => char(unitAt(self.text, index)))
  .add('indexOf', ['string'], (e, self: JavaBuilder, part) => indexOf(self.text, part, 0, e))
  .add('substring', ['int'], (e, self: JavaBuilder, from) => slice(e, self.text, from, self.text.length))
  .add('substring', ['int', 'int'], (e, self: JavaBuilder, from, to) => slice(e, self.text, from, to));

export const charMethods = new MethodTable('Character', 'operands')
  .include(objectMethods)
  .add('charValue', [], (_e, self: JavaChar) => self)
  .add('compareTo', ['char'], (_e, self: JavaChar, other) => self.text.charCodeAt(0) - other.charCodeAt(0));

export const stringClass = new LibraryClass('String', ['string']);
stringClass.statics
  .add('valueOf', ['any'], (e, _self, value) => {
    if (value === null) throw new EvaluationError('String.valueOf(null)');
    return javaText(value, e);
  })
  // With a Locale before the pattern: numbers are always formatted as in English.
  .addVariadic('format', ['any'], (e, _self, first, args) => {
    const [pattern, ...values] = first instanceof JavaLocale ? args : [first, ...args];
    if (typeof pattern !== 'string') throw new EvaluationError('String.format takes a pattern, and a Locale before it');
    return format(pattern, values, e);
  })
  .add('join', ['string', 'elements'], (e, _self, separator, elements) =>
    join(e, separator, 'items' in elements ? elements.items : [...elements.elements.values()]),
  )
  .addVariadic('join', ['string'], (e, _self, separator, parts) => join(e, separator, parts));
stringClass.constructors
  .add('new', [], () => '')
  .add('new', ['string'], (_e, _self, text) => text)
  .add('new', ['elements'], (e, _self, elements) => ofBytesOrChars(itemsOf(elements, e), e));

export const builderClass = new LibraryClass('StringBuilder', ['builder']);
builderClass.constructors
  .addFresh('new', [], () => new JavaBuilder())
  .addFresh('new', ['int'], () => new JavaBuilder())
  .addFresh('new', ['string'], (e, _self, text) => {
    const builder = new JavaBuilder();
    e.reserveText(text.length);
    builder.text = text;
    return builder;
  });

export const characterClass = new LibraryClass('Character', ['char']);
characterClass.statics
  .add('isDigit', ['char'], (_e, _self, unit) => /\p{Nd}/u.test(unit))
  .add('isLetter', ['char'], (_e, _self, unit) => /\p{L}/u.test(unit))
  .add('isLetterOrDigit', ['char'], (_e, _self, unit) => /[\p{L}\p{Nd}]/u.test(unit))
  .add('isUpperCase', ['char'], (_e, _self, unit) => /\p{Lu}/u.test(unit))
  .add('isLowerCase', ['char'], (_e, _self, unit) => /\p{Ll}/u.test(unit))
  .add('isWhitespace', ['char'], (_e, _self, unit) =>
    unit <= ' ' ? /[\t-\r ]/.test(unit) || unit >= '\u001c' : /(?![\u00a0\u2007\u202f])\s/.test(unit),
  )
  .add('toUpperCase', ['char'], (_e, _self, unit) => char(unit.toUpperCase().length === 1 ? unit.toUpperCase() : unit))
  .add('toLowerCase', ['char'], (_e, _self, unit) => char(unit.toLowerCase().length === 1 ? unit.toLowerCase() : unit))
  .add('getNumericValue', ['char'], (_e, _self, unit) => (/[0-9a-zA-Z]/.test(unit) ? Number.parseInt(unit, 36) : -1))
  .add('toString', ['char'], (_e, _self, unit) => unit)
  .add('valueOf', ['char'], (_e, _self, unit) => char(unit));

function codeText(code: number): string {
  return code >= 0 && code <= 0x10ffff ? String.fromCodePoint(code) : '\uffff\uffff';
}

function unitAt(text: string, index: number): string {
  if (index < 0 || index >= text.length) throw new EvaluationError(`index ${index} is outside the text`);
  return text.charAt(index);
}

function slice(e: Evaluation, text: string, from: number, to: number): string {
  if (from < 0 || to > text.length || from > to) {
    throw new EvaluationError(`substring ${from} to ${to} is outside a text of length ${text.length}`);
  }
  e.reserveText(to - from);
  return text.slice(from, to);
}

/** A part of a text for `regionMatches`; null if out of range. */
function region(text: string, from: number, length: number): string | null {
  if (from < 0 || from > text.length - length) return null;
  return text.slice(from, from + Math.max(length, 0));
}

/** Replaces a part that may reach beyond the end (`StringBuilder.delete`, `replace`). */
function cut(e: Evaluation, self: JavaBuilder, from: number, to: number, by: string): JavaBuilder {
  const end = Math.min(to, self.text.length);
  if (from < 0 || from > end) {
    throw new EvaluationError(`${from} to ${to} is outside a text of length ${self.text.length}`);
  }
  e.reserveText(self.text.length + by.length);
  e.willChange(self);
  self.text = self.text.slice(0, from) + by + self.text.slice(end);
  return self;
}

/** Converts UTF-8 bytes, as `getBytes()` returns them, or chars to text. */
function ofBytesOrChars(items: readonly Value[], e: Evaluation): string {
  e.reserveText(items.length);
  if (items.length > 0 && items[0] instanceof JavaChar) {
    e.text(UNITS_A_BYTE * items.length);
    return items.map((item) => (item instanceof JavaChar ? item.text : '')).join('');
  }
  return bytesOf(items, 'new String', e).toString('utf8');
}

function newText(e: Evaluation, length: number, make: () => string): string {
  e.reserveText(length);
  return make();
}

/** Reverses a text; surrogate pairs stay intact. */
function reversed(text: string, e: Evaluation): string {
  e.text(8 * text.length);
  const bytes = Buffer.from(text, 'utf16le');
  const units = new Uint16Array(bytes.buffer, bytes.byteOffset, text.length).reverse();
  if (!/[\ud800-\udbff]/.test(text)) return bytes.toString('utf16le');
  for (let index = 0; index + 1 < units.length; index += 1) {
    if (index % COUNTED_UNITS < 2) e.text(COUNTED_UNITS);
    const [low, high] = [units[index] as number, units[index + 1] as number];
    if (low >= 0xdc00 && low <= 0xdfff && high >= 0xd800 && high <= 0xdbff) {
      units[index] = high;
      units[index + 1] = low;
      index += 1;
    }
  }
  return bytes.toString('utf16le');
}

const COUNTED_UNITS = 65_536;

function trimControls(text: string, e: Evaluation): string {
  const count = (index: number): void => {
    if (index % COUNTED_UNITS === 0) e.text(COUNTED_UNITS);
  };
  let start = 0;
  let end = text.length;
  for (; start < end && text.charCodeAt(start) <= 32; start += 1) count(start + 1);
  for (; end > start && text.charCodeAt(end - 1) <= 32; end -= 1) count(end);
  return text.slice(start, end);
}

/** Maximum number of pieces joined in one call: more would take several times the memory of their text. */
const JOINED_PIECES = 4096;
/** Units of one replacement, in addition to characters read and written. */
const UNITS_A_REPLACEMENT = 128;

function replaceAll(e: Evaluation, text: string, from: string, to: string): string {
  if (from === '') return between(e, text, to);
  const whole: string[] = [];
  let pieces: string[] = [];
  let length = 0;
  let last = 0;
  for (let at = indexOf(text, from, 0, e); at >= 0; at = indexOf(text, from, last, e)) {
    e.text(UNITS_A_REPLACEMENT);
    const growth = at - last + to.length;
    length += growth;
    e.reserveText(length, growth);
    pieces.push(text.slice(last, at), to);
    last = at + from.length;
    if (pieces.length >= JOINED_PIECES) {
      whole.push(pieces.join(''));
      pieces = [];
    }
  }
  if (last === 0 && pieces.length === 0 && whole.length === 0) return text;
  e.reserveText(length + text.length - last, text.length - last);
  return `${whole.join('')}${pieces.join('')}${text.slice(last)}`;
}

/** Inserts a text before each unit and at the end. */
function between(e: Evaluation, text: string, to: string): string {
  e.reserveText(text.length + (text.length + 1) * to.length);
  if (to === '') return text;
  const whole: string[] = [to];
  for (let at = 0; at < text.length; at += JOINED_PIECES) {
    const piece = text.slice(at, at + JOINED_PIECES);
    e.text(UNITS_A_REPLACEMENT * piece.length);
    whole.push(piece.split('').join(to), to);
  }
  return whole.join('');
}

function units(e: Evaluation, text: string): string[] {
  e.reserveElements(text.length, text.length);
  return text.split('');
}

const LINE_END = /\r\n|\r|\n/g;

function linesOf(e: Evaluation, text: string): string[] {
  const lines: string[] = [];
  let last = 0;
  for (const { 0: end, index } of text.matchAll(LINE_END)) {
    e.reserveElements(lines.length + 1, 1);
    lines.push(text.slice(last, index));
    last = index + end.length;
  }
  if (last < text.length) {
    e.reserveElements(lines.length + 1, 1);
    lines.push(text.slice(last));
  }
  return lines;
}

function indent(e: Evaluation, text: string, count: number): string {
  const lines = linesOf(e, text);
  e.reserveText(text.length + lines.length * (Math.max(count, 0) + 1));
  return lines
    .map((line) => (count >= 0 ? ' '.repeat(count) + line : line.replace(/^\s+/, (blank) => blank.slice(-count))))
    .map((line) => `${line}\n`)
    .join('');
}

function bytes(e: Evaluation, text: string): JavaArray {
  e.reserveElements(text.length * 3, text.length * 3);
  return new JavaArray([...new TextEncoder().encode(text)].map((byte) => new JavaSmallInt('byte', (byte << 24) >> 24)));
}

function join(e: Evaluation, separator: string, items: readonly Value[]): string {
  const list = items.length === 1 && items[0] instanceof JavaList ? items[0].items : items;
  let length = 0;
  const parts: string[] = [];
  for (const item of list) {
    e.step();
    const text = javaText(item, e);
    const growth = text.length + (parts.length > 0 ? separator.length : 0);
    length += growth;
    e.reserveText(length, growth);
    parts.push(text);
  }
  return parts.join(separator);
}
