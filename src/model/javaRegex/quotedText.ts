/** An expression in which nothing is quoted. */
export interface Unquoted {
  readonly text: string;
  /** Place in the expression as written of a place in `text`. */
  originOf(offset: number): number;
}

/** Turns `\Q…\E` into escapes, as Java does before it reads anything else. */
export function unquoted(pattern: string): Unquoted {
  if (!pattern.includes('\\Q')) return { text: pattern, originOf: (offset) => offset };
  const origins: number[] = [];
  let text = '';
  const push = (part: string, origin: number) => {
    text += part;
    for (let index = 0; index < part.length; index += 1) origins.push(origin);
  };
  let at = 0;
  while (at < pattern.length) {
    if (pattern.startsWith('\\Q', at)) {
      const end = pattern.indexOf('\\E', at + 2);
      let place = at + 2;
      for (const character of pattern.slice(place, end === -1 ? pattern.length : end)) {
        push(escapeOf(character), place);
        place += character.length;
      }
      at = end === -1 ? pattern.length : end + 2;
    } else {
      const length = pattern[at] === '\\' ? 2 : 1;
      for (const unit of pattern.slice(at, at + length).split('')) {
        push(unit, at);
        at += 1;
      }
    }
  }
  return { text, originOf: (offset) => origins[offset] ?? pattern.length };
}

function escapeOf(character: string): string {
  const hasMeaning = /[a-zA-Z0-9\u0080-\u{10ffff}]/u.test(character);
  return hasMeaning ? `\\x{${character.codePointAt(0)?.toString(16)}}` : `\\${character}`;
}
