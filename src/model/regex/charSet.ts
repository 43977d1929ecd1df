/** Code points as sorted, disjoint, inclusive ranges. */
export type CharSet = readonly (readonly [from: number, to: number])[];

const LAST = 0x10ffff;

/** The union of ranges in any order. */
export function charSet(ranges: CharSet): CharSet {
  const sorted = [...ranges].sort((a, b) => a[0] - b[0]);
  const merged: [number, number][] = [];
  for (const [from, to] of sorted) {
    const last = merged.at(-1);
    if (last !== undefined && from <= last[1] + 1) last[1] = Math.max(last[1], to);
    else merged.push([from, to]);
  }
  return merged;
}

export function complement(set: CharSet): CharSet {
  const ranges: [number, number][] = [];
  let next = 0;
  for (const [from, to] of set) {
    if (from > next) ranges.push([next, from - 1]);
    next = to + 1;
  }
  if (next <= LAST) ranges.push([next, LAST]);
  return ranges;
}

/** Code points in both sets. */
export function intersection(a: CharSet, b: CharSet): CharSet {
  const ranges: [number, number][] = [];
  for (let i = 0, j = 0; i < a.length && j < b.length; ) {
    const [x, y] = [a[i] as CharSet[number], b[j] as CharSet[number]];
    const [from, to] = [Math.max(x[0], y[0]), Math.min(x[1], y[1])];
    if (from <= to) ranges.push([from, to]);
    if (x[1] < y[1]) i += 1;
    else j += 1;
  }
  return ranges;
}

export function charsOf(text: string): CharSet {
  return charSet([...text].map((char) => [char.codePointAt(0) ?? 0, char.codePointAt(0) ?? 0] as const));
}

/** Adds the other case of ASCII letters. */
export function withBothCases(set: CharSet): CharSet {
  const lower = intersection(set, [[65, 90]]).map(([from, to]) => [from + 32, to + 32] as const);
  const upper = intersection(set, [[97, 122]]).map(([from, to]) => [from - 32, to - 32] as const);
  return charSet([...set, ...lower, ...upper]);
}

const alpha: CharSet = [[65, 90], [97, 122]]; // biome-ignore format: ranges
const digit: CharSet = [[48, 57]];
const punct: CharSet = [[33, 47], [58, 64], [91, 96], [123, 126]]; // biome-ignore format: ranges
/** Line terminators for `.` and `$` (java.util.regex.Pattern: Line terminators). */
export const lineTerminators: CharSet = charsOf('\n\r\u0085\u2028\u2029');
const horizontal = charSet([...charsOf('\t \u00a0\u1680\u180e\u202f\u205f\u3000'), [0x2000, 0x200a]]);
const vertical = charsOf('\n\u000b\f\r\u0085\u2028\u2029');

/** `\d \D \w \W \s \S \h \H \v \V`. */
export const escapeSets: Readonly<Record<string, CharSet>> = {
  d: digit,
  D: complement(digit),
  w: charSet([...alpha, ...digit, [95, 95]]),
  W: complement(charSet([...alpha, ...digit, [95, 95]])),
  s: charsOf(' \t\n\u000b\f\r'),
  S: complement(charsOf(' \t\n\u000b\f\r')),
  h: horizontal,
  H: complement(horizontal),
  v: vertical,
  V: complement(vertical),
};

/** POSIX classes of Java's `\p{…}`, ASCII only. */
export const posixSets: Readonly<Record<string, CharSet>> = {
  Lower: [[97, 122]],
  Upper: [[65, 90]],
  ASCII: [[0, 127]],
  Alpha: alpha,
  Digit: digit,
  Alnum: charSet([...alpha, ...digit]),
  Punct: punct,
  Graph: [[33, 126]],
  Print: [[32, 126]],
  Blank: charsOf(' \t'),
  Cntrl: [[0, 31], [127, 127]], // biome-ignore format: ranges
  XDigit: charSet([...digit, [65, 70], [97, 102]]),
  Space: charsOf(' \t\n\u000b\f\r'),
};
