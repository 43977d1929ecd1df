import { describe, expect, test } from 'vitest';
import type { StringMatch } from '../../../src/kinds/fields/spec.ts';
import { type TextMatcher, textMatcher } from '../../../src/rules/textMatcher.ts';

/** Matches in short: `~` begins a regular expression, `^` the beginning of a text. */
const matchesOf = (values: readonly string[]): readonly StringMatch[] =>
  values.map((value) => {
    if (value.startsWith('~')) return { type: 'RegularExpression', value: value.slice(1) };
    return value.startsWith('^') ? { type: 'Prefix', value: value.slice(1) } : { value };
  });
const matcher = (...values: readonly string[]): TextMatcher => {
  const made = textMatcher(matchesOf(values), true);
  if ('problems' in made) throw new Error(JSON.stringify(made.problems));
  return made.matches;
};

describe('a matcher of names', () => {
  test.each<[values: readonly string[], text: string, matches: boolean]>([
    [['alice', 'bob'], 'bob', true],
    [['alice'], 'Alice', false],
    [['a.c'], 'abc', false],
    [['~a.c'], 'abc', true],
    [['~a.c'], 'xabc', false],
    [['~etl-.*', 'alice'], 'etl-nightly', true],
    [['~etl-.*', 'alice'], 'alice', true],
    [['~etl-.*', 'alice'], 'carol', false],
    [['~(?i)etl'], 'ETL', true],
    [['^etl-'], 'etl-nightly', true],
    [['^etl-', '^adhoc-'], 'adhoc-', true],
    [['^etl-'], 'my-etl-1', false],
    [['^e', '~a.c'], 'abc', true],
    [[], 'alice', false],
  ])('%j and %j: %j', (values, text, matches) => {
    const of = matcher(...values);
    // The second answer is a remembered one.
    expect([of(text), of(text)]).toEqual([matches, matches]);
  });

  test('a text that is longer than any name counts as matched, so that a long name avoids no limit', () => {
    expect([matcher('~x')('y'.repeat(1_025)), matcher('~x')('y'.repeat(1_024))]).toEqual([true, false]);
  });

  test('many different texts are answered right, whatever is remembered', () => {
    const of = matcher('~user-[0-9]*[02468]');
    for (const round of [1, 2]) {
      for (let index = 0; index < 1_000; index += 1) {
        expect([round, index, of(`user-${index}`)]).toEqual([round, index, index % 2 === 0]);
      }
    }
  });

  test.each<[values: readonly string[], index: number, message: RegExp]>([
    [['a', '~('], 1, /regular expression/],
    [['~[a-'], 0, /regular expression/],
    [['~(.)\\1'], 0, /regular expression/],
    [['~(a{1000}){20}', 'b'], 0, /use smaller counts/],
    [[...Array<string>(40).fill('~.{1,60}')], 33, /too large together/],
  ])('%j is refused at %i', (values, index, message) => {
    const made = textMatcher(matchesOf(values), true);
    expect('problems' in made ? made.problems[0] : null).toMatchObject({ message: expect.stringMatching(message) });
    expect('problems' in made && made.problems[0]!.index).toBeLessThanOrEqual(index);
  });
});
