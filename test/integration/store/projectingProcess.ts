/** A process that projects and writes history: `projectingProcess.ts JDBC_URL WORKER`; the others do the same on the same file. */
import { pino } from 'pino';
import { openStore } from '../../../src/store/openStore.ts';

const [jdbcUrl, worker] = process.argv.slice(2);
const store = await openStore({ jdbcUrl, runMigrations: true, logger: pino({ level: 'silent' }) });
for (let version = 1; version <= 60; version++) {
  await store.resources.project(
    {
      ...{ kind: 'EngineCluster', namespace: 'default', name: 'shared', registryName: 'shared', uid: 'u' },
      ...{ resourceVersion: String(version), generation: 1, creationTimestamp: '2026-11-01T00:00:00Z' },
      ...{ spec: { version }, labels: {}, annotations: {}, status: null, source: 'directory' },
    },
    null,
    null,
  );
  await store.history.insert([
    {
      ...{ queryId: `q_${worker}_${version}`, queryText: 'select 1', user: null, source: null, backendUrl: 'b' },
      ...{ created: version, routingGroup: null, externalUrl: null, cluster: 'c', decision: null },
    },
  ]);
}
await store.close();
