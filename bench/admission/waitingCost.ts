import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Pool } from 'undici';
import { freePort } from '../../test/support/freePort.ts';
import { hasPostgresql, startPostgresql } from '../../test/support/postgresql.ts';
import { manifest } from '../../test/support/queueing.ts';
import { pathOf, type QueryResults } from '../../test/support/statementClient.ts';
import { startStubCluster } from '../proxy/nginx.ts';
import { divideProcessors, measureOn } from '../proxy/processors.ts';
import { cpuMicroseconds, residentMegabytes } from '../proxy/processTimes.ts';
import { wrk } from '../proxy/wrk.ts';
import { median } from '../statistics.ts';
import { Inspector } from './inspector.ts';
import { startLimitedGateways } from './limitedGateway.ts';

const WAITING = 10_000;
const WARM_UP = 2_000;
/** With three of them the part takes about two minutes on two processors. */
const ROUNDS = 3;
const SECONDS = 4;
/** Long enough for each of the clients that are held to ask some times. */
const HELD_SECONDS = 5;
/** Clients that ask at a time, each held for a second: 2,000 requests a second. */
const HELD_AT_ONCE = 2_000;
const FOLLOW_UP = '/v1/statement/executing/20261121_015745_00001_bench/y1a2b3/1';
const HELD_FOLLOW_UP = '/v1/statement/executing/20261121_015745_00001_heldx/y1a2b3/1';
const HOLD_MS = 1_000;
const PAGE_BYTES = 8_192;
const MAX_MEGABYTES = 60;
const MAX_RATIO = 1.5;

/** Memory of 10,000 queries that wait, and the processor time of a request for one beside that of a follow-up. */
export async function measureWaiting(): Promise<void> {
  if (!hasPostgresql()) return;
  divideProcessors();
  const directory = mkdtempSync(path.join(tmpdir(), 'eg-bench-'));
  const stops: (() => unknown)[] = [() => rmSync(directory, { recursive: true, force: true })];
  try {
    const postgresql = await startPostgresql();
    stops.push(() => postgresql.dispose());
    const cluster = await startStubCluster(directory, true);
    stops.push(cluster.stop);
    const holding = await startHoldingCluster();
    stops.push(holding.close);
    const inspectors = [await freePort(), await freePort()];
    const gateways = await startLimitedGateways({
      ...{ directory, cluster: cluster.url, dataStore: await postgresql.createDatabase(), inspectors },
      ...{ maxRunning: 1, hold: '0s', count: 2 },
      more: [manifest('EngineCluster', 'holding', { proxyTo: holding.url, routingGroup: 'holding' })],
    });
    stops.push(() => Promise.all(gateways.map((gateway) => gateway.stop())));
    const [own, other] = gateways as [(typeof gateways)[0], (typeof gateways)[0]];
    const inspector = await Inspector.connect(inspectors[0] as number);
    stops.push(() => inspector.close());
    const memory = async () => {
      const heap = (await inspector.collectGarbage()) / 1024 ** 2;
      return { resident: residentMegabytes(own.pid), heap };
    };

    // The stub's queries never end: the first one keeps the only slot.
    await submitAll(own.url, 1);
    await dropAll(await submitAll(own.url, WARM_UP));
    const before = await memory();
    const uris = await submitAll(own.url, WAITING);
    const after = await memory();
    const more = after.resident - before.resident;
    console.log(
      `memory of ${WAITING} queries that wait: ${more.toFixed(0)} MB more than ${before.resident.toFixed(0)} MB resident, ${(after.heap - before.heap).toFixed(0)} MB more heap (to reach: ${MAX_MEGABYTES} MB): ${more <= MAX_MEGABYTES ? 'reached' : 'MISSED'}`,
    );

    // The gateways learn whose queries end in these five characters.
    for (const { url } of gateways) await submitTo(url, 'holding');
    const scripts = {
      short: script(directory, 'short', uris, '?maxWait=1ms'),
      held: script(directory, 'held', uris, ''),
      followUp: script(directory, 'followUp', [FOLLOW_UP], ''),
      heldFollowUp: script(directory, 'heldFollowUp', [HELD_FOLLOW_UP], ''),
    };
    const cost = async (gateway: typeof own, file: string, connections: number, seconds: number) => {
      measureOn(gateway.pid);
      const begin = cpuMicroseconds(gateway.pid);
      const { requests, failed } = await wrk(gateway.url, seconds, file, connections);
      if (failed > 0) throw new Error(`${failed} of ${requests} requests failed`);
      return (cpuMicroseconds(gateway.pid) - begin) / requests;
    };
    const atOnce = (file: string) => () => cost(own, file, 32, SECONDS);
    const held = (gateway: typeof own, file: string) => () => cost(gateway, file, HELD_AT_ONCE, HELD_SECONDS);
    const kinds: readonly Kind[] = [
      { name: 'a follow-up (8 KB), 32 connections', beside: null, measure: atOnce(scripts.followUp) },
      { name: 'a request for a query that waits, answered at once', beside: 0, measure: atOnce(scripts.short) },
      {
        name: `a follow-up (8 KB) that the cluster holds for 1 s, ${HELD_AT_ONCE} connections`,
        ...{ beside: null, measure: held(own, scripts.heldFollowUp) },
      },
      { name: 'a request for a query that waits, held for 1 s', beside: 2, measure: held(own, scripts.held) },
      { name: 'the same at the other replica', beside: 2, measure: held(other, scripts.held) },
    ];
    await compare(kinds);
  } finally {
    for (const stop of stops.reverse()) await stop();
  }
}

/** A load, and what it is compared with. */
interface Kind {
  readonly name: string;
  /** Position of the load that it is measured beside; null: it is one of those. */
  readonly beside: number | null;
  /** @returns microseconds of processor time a request */
  readonly measure: () => Promise<number>;
}

/** Measures loads in turns, and prints each beside its own. */
async function compare(kinds: readonly Kind[]): Promise<void> {
  const times = kinds.map(() => [] as number[]);
  for (const { measure } of kinds) await measure();
  for (let round = 0; round < ROUNDS; round++) {
    for (const [index, { measure }] of kinds.entries()) times[index]?.push(await measure());
  }
  for (const [index, { name, beside }] of kinds.entries()) {
    const own = times[index] ?? [];
    const each = `${name}: ${median(own).toFixed(1)} µs CPU`;
    if (beside === null) console.log(each);
    else {
      const ratio = median(own.map((time, round) => time / (times[beside]?.[round] ?? Number.NaN)));
      const verdict = ratio <= MAX_RATIO ? 'reached' : 'MISSED';
      console.log(`${each}, ${ratio.toFixed(2)} × the follow-up (to reach: ${MAX_RATIO}): ${verdict}`);
    }
  }
}

/** A cluster that holds each follow-up for a second, as engines do while a query has no rows yet. */
async function startHoldingCluster(): Promise<{ readonly url: string; readonly close: () => Promise<void> }> {
  const next = { nextUri: 'http://127.0.0.1/v1/statement/executing/x/1' };
  const page = JSON.stringify({ ...next, data: 'x'.repeat(PAGE_BYTES) });
  const server = createServer((request, response) => {
    request.resume();
    response.setHeader('content-type', 'application/json');
    if (request.url === '/v1/info') response.end('{"starting":false}');
    else if (request.method === 'POST') {
      response.end(JSON.stringify({ id: '20261121_015745_00001_heldx', ...next, stats: { state: 'QUEUED' } }));
    } else setTimeout(() => response.end(page), HOLD_MS);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Sends a query to a group, until a cluster takes it. */
async function submitTo(url: string, group: string): Promise<void> {
  const headers = { 'X-Engine-User': 'bench', 'X-Engine-Routing-Group': group };
  for (;;) {
    const response = await fetch(`${url}/v1/statement`, { method: 'POST', headers, body: 'SELECT 1' });
    const { error } = (await response.json()) as Partial<QueryResults>;
    if (error === undefined) return;
    await sleep(100);
  }
}

/** Sends queries on 100 connections. @returns their nextUris */
async function submitAll(url: string, count: number): Promise<readonly string[]> {
  const pool = new Pool(url, { connections: 100 });
  const uris: string[] = [];
  let left = count;
  const work = async () => {
    while (left > 0) {
      const number = left--;
      const { statusCode, body } = await pool.request({
        ...{ path: '/v1/statement', method: 'POST' },
        headers: { 'X-Engine-User': `user${number % 100}`, 'X-Engine-Source': 'bench', 'X-Engine-Catalog': 'tpch' },
        body: `SELECT n.name, count(*) FROM tpch.tiny.nation n JOIN tpch.tiny.region r ON n.regionkey = r.regionkey WHERE n.nationkey <> ${number} GROUP BY 1`,
      });
      const text = await body.text();
      const { nextUri } = (statusCode === 200 ? JSON.parse(text) : {}) as Partial<QueryResults>;
      if (nextUri === undefined) throw new Error(`${statusCode}: ${text}`);
      uris.push(nextUri);
    }
  };
  await Promise.all(Array.from({ length: 100 }, work));
  await pool.destroy();
  await sleep(1_000);
  return uris;
}

async function dropAll(uris: readonly string[]): Promise<void> {
  const drop = (nextUri: string) => fetch(nextUri, { method: 'DELETE', headers: { 'X-Engine-User': 'bench' } });
  for (let start = 0; start < uris.length; start += 50) await Promise.all(uris.slice(start, start + 50).map(drop));
}

/** A script for wrk that asks for the URIs in turn. */
function script(directory: string, name: string, uris: readonly string[], query: string): string {
  const list = path.join(directory, `${name}.txt`);
  writeFileSync(list, uris.map((uri) => `${uri.startsWith('/') ? uri : pathOf(uri)}${query}\n`).join(''));
  const file = path.join(directory, `${name}.lua`);
  writeFileSync(
    file,
    `wrk.headers["X-Engine-User"] = "bench"
local paths = {}
for line in io.lines("${list}") do paths[#paths + 1] = line end
local index = 0
request = function()
  index = index % #paths + 1
  return wrk.format(nil, paths[index])
end
`,
  );
  return file;
}
