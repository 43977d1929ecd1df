export const WHITESPACE = 1;
export const LETTER = 2;
export const DIGIT = 4;
export const UNDERSCORE = 8;
export const HEX = 16;
export const WORD = LETTER | DIGIT | UNDERSCORE;

/** Classes of the ASCII characters; everything else is in none. */
const classes = new Uint8Array(128);
for (let c = 0; c < 128; c += 1) {
  const character = String.fromCharCode(c);
  if (' \t\r\n'.includes(character)) classes[c] = WHITESPACE;
  else if (/[0-9]/.test(character)) classes[c] = DIGIT | HEX;
  else if (/[a-f]/i.test(character)) classes[c] = LETTER | HEX;
  else if (/[a-z]/i.test(character)) classes[c] = LETTER;
  else if (character === '_') classes[c] = UNDERSCORE;
}
/** Classes of a UTF-16 unit, as bits; 0 for NaN, the unit after the end of a text. */
export const classOf = (c: number): number => (c < 128 ? (classes[c] as number) : 0);
