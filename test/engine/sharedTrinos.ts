/** The real Trino servers that the files of the suite share; a file asks by `shareOf`, and may kill one: the next file gets a new one. */
import type { StartedServer } from '../support/sharedServer.ts';
import { installDistribution } from './distribution.ts';
import { startObjectStore } from './objectStore.ts';
import { createIdleTables, idleCatalog } from './queries.ts';
import { startTrino, type TrinoServer } from './trinoServer.ts';

/** A server of the run. */
export type SharedTrino = Pick<TrinoServer, 'name' | 'url' | 'pid'>;

/**
 * Two servers with `idleCatalog` and its tables, which spool into one object store; users may run queries as others. The web interface of the
 * second one asks for no login.
 */
export interface TrinoPair {
  readonly trinos: readonly [SharedTrino, SharedTrino];
  /** Address of the bucket. */
  readonly bucket: string;
}

const accessControl = { 'access-control.properties': 'access-control.name=allow-all' };
/** Queries of earlier files are forgotten: lists of all queries stay short, and those of one file are kept. */
const history = { 'query.max-history': '400', 'query.min-expire-age': '10s' };
const openPages = { 'web-ui.authentication.type': 'fixed', 'web-ui.user': 'ann' };

/** Starts a `TrinoPair`. */
export async function startTrinoPair(): Promise<StartedServer> {
  const distribution = await installDistribution();
  const store = await startObjectStore(distribution);
  const start = async (name: string): Promise<TrinoServer> => {
    const files = { ...store.files, ...accessControl };
    const settings = { ...store.settings, ...history, ...(name === 'trino-b' ? openPages : {}) };
    const trino = await startTrino(name, distribution, files, settings, idleCatalog);
    await createIdleTables(trino.url);
    return trino;
  };
  const trinos = await Promise.all(['trino-a', 'trino-b'].map(start));
  return {
    share: async () => {
      for (const [index, trino] of trinos.entries()) {
        if (trino.isRunning()) continue;
        await trino.kill();
        trinos[index] = await start(trino.name);
      }
      return { trinos: trinos.map(({ name, url, pid }) => ({ name, url, pid })), bucket: store.bucket };
    },
    stop: async () => {
      await Promise.all([...trinos.map((trino) => trino.kill()), store.stop()]);
    },
  };
}
