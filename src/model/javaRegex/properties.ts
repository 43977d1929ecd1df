const posix = /^(?:Lower|Upper|ASCII|Alpha|Digit|Alnum|Punct|Graph|Print|Blank|Cntrl|XDigit|Space|all|L1|LC|LD)$/;
const javaMethods =
  /^java(?:LowerCase|UpperCase|Alphabetic|Ideographic|TitleCase|Digit|Defined|Letter|LetterOrDigit|JavaIdentifierStart|JavaIdentifierPart|UnicodeIdentifierStart|UnicodeIdentifierPart|IdentifierIgnorable|SpaceChar|Whitespace|ISOControl|Mirrored)$/;
const binary =
  /^(?:alphabetic|letter|ideographic|lowercase|uppercase|titlecase|white_space|control|punctuation|hex_digit|assigned|noncharacter_code_point|digit|alnum|blank|graph|print|join_control|emoji|emoji_presentation|emoji_modifier|emoji_modifier_base|emoji_component|extended_pictographic|whitespace|hexdigit|noncharactercodepoint|joincontrol|word)$/i;

/** Whether `java.util.regex.Pattern` knows a property by its name in `\p{…}`; names of Unicode blocks are not looked up. */
export function isKnownProperty(name: string): boolean {
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
