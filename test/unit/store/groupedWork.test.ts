import { expect, test } from 'vitest';
import { GroupedWork } from '../../../src/store/groupedWork.ts';

class Shared extends Error {}

/** Work that waits to be let go; items of which one begins with `bad` fail. */
function recordedWork() {
  const groups: { readonly items: readonly string[]; readonly context: string }[] = [];
  const gates: (() => void)[] = [];
  const grouped = new GroupedWork<string, string, string>({
    keyOf: (item) => item.replace(/\d/, ''),
    work: async (items, context) => {
      groups.push({ items, context });
      await new Promise<void>((resolve) => gates.push(resolve));
      if (items.includes('away')) throw new Shared('away');
      if (items.some((item) => item.startsWith('bad'))) throw new Error(`${items.join()} failed`);
      return items.map((item) => `${item} done`);
    },
    isShared: (error) => error instanceof Shared,
  });
  /** Lets groups go until all of these are settled. */
  const settled = async (promises: readonly Promise<string>[]): Promise<readonly string[]> => {
    let isOver = false;
    const all = Promise.allSettled(promises).finally(() => {
      isOver = true;
    });
    while (!isOver) {
      for (const open of gates.splice(0)) open();
      await new Promise((resolve) => setImmediate(resolve));
    }
    return (await all).map((each) => (each.status === 'fulfilled' ? each.value : (each.reason as Error).message));
  };
  return { grouped, groups, settled };
}

test('what comes while a group is at work is the next group, of one context and with no key twice', async () => {
  const { grouped, groups, settled } = recordedWork();
  const added = ['a', 'b', 'a2', 'c'].map((item) => grouped.add(item, 'x'));
  const other = grouped.add('d', 'y');
  expect(await settled([...added, other])).toEqual(['a done', 'b done', 'a2 done', 'c done', 'd done']);
  expect(groups).toEqual([
    { items: ['a', 'b'], context: 'x' },
    { items: ['a2', 'c'], context: 'x' },
    { items: ['d'], context: 'y' },
  ]);
});

test('a group has 32 items at most', async () => {
  const { grouped, groups, settled } = recordedWork();
  const names = Array.from({ length: 70 }, (_, index) => `item-${String.fromCharCode(0x4e00 + index)}`);
  await settled(names.map((name) => grouped.add(name, 'x')));
  expect(groups.map(({ items }) => items.length)).toEqual([32, 32, 6]);
});

test('an item that fails fails alone; a failure that is none of theirs is that of all', async () => {
  const { grouped, groups, settled } = recordedWork();
  expect(await settled(['a', 'bad', 'c'].map((item) => grouped.add(item, 'x')))).toEqual([
    'a done',
    'bad failed',
    'c done',
  ]);
  groups.length = 0;
  expect(await settled(['a', 'away', 'c'].map((item) => grouped.add(item, 'x')))).toEqual(['away', 'away', 'away']);
  expect(groups).toHaveLength(1);
});
