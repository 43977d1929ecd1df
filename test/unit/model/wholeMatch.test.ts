import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { WholeMatch, wholeMatchProblem } from '../../../src/model/javaRegex/wholeMatch.ts';

interface Verdicts {
  readonly pattern: string;
  readonly matches: readonly string[];
  readonly others: readonly string[];
}

/** What `Matcher.matches()` of JDK 25 says: expressions that people write, and generated ones. */
const verdicts: readonly Verdicts[] = JSON.parse(
  readFileSync(new URL('../../fixtures/java-regex-matches.json', import.meta.url), 'utf8'),
);

test('the verdicts are those of Java', () => {
  expect(verdicts.length).toBeGreaterThan(300);
  const own = verdicts.map(({ pattern, matches, others }) => {
    const match = new WholeMatch(pattern);
    const texts = [...matches, ...others];
    return {
      pattern,
      matches: texts.filter((text) => match.matches(text)),
      others: texts.filter((text) => !match.matches(text)),
    };
  });
  expect(own).toEqual(verdicts);
});

test.each([
  ['(a)\\1', 'has a back reference, which cannot be matched in linear time'],
  ['(?<n>a)\\k<n>', 'has a back reference, which cannot be matched in linear time'],
  ['(?>a|ab)c', 'has an atomic group with a choice, which cannot be matched in linear time'],
  ['(?:ab)*+c', 'is possessive for more than one character, which cannot be matched in linear time'],
  ['\\p{InGreek}', 'has a Unicode block, which is not available'],
  ['\\X', 'has \\X, which is not available'],
  ['\\N{LATIN SMALL LETTER A}', 'has \\N, which is not available; write the character or \\x{…}'],
  ['(a{100}){100}', 'has more than 4000 steps when its repetitions are written out; use smaller counts'],
  ['(){2000000000}', 'has more than 4000 steps when its repetitions are written out; use smaller counts'],
  ['a'.repeat(5000), 'is longer than 4096 characters'],
  ['(a', "has a '(' without its ')'"],
  ['(?<=(ab)*)c', 'has a look-behind without an obvious maximum length'],
])('%s %s', (pattern, problem) => {
  expect(wholeMatchProblem(pattern)).toBe(problem);
});

describe('a hostile text', () => {
  const text = 'a'.repeat(20_000);

  test.each([
    '(a|aa)+b',
    '(a*)*b',
    '(?=(a+)+$)(a|a)*b',
    '(?:(?=a*b)a|(?<!aaaa)a)*c',
    '(?!(a*a*)*b)(a*)*c',
    '.*.*.*(?<=x)',
  ])('takes %s linear time', { retry: 2 }, (pattern) => {
    const match = new WholeMatch(pattern);
    const took = (length: number): number => {
      const started = performance.now();
      expect(match.matches(text.slice(0, length))).toBe(false);
      return performance.now() - started;
    };
    took(2000);
    // A text ten times as long takes some ten times as long; a backtracking engine would not end.
    expect(took(20_000)).toBeLessThan(2000);
  });
});
