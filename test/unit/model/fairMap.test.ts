import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { FairMap } from '../../../src/model/fairMap.ts';

const keys = (map: FairMap<string, number>) => [...map.entries()].map(([key]) => key);

describe('a map of groups', () => {
  test('a full group drops its own oldest entry', () => {
    const dropped: unknown[] = [];
    const map = new FairMap<string, number>({
      max: 100,
      maxPerGroup: 2,
      onDrop: (key, value) => dropped.push([key, value]),
    });
    map.set('a1', 'a', 1);
    for (let each = 1; each <= 4; each++) map.set(`b${each}`, 'b', each);
    expect([keys(map), dropped]).toEqual([
      ['a1', 'b3', 'b4'],
      [
        ['b1', 1],
        ['b2', 2],
      ],
    ]);
  });

  test('a full map drops the oldest entry of its largest group', () => {
    const map = new FairMap<string, number>({ max: 4 });
    map.set('a1', 'a', 1);
    for (let each = 1; each <= 5; each++) map.set(`b${each}`, 'b', each);
    map.set('c1', 'c', 1);
    expect(keys(map)).toEqual(['a1', 'b4', 'b5', 'c1']);
  });

  test('an entry may change its group', () => {
    const map = new FairMap<string, number>({ max: 3, maxPerGroup: 1 });
    map.set('x', 'a', 1);
    map.set('x', 'b', 2);
    map.set('y', 'a', 3);
    expect([keys(map), map.get('x'), map.size]).toEqual([['x', 'y'], 2, 2]);
    map.set('z', 'b', 4);
    expect([map.has('x'), map.get('z')]).toEqual([false, 4]);
  });

  test('whatever is set: bounds hold, and small groups lose nothing to large ones', () => {
    const step = fc.record({ key: fc.nat(400), group: fc.constantFrom('large', 'large', 'large', 'large', 'other') });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 600 }), (steps) => {
        const max = 200;
        const map = new FairMap<string, number>({ max, maxPerGroup: 150 });
        for (let each = 0; each < 10; each++) map.set(`small-${each}`, 'small', each);
        for (const { key, group } of steps) {
          map.set(`${group}-${key}`, group, key);
          expect(map.get(`${group}-${key}`)).toBe(key);
          expect(map.size).toBeLessThanOrEqual(max);
          expect(keys(map).filter((one) => one.startsWith('large')).length).toBeLessThanOrEqual(150);
        }
        expect(keys(map).filter((one) => one.startsWith('small'))).toHaveLength(10);
      }),
      { numRuns: 30 },
    );
  });
});
