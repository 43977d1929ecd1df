import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Client } from 'undici';
import { hasPostgresql, startPostgresql } from '../test/support/postgresql.ts';
import { pathOf, type QueryResults } from '../test/support/statementClient.ts';
import { startServe } from './proxy/serveProcess.ts';
import { startPagedCluster } from './replicas/pagedCluster.ts';
import { median, percentile } from './statistics.ts';

const WARM_UP = 3_000;
const ROUNDS = 20;
const QUERIES = 200;

/**
 * `npm run bench -- flow`: how much longer a whole `SELECT 1` takes through the gateway that ships, with history in PostgreSQL: its
 * submission and two follow-ups, one query after the other on a connection, in turns with the cluster itself.
 */
export async function run(): Promise<void> {
  if (!hasPostgresql()) return;
  const directory = mkdtempSync(path.join(tmpdir(), 'eg-bench-'));
  const stops: (() => unknown)[] = [() => rmSync(directory, { recursive: true, force: true })];
  try {
    const postgresql = await startPostgresql();
    stops.push(() => postgresql.dispose());
    const cluster = await startPagedCluster();
    stops.push(cluster.stop);
    const gateway = await startServe(directory, cluster.url, await postgresql.createDatabase(), {});
    stops.push(gateway.stop);
    const [direct, through] = [new Client(cluster.url), new Client(gateway.url)];
    stops.push(() => Promise.all([direct.close(), through.close()]));
    for (const client of [direct, through]) await measure(client, WARM_UP);
    const added: number[][] = [[], [], []];
    const shares = [0.5, 0.95, 0.99];
    for (let round = 0; round < ROUNDS; round++) {
      const alone = await measure(direct, QUERIES);
      const times = await measure(through, QUERIES);
      for (const [index, share] of shares.entries())
        added[index]?.push(percentile(times, share) - percentile(alone, share));
    }
    const figures = added.map(
      (rounds, index) => `${median(rounds).toFixed(2)} ms (p${(shares[index] as number) * 100})`,
    );
    console.log(`a whole SELECT 1 takes ${figures.join(', ')} more than at the cluster: medians of ${ROUNDS} rounds`);
  } finally {
    for (const stop of stops.reverse()) await stop();
  }
}

/** Milliseconds of queries, one after the other. */
async function measure(client: Client, queries: number): Promise<readonly number[]> {
  const times: number[] = [];
  const ask = async (target: string, body: string | null): Promise<QueryResults> => {
    const headers = { 'X-Engine-User': 'bench' };
    const response = await client.request({ path: target, method: body === null ? 'GET' : 'POST', body, headers });
    return (await response.body.json()) as QueryResults;
  };
  for (let count = 0; count < queries; count++) {
    const start = performance.now();
    let page = await ask('/v1/statement', 'SELECT 1');
    while (page.nextUri !== undefined) page = await ask(pathOf(page.nextUri), null);
    times.push(performance.now() - start);
  }
  return times;
}
