import fc from 'fast-check';
import { expect, test } from 'vitest';
import { lowerCasePart } from '../../../src/sql/syntax/identifiers.ts';

/** Few characters, so that identifiers come again in other letter cases, and some that differ by little share a place. */
const text = fc.oneof(
  fc.string({ unit: fc.constantFrom('a', 'B', 'b', '_', '1', '@', '`', '[', '{', ' '), maxLength: 6 }),
  fc.string({ unit: 'binary', maxLength: 80 }),
);

test('a part of a text comes in lower case, whatever came before', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(text, text, text), { maxLength: 50 }), (parts) => {
      for (const [before, part, after] of [...parts, ...parts]) {
        const from = before.length;
        expect(lowerCasePart(before + part + after, from, from + part.length)).toBe(part.toLowerCase());
      }
    }),
  );
});

test('more identifiers than are remembered come as they are', () => {
  for (const round of [1, 2]) {
    for (let index = 0; index < 20_000; index += 1) {
      const name = `Table_${index * round}`;
      expect(lowerCasePart(name, 0, name.length)).toBe(`table_${index * round}`);
    }
  }
});
