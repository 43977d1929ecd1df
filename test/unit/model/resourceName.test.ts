import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { isResourceName, resourceNames } from '../../../src/model/resourceName.ts';

const first = (name: string, count = 1) => resourceNames(name).take(count).toArray();

describe('metadata.name of a registry name', () => {
  test.each([
    ['prod', 'prod'],
    ['prod-1.eu', 'prod-1.eu'],
    ['Trino Prod_1', 'trino-prod-1-'],
    ['日本', 'x-'],
    ['Zürich', 'zu-rich-'],
    ['-x-', 'x-'],
    ['a'.repeat(64), `${'a'.repeat(54)}-`],
  ])('%s', (name, wanted) => {
    expect(first(name)[0]?.startsWith(wanted)).toBe(true);
  });

  test('is a Kubernetes name of at most 63 characters, the same each time, and names of other clusters differ', () => {
    fc.assert(
      fc.property(fc.string({ minLength: 1, maxLength: 256 }), fc.string({ minLength: 1, maxLength: 256 }), (a, b) => {
        const candidates = first(a, 4);
        expect(candidates).toEqual(first(a, 4));
        expect(new Set(candidates).size).toBe(4);
        for (const candidate of candidates) expect(isResourceName(candidate)).toBe(true);
        if (a !== b) expect(first(b)[0]).not.toBe(candidates[0]);
      }),
    );
  });
});
