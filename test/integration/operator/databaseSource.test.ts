import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { resourceKinds } from '../../../src/kinds/registry.ts';
import { systemClock } from '../../../src/model/clock.ts';
import { DatabaseSource } from '../../../src/operator/sources/database/databaseSource.ts';
import { openStore } from '../../../src/store/openStore.ts';
import type { ResourceRepository, Store } from '../../../src/store/store.ts';
import { clusterKey } from '../../support/operatorRig.ts';

const logger = pino({ enabled: false });
let folder: string;
let store: Store;
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'database-source-'));
  store = await openStore({ jdbcUrl: `jdbc:sqlite:${join(folder, 'gateway.db')}`, runMigrations: true, logger });
});
afterEach(async () => {
  await store.close();
  rmSync(folder, { recursive: true, force: true });
});

/** Repository whose answers to projections come only when the gate opens. */
function answersLate(resources: ResourceRepository, gate: Promise<void>): ResourceRepository {
  return new Proxy(resources, {
    get: (target, name) => {
      if (name === 'project') {
        return async (...given: Parameters<ResourceRepository['project']>) => {
          const result = await target.project(...given);
          await gate;
          return result;
        };
      }
      const value: unknown = Reflect.get(target, name);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}

test('a resource that is deleted while the answer to its status is on the way stays deleted', async () => {
  const gate = Promise.withResolvers<void>();
  const resources = answersLate(store.resources, gate.promise);
  // No look at the database corrects what the source has by itself.
  const options = { kinds: resourceKinds, namespace: 'default', clock: systemClock, logger, pollMs: 3_600_000 };
  const source = new DatabaseSource({ ...options, store: { ...store, resources } });
  await source.start(5_000);
  const spec = { proxyTo: 'http://a:8080', routingGroup: 'adhoc' };
  const { metadata } = await source.create({ kind: 'EngineCluster', namespace: 'default', name: 'a', spec });
  const status = { observedGeneration: 1, conditions: [] };
  const patch = source.patchStatus(clusterKey('a'), metadata.uid, status, null);
  expect(await source.delete(clusterKey('a'), null)).toBe(true);
  gate.resolve();
  await patch;
  expect(source.get(clusterKey('a'))).toBeNull();
  expect(source.list('EngineCluster')).toEqual([]);
  await source.stop();
});
