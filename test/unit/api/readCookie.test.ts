import { expect, test } from 'vitest';
import { readCookie } from '../../../src/api/auth/cookies.ts';

test.each([
  [undefined, undefined],
  ['', undefined],
  ['S=1', '1'],
  ['S', undefined],
  ['S=', ''],
  ['a=1; S=2; S=3', '2'],
  ['a=S=1; S = x ;b=2', 'x'],
  ['S; S=1', '1'],
  ['aS=1;Sa=2;S=3', '3'],
  ['a=S', undefined],
  ['a=S; b=S; S=a=b', 'a=b'],
])('%s', (header, expected) => {
  expect(readCookie(header, 'S')).toBe(expected);
});
