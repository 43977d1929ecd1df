import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { installDistribution } from '../engine/distribution.ts';
import type { Front } from '../engine/front.ts';
import { type ObjectStore, startObjectStore } from '../engine/objectStore.ts';
import { idleCatalog } from '../engine/queries.ts';
import { startTrino, type TrinoServer } from '../engine/trinoServer.ts';
import { runQuery } from '../support/statementClient.ts';
import { startReplicas } from './replicas.ts';

/** One real Trino, which spools into an object store, and the gateway before it. */
export interface Servers {
  readonly trino: TrinoServer;
  /** Two replicas of the gateway, which take turns at each request. */
  readonly front: Front;
  stop(): Promise<void>;
}

export async function startServers(): Promise<Servers> {
  const started: (() => Promise<unknown>)[] = [];
  // The last that was started is stopped first.
  const stop = async () => {
    for (const each of started.splice(0).reverse()) await each();
  };
  try {
    return { ...(await start(started)), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** @param started takes what stops that which was started */
async function start(started: (() => Promise<unknown>)[]): Promise<Omit<Servers, 'stop'>> {
  const folder = await mkdtemp(join(tmpdir(), 'clients-'));
  started.push(() => rm(folder, { recursive: true, force: true }));
  const distribution = await installDistribution();
  const store: ObjectStore = await startObjectStore(distribution);
  started.push(() => store.stop());
  const local = (name: string) => ({
    'fs.native-local.enabled': 'true',
    'local.location': join(folder, name),
    'hive.metastore.catalog.dir': `local:///${name}`,
  });
  const catalogs = {
    ...idleCatalog,
    hive: { 'connector.name': 'hive', 'hive.metastore': 'file', 'hive.security': 'sql-standard', ...local('hive') },
    iceberg: { 'connector.name': 'iceberg', 'iceberg.catalog.type': 'TESTING_FILE_METASTORE', ...local('iceberg') },
  };
  for (const name of ['hive', 'iceberg']) await mkdir(join(folder, name, name), { recursive: true });
  const settings = {
    ...store.settings,
    // As the suite of trino-go-client has its server: a large statement, and results of several segments.
    'query.max-length': '5000043',
    'protocol.spooling.inlining.max-size': '128kB',
    'protocol.spooling.initial-segment-size': '128kB',
    'protocol.spooling.max-segment-size': '256kB',
  };
  // The suite of trino-go-client looks for a node of this name.
  const trino = await startTrino('test', distribution, store.files, settings, catalogs);
  started.push(() => trino.kill());
  const replicas = await startReplicas();
  started.push(() => replicas.stop());
  const front = await replicas.add(trino.url);
  // Users of the suites may take the role of administrators.
  const admin = { productName: 'Trino', user: 'admin', headers: { 'X-Trino-Role': 'hive=ROLE{admin}' } };
  for (const user of ['test', 'python', 'javascript']) {
    const { error } = await runQuery(trino.url, `GRANT admin TO USER ${user} IN hive`, admin);
    if (error !== undefined) throw new Error(`${user} cannot be an administrator: ${error.message}`);
  }
  return { trino, front };
}
