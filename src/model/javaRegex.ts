/**
 * Syntax check of regular expressions as `java.util.regex.Pattern` reads them. Engines compile the expressions of
 * selectors with it, and one that does not compile keeps them from loading any selector. Verdicts were compared with
 * those of a real JDK on generated expressions; names of Unicode blocks and characters are not looked up.
 */

/** Deepest nesting of groups and classes; far less than what a JVM's stack holds. */
const MAX_DEPTH = 250;

/** Says what is wrong with a Java regular expression, or null when it compiles. */
export function javaRegexProblem(pattern: string): string | null {
  try {
    new PatternSyntax(withoutQuotes(pattern)).check();
    return null;
  } catch (error) {
    if (error instanceof SyntaxProblem) return error.message;
    throw error;
  }
}

class SyntaxProblem extends Error {}

/** What a piece means inside a look-behind, which needs an obvious maximum length. */
interface Extent {
  readonly bounded: boolean;
  readonly deterministic: boolean;
}

const single: Extent = { bounded: true, deterministic: true };

class PatternSyntax {
  readonly #text: string;
  readonly #names = new Set<string>();
  #at = 0;
  #depth = 0;
  /** `(?x)`: white space and comments are skipped. */
  #comments = false;

  constructor(text: string) {
    this.#text = text;
  }

  check(): void {
    this.#alternatives();
    if (this.#at < this.#text.length) fail("has a ')' without its '('");
  }

  #alternatives(): Extent {
    let extent = this.#sequence();
    while (this.#peek() === '|') {
      this.#at++;
      const other = this.#sequence();
      extent = { bounded: extent.bounded && other.bounded, deterministic: false };
    }
    return extent;
  }

  #sequence(): Extent {
    let bounded = true;
    let deterministic = true;
    for (;;) {
      const character = this.#peek();
      if (character === '' || character === '|' || character === ')') return { bounded, deterministic };
      const piece = this.#piece(character);
      if (piece === null) continue;
      const extent = this.#quantified(piece.extent, piece.group);
      bounded &&= extent.bounded;
      deterministic &&= extent.deterministic;
    }
  }

  /** Null: flags, which are nothing that could be repeated. */
  #piece(character: string): { extent: Extent; group: boolean } | null {
    switch (character) {
      case '(': {
        const extent = this.#nested(() => this.#group());
        return extent === null ? null : { extent, group: true };
      }
      case '[':
        this.#nested(() => this.#class());
        return { extent: single, group: false };
      case '*':
      case '+':
      case '?':
        return fail(`has a ${character} with nothing to repeat before it`);
      case '{':
        // Repeats nothing, which Java allows where the repetition itself is well-formed.
        return { extent: single, group: false };
      case '\\':
        this.#at++;
        return { extent: this.#escape(false).extent, group: false };
      default:
        this.#at += character.length;
        return { extent: single, group: false };
    }
  }

  #quantified(extent: Extent, group: boolean): Extent {
    const character = this.#peek();
    let minimum = 0;
    let maximum = Number.POSITIVE_INFINITY;
    if (character === '?') maximum = 1;
    else if (character === '+') minimum = 1;
    else if (character === '{') [minimum, maximum] = this.#counts();
    else if (character !== '*') return extent;
    if (character !== '{') this.#at++;
    const suffix = this.#peek();
    if (suffix === '?' || suffix === '+') this.#at++;
    const optional = character === '?';
    const repeatable = optional || !group || extent.deterministic || suffix === '+';
    return {
      bounded: extent.bounded && Number.isFinite(maximum) && repeatable,
      deterministic: extent.deterministic && !optional && minimum === maximum,
    };
  }

  /** `{n}`, `{n,}`, `{n,m}`; the cursor stands after the closing brace afterwards. */
  #counts(): [number, number] {
    const match = /^\{(\d+)(?:(,)(\d*))?\}/.exec(this.#text.slice(this.#at, this.#at + 64));
    if (match === null) fail('has a { that begins no repetition such as {2} or {1,3}; write \\{ for the character');
    const [whole, low = '', comma, high = ''] = match;
    this.#at += whole.length;
    const minimum = Number(low);
    const maximum = comma === undefined ? minimum : high === '' ? Number.POSITIVE_INFINITY : Number(high);
    if (minimum > 0x7fffffff || (Number.isFinite(maximum) && maximum > 0x7fffffff)) fail(`repeats too often: ${whole}`);
    if (maximum < minimum) fail(`has a repetition that ends before it begins: ${whole}`);
    return [minimum, maximum];
  }

  #group(): Extent | null {
    const comments = this.#comments;
    this.#at++;
    let behind = false;
    if (this.#text[this.#at] === '?') {
      const head = /^\?(?:[:=!>]|<[=!]|<([^>=!]*)>|(?:[imsducxU]*(?:-[imsduxcU]*)?)([:)]))/.exec(
        this.#text.slice(this.#at),
      );
      if (head === null) fail('has a (? that begins no kind of group');
      const [whole, name, end] = head;
      this.#at += whole.length;
      behind = whole === '?<=' || whole === '?<!';
      if (name !== undefined) this.#name(name);
      if (end !== undefined) {
        const [on = '', off = ''] = whole.slice(1, -1).split('-');
        if (on.includes('x')) this.#comments = true;
        if (off.includes('x')) this.#comments = false;
        if (end === ')') return null;
      }
    }
    const extent = this.#alternatives();
    if (this.#peek() !== ')') fail("has a '(' without its ')'");
    this.#at++;
    this.#comments = comments;
    if (behind && !extent.bounded) fail('has a look-behind without an obvious maximum length');
    return extent;
  }

  #name(name: string): void {
    if (!/^[a-zA-Z][a-zA-Z0-9]*$/.test(name))
      fail(`has a group name that is not letters and digits: ${JSON.stringify(name)}`);
    if (this.#names.has(name)) fail(`has two groups named ${name}`);
    this.#names.add(name);
  }

  /** A class from its `[`; `inner`: the right side of `&&`, which ends before the `]` of the class it is in. */
  #class(inner = false): void {
    if (!inner) this.#at++;
    let empty = true;
    if (this.#peek() === '^' && !inner) this.#at++;
    for (;;) {
      const character = this.#peek();
      if (character === '') fail("has a '[' without its ']'");
      if (character === '[') {
        this.#nested(() => this.#class());
        empty = false;
      } else if (character === ']' && !empty) {
        if (!inner) this.#at++;
        return;
      } else if (character === '&' && this.#text[this.#at + 1] === '&') {
        this.#at += 2;
        const right = this.#intersection();
        if (empty && !right) fail('has a && with nothing at either side');
        empty = false;
      } else {
        this.#range();
        empty = false;
      }
    }
  }

  /** The right side of `&&`; answers whether there is any. */
  #intersection(): boolean {
    let any = false;
    for (;;) {
      const character = this.#peek();
      if (character === ']' || character === '&') return any;
      if (character === '[') this.#nested(() => this.#class());
      else this.#nested(() => this.#class(true));
      any = true;
    }
  }

  #range(): void {
    const low = this.#classCharacter();
    if (low === null || this.#peek() !== '-') return;
    const next = this.#text[this.#at + 1];
    if (next === '[' || next === ']' || next === undefined) return;
    this.#at++;
    this.#peek();
    const high = this.#classCharacter();
    if (high === null || high < low) fail('has a range of characters that ends before it begins');
  }

  /** Code point of a class's next character; null for a set such as `\d`. */
  #classCharacter(): number | null {
    const character = this.#peek();
    if (character === '') fail("has a '[' without its ']'");
    if (character === '\\') {
      this.#at++;
      return this.#escape(true).codePoint;
    }
    this.#at += character.length;
    return character.codePointAt(0) ?? null;
  }

  /** After the backslash. `codePoint` is null for what is not one character. */
  #escape(inClass: boolean): { codePoint: number | null; extent: Extent } {
    const letter = this.#character();
    if (letter === '') fail('ends with a backslash');
    this.#at += letter.length;
    const set = { codePoint: null, extent: single };
    const point = (codePoint: number) => ({ codePoint, extent: single });
    if ('dDhHsSvVwW'.includes(letter)) return set;
    if (letter === 'p' || letter === 'P') {
      this.#property();
      return set;
    }
    const simple = { a: 7, e: 27, f: 12, n: 10, r: 13, t: 9 }[letter];
    if (simple !== undefined) return point(simple);
    switch (letter) {
      case '0':
        return point(Number.parseInt(this.#take(/^(?:[0-3][0-7]{0,2}|[4-7][0-7]?)/, 'octal digits after \\0'), 8));
      case 'x':
        return point(this.#hex(/^(?:[0-9a-fA-F]{2}|\{[0-9a-fA-F]+\})/, '\\x'));
      case 'u':
        return point(this.#hex(/^[0-9a-fA-F]{4}/, '\\u'));
      case 'c':
        return point((this.#take(/^./su, 'a character after \\c').codePointAt(0) ?? 0) ^ 64);
      case 'N':
        this.#take(/^\{[A-Za-z][A-Za-z0-9 -]+\}/, 'a character name in braces after \\N');
        return set;
    }
    if (inClass && /[a-zA-Z1-9]/.test(letter)) fail(`has \\${letter} in a class, which is no character there`);
    if ('ABGRXZz'.includes(letter)) return set;
    if (letter === 'b') {
      if (this.#text.startsWith('{g', this.#at)) this.#take(/^\{g\}/, '} after \\b{g');
      return set;
    }
    if (letter === 'k') {
      const name = this.#take(/^<[a-zA-Z][a-zA-Z0-9]*>/, '<name> after \\k').slice(1, -1);
      if (!this.#names.has(name)) fail(`refers to a group ${name} that is not before it`);
      return { codePoint: null, extent: { bounded: false, deterministic: true } };
    }
    if (/[1-9]/.test(letter)) return { codePoint: null, extent: { bounded: false, deterministic: true } };
    if (/[a-zA-Z]/.test(letter)) fail(`has an unknown escape \\${letter}`);
    return point(letter.codePointAt(0) ?? 0);
  }

  #hex(form: RegExp, mark: string): number {
    const digits = this.#take(form, `hexadecimal digits after ${mark}`);
    const value = Number.parseInt(digits.replace('{', ''), 16);
    if (value > 0x10ffff) fail(`has ${mark}${digits}, which is beyond Unicode`);
    return value;
  }

  /** The name after `\p`. */
  #property(): void {
    if (this.#text[this.#at] !== '{') {
      const letter = this.#take(/^./su, 'a property after \\p');
      if (!knownProperty(letter)) fail(`has an unknown property \\p${letter}`);
      return;
    }
    const name = this.#take(/^\{[^}]+\}/, 'a name in braces after \\p').slice(1, -1);
    if (!knownProperty(name)) fail(`has an unknown property \\p{${name}}`);
  }

  #take(form: RegExp, wanted: string): string {
    const [text] = form.exec(this.#text.slice(this.#at)) ?? fail(`lacks ${wanted}`);
    this.#at += text.length;
    return text;
  }

  #nested<T>(body: () => T): T {
    if (++this.#depth > MAX_DEPTH) fail(`nests deeper than ${MAX_DEPTH} levels`);
    const result = body();
    this.#depth--;
    return result;
  }

  /** The next character that means something; empty at the end. */
  #peek(): string {
    while (this.#comments) {
      const skipped = /^(?:[ \t\n\v\f\r]+|#[^\n\r\u0085\u2028\u2029]*)/.exec(
        this.#text.slice(this.#at, this.#at + 4096),
      );
      if (skipped === null) break;
      this.#at += skipped[0].length;
    }
    return this.#character();
  }

  #character(): string {
    const point = this.#text.codePointAt(this.#at);
    return point === undefined ? '' : String.fromCodePoint(point);
  }
}

function fail(message: string): never {
  throw new SyntaxProblem(message);
}

/** Turns `\Q…\E` into escapes, as Java does before it reads anything else. */
function withoutQuotes(pattern: string): string {
  let out = '';
  let at = 0;
  while (at < pattern.length) {
    if (pattern.startsWith('\\Q', at)) {
      const end = pattern.indexOf('\\E', at + 2);
      const quoted = pattern.slice(at + 2, end === -1 ? pattern.length : end);
      for (const character of quoted)
        out += /[a-zA-Z0-9\u0080-\u{10ffff}]/u.test(character)
          ? `\\x{${character.codePointAt(0)?.toString(16)}}`
          : `\\${character}`;
      at = end === -1 ? pattern.length : end + 2;
    } else if (pattern[at] === '\\') {
      out += pattern.slice(at, at + 2);
      at += 2;
    } else {
      out += pattern[at];
      at += 1;
    }
  }
  return out;
}

const posix = /^(?:Lower|Upper|ASCII|Alpha|Digit|Alnum|Punct|Graph|Print|Blank|Cntrl|XDigit|Space|all|L1|LC|LD)$/;
const javaMethods =
  /^java(?:LowerCase|UpperCase|Alphabetic|Ideographic|TitleCase|Digit|Defined|Letter|LetterOrDigit|JavaIdentifierStart|JavaIdentifierPart|UnicodeIdentifierStart|UnicodeIdentifierPart|IdentifierIgnorable|SpaceChar|Whitespace|ISOControl|Mirrored)$/;
const binary =
  /^(?:alphabetic|letter|ideographic|lowercase|uppercase|titlecase|white_space|control|punctuation|hex_digit|assigned|noncharacter_code_point|digit|alnum|blank|graph|print|join_control|emoji|emoji_presentation|emoji_modifier|emoji_modifier_base|emoji_component|extended_pictographic|whitespace|hexdigit|noncharactercodepoint|joincontrol|word)$/i;

function knownProperty(name: string): boolean {
  const equals = name.indexOf('=');
  if (equals !== -1) {
    const key = name.slice(0, equals).toLowerCase();
    const value = name.slice(equals + 1);
    if (key === 'sc' || key === 'script') return isScript(value);
    if (key === 'gc' || key === 'general_category') return isCategory(value) || posix.test(value);
    return (key === 'blk' || key === 'block') && isBlock(value);
  }
  if (name.startsWith('In')) return isBlock(name.slice(2));
  if (name.startsWith('Is')) {
    const value = name.slice(2);
    return binary.test(value) || isCategory(value) || posix.test(value) || isScript(value);
  }
  return isCategory(name) || posix.test(name) || javaMethods.test(name);
}

const isBlock = (name: string): boolean => /^[A-Za-z][A-Za-z0-9 _-]*$/.test(name);
const isCategory = (name: string): boolean => /^[A-Z][a-z]?$/.test(name) && compiles(`\\p{gc=${name}}`);

/** Java ignores the case of script names, JavaScript does not. */
function isScript(name: string): boolean {
  if (!/^[A-Za-z_]+$/.test(name)) return false;
  const title = name
    .toLowerCase()
    .replaceAll(/(^|_)([a-z])/g, (_whole, before: string, letter: string) => before + letter.toUpperCase());
  return (
    compiles(`\\p{sc=${title}}`) ||
    compiles(`\\p{sc=${title.replaceAll(/_([A-Z])/g, (_w, l: string) => `_${l.toLowerCase()}`)}}`)
  );
}

function compiles(pattern: string): boolean {
  try {
    new RegExp(pattern, 'u');
    return true;
  } catch {
    return false;
  }
}
