import fc from 'fast-check';
import { expect, test } from 'vitest';
import { DistinctTables, DistinctTexts } from '../../../src/sql/distinctNames.ts';

// Few characters, below and above the dot, so that parts begin others and are equal often.
const text = fc.string({ unit: fc.constantFrom('a', 'b', '.', '-', '/', '"', 'ü'), maxLength: 3 });

test('texts are kept once and sorted, few or many', () => {
  fc.assert(
    fc.property(fc.array(text, { maxLength: 40 }), (texts) => {
      const distinct = new DistinctTexts();
      for (const each of texts) distinct.add(each);
      expect(distinct.sorted()).toEqual([...new Set(texts)].sort());
    }),
  );
});

test('tables are kept once and sorted by their joined text, few or many', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(text, text, text), { maxLength: 40 }), (tables) => {
      const distinct = new DistinctTables();
      const known = new Set<string>();
      for (const table of tables) {
        const key = JSON.stringify(table);
        expect(distinct.add(table)).toBe(!known.has(key));
        known.add(key);
      }
      const sorted = distinct.sorted();
      expect(new Set(sorted.map((table) => JSON.stringify(table)))).toEqual(known);
      const joined = sorted.map((table) => table.join('.'));
      expect(joined).toEqual(joined.toSorted());
    }),
  );
});
