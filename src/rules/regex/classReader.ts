import { type CharSet, charSet, charsOf, complement, escapeSets, intersection, posixSets } from './charSet.ts';
import { PatternReader } from './patternReader.ts';

/** A class such as `[a-z\p{L}]`: ranges, and Unicode properties that only RE2 knows. */
export interface ClassContent {
  readonly set: CharSet;
  readonly properties: readonly string[];
}

const UNICODE_PROPERTY = /^(?:L|Lu|Ll|Lt|Lm|Lo|M|Mn|Mc|Me|N|Nd|Nl|No|P|Pc|Pd|Ps|Pe|Pi|Pf|Po|S|Sm|Sc|Sk|So|Z|Zs|Zl|Zp)$/;

/** Intersections of one class. */
const MOST_INTERSECTIONS = 20;

/** Reads classes of characters: `[…]` and `\p{…}`. */
export class ClassReader extends PatternReader {
  /** After `\p` or (negated) `\P`. */
  protected property(isNegated: boolean): ClassContent {
    const match = /^(?:\{\^?([A-Za-z_=]+)\}|([A-Z]))/.exec(this.pattern.slice(this.offset, this.offset + 40));
    const name = match?.[1] ?? match?.[2];
    if (match === null || name === undefined) throw this.error('\\p needs a name in braces');
    const offset = this.offset;
    this.offset += match[0].length;
    const negated = isNegated !== match[0].startsWith('{^');
    const java = name === 'javaLowerCase' ? 'Ll' : name === 'javaUpperCase' ? 'Lu' : name;
    const posix = Object.hasOwn(posixSets, java) ? posixSets[java] : undefined;
    if (posix !== undefined) return { set: negated ? complement(posix) : posix, properties: [] };
    const short = java === 'IsAlphabetic' ? 'L' : java === 'IsDigit' ? 'Nd' : java.replace(/^Is/, '');
    const script =
      java.startsWith('Is') &&
      /^Is(?:Latin|Greek|Cyrillic|Han|Arabic|Hebrew|Hiragana|Katakana|Thai|Hangul)$/.test(java);
    if (!UNICODE_PROPERTY.test(short) && !script) throw this.error(`\\p{${name}} is not available`, offset);
    return { set: [], properties: [`\\${negated ? 'P' : 'p'}{${short}}`] };
  }

  /** After `[`. */
  protected characterClass(): { content: ClassContent; isNegated: boolean } {
    return this.nested(() => {
      const isNegated = this.accept('^');
      let content = this.#classOperand(true);
      for (let count = 0; this.accept('&&'); count += 1) {
        if (count === MOST_INTERSECTIONS) throw this.error(`more than ${MOST_INTERSECTIONS} && in a class`);
        content = this.#intersect(content, this.#classOperand(false));
      }
      if (!this.accept(']')) throw this.error('a ] is missing');
      return { content, isNegated };
    });
  }

  #intersect(a: ClassContent, b: ClassContent): ClassContent {
    if (a.properties.length > 0 || b.properties.length > 0)
      throw this.error('&& cannot be combined with \\p of Unicode here');
    return { set: intersection(a.set, b.set), properties: [] };
  }

  #classOperand(isFirst: boolean): ClassContent {
    const ranges: CharSet[number][] = [];
    const properties: string[] = [];
    let isStart = isFirst;
    while (!this.startsWith(']') || isStart) {
      if (this.startsWith('&&')) break;
      if (this.offset >= this.pattern.length) throw this.error('a ] is missing');
      if (isStart && this.startsWith(']')) throw this.error('an empty class; write \\] for the character');
      isStart = false;
      if (this.flags.comments && this.skipComment()) continue;
      const part = this.#classPart();
      for (const range of part.set) ranges.push(range);
      properties.push(...part.properties);
    }
    return { set: charSet(ranges), properties };
  }

  #classPart(): ClassContent {
    if (this.accept('[')) {
      const { content, isNegated } = this.characterClass();
      if (!isNegated) return content;
      if (content.properties.length > 0) throw this.error('a negated class with \\p of Unicode cannot be nested');
      return { set: complement(content.set), properties: [] };
    }
    const from = this.#classChar();
    if (typeof from !== 'string') return from;
    if (!this.startsWith('-') || this.startsWith('-]') || this.startsWith('-[') || this.startsWith('-&&')) {
      return { set: charsOf(from), properties: [] };
    }
    this.offset += 1;
    const to = this.#classChar();
    const low = from.codePointAt(0) ?? 0;
    const high = typeof to === 'string' ? (to.codePointAt(0) ?? 0) : -1;
    if (high < low) throw this.error('a range that ends before it starts');
    return { set: [[low, high]], properties: [] };
  }

  #classChar(): string | ClassContent {
    const offset = this.offset;
    const char = this.next();
    if (char !== '\\') return char;
    const escaped = this.next();
    const set = Object.hasOwn(escapeSets, escaped) ? escapeSets[escaped] : undefined;
    if (set !== undefined) return { set, properties: [] };
    if (escaped === 'p' || escaped === 'P') return this.property(escaped === 'P');
    if (escaped === 'Q') return { set: charsOf(this.quotedText()), properties: [] };
    if (/[bBAzZGRXk1-9]/.test(escaped)) throw this.error(`\\${escaped} is not available in a class`, offset);
    return this.escapedChar(escaped, offset);
  }
}

/** A class in RE2's syntax. */
export function classText({ set, properties }: ClassContent, isNegated: boolean): string {
  const hex = (code: number): string => `\\x{${code.toString(16)}}`;
  const ranges = set.map(([from, to]) => (from === to ? hex(from) : `${hex(from)}-${hex(to)}`));
  const inner = [...ranges, ...properties].join('');
  if (inner === '') return isNegated ? '(?s:.)' : '[^\\x{0}-\\x{10ffff}]';
  return `[${isNegated ? '^' : ''}${inner}]`;
}
