import { type Evaluation, EvaluationError } from '../evaluation.ts';
import { javaPattern } from '../regex/javaPattern.ts';
import { JavaArray, JavaList, JavaStream } from '../values/collections.ts';
import { stringHash } from '../values/equality.ts';
import { compareText } from '../values/operators.ts';
import { javaText } from '../values/text.ts';
import { JavaBuilder, JavaChar, JavaSmallInt, type Value } from '../values/value.ts';
import { format } from './format.ts';
import { LibraryClass } from './javaClass.ts';
import { char, MethodTable } from './methodTable.ts';

/** Methods of `java.lang.String`. */
export const stringMethods = new MethodTable('String')
  .add('length', [], (_e, self: string) => self.length)
  .add('isEmpty', [], (_e, self: string) => self === '')
  .add('isBlank', [], (_e, self: string) => self.trim() === '')
  .add('toString', [], (_e, self: string) => self)
  .add('intern', [], (_e, self: string) => self)
  .add('hashCode', [], (_e, self: string) => stringHash(self))
  .add('equals', ['any'], (_e, self: string, other) => self === other)
  .add('equalsIgnoreCase', ['string?'], (_e, self: string, other) => other !== null && sameIgnoringCase(self, other))
  .add('contentEquals', ['string'], (_e, self: string, other) => self === other)
  .add('compareTo', ['string'], (_e, self: string, other) => compareText(self, other))
  .add('compareToIgnoreCase', ['string'], (_e, self: string, other) => compareText(fold(self), fold(other)))
  .add('contains', ['string'], (_e, self: string, part) => self.includes(part))
  .add('startsWith', ['string'], (_e, self: string, prefix) => self.startsWith(prefix))
  .add('startsWith', ['string', 'int'], (_e, self: string, prefix, from) => from >= 0 && self.startsWith(prefix, from))
  .add('endsWith', ['string'], (_e, self: string, suffix) => self.endsWith(suffix))
  .add('indexOf', ['string'], (_e, self: string, part) => self.indexOf(part))
  .add('indexOf', ['int'], (_e, self: string, code) => self.indexOf(codeText(code)))
  .add('indexOf', ['string', 'int'], (_e, self: string, part, from) => self.indexOf(part, from))
  .add('lastIndexOf', ['string'], (_e, self: string, part) => self.lastIndexOf(part))
  .add('lastIndexOf', ['int'], (_e, self: string, code) => self.lastIndexOf(codeText(code)))
  .add('lastIndexOf', ['string', 'int'], (_e, self: string, part, from) =>
    from < 0 ? -1 : self.lastIndexOf(part, from),
  )
  .add('charAt', ['int'], (_e, self: string, index) => char(unitAt(self, index)))
  .add('codePointAt', ['int'], (_e, self: string, index) => {
    unitAt(self, index);
    return self.codePointAt(index) ?? 0;
  })
  .add('substring', ['int'], (e, self: string, from) => slice(e, self, from, self.length))
  .add('substring', ['int', 'int'], (e, self: string, from, to) => slice(e, self, from, to))
  .add('subSequence', ['int', 'int'], (e, self: string, from, to) => slice(e, self, from, to))
  .add('concat', ['string'], (e, self: string, other) => made(e, self.length + other.length, () => self + other))
  .add('toLowerCase', [], (e, self: string) => made(e, self.length, () => self.toLowerCase()))
  .add('toUpperCase', [], (e, self: string) => made(e, self.length * 3, () => self.toUpperCase()))
  // Java's trim takes every unit up to the space, strip what Unicode calls white space.
  .add('trim', [], (_e, self: string) => trimControls(self))
  .add('strip', [], (_e, self: string) => self.trim())
  .add('stripLeading', [], (_e, self: string) => self.trimStart())
  .add('stripTrailing', [], (_e, self: string) => self.trimEnd())
  .add('replace', ['char', 'char'], (e, self: string, from, to) => replaceAll(e, self, from, to))
  .add('replace', ['string', 'string'], (e, self: string, from, to) => replaceAll(e, self, from, to))
  .add('repeat', ['int'], (e, self: string, count) => {
    if (count < 0) throw new EvaluationError('repeat needs a count of 0 or more');
    return made(e, self.length * count, () => self.repeat(count));
  })
  .add('matches', ['string'], (e, self: string, pattern) => javaPattern(pattern, e).matches(self, e))
  .add('replaceAll', ['string', 'string'], (e, self: string, pattern, by) =>
    javaPattern(pattern, e).replace(self, by, true, e),
  )
  .add('replaceFirst', ['string', 'string'], (e, self: string, pattern, by) =>
    javaPattern(pattern, e).replace(self, by, false, e),
  )
  .add('split', ['string'], (e, self: string, pattern) => new JavaArray(javaPattern(pattern, e).split(self, 0, e)))
  .add(
    'split',
    ['string', 'int'],
    (e, self: string, pattern, limit) => new JavaArray(javaPattern(pattern, e).split(self, limit, e)),
  )
  .add('toCharArray', [], (e, self: string) => new JavaArray(units(e, self).map(char)))
  .add('chars', [], (e, self: string) => new JavaStream(units(e, self).map((unit) => unit.charCodeAt(0))))
  .add('lines', [], (e, self: string) => new JavaStream(linesOf(e, self)))
  .add('getBytes', [], (e, self: string) => bytes(e, self))
  .add('indent', ['int'], (e, self: string, count) => indent(e, self, count))
  .addVariadic('formatted', [], (e, self: string, args) => format(self, args, e));

/** `java.lang.StringBuilder`. */
export const builderMethods = new MethodTable('StringBuilder')
  .add('append', ['any'], (e, self: JavaBuilder, value) => {
    const text = javaText(value, e);
    e.reserveText(self.text.length + text.length);
    e.willChange(self);
    self.text += text;
    return self;
  })
  .add('reverse', [], (e, self: JavaBuilder) => {
    e.reserveText(self.text.length);
    e.willChange(self);
    self.text = [...self.text].reverse().join('');
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
  .add('indexOf', ['string'], (_e, self: JavaBuilder, part) => self.text.indexOf(part))
  .add('substring', ['int'], (e, self: JavaBuilder, from) => slice(e, self.text, from, self.text.length))
  .add('substring', ['int', 'int'], (e, self: JavaBuilder, from, to) => slice(e, self.text, from, to));

/** Methods of a char. */
export const charMethods = new MethodTable('Character')
  .add('toString', [], (_e, self: JavaChar) => self.text)
  .add('charValue', [], (_e, self: JavaChar) => self)
  .add('hashCode', [], (_e, self: JavaChar) => self.text.charCodeAt(0))
  .add('equals', ['any'], (_e, self: JavaChar, other) => other instanceof JavaChar && other.text === self.text)
  .add('compareTo', ['char'], (_e, self: JavaChar, other) => self.text.charCodeAt(0) - other.charCodeAt(0));

/** The class String. */
export const stringClass = new LibraryClass('String', ['string']);
stringClass.statics
  .add('valueOf', ['any'], (e, _self, value) => {
    if (value === null) throw new EvaluationError('String.valueOf(null)');
    return javaText(value, e);
  })
  .addVariadic('format', ['string'], (e, _self, pattern, args) => format(pattern, args, e))
  .add('join', ['string', 'elements'], (e, _self, separator, elements) =>
    join(e, separator, 'items' in elements ? elements.items : [...elements.elements.values()]),
  )
  .addVariadic('join', ['string'], (e, _self, separator, parts) => join(e, separator, parts));
stringClass.constructors.add('new', [], () => '').add('new', ['string'], (_e, _self, text) => text);

/** The class StringBuilder (and StringBuffer). */
export const builderClass = new LibraryClass('StringBuilder', ['builder']);
builderClass.constructors
  .add('new', [], () => new JavaBuilder())
  .add('new', ['int'], () => new JavaBuilder())
  .add('new', ['string'], (e, _self, text) => {
    const builder = new JavaBuilder();
    e.reserveText(text.length);
    builder.text = text;
    return builder;
  });

/** The class Character. */
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

function fold(text: string): string {
  return text.toUpperCase().toLowerCase();
}

function sameIgnoringCase(a: string, b: string): boolean {
  return a.length === b.length && (a === b || fold(a) === fold(b));
}

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

/** Makes a string whose length is known beforehand. */
function made(e: Evaluation, length: number, make: () => string): string {
  e.reserveText(length);
  return make();
}

function trimControls(text: string): string {
  let start = 0;
  let end = text.length;
  while (start < end && text.charCodeAt(start) <= 32) start += 1;
  while (end > start && text.charCodeAt(end - 1) <= 32) end -= 1;
  return text.slice(start, end);
}

function replaceAll(e: Evaluation, text: string, from: string, to: string): string {
  const parts = text.split(from);
  if (from === '') {
    e.reserveText(text.length + (text.length + 1) * to.length);
    return to + parts.map((part) => part + to).join('');
  }
  e.reserveText(text.length + (parts.length - 1) * (to.length - from.length));
  return parts.join(to);
}

function units(e: Evaluation, text: string): string[] {
  e.reserveElements(text.length, text.length);
  return text.split('');
}

function linesOf(e: Evaluation, text: string): string[] {
  const lines = text.split(/\r\n|\r|\n/);
  if (lines.at(-1) === '') lines.pop();
  e.reserveElements(lines.length, lines.length);
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
  e.step(list.length);
  let length = 0;
  const parts = list.map((item) => {
    const text = javaText(item, e);
    length += text.length + separator.length;
    e.reserveText(length - separator.length);
    return text;
  });
  return parts.join(separator);
}
