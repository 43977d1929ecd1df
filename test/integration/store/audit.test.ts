import { randomUUID } from 'node:crypto';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { AuditEntry, AuditedState } from '../../../src/store/audit.ts';
import { type KnexStore, openStore } from '../../../src/store/openStore.ts';
import type { Fence } from '../../../src/store/store.ts';
import { databases, type TestDatabase } from '../../support/databases.ts';

const logger = pino({ level: 'silent' });

const entry = (at: number, some: Partial<AuditEntry> = {}): AuditEntry => ({
  ...{ id: randomUUID(), at, source: 'rest', action: 'change', kind: 'EngineCluster', namespace: 'default', name: 'a' },
  ...{ resource: 'a', object: 'cluster a', user: 'ann', manager: null, recognisedBy: 'basic', roles: ['ADMIN', 'API'] },
  ...{ address: '10.0.0.1', call: 'PUT /x', requestId: 'r', before: '{"a":1}', after: '{"a":2}', digest: 'd' },
  ...some,
});
const state = (digest: string, name = 'a'): AuditedState => ({
  ...{ kind: 'EngineCluster', namespace: 'default', name, title: name, uid: 'u', digest, writers: '[]', noted: 1 },
  state: `{"digest":"${digest}"}`,
});

for (const database of databases) {
  describe.skipIf(!database.available())(`the audit on ${database.name}`, () => {
    let server: TestDatabase;
    let stores: KnexStore[];
    let fence: Fence;

    beforeAll(async () => {
      server = await database.start();
      const settings = await server.create();
      stores = [];
      for (let index = 0; index < 2; index++)
        stores.push(await openStore({ ...settings, runMigrations: true, logger }));
      fence = (await stores[0]!.leader.acquire('me', 600_000))!;
    });

    afterAll(async () => {
      for (const store of stores ?? []) await store.close();
      await server?.dispose();
    });

    it('is found by each filter, newest first, page after page, and an entry that comes twice is there once', async () => {
      const { audit } = stores[0]!;
      const entries = [
        entry(1_000, { user: 'bob' }),
        entry(2_000, { source: 'kubernetes', manager: 'kubectl', user: null, before: null }),
        entry(3_000, { kind: 'RoutingRule', name: 'é\0🙂' }),
        ...['1', '2', '3'].map((id) => entry(4_000, { id, name: 'same time' })),
      ];
      await audit.insert(entries);
      await audit.insert(entries.slice(0, 2));
      const found = async (filter: Parameters<typeof audit.list>[0]) =>
        (await audit.list(filter, { limit: 99 })).map(({ at }) => at);
      expect(await found({})).toEqual([4_000, 4_000, 4_000, 3_000, 2_000, 1_000]);
      expect(await found({ kind: 'RoutingRule' })).toEqual([3_000]);
      expect(await found({ kind: 'EngineCluster', name: 'a' })).toEqual([2_000, 1_000]);
      expect(await found({ user: 'bob' })).toEqual([1_000]);
      expect(await found({ manager: 'kubectl' })).toEqual([2_000]);
      expect(await found({ source: 'kubernetes' })).toEqual([2_000]);
      expect(await found({ namespace: 'other' })).toEqual([]);
      expect(await found({ from: 2_000, to: 4_000 })).toEqual([3_000, 2_000]);
      expect(await found({ match: 'prefix', kind: 'Routing', name: 'é' })).toEqual([3_000]);
      expect(await found({ id: '2' })).toEqual([4_000]);
      expect(await found({ match: 'prefix', user: 'bo' })).toEqual([1_000]);
      expect(await found({ match: 'prefix', manager: '%ctl' })).toEqual([]);
      const first = await audit.list({}, { limit: 2 });
      expect(first.map(({ id }) => id)).toEqual(['3', '2']);
      const rest = await audit.list({}, { limit: 2, after: first[1]! });
      expect(rest.map(({ id, at }) => [id, at])).toEqual([
        ['1', 4_000],
        [entries[2]!.id, 3_000],
      ]);
      expect(rest[1]).toEqual({ ...entries[2], name: 'é🙂' });
      expect((await audit.list({ source: 'kubernetes' }, { limit: 1 }))[0]).toEqual(entries[1]);
    });

    it('cuts texts to their columns and keeps long states', async () => {
      const { audit } = stores[0]!;
      const long = 'ü'.repeat(3_000);
      const after = JSON.stringify('x'.repeat(16_000));
      await audit.insert([
        entry(5_000, { user: long, name: long, object: long, call: long, manager: long, address: long, after }),
      ]);
      const [cut] = await audit.list({ from: 5_000 }, { limit: 1 });
      expect(cut?.user).toHaveLength(256);
      expect(cut?.name).toHaveLength(256);
      expect(cut?.after).toBe(after);
    });

    it('has a change of the source once, of replicas that see it at the same time, with what was recorded before it', async () => {
      const [one, two] = stores.map(({ audit }) => audit) as [KnexStore['audit'], KnexStore['audit']];
      expect(await one.marks()).toBeNull();
      expect(await one.begin([state('first'), state('other', 'b')], fence)).toBe(true);
      expect((await two.marks())?.map(({ name, digest }) => `${name} ${digest}`).sort()).toEqual([
        'a first',
        'b other',
      ]);
      const { before: _, ...fresh } = entry(10_000, { source: 'kubernetes', digest: 'second' });
      const key = { kind: 'EngineCluster', namespace: 'default', name: 'a' };
      const change = { key, from: 'first', to: state('second') };
      const results = await Promise.all(
        [one, two, one, two].map((audit) =>
          audit.recordSourceChanges([{ ...change, entry: { ...fresh, id: randomUUID() } }], fence),
        ),
      );
      expect(results.toSorted()).toEqual(['recorded', 'stale', 'stale', 'stale']);
      const found = await two.list({ from: 10_000 }, { limit: 9 });
      expect(found.map(({ before }) => before)).toEqual(['{"digest":"first"}']);
      // What the leader records is no call; of calls the last one counts.
      expect(await two.isRecorded(key, 'second', 9_000)).toBe(false);
      await one.insert([entry(10_001, { digest: 'second' })]);
      expect(await two.isRecorded(key, 'second', 9_000)).toBe(true);
      expect(await two.isRecorded(key, 'second', 11_000)).toBe(false);
      await one.insert([entry(10_002, { digest: 'third' })]);
      expect(await two.isRecorded(key, 'second', 9_000)).toBe(false);
      expect(await two.isRecorded(key, 'third', 9_000)).toBe(true);
      const gone = { key, from: 'second', to: null, entry: null };
      expect(await two.recordSourceChanges([gone], { ...fence, epoch: fence.epoch - 1 })).toBe('fenced');
      expect(await two.begin([], { ...fence, epoch: fence.epoch - 1 })).toBe(false);
      expect(await two.recordSourceChanges([gone], fence)).toBe('recorded');
      expect((await one.marks())?.map(({ name }) => name)).toEqual(['b']);
    });

    it('is bounded by age and by number', async () => {
      const { audit } = stores[0]!;
      await audit.insert(Array.from({ length: 120 }, (_, index) => entry(20_000 + index)));
      expect(await audit.deleteBefore(20_000)).toBe(10);
      expect(await audit.deleteBeyond(100)).toBe(20);
      expect(await audit.deleteBeyond(100)).toBe(0);
      const left = await audit.list({}, { limit: 200 });
      expect([left.length, left.at(-1)?.at]).toEqual([100, 20_020]);
    });
  });
}
