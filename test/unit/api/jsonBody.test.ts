import fc from 'fast-check';
import { expect, test } from 'vitest';
import { repeatedKey, unpairedSurrogate } from '../../../src/api/jsonBody.ts';

test.each([
  ['{"a":1,"a":2}', 'a'],
  ['{"a":1,"\\u0061":2}', 'a'],
  ['[{"b":{"c":[],"c":{}}}]', 'c'],
  ['{"x":{"a":1},"a":{"x":[{"a":"a"}]}}', null],
  ['{"a\\"":1,"a":"a","b":["a","a"]}', null],
  ['"a,a"', null],
  ['[]', null],
])('repeated key of %s: %s', (text, key) => {
  expect(repeatedKey(text)).toBe(key);
});

test('what JSON.stringify writes never repeats a key, until one is repeated', () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.string(), (value, key) => {
      expect(repeatedKey(JSON.stringify(value, null, 1))).toBeNull();
      const name = JSON.stringify(key);
      expect(repeatedKey(`[{${name}:${JSON.stringify(value)} , ${name} :0}]`)).toBe(key);
    }),
  );
});

test('finds half surrogates in texts and keys, however deep', () => {
  expect(unpairedSurrogate({ a: [{ b: '\ud800' }] })).toBe('a[0].b');
  expect(unpairedSurrogate({ a: { '\udc00': 1 } })).toBe('a');
  expect(unpairedSurrogate('\ud800')).toBe('');
  expect(unpairedSurrogate({ a: '😀' })).toBeNull();
  const deep = JSON.parse(`${'['.repeat(100_000)}${']'.repeat(100_000)}`);
  expect(unpairedSurrogate(deep)).toBeNull();
});
