import fc from 'fast-check';
import { expect, test } from 'vitest';
import { JavaObject } from '../../../src/rules/values/value.ts';
import { escapeAttempts } from '../../support/escapeAttempts.ts';
import { attempt } from '../../support/ruleAttempt.ts';

/** Pieces of texts, so that random texts get far into the parser. */
const pieces = [
  'request', 'state', 'result', 'engineRequestUser', 'engineQueryProperties', '.getHeader("X-Engine-User")', '.getUser()', '.get()', '.put("a", 1)',
  '.size()', '[0]', '["a"]', '[', ']', '(', ')', '{', '}', '"a"', "'b'", '1', '2L', '3.5', 'null', 'true', 'false', '+', '-', '*', '/', '%', '==', '!=',
  '<', '>=', '&&', '||', '!', '?', ':', ';', ',', '.', '.?', '=', '+=', 'contains', '~=', 'and', 'or', 'is', 'String', 'if', 'else', 'foreach', 'while',
  'return', 'new', 'ArrayList', 'HashMap', 'Math', '.abs(', '.constructor', '.__proto__', 'x', 'x : ', ' ', '\n', '// c\n', '/*', '"(a+)+"', '.matches(',
  '.split(',
]; // biome-ignore format: a table

const text = fc.oneof(
  fc.string({ unit: 'grapheme', maxLength: 200 }),
  fc.array(fc.constantFrom(...pieces), { maxLength: 40 }).map((parts) => parts.join('')),
  fc.array(fc.constantFrom(...pieces), { maxLength: 25 }).map((parts) => parts.join(' ')),
);

test('any text gives a value of the language or an error: nothing else gets out', () => {
  fc.assert(
    fc.property(text, (source) => {
      const { outcome, value, message, steps } = attempt(source);
      expect(steps).toBeLessThanOrEqual(100_000);
      if (outcome === 'value') {
        // Primitives and the language's own classes: no function, no plain object, nothing undefined.
        expect(
          value === null || ['string', 'number', 'boolean'].includes(typeof value) || value instanceof JavaObject,
        ).toBe(true);
        if (typeof value === 'number') expect(value).toBe(value | 0);
      } else {
        expect(message).not.toBe('');
      }
    }),
    { numRuns: 3000 },
  );
});

test('a text that is cut or changed anywhere still only gives a value or an error', () => {
  const sources = escapeAttempts.filter((one) => one.text.length < 300).map((one) => one.text);
  fc.assert(
    fc.property(fc.constantFrom(...sources), fc.nat(300), fc.constantFrom('', ...pieces), (source, at, piece) => {
      const place = at % (source.length + 1);
      const { outcome } = attempt(source.slice(0, place) + piece + source.slice(place + 1));
      expect(['value', 'compile error', 'evaluation error']).toContain(outcome);
    }),
    { numRuns: 300 },
  );
}, 120_000);

test('equal texts give equal results: evaluation depends on nothing but the request', () => {
  fc.assert(
    fc.property(text, (source) => {
      fc.pre(!/random|Date|Calendar/.test(source));
      const [a, b] = [attempt(source), attempt(source)];
      expect(a.outcome).toBe(b.outcome);
      expect(a.steps).toBe(b.steps);
      expect(a.message).toBe(b.message);
    }),
    { numRuns: 500 },
  );
});

test.each([
  'null ~= request',
  '"a" ~= "b" + state.size()',
  '"a".matches("b" + state.size())',
  '"a".matches("(a|b)*c")',
  'String p = "x"; p.replaceAll("x" + p, "y")',
])('a pattern counts the same steps after any earlier use: %s', (source) => {
  const first = attempt(source);
  expect(first.outcome).not.toBe('compile error');
  expect(attempt(source)).toEqual(first);
});

test('any regular expression compiles or is refused, and never stalls', () => {
  const pattern = fc
    .array(
      fc.constantFrom(
        'a',
        'b',
        '.',
        '*',
        '+',
        '?',
        '(',
        ')',
        '|',
        '[',
        ']',
        '^',
        '$',
        '\\\\d',
        '\\\\w',
        '{2,3}',
        '&&',
        '-',
        '(?i)',
        '(?=',
        '\\\\Q',
        '\\\\E',
        '++',
        '\\\\p{L}',
      ),
      { maxLength: 20 },
    )
    .map((parts) => parts.join(''));
  fc.assert(
    fc.property(pattern, (regex) => {
      const { outcome } = attempt(`"${'ab'.repeat(200)}" ~= "${regex}"`);
      expect(['value', 'compile error', 'evaluation error']).toContain(outcome);
    }),
    { numRuns: 2000 },
  );
});
