import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { javaRegexProblem } from '../../../src/model/javaRegex/javaRegexProblem.ts';

/** Expressions with the verdict of `java.util.regex.Pattern` of JDK 25. */
const verdicts: { valid: string[]; invalid: string[] } = JSON.parse(
  readFileSync(new URL('../../fixtures/java-regex.json', import.meta.url), 'utf8'),
);

test.each(verdicts.valid)('Java compiles %j', (pattern) => {
  expect(javaRegexProblem(pattern)).toBeNull();
});

test.each(verdicts.invalid)('Java refuses %j', (pattern) => {
  expect(javaRegexProblem(pattern)).not.toBeNull();
});

test.each([
  'bob|alice',
  '.*',
  'etl-.*',
  '(?i)admin_[0-9]+',
  '^(?!root$).+',
  '[a-z&&[^q]]++',
  '\\Qa.b\\E',
  'x{1,3}?',
  '',
])('people write %s', (pattern) => {
  expect(javaRegexProblem(pattern)).toBeNull();
});

test.each([
  ['(', "has a '(' without its ')'"],
  ['a)', "has a ')' without its '('"],
  ['[a', "has a '[' without its ']'"],
  ['*a', 'has a * with nothing to repeat before it'],
  ['a{', 'has a { that begins no repetition such as {2} or {1,3}; write \\{ for the character'],
  ['a{3,1}', 'has a repetition that ends before it begins: {3,1}'],
  ['[z-a]', 'has a range of characters that ends before it begins'],
  ['\\y', 'has an unknown escape \\y'],
  ['a\\', 'ends with a backslash'],
  ['\\p{Foo}', 'has an unknown property \\p{Foo}'],
  ['(?<n>a)(?<n>b)', 'has two groups named n'],
  ['\\k<n>', 'refers to a group n that is not before it'],
  ['(?<=(ab)*)c', 'has a look-behind without an obvious maximum length'],
  ['('.repeat(300) + ')'.repeat(300), 'nests deeper than 250 levels'],
])('%s %s', (pattern, problem) => {
  expect(javaRegexProblem(pattern)).toBe(problem);
});

test('any text gets a verdict, quickly', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => [null, 'string'].includes(javaRegexProblem(text) && 'string')),
  );
  const started = performance.now();
  for (const text of [
    '(?x)'.repeat(2000),
    '[a&&'.repeat(2000),
    '\\Q('.repeat(2000),
    '(?x) '.padEnd(20_000),
    'a{1}'.repeat(4000),
  ]) {
    javaRegexProblem(text);
  }
  expect(performance.now() - started).toBeLessThan(10_000);
});
