import { pino } from 'pino';
import { afterEach, expect, test, vi } from 'vitest';
import { keyOf, keyText, type Resource, type ResourceKey } from '../../../src/model/resource.ts';
import { DeletionGuard } from '../../../src/operator/reconcile/deletionGuard.ts';
import { defaultDeletionGuard } from '../../support/defaults.ts';
import { resourceOf } from '../../support/resource.ts';

let time = 0;
const guards: DeletionGuard[] = [];
const resource = (name: string, deletionTimestamp?: string): Resource =>
  resourceOf('EngineCluster', name, {}, deletionTimestamp === undefined ? {} : { deletionTimestamp });
const all = ['a', 'b', 'c', 'd', 'e'].map((name) => resource(name));
const guard = (isOfAnother: (key: ResourceKey) => boolean = () => false): DeletionGuard => {
  const made = new DeletionGuard({
    kind: 'EngineCluster',
    settings: defaultDeletionGuard,
    isOfAnother,
    clock: { now: () => time, monotonic: () => time },
    logger: pino({ enabled: false }),
    onDue: vi.fn(),
  });
  guards.push(made);
  return made;
};
const names = (served: readonly Resource[]): string => served.map(({ metadata }) => metadata.name).join('');

afterEach(() => {
  time = 0;
  for (const made of guards.splice(0)) made.stop();
});

/** The database says that none of the missing resources was deleted through another replica. */
const noneDeleted = (one: DeletionGuard): void => one.forgive(new Set(), time);

test('what other replicas deleted is no loss, not for a moment; the rest is one once the database has been asked', () => {
  const one = guard();
  one.serve(all);
  time = 10;
  expect(names(one.serve([]))).toBe('abcde');
  expect([one.isSuspicious, one.held]).toEqual([true, []]);
  // An answer from before says nothing about what is missing since.
  one.forgive(new Set(), 9);
  expect([one.isSuspicious, one.held]).toEqual([true, []]);
  one.forgive(new Set(all.slice(0, 2).map(({ metadata }) => metadata.uid)), 11);
  expect([one.isSuspicious, one.held]).toEqual([false, []]);
  // Three are no more than anybody deletes.
  expect(names(one.serve([]))).toBe('');

  const other = guard();
  other.serve(all);
  other.serve([]);
  other.forgive(new Set([all[0]?.metadata.uid ?? '']), time);
  expect(other.held).toMatchObject([{ held: 4, left: 0 }]);
  expect(names(other.serve([]))).toBe('bcde');
});

test('one that is deleted through the gateway is gone at once, also where the source shows it for another moment', () => {
  const one = guard();
  one.serve(all);
  one.expect(keyText(keyOf(all[4]!)));
  expect(names(one.serve(all.slice(0, 4)))).toBe('abcd');
  expect(names(one.serve(all))).toBe('abcde');
  expect(names(one.serve(all.slice(0, 4)))).toBe('abcd');
});

test('few deletions are served half a second later, and never together with an earlier minute', () => {
  const one = guard();
  one.serve(all);
  expect(names(one.serve(all.slice(0, 3)))).toBe('abcde');
  time = 500;
  expect(names(one.serve(all.slice(0, 3)))).toBe('abc');
  time = 61_000;
  one.serve(all.slice(0, 3));
  time = 61_500;
  expect(names(one.serve([]))).toBe('');
  expect(one.held).toEqual([]);
});

test('resources that only wait for their finalizers are lost as well', () => {
  const one = guard();
  one.serve(all);
  const going = all.map(({ metadata }) => resource(metadata.name, '2026-01-02T00:00:00Z'));
  const served = one.serve(going);
  noneDeleted(one);
  expect(names(served)).toBe('abcde');
  expect(served.every(({ metadata }) => metadata.deletionTimestamp === undefined)).toBe(true);
  expect(one.held).toMatchObject([{ held: 5, left: 0, until: 3_600_000 }]);
});

test('what returns is followed, and the loss is over with the last of them', () => {
  const one = guard();
  one.serve(all);
  one.serve([]);
  noneDeleted(one);
  expect(one.held).toMatchObject([{ namespace: 'ns', held: 5 }]);
  one.serve(all.slice(0, 4));
  expect(one.held).toMatchObject([{ held: 1 }]);
  one.serve(all);
  expect(one.held).toEqual([]);
});

test('a namespace that loses most of its resources is held, and all are where most of all are lost', () => {
  const other = ['f', 'g', 'h', 'i', 'j', 'k'].map((name) => resourceOf('EngineCluster', name, {}, { namespace: 'b' }));
  const one = guard();
  for (const served of [
    [...all, ...other],
    [...all.slice(0, 1), ...other],
  ])
    one.serve(served);
  noneDeleted(one);
  expect(one.held).toMatchObject([{ namespace: 'ns', held: 4, left: 1 }]);
  expect(names(one.serve([...all.slice(0, 1), ...other.slice(0, 4)]))).toHaveLength(11);
  noneDeleted(one);
  expect(one.held).toMatchObject([{ held: 4 }, { namespace: 'b', held: 2, left: 4 }]);
});
