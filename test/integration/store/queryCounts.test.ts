import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type KnexStore, openStore } from '../../../src/store/openStore.ts';
import type { QueryRecord } from '../../../src/store/store.ts';
import { databases, type TestDatabase } from '../../support/databases.ts';

const logger = pino({ level: 'silent' });
const minute = 60_000;
const hour = 60 * minute;
const now = Date.parse('2026-11-21T12:00:30Z');

/** More URLs than one statement counts, one of them hostile, and clusters that share one. */
const urls = [...Array.from({ length: 9 }, (_, index) => `http://e${index}:1`), "http://a'b:1", ''];
const records: readonly QueryRecord[] = Array.from({ length: 600 }, (_, index) => ({
  queryId: `q${index}`,
  queryText: 'select 1',
  user: null,
  source: null,
  backendUrl: urls[index % urls.length] ?? '',
  // A fifth of an hour apart, reaching 120 hours back.
  created: now - index * 12 * minute,
  routingGroup: null,
  externalUrl: null,
  cluster: index % 2 === 0 ? 'even' : '',
  decision: null,
}));

/** The same counts, made here. */
function expected(from: number, to: number, length: number, named: boolean) {
  const counts = new Map<string, number>();
  for (const { created, backendUrl, cluster } of records) {
    if (created < from || created >= to) continue;
    const key = JSON.stringify([Math.floor(created / length) * length, backendUrl, named ? cluster || null : null]);
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  return [...counts].map(([key, count]) => [...JSON.parse(key), count].join(' ')).sort();
}

for (const family of databases) {
  describe.skipIf(!family.available())(`counts of queries on ${family.name}`, () => {
    let server: TestDatabase;
    let store: KnexStore;
    beforeAll(async () => {
      server = await family.start();
      store = await openStore({ ...(await server.create()), runMigrations: true, logger });
      await store.history.insert(records);
    });
    afterAll(async () => {
      await store?.close();
      await server?.dispose();
    });

    it.each([
      ['an hour by minutes', 1, minute, true],
      ['50 hours by name', 49, 7 * minute, true],
      ['four days by URL', 96, 11 * minute, false],
      ['years in one interval', 24 * 365 * 3, 365 * 24 * hour, false],
    ])('%s', async (_name, hours, length, named) => {
      const from = now - hours * hour;
      const to = now + hour;
      const found = await store.queryCounts.perInterval({ from, to, length });
      const lines = found.map(({ start, cluster, backendUrl, count }) => [start, backendUrl, cluster, count].join(' '));
      expect(lines.toSorted()).toEqual(expected(from, to, length, named));
      expect(found.map(({ start }) => start)).toEqual(found.map(({ start }) => start).sort((a, b) => a - b));
    });

    it('of the last hour and day by the rule that decided them', async () => {
      const rows = records.slice(0, 130).map(({ queryId, created }, index) => ({
        ...{ queryId, created, rule: index % 2 === 0 ? 'even' : null, lastSeen: created, refused: false },
        ...{ state: 'FINISHED' as const, certainty: 3, cluster: null, routingGroup: null, user: null, source: null },
        ...{ errorName: null, errorType: null, errorCode: null, errorMessage: null, elapsedMillis: 1, queuedMillis: 0 },
        ...{ gatewayQueuedMillis: null, cpuMillis: 0, processedRows: 0, processedBytes: 0, peakMemoryBytes: 0 },
        ...{ resultBytes: 0, pages: 1, queryText: null, decision: null },
      }));
      await store.outcomes.put(rows);
      // Five queries an hour, of which every other one was decided by the rule.
      expect(await store.ruleHits.before(now)).toEqual([{ rule: 'even', lastHour: 3, lastDay: 61 }]);
      expect(await store.ruleHits.before(now + 48 * hour)).toEqual([]);
    });

    it('ends at the given time, and counts nothing for an empty span', async () => {
      const at = (from: number, to: number) => store.queryCounts.perInterval({ from, to, length: minute });
      const sum = async (from: number, to: number) =>
        (await at(from, to)).reduce((total, { count }) => total + count, 0);
      expect(await sum(now - 100 * hour, now)).toBe(500);
      expect(await sum(now - 100 * hour, now + 1)).toBe(501);
      expect(await at(now, now)).toEqual([]);
      expect(await at(now, now - 60 * hour)).toEqual([]);
    });
  });
}
