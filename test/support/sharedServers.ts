/**
 * Vitest's global setup of suites whose files share servers: one MariaDB, one PostgreSQL, two control planes and a pair of
 * Trinos a run, each started when the first file asks for it, and stopped with the run. Files ask through `sharedServer.ts`.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { startMariadb } from './mariadb.ts';
import { startPostgresql } from './postgresql.ts';
import { SHARED_SERVERS, type SharedServer, type StartedServer } from './sharedServer.ts';

const database = async (start: typeof startMariadb): Promise<StartedServer> => {
  const server = await start({ isDurable: false });
  return { share: () => server.createDatabase(), stop: () => server.dispose() };
};

/** Not imported before it is asked for: with CI=true the module throws where the programs are missing. */
async function startPlane(): Promise<StartedServer> {
  const { startControlPlane } = await import('./controlPlane.ts');
  const plane = await startControlPlane({ stopTimeoutMs: 3_000 });
  return { share: async () => plane.config, stop: () => plane.stop() };
}

const starts: Readonly<Record<SharedServer, () => Promise<StartedServer>>> = {
  mariadb: () => database(startMariadb),
  postgresql: () => database(startPostgresql),
  controlPlane: startPlane,
  chartPlane: startPlane,
  trinoPair: async () => (await import('../engine/sharedTrinos.ts')).startTrinoPair(),
};

/** Answers `GET /SERVER` with what a file gets of that server; the files find it by the environment. */
export async function setup(): Promise<() => Promise<void>> {
  const started = new Map<SharedServer, Promise<StartedServer>>();
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const name = (request.url ?? '').slice(1) as SharedServer;
    try {
      const server = started.get(name) ?? starts[name]();
      started.set(name, server);
      response.end(JSON.stringify(await (await server).share()));
    } catch (error) {
      response.writeHead(500).end(String(error));
    }
  };
  const http = createServer((request, response) => void answer(request, response));
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
  process.env[SHARED_SERVERS] = `http://127.0.0.1:${(http.address() as AddressInfo).port}`;
  return async () => {
    http.closeAllConnections();
    http.close();
    await Promise.allSettled([...started.values()].map(async (server) => (await server).stop()));
  };
}
