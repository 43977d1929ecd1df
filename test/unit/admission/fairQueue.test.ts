import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { FairQueue } from '../../../src/admission/fairQueue.ts';

/** Admits as many as there is room for; returns them in order. */
function admitted(queue: FairQueue<string>, room: number, blocked: (item: string) => boolean = () => false): string[] {
  const all: string[] = [];
  queue.admit((item) => {
    if (all.length === room) return 'full';
    if (blocked(item)) return 'blocked';
    all.push(item);
    return 'admitted';
  });
  return all;
}

function queueOf(items: readonly string[], weights: Readonly<Record<string, number>> = {}): FairQueue<string> {
  const queue = new FairQueue<string>();
  for (const item of items) queue.push(item.charAt(0), weights[item.charAt(0)] ?? 1, item);
  return queue;
}

describe('those that wait', () => {
  test.each([
    ['flows take turns', ['a1', 'a2', 'a3', 'b1', 'c1', 'b2'], {}, ['a1', 'b1', 'c1', 'a2', 'b2', 'a3']],
    [
      'as many a turn as the weight says',
      ['a1', 'a2', 'a3', 'b1', 'b2', 'b3'],
      { b: 2 },
      ['a1', 'b1', 'b2', 'a2', 'b3', 'a3'],
    ],
    [
      'a weight below 1 waits for turns',
      ['a1', 'a2', 'b1', 'b2', 'b3', 'b4'],
      { a: 0.5 },
      ['b1', 'a1', 'b2', 'b3', 'a2', 'b4'],
    ],
  ])('%s', (_name, items, weights, order) => {
    expect(admitted(queueOf(items, weights), 100)).toEqual(order);
  });

  test('the turn goes on where room ended', () => {
    const queue = queueOf(['a1', 'a2', 'b1', 'b2']);
    expect(admitted(queue, 1)).toEqual(['a1']);
    queue.push('a', 1, 'a3');
    expect(admitted(queue, 1)).toEqual(['b1']);
    expect(admitted(queue, 3)).toEqual(['a2', 'b2', 'a3']);
    expect(queue.size).toBe(0);
  });

  test('who is blocked lets others pass, and keeps the first place of its flow', () => {
    const queue = queueOf(['a1', 'a2', 'b1']);
    expect(admitted(queue, 5, (item) => item === 'a1')).toEqual(['b1']);
    expect(admitted(queue, 5)).toEqual(['a1', 'a2']);
  });

  test('one that takes up its place again comes before those that came later', () => {
    const queue = new FairQueue<string>();
    queue.push('a', 1, 'later', 20);
    queue.push('a', 1, 'new');
    queue.push('a', 1, 'earlier', 10);
    expect(queue.inOrder()).toEqual(['earlier', 'later', 'new']);
    expect(admitted(queue, 5)).toEqual(['earlier', 'later', 'new']);
  });

  test('one that is moved first comes before all, the last one moved before those that were', () => {
    const queue = queueOf(['a1', 'a2', 'b1', 'b2']);
    queue.moveFirst('b2');
    queue.moveFirst('a2');
    queue.moveFirst('none');
    expect(queue.inOrder()).toEqual(['a2', 'b2', 'a1', 'b1']);
    expect(admitted(queue, 1, (item) => item === 'a2')).toEqual(['b2']);
    queue.remove('a2');
    expect(admitted(queue, 5)).toEqual(['a1', 'b1']);
    expect(queue.size).toBe(0);
  });

  test('places are those in which all are admitted, whatever came before', () => {
    const one = fc.record({
      flow: fc.integer({ min: 0, max: 4 }),
      isMoved: fc.integer({ max: 9 }).map((n) => n === 0),
    });
    const weights = fc.array(fc.constantFrom(0.25, 0.5, 1, 2, 3), { minLength: 5, maxLength: 5 });
    fc.assert(
      fc.property(fc.array(one, { maxLength: 40 }), weights, fc.nat(10), (items, weightOf, before) => {
        const queue = new FairQueue<string>();
        for (const [index, { flow, isMoved }] of items.entries()) {
          queue.push(`${flow}`, weightOf[flow] ?? 1, `${flow}:${index}`);
          if (isMoved) queue.moveFirst(`${flow}:${index}`);
        }
        admitted(queue, before);
        const order = queue.inOrder();
        expect(admitted(queue, 1_000)).toEqual(order);
      }),
    );
  });

  test('nobody is lost or admitted twice, and no flow waits longer than the others need for a turn', () => {
    const action = fc.oneof(
      fc.record({ kind: fc.constant('push' as const), flow: fc.integer({ min: 0, max: 4 }) }),
      fc.record({ kind: fc.constant('admit' as const), room: fc.integer({ min: 1, max: 3 }) }),
      fc.record({ kind: fc.constant('remove' as const), which: fc.nat() }),
    );
    fc.assert(
      fc.property(fc.array(action, { maxLength: 60 }), (actions) => {
        const queue = new FairQueue<string>();
        const waiting: string[] = [];
        const passedBy = new Map<string, number>();
        let count = 0;
        for (const one of actions) {
          if (one.kind === 'push') {
            const item = `${one.flow}:${count++}`;
            queue.push(`${one.flow}`, 1, item);
            waiting.push(item);
          } else if (one.kind === 'remove') {
            const [item] = waiting.splice(one.which % Math.max(1, waiting.length), 1);
            if (item !== undefined) queue.remove(item);
          } else {
            for (const item of admitted(queue, one.room)) {
              const flow = item.charAt(0);
              expect(item).toBe(waiting.find((other) => other.startsWith(flow)));
              waiting.splice(waiting.indexOf(item), 1);
              passedBy.delete(flow);
              for (const other of new Set(waiting.map((left) => left.charAt(0)))) {
                if (other === flow) continue;
                passedBy.set(other, (passedBy.get(other) ?? 0) + 1);
                expect(passedBy.get(other)).toBeLessThanOrEqual(10);
              }
            }
          }
          expect(queue.size).toBe(waiting.length);
        }
        expect(admitted(queue, 1_000).toSorted()).toEqual(waiting.toSorted());
      }),
    );
  });
});
