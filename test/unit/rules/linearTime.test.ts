import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Evaluation } from '../../../src/rules/evaluation.ts';
import { compareIgnoringCase, sameIgnoringCase } from '../../../src/rules/values/caseFolding.ts';
import { lowerCase, upperCase } from '../../../src/rules/values/caseMapping.ts';
import { compareText, indexOf, lastIndexOf } from '../../../src/rules/values/textSearch.ts';
import { twoWaySearch } from '../../../src/rules/values/twoWay.ts';
import { attempt } from '../../support/ruleAttempt.ts';

/** Counts nothing. */
const e = attempt('1').evaluation;
const free = new Proxy(e, { get: (_target, name) => (name === 'limits' ? e.limits : () => undefined) }) as Evaluation;

/** Texts of few characters, which hold parts of each other. */
const text = (maxLength: number): fc.Arbitrary<string> =>
  fc.array(fc.constantFrom('a', 'a', 'b', '\u03a3', '\ud83d\ude00'), { maxLength }).map((parts) => parts.join(''));
/** Periodic ones, too. */
const subject = fc.oneof(
  text(40),
  fc.tuple(text(6), fc.nat({ max: 12 }), text(3)).map(([part, count, end]) => part.repeat(count) + end),
);

describe('searches give what native ones give', () => {
  test('for the first and the last occurrence', () => {
    fc.assert(
      fc.property(subject, fc.oneof(text(8), subject), (whole, part) => {
        fc.pre(part !== '');
        expect(twoWaySearch(whole, part, 'first', free)).toBe(whole.indexOf(part));
        expect(twoWaySearch(whole, part, 'last', free)).toBe(whole.lastIndexOf(part));
      }),
      { numRuns: 5000 },
    );
  });

  test('from any place', () => {
    fc.assert(
      fc.property(subject, text(3), fc.integer({ min: -3, max: 50 }), (whole, part, from) => {
        expect(indexOf(whole, part, from, free)).toBe(whole.indexOf(part, from));
        if (from >= 0) expect(lastIndexOf(whole, part, from, free)).toBe(whole.lastIndexOf(part, from));
      }),
      { numRuns: 2000 },
    );
  });

  test.each([
    ['at a border of pieces', `${'x'.repeat(65_530)}needle${'x'.repeat(70_000)}`, 'needle'],
    ['at the end', `${'x'.repeat(200_000)}needle`, 'needle'],
    ['a long part', `${'a'.repeat(100_000)}b${'a'.repeat(5000)}c`, `b${'a'.repeat(5000)}c`],
    ['a long part twice', `${`${'ab'.repeat(1000)}c`.repeat(40)}`, `${'ab'.repeat(1000)}c${'ab'.repeat(1000)}c`],
    ['none', 'ab'.repeat(100_000), `${'ab'.repeat(300)}b`],
  ])('in long texts: %s', (_what, whole, part) => {
    expect(indexOf(whole, part, 0, free)).toBe(whole.indexOf(part));
    expect(indexOf(whole, part, 7, free)).toBe(whole.indexOf(part, 7));
    expect(lastIndexOf(whole, part, whole.length, free)).toBe(whole.lastIndexOf(part));
    expect(lastIndexOf(whole, part, 70_000, free)).toBe(whole.lastIndexOf(part, 70_000));
  });
});

describe('comparisons and cases', () => {
  test('order texts by their units, however long they are', () => {
    const long = 'x'.repeat(9000);
    fc.assert(
      fc.property(text(8), text(8), fc.constantFrom('', long), (a, b, start) => {
        expect(Math.sign(compareText(start + a, start + b, free))).toBe(a < b ? -1 : a > b ? 1 : 0);
      }),
    );
  });

  test.each([
    ['Straße', 'STRASSE', false],
    ['ABC', 'abc', true],
    ['\u03a3\u03c2', '\u03c3\u03a3', true],
    ['\u212a', 'k', true],
    ['\ud801\udc00', '\ud801\udc28', true],
    ['\ud801\udc00', '\ud801\udc29', false],
    [`${'x'.repeat(5000)}A`, `${'X'.repeat(5000)}a`, true],
    [`${'x'.repeat(5000)}A`, `${'X'.repeat(5000)}b`, false],
  ])('%s and %s ignoring case: %s', (a, b, isSame) => {
    expect(sameIgnoringCase(a, b, free)).toBe(isSame);
    expect(compareIgnoringCase(a, b, free) === 0).toBe(isSame);
  });

  test.each([
    ['words', 'ΟΔΟΣ Straße İstanbul \ud801\udc00 '],
    ['one long word', 'ΣΑΣ'],
    ['pairs', '\ud801\udc00'],
  ])('long texts change case as short ones do: %s', (_what, unit) => {
    const long = unit.repeat(Math.ceil(150_000 / unit.length));
    expect(upperCase(long, free)).toBe(long.toUpperCase());
    expect(lowerCase(long, free)).toBe(long.toLowerCase());
  });
});

test.each([
  // Elements and entries are equal by value whatever the order in which they were added.
  ['new HashSet(["a", "b"]) == new TreeSet(["b", "a"])', true],
  ['new HashSet([["a"], ["b"]]) == new LinkedHashSet([["b"], ["a"]])', true],
  ['new HashSet(["a"]) == new HashSet(["b"])', false],
  ['["a" : [1, 2], "b" : null] == ["b" : null, "a" : [1, 2]]', true],
  ['["a" : null] == ["b" : null]', false],
  ['["a" : 1] == ["a" : 1L]', false],
  ['[["a" : 1]] contains ["a" : 1]', true],
  // Long texts have digests as keys.
  ['s = "x".repeat(9000); ["a", s] contains ("x".repeat(8999) + "x")', true],
  ['s = "x".repeat(9000); new HashSet([s, s + "y"]).contains(s + "z")', false],
  ['s = "x".repeat(9000); m = [:]; m.put(s, 1); m.put(s + "", 2); m.size() == 1 && m.get(s) == 2', true],
  ['a = new HashSet(["x".repeat(9000), "b"]); [a].equals([new HashSet(["b", "x".repeat(9000)])])', true],
  // Sets iterate as in Java, large ones as well.
  ['new HashSet(["banana", "apple", "cherry"]).toString() == "[banana, apple, cherry]"', true],
  ['s = new HashSet(); for (i = 0; i < 500; i++) { s.add(499 - i) } s.iterator().next() == 0 && s.toArray()[499] == 499', true],
  ['"ab\\ncd\\r\\nef\\n".lines().count() == 3L && "".lines().count() == 0L && "\\n\\n".lines().count() == 2L', true],
  ['"aXbXc".replace("X", "").equals("abc") && "abc".replace("", "-").equals("-a-b-c-") && "aaa".replace("aa", "b").equals("ba")', true],
  ['"a-b".replaceAll("(a)-(b)", "$2\\\\$1").equals("b$1") && "aa".replaceFirst("a", "x").equals("xa")', true],
  ['Double.parseDouble("1.") + Double.parseDouble(".5e1") + Double.parseDouble("-3.25f") == 2.75', true],
  ['"ABC".reverse == null', 'error'],
  ['new StringBuilder("a\ud83d\ude00b").reverse().toString().equals("b\ud83d\ude00a")', true],
  ['l = new ArrayList(["a"]); l.addAll(l); l.equals(["a", "a"])', true],
] as const)('%s is %s', (source, expected) => {
  const { outcome, value, message } = attempt(source);
  if (expected === 'error') expect(outcome).not.toBe('value');
  else expect([message, value]).toEqual(['', expected]);
}); // biome-ignore format: a table
