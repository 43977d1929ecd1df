import type { CharacterClass, ClassAtom, ClassItem } from '../../model/javaRegex/pattern.ts';
import { CompileError } from '../language/source.ts';
import { type CharSet, charSet, complement, escapeSets, intersection, posixSets } from './charSet.ts';

/** Content of a class such as `[a-z\p{L}]`: ranges, and Unicode properties that only RE2 supports. */
export interface ClassContent {
  readonly set: CharSet;
  readonly properties: readonly string[];
}

const UNICODE_PROPERTY = /^(?:L|Lu|Ll|Lt|Lm|Lo|M|Mn|Mc|Me|N|Nd|Nl|No|P|Pc|Pd|Ps|Pe|Pi|Pf|Po|S|Sm|Sc|Sk|So|Z|Zs|Zl|Zp)$/;
const SCRIPT = /^Is(?:Latin|Greek|Cyrillic|Han|Arabic|Hebrew|Hiragana|Katakana|Thai|Hangul)$/;

/** Maximum number of intersections in a class. */
const MOST_INTERSECTIONS = 20;

/** The error for an invalid pattern. @param offset in the pattern, from 0 */
export function patternError(message: string, offset: number): CompileError {
  return new CompileError(`regular expression: ${message} at ${offset + 1}`, offset);
}

/**
 * Content of a class, before negation.
 * @throws CompileError if RE2 cannot express it
 */
export function classContent({ operands, offset }: CharacterClass): ClassContent {
  if (operands.length > MOST_INTERSECTIONS + 1) {
    throw patternError(`more than ${MOST_INTERSECTIONS} && in a class`, offset);
  }
  const [first, ...others] = operands.map(unionOf);
  return others.reduce((all, other) => {
    if (all.properties.length > 0 || other.properties.length > 0) {
      throw patternError('&& cannot be combined with \\p of Unicode here', offset);
    }
    return { set: intersection(all.set, other.set), properties: [] };
  }, first ?? { set: [], properties: [] });
}

function unionOf(items: readonly ClassItem[]): ClassContent {
  const parts = items.map(itemContent);
  return { set: charSet(parts.flatMap(({ set }) => set)), properties: parts.flatMap(({ properties }) => properties) };
}

function itemContent(item: ClassItem): ClassContent {
  if (item.kind === 'range') return { set: [[item.from, item.to]], properties: [] };
  if (item.kind !== 'class') return atomContent(item);
  const content = classContent(item);
  if (!item.isNegated) return content;
  if (content.properties.length > 0) {
    throw patternError('a negated class with \\p of Unicode cannot be nested', item.offset);
  }
  return { set: complement(content.set), properties: [] };
}

/**
 * Content of an atom for one character: a set, or a property of RE2.
 * @throws CompileError if RE2 cannot express it
 */
export function atomContent(atom: ClassAtom): ClassContent {
  switch (atom.kind) {
    case 'character':
      return { set: [[atom.codePoint, atom.codePoint]], properties: [] };
    case 'set':
      return { set: escapeSets[atom.letter] as CharSet, properties: [] };
    case 'property':
      return propertyContent(atom);
    case 'namedCharacter':
      throw patternError('\\N is not available', atom.offset);
  }
}

function propertyContent({ name, isNegated, offset }: Extract<ClassAtom, { kind: 'property' }>): ClassContent {
  const java = name === 'javaLowerCase' ? 'Ll' : name === 'javaUpperCase' ? 'Lu' : name;
  const posix = Object.hasOwn(posixSets, java) ? posixSets[java] : undefined;
  if (posix !== undefined) return { set: isNegated ? complement(posix) : posix, properties: [] };
  const short = java === 'IsAlphabetic' ? 'L' : java === 'IsDigit' ? 'Nd' : java.replace(/^Is/, '');
  if (!UNICODE_PROPERTY.test(short) && !SCRIPT.test(java)) throw patternError(`\\p{${name}} is not available`, offset);
  return { set: [], properties: [`\\${isNegated ? 'P' : 'p'}{${short}}`] };
}

/** A class in RE2's syntax. */
export function classText({ set, properties }: ClassContent, isNegated: boolean): string {
  const hex = (code: number): string => `\\x{${code.toString(16)}}`;
  const ranges = set.map(([from, to]) => (from === to ? hex(from) : `${hex(from)}-${hex(to)}`));
  const inner = [...ranges, ...properties].join('');
  if (inner === '') return isNegated ? '(?s:.)' : '[^\\x{0}-\\x{10ffff}]';
  return `[${isNegated ? '^' : ''}${inner}]`;
}
