/** A process that writes resources and history: `writingProcess.ts JDBC_URL WORKER`; the others do the same on the same file. */
import { pino } from 'pino';
import { openStore } from '../../../src/store/openStore.ts';

const [jdbcUrl, worker] = process.argv.slice(2);
const store = await openStore({ jdbcUrl, runMigrations: true, logger: pino({ level: 'silent' }) });
const shared = { kind: 'EngineCluster', namespace: 'default', name: 'shared' };
for (let version = 1; version <= 60; version++) {
  const edit = async () =>
    await store.resources.edit(shared, (await store.resources.get(shared))?.resourceVersion ?? null, () => ({
      ...{ ...shared, registryName: 'shared', uid: 'u', resourceVersion: '0', generation: 1 },
      ...{ creationTimestamp: '2026-11-01T00:00:00Z', spec: { worker, version }, labels: {}, annotations: {} },
      ...{ status: null, source: 'database', row: null },
    }));
  while ((await edit()) === null);
  await store.history.insert([
    {
      ...{ queryId: `q_${worker}_${version}`, queryText: 'select 1', user: null, source: null, backendUrl: 'b' },
      ...{ created: version, routingGroup: null, externalUrl: null, cluster: 'c', decision: null },
    },
  ]);
}
await store.close();
