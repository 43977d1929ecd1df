import { describe, expect, test } from 'vitest';
import { evaluateCase } from '../../../src/cli/ruleCases.ts';

/** An expression with what the reference engine gives (MVEL in Trino Gateway 21); undefined: it fails. */
const cases: readonly (readonly [expression: string, value: unknown])[] = [
  ['"\\101\\102"', 'AB'],
  ['"\\1012"', 'A2'],
  ['"x\\60y"', 'x0y'],
  ['"\\400"', ' 0'],
  ['"\\377"', 'ÿ'],
  ['"\\8"', undefined],
  ['"\\18"', undefined],
  ['"abc".regionMatches(1, "xbc", 1, 2)', true],
  ['"aBC".regionMatches(1, "xbc", 1, 2)', false],
  ['"aBC".regionMatches(true, 1, "xbc", 1, 2)', true],
  ['"abc".regionMatches(2, "xbc", 1, 2)', false],
  ['"abc".regionMatches(-1, "xbc", 1, 2)', false],
  ['"abc".regionMatches(3, "xbc", 3, -1)', true],
  ['Collections.nCopies(2, "a")', ['a', 'a']],
  ['Collections.nCopies(0, "a").isEmpty()', true],
  ['Collections.nCopies(-1, "a")', undefined],
  ['Collections.nCopies(2, "a").add("b")', undefined],
  ['String.join("-", Collections.nCopies(3, "a"))', 'a-a-a'],
  ['new StringBuilder("abc").deleteCharAt(1).toString()', 'ac'],
  ['new StringBuilder("abc").deleteCharAt(3).toString()', undefined],
  ['new StringBuilder("abc").delete(1, 9).toString()', 'a'],
  ['new StringBuilder("abc").delete(2, 1).toString()', undefined],
  ['new StringBuilder("abc").replace(0, 2, "xyz").toString()', 'xyzc'],
  ['new String("hi".getBytes())', 'hi'],
  ['new String("hé".getBytes())', 'hé'],
  ['new String("hi".toCharArray())', 'hi'],
  ['new String([1])', undefined],
  ['Base64.getEncoder().withoutPadding().encodeToString("hi".getBytes())', 'aGk'],
  ['Base64.getUrlEncoder().encodeToString("hi".getBytes())', 'aGk='],
  ['new String(Base64.getEncoder().encode("hi".getBytes()))', 'aGk='],
  ['new String(Base64.getDecoder().decode("aGk="))', 'hi'],
  ['new String(Base64.getDecoder().decode("aGk=".getBytes()))', 'hi'],
  ['UUID.randomUUID().version()', 4],
  ['UUID.fromString(UUID.randomUUID().toString()).toString().length()', 36],
  ['UUID.randomUUID().equals(UUID.randomUUID())', false],
  [
    'p = new Properties(); p.setProperty("a", "b"); p.getProperty("a") + p.getProperty("c", "d") + p.getProperty("e")',
    'bdnull',
  ],
  ['request.getAttribute("x") == null', true],
  ['request.getAttributeNames().hasMoreElements()', false],
  ['request.getUserPrincipal() == null', true],
];

describe('methods of the library', () => {
  test.each(cases)('%s', (expr, value) => {
    const result = evaluateCase({ id: 'one', kind: 'expression', expr });
    if (value === undefined) expect(result.error).toBeDefined();
    else expect(result).toMatchObject({ value });
  });
});
