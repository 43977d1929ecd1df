import fc from 'fast-check';
import { expect, test } from 'vitest';
import { compareResults, type ResultColumn, ResultFold } from '../../../src/replay/resultFold.ts';

const column = (type: string, name = 'c'): ResultColumn => ({ name, type });

function digest(columns: readonly ResultColumn[], rows: readonly (readonly unknown[])[], pages = 1) {
  const fold = new ResultFold(columns);
  const size = Math.max(1, Math.ceil(rows.length / pages));
  for (let at = 0; at < rows.length; at += size) fold.add(rows.slice(at, at + size));
  return fold.digest();
}

const rowsOf = fc.array(
  fc.tuple(
    fc.oneof(fc.string(), fc.constant(null)),
    fc.oneof(fc.integer(), fc.constant(null)),
    // JSON has no number for these: engines send their names.
    fc.oneof(
      fc.double({ noNaN: true, noDefaultInfinity: true }),
      fc.constantFrom('NaN', 'Infinity', '-Infinity', null),
    ),
    fc.array(fc.dictionary(fc.string(), fc.integer()), { maxLength: 3 }),
  ),
  { maxLength: 20 },
);
const columns = [
  column('varchar', 's'),
  column('bigint', 'i'),
  column('double', 'd'),
  column('array(map(varchar,bigint))', 'm'),
];

test('rows in any order and in any pages have the same digest, but for their order', () => {
  fc.assert(
    fc.property(rowsOf, fc.integer({ min: 1, max: 5 }), fc.infiniteStream(fc.integer()), (rows, pages, random) => {
      const shuffled = rows
        .map((row) => [random.next().value as number, row] as const)
        .sort(([a], [b]) => a - b)
        .map(([, row]) => row);
      expect(compareResults(digest(columns, rows), digest(columns, shuffled, pages), false)).toBeNull();
    }),
  );
});

test('another value, row or column is a difference', () => {
  fc.assert(
    fc.property(rowsOf, fc.nat(), (rows, position) => {
      fc.pre(rows.length > 0);
      const at = position % rows.length;
      const changed = rows.map((row, index) => (index === at ? [`${row[0] ?? ''}x`, ...row.slice(1)] : row));
      expect(compareResults(digest(columns, rows), digest(columns, changed), false)?.kind).toBe('values');
      expect(compareResults(digest(columns, rows), digest(columns, rows.slice(1)), false)?.kind).toBe('rows');
    }),
  );
});

const one = (type: string, ...values: unknown[]) =>
  digest(
    [column(type)],
    values.map((value) => [value]),
  );

test.each([
  ['sums of floating-point numbers in another order', 'double', [0.1 + 0.2 + 0.3], [0.3 + 0.2 + 0.1], null],
  ['two zeros', 'double', [-0], [0], null],
  ['the greatest doubles in another order', 'double', [1.5e308, 1.5e308, -1.5e308], [1.5e308, -1.5e308, 1.5e308], null],
  ['the greatest doubles', 'double', [1.5e308, 1.5e308], [1.5e308, 1.4e308], 'values'],
  ['the ninth digit of a double', 'double', [1.00000001], [1.00000002], 'values'],
  ['the fifth digit of a real', 'real', [1.00001], [1.00002], null],
  ['NaN in place of a number', 'double', ['NaN'], [0], 'values'],
  ['the two infinities', 'double', ['Infinity'], ['-Infinity'], 'values'],
  ['a decimal by its last digit', 'decimal(38,0)', ['1234567890123456789'], ['1234567890123456788'], 'values'],
  ['null and an empty text', 'varchar', [null], [''], 'values'],
  ['a number and its text', 'varchar', ['1'], [1], 'values'],
  ['maps with other orders of names', 'map(varchar,bigint)', [{ a: 1, b: 2 }], [{ b: 2, a: 1 }], null],
  ['doubles within arrays', 'array(double)', [[0.1 + 0.2]], [[0.3]], null],
  ['nested nulls', 'array(bigint)', [[null]], [[]], 'values'],
] as const)('%s', (_name, type, some, others, expected) => {
  expect(compareResults(one(type, ...some), one(type, ...others), false)?.kind ?? null).toBe(expected);
});

test('names columns that differ, and separates values in other rows from other orders', () => {
  const two = [column('varchar', 'a'), column('varchar', 'b')];
  const rows = [
    ['1', 'x'],
    ['2', 'y'],
  ];
  const crossed = [
    ['1', 'y'],
    ['2', 'x'],
  ];
  expect(compareResults(digest(two, rows), digest(two, crossed), false)?.reason).toContain('other rows');
  expect(compareResults(digest(two, rows), digest(two, rows.toReversed()), false)).toBeNull();
  expect(compareResults(digest(two, rows), digest(two, rows.toReversed()), true)?.kind).toBe('order');
  expect(
    compareResults(digest(two, rows), digest([column('varchar', 'a'), column('char(1)', 'b')], rows), false),
  ).toEqual({
    kind: 'columns',
    reason: 'the columns are (a varchar, b varchar) and (a varchar, b char(1))',
  });
});

test('one number that differs among many is found, and last digits are none', () => {
  const shape = [column('double')];
  const many = Array.from({ length: 50_000 }, (_, index) => [index * 1.1]);
  const noisy = many.map(([value = 0]) => [value * (1 + Number.EPSILON)]);
  const changed = many.map((row, index) => (index === 500 ? [(row[0] as number) + 0.001] : row));
  expect(compareResults(digest(shape, many), digest(shape, noisy.toReversed()), false)).toBeNull();
  expect(compareResults(digest(shape, many), digest(shape, changed), false)?.kind).toBe('values');
});
