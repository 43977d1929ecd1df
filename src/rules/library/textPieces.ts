import { type Evaluation, EvaluationError } from '../evaluation.ts';
import { textBy } from '../values/text.ts';
import { Mutable } from '../values/value.ts';
import { LibraryClass } from './javaClass.ts';
import { MethodTable } from './methodTable.ts';

const UNITS_A_CHARACTER = 16;
/** Longer sets of delimiters are rejected: each character is looked up in them. */
const MAX_DELIMITERS = 64;

export class JavaTokenizer extends Mutable {
  readonly kind = 'tokenizer';
  readonly size = 0;
  readonly text: string;
  delimiters: string;
  readonly #givesDelimiters: boolean;
  at = 0;

  constructor(text: string, delimiters: string, givesDelimiters: boolean) {
    super();
    this.text = text;
    this.delimiters = checked(delimiters);
    this.#givesDelimiters = givesDelimiters;
  }

  override snapshot(): () => void {
    const { at, delimiters } = this;
    return () => {
      this.at = at;
      this.delimiters = delimiters;
    };
  }

  /** Start and end of the next token; null at the end. */
  next(after: number, e: Evaluation): readonly [start: number, end: number] | null {
    const start = this.#givesDelimiters ? after : this.#skip(after, true, e);
    if (start >= this.text.length) return null;
    const end = this.#skip(start, false, e);
    return [start, end === start ? start + 1 : end];
  }

  /** The first position from `start` on with a delimiter, or without one (`areDelimiters`). */
  #skip(start: number, areDelimiters: boolean, e: Evaluation): number {
    let at = start;
    while (at < this.text.length && this.delimiters.includes(this.text.charAt(at)) === areDelimiters) {
      e.text(UNITS_A_CHARACTER);
      at += 1;
    }
    return at;
  }
}

function checked(delimiters: string): string {
  if (delimiters.length <= MAX_DELIMITERS) return delimiters;
  throw new EvaluationError(`StringTokenizer takes up to ${MAX_DELIMITERS} delimiters`);
}

function nextToken(self: JavaTokenizer, e: Evaluation): string {
  const piece = self.next(self.at, e);
  if (piece === null) throw new EvaluationError('there is no next token');
  e.willChange(self);
  const [start, end] = piece;
  self.at = end;
  e.reserveText(end - start);
  return self.text.slice(start, end);
}

export const tokenizerClass = new LibraryClass('StringTokenizer', ['tokenizer']);
tokenizerClass.constructors
  .addFresh('new', ['string'], (_e, _self, text) => new JavaTokenizer(text, ' \t\n\r\f', false))
  .addFresh('new', ['string', 'string'], (_e, _self, text, delimiters) => new JavaTokenizer(text, delimiters, false))
  .addFresh(
    'new',
    ['string', 'string', 'boolean'],
    (_e, _self, text, delimiters, gives) => new JavaTokenizer(text, delimiters, gives),
  );

export const tokenizerMethods = new MethodTable('StringTokenizer', 'operands')
  .add('hasMoreTokens', [], (e, self: JavaTokenizer) => self.next(self.at, e) !== null)
  .add('hasMoreElements', [], (e, self: JavaTokenizer) => self.next(self.at, e) !== null)
  .add('nextToken', [], (e, self: JavaTokenizer) => nextToken(self, e))
  .add('nextToken', ['string'], (e, self: JavaTokenizer, delimiters) => {
    e.willChange(self);
    self.delimiters = checked(delimiters);
    return nextToken(self, e);
  })
  .add('nextElement', [], (e, self: JavaTokenizer) => nextToken(self, e))
  .add('countTokens', [], (e, self: JavaTokenizer) => {
    let count = 0;
    for (let piece = self.next(self.at, e); piece !== null; piece = self.next(piece[1], e)) {
      e.text(UNITS_A_CHARACTER);
      count += 1;
    }
    return count;
  });

export class JavaJoiner extends Mutable {
  readonly kind = 'joiner';
  /** Strings are immutable: saving needs no copy. */
  readonly size = 0;
  readonly delimiter: string;
  readonly prefix: string;
  readonly suffix: string;
  /** Text of an empty joiner; null: prefix and suffix. */
  whenEmpty: string | null = null;
  /** Joined text with delimiters; null if empty. */
  joined: string | null = null;

  constructor(delimiter: string, prefix = '', suffix = '') {
    super();
    this.delimiter = delimiter;
    this.prefix = prefix;
    this.suffix = suffix;
  }

  get text(): string {
    if (this.joined === null && this.whenEmpty !== null) return this.whenEmpty;
    return this.prefix + (this.joined ?? '') + this.suffix;
  }

  get length(): number {
    if (this.joined === null && this.whenEmpty !== null) return this.whenEmpty.length;
    return this.prefix.length + (this.joined?.length ?? 0) + this.suffix.length;
  }

  override snapshot(): () => void {
    const { joined, whenEmpty } = this;
    return () => {
      this.joined = joined;
      this.whenEmpty = whenEmpty;
    };
  }
}

function join(self: JavaJoiner, text: string, e: Evaluation): JavaJoiner {
  const growth = self.delimiter.length + text.length;
  e.reserveText(self.length + growth, growth);
  e.willChange(self);
  self.joined = self.joined === null ? text : self.joined + self.delimiter + text;
  return self;
}

export const joinerClass = new LibraryClass('StringJoiner', ['joiner']);
joinerClass.constructors
  .addFresh('new', ['string'], (_e, _self, delimiter) => new JavaJoiner(delimiter))
  .addFresh(
    'new',
    ['string', 'string', 'string'],
    (_e, _self, delimiter, prefix, suffix) => new JavaJoiner(delimiter, prefix, suffix),
  );

function joinerText(self: JavaJoiner, e: Evaluation): string {
  e.reserveText(self.length);
  return self.text;
}

export const joinerMethods = new MethodTable('StringJoiner', 'operands')
  .add('add', ['string?'], (e, self: JavaJoiner, text) => join(self, text ?? 'null', e))
  .add('setEmptyValue', ['string'], (e, self: JavaJoiner, text) => {
    e.willChange(self);
    self.whenEmpty = text;
    return self;
  })
  .add('merge', ['any'], (e, self: JavaJoiner, other) => {
    if (!(other instanceof JavaJoiner)) throw new EvaluationError('merge takes a StringJoiner');
    return other.joined === null ? self : join(self, other.joined, e);
  })
  .add('length', [], (_e, self: JavaJoiner) => self.length)
  .add('toString', [], (e, self: JavaJoiner) => joinerText(self, e));
textBy('joiner', (value) => (value as JavaJoiner).text);
