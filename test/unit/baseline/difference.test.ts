import { expect, test } from 'vitest';
import { covers, differences, readRemovals } from '../../baseline/difference.ts';
import { shapeOf } from '../../baseline/scrub.ts';

test.each([
  ['equal values', { a: [1, { b: null }] }, { a: [1, { b: null }] }, []],
  ['an addition', { a: 1 }, { a: 1, b: 2 }, []],
  ['a changed value', { a: { b: 1 } }, { a: { b: 2 } }, ['a > b']],
  ['a missing member', { a: { b: 1 } }, { a: {} }, ['a > b']],
  ['a member of an array', { a: [1, 2] }, { a: [1, 3] }, ['a > 1']],
  ['a longer array', { a: [1], b: ['x', 'y'] }, { a: [1, 2], b: ['y', 'z', 'x'] }, ['a', 'b']],
  ['a longer text', { a: ['x'] }, { a: ['x', 'y'] }, ['a > y']],
  ['a form without null, and one with it', { a: 'null|string', b: 'string' }, { a: 'string', b: 'null|string' }, ['b']],
  ['another type', { a: [] }, { a: {} }, ['a']],
])('differences of %s', (_what, recorded, current, paths) => {
  expect(differences(recorded, current).map(({ path }) => path)).toEqual(paths);
});

test('the form of a list has every member, and that of an empty list none', () => {
  expect(shapeOf([{ a: 1 }, { a: 'x', b: null }])).toEqual({ '[]': { a: 'number|string', b: 'null' } });
  expect(differences(shapeOf([]), shapeOf([1]))).toEqual([]);
  expect(differences(shapeOf([{ a: 1, b: 2 }]), shapeOf([{ a: 1 }]))).toHaveLength(1);
});

test('a row of docs/removed.md covers the paths of its pattern only', () => {
  const [removal] = readRemovals(
    '| Decision | Difference | Effect |\n| --- | --- | --- |\n| why | `commands > config * > stdout` | x |\n',
  );
  expect(removal).toEqual({ decision: 'why', pattern: 'commands > config * > stdout' });
  expect(covers(removal!, 'commands > config --config a.yaml > stdout')).toBe(true);
  expect(covers(removal!, 'commands > config --config a.yaml > stdout > 1')).toBe(false);
  expect(covers(removal!, 'commands > serve > stdout')).toBe(false);
});
