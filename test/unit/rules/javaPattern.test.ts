import { describe, expect, test } from 'vitest';
import { attempt } from '../../support/ruleAttempt.ts';

/** A string literal of the language. */
const literal = (text: string): string => `"${text.replace(/["\\]/g, '\\$&').replace(/\n/g, '\\n')}"`;
const matches = (text: string, pattern: string) => attempt(`${literal(text)}.matches(${literal(pattern)})`);

describe('patterns match as in Java', () => {
  test.each([
    ['abc', 'a.c', true],
    ['a\nc', 'a.c', false],
    ['a\rc', 'a.c', false],
    ['a\nc', '(?s)a.c', true],
    ['a\rc', '(?d)a.c', true],
    ['ABC', '(?i)abc', true],
    ['aBC', 'a(?i)bc', true],
    ['aBC', 'a(?i:b)c', false],
    ['abc', '\\p{Lower}+', true],
    ['ab1', '\\p{Alnum}+', true],
    ['a-b', '\\p{Punct}', false],
    ['é', '\\p{Lower}', false],
    ['é', '\\p{L}', true],
    ['é', '\\w', false],
    ['bcd', '[a-z&&[^b]]+', false],
    ['acd', '[a-z&&[^b]]+', true],
    ['q', '[a-z&&[def]]', false],
    ['x', '[a-c[x-z]]', true],
    ['-', '[a-]', true],
    [']', '[\\]]', true],
    ['\t', '\\h', true],
    ['\r\n', '\\R', true],
    ['a.b', '\\Qa.b\\E', true],
    ['axb', '\\Qa.b\\E', false],
    ['A', '\\x41', true],
    ['A', '\\u0041', true],
    ['aaab', 'a++b', true],
    ['aaa', 'a*+', true],
    ['a1', '[a-z]++[0-9]++', true],
    ['foobar', '(?=foo).*', true],
    ['barfoo', '(?=foo).*', false],
    ['etl_tmp', '(?!.*tmp).*', false],
    ['etl', '^(?!.*tmp).*$', true],
    ['ab', '(?x) a  b # comment', 'the flag x is not available at 1'],
    ['aa', '(?<x>a)\\1', 'back references'],
    ['aa', '(?<x>a)\\k<x>', 'back references'],
    ['aa', '(a)\\k<1>', 'back references'],
    [
      'aa',
      'a(?=a)',
      'a look-ahead is allowed only at the start of the pattern; combine two patterns with && or ! at 2',
    ],
    ['aa', '(?<=a)a', 'look-behind is not available; combine two patterns with && or ! at 1'],
    ['aa', '(?>a)a', 'atomic'],
    ['aa', 'a++a', 'possessive'],
    ['aa', '(a|b)++b', 'possessive'],
    ['aa', '(', "has a '(' without its ')' at 1"],
    ['aa', 'a)', "has a ')' without its '(' at 2"],
    ['aa', '[a', "has a '[' without its ']' at 1"],
    ['aa', '*a', 'has a * with nothing to repeat before it at 1'],
    ['aa', 'a**', 'has a * with nothing to repeat before it at 3'],
    ['aa', 'a{2}{3}', 'has a { that repeats nothing; write \\{ for the character at 5'],
    ['aa', '(?=a)a|b', 'only at the start'],
    ['aa', '\\Qa\\E\\N{DIGIT ONE}', 'not available at 6'],
    ['aa', '\\y', '\\y is not available at 1'],
    ['aa', '[z-a]', 'has a range of characters that ends before it begins at 2'],
    ['aa', '\\p{Nonsense}', 'has an unknown property \\p{Nonsense} at 1'],
    ['aa', 'a{2', 'has a { that repeats nothing'],
    ['aa', '(?P<n>a)', 'begins no kind of group'],
  ] as const)('%j %s', (text, pattern, expected) => {
    const { outcome, value, message } = matches(text, pattern);
    if (typeof expected === 'boolean') expect([outcome, value]).toEqual(['value', expected]);
    else {
      expect(outcome).toBe('compile error');
      expect(message).toContain(expected);
    }
  });
});

describe('splitting and replacing as in Java', () => {
  test.each([
    ['"a,b,,".split(",").length', 2],
    ['"a,b,,".split(",", -1).length', 4],
    ['"a,b,c".split(",", 2)[1]', 'b,c'],
    ['"abc".split("").length', 3],
    ['",a".split(",")[0]', ''],
    ['"a1b22c".replaceAll("[0-9]+", "<$0>")', 'a<1>b<22>c'],
    ['"john smith".replaceAll("(\\\\w+) (\\\\w+)", "$2 $1")', 'smith john'],
    ['"a.b".replaceFirst("\\\\.", "\\\\$")', 'a$b'],
    ['"aaa".replaceAll("a*?", "-")', '-a-a-a-'],
    ['"AbC".replaceAll("(?i)b", "x")', 'AxC'],
  ])('%s', (source, expected) => {
    expect(attempt(source)).toMatchObject({ outcome: 'value', value: expected });
  });
});

describe('String.format as in Java', () => {
  test.each([
    ['String.format("%5d|%-5d|%05d|%+d", 42, 42, 42, 42)', '   42|42   |00042|+42'],
    ['String.format("%,d", 1234567)', '1,234,567'],
    ['String.format("%x %X %o", 255, 255, 8)', 'ff FF 10'],
    ['String.format("%x", -1)', 'ffffffff'],
    ['String.format("%.2f %.0f", 2.345, 2.5)', '2.35 3'],
    ['String.format("%e", 12345.678)', '1.234568e+04'],
    ['String.format("%2$s %1$s", "a", "b")', 'b a'],
    ['String.format("%.2s|%4s|%b|%c|%%", "abc", "x", true, "z".charAt(0))', 'ab|   x|true|z|%'],
    ['String.format("%s %s", [1, "a"], ["k" : 2.0])', '[1, a] {k=2.0}'],
  ])('%s', (source, expected) => {
    expect(attempt(source)).toMatchObject({ outcome: 'value', value: expected });
  });
});

test('sets and maps iterate in the order of Java', () => {
  expect(attempt('"" + new HashSet(["banana", "apple", "cherry", "date", "elderberry"])').value).toBe(
    '[banana, date, apple, cherry, elderberry]',
  );
  expect(attempt('"" + ["one" : 1, "two" : 2, "three" : 3]').value).toBe('{one=1, two=2, three=3}');
});
