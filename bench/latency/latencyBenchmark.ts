import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { hasPostgresql, startPostgresql } from '../../test/support/postgresql.ts';
import { folderOf } from '../../test/support/serverProcess.ts';
import { hasHaproxy, startHaproxy } from '../proxy/haproxy.ts';
import { startNginxProxy, startStubCluster } from '../proxy/nginx.ts';
import { divideProcessors, measureOn } from '../proxy/processors.ts';
import { cpuMicroseconds } from '../proxy/processTimes.ts';
import { startServe } from '../proxy/serveProcess.ts';
import { rulesFileOf, typicalRules } from '../rules.ts';
import { mean, percentile, standardError } from '../statistics.ts';
import { type SequentialClient, startSequentialClient } from './sequentialClient.ts';

const help = `usage: npm run bench -- latency [--requests 200] [--rounds 12] [--pause 4]
  --requests N  requests of each load to each server in a round, one after the other on one connection
  --pause MS    before each request of the second half, as an engine takes its time; it gets a quarter of the requests
  --rounds N    rounds; in each all servers are asked in turn`;

/** A request that is repeated, and how much longer than through haproxy the gateway may take at p50, milliseconds. */
interface Load {
  readonly name: string;
  readonly mayCost: number;
  readonly request: (host: string) => string;
  readonly text: (count: number) => string;
  /** What each answer holds. */
  readonly expected: string;
}

const page = '/v1/statement/executing/20261121_015745_00001_bench/y1a2b3/1';
const get = (target: string) => (host: string) => `GET ${target} HTTP/1.1\r\nHost: ${host}\r\nX-Engine-User: bench\r\n`;
const unique = Date.now() % 1_000_000_000;
const loads: readonly Load[] = [
  {
    name: 'submission',
    mayCost: 0.6,
    request: (host) =>
      `POST /v1/statement HTTP/1.1\r\nHost: ${host}\r\nX-Engine-User: bench\r\nX-Engine-Source: latency\r\nX-Engine-Catalog: tpch\r\nContent-Type: text/plain\r\n`,
    // Another text each time: no analysis may be one of an earlier request.
    text: (count) =>
      `SELECT n.name, count(*) FROM tpch.tiny.nation n JOIN tpch.tiny.region r ON n.regionkey = r.regionkey WHERE n.nationkey <> ${unique}${count} GROUP BY 1`,
    expected: '"nextUri"',
  },
  // After submissions: the gateway knows the cluster of the query by then.
  { name: 'follow-up', mayCost: 0.35, request: get(page), text: () => '', expected: 'xxxx' },
  { name: 'info', mayCost: 0.35, request: get('/v1/info'), text: () => '', expected: '"starting"' },
];

interface Server {
  readonly name: string;
  readonly url: string;
  /** Null: its CPU time is not measured. */
  readonly workerPid: number | null;
  /** Waits for work that is left behind: it is part of a request's cost, and must not fall into another server's turn. */
  readonly settle: () => Promise<void>;
}

interface Round {
  readonly p50: number;
  readonly p99: number;
  /** Microseconds a request. */
  readonly cpu: number;
  readonly failed: number;
}

const settled = () => Promise.resolve();
/** Requests before the first round: addresses are learned, and hot paths compiled. */
const WARM_UP = 3_000;

/** Measures sequential requests directly, through nginx, haproxy and the gateway, in turns. */
export async function runLatencyBenchmark(args: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      requests: { type: 'string', default: '200' },
      rounds: { type: 'string', default: '12' },
      pause: { type: 'string', default: '4' },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) {
    console.log(help);
    return 0;
  }
  if (folderOf(['nginx'], ['/usr/sbin']) === null) {
    console.error('nginx is missing, which is the cluster: install the package nginx');
    return 1;
  }
  if (!hasPostgresql()) return 1;
  const withHaproxy = hasHaproxy();
  const divided = divideProcessors();
  const directory = mkdtempSync(path.join(tmpdir(), 'eg-bench-'));
  const stops: (() => unknown)[] = [() => rmSync(directory, { recursive: true, force: true })];
  try {
    const postgresql = await startPostgresql();
    stops.push(() => postgresql.dispose());
    const cluster = await startStubCluster(directory);
    stops.push(cluster.stop);
    const nginx = await startNginxProxy(directory, cluster.url);
    stops.push(nginx.stop);
    const servers: Server[] = [
      { name: 'direct', url: cluster.url, workerPid: null, settle: settled },
      { name: 'nginx', ...nginx, settle: settled },
    ];
    if (withHaproxy) {
      const haproxy = await startHaproxy(path.join(directory, 'haproxy'), cluster.url);
      stops.push(haproxy.stop);
      servers.push({ name: 'haproxy', ...haproxy, settle: settled });
    }
    const gateway = await startServe(
      inFolder(directory, 'gateway'),
      cluster.url,
      await postgresql.createDatabase(),
      rulesConfig(directory),
    );
    stops.push(gateway.stop);
    servers.push({ name: 'gateway', ...gateway });
    for (const { workerPid } of servers) if (workerPid !== null) measureOn(workerPid);
    const client = startSequentialClient();
    stops.push(client.stop);
    console.log(
      `one request after the other on one connection; gateway with analysis, ten rules and history; ${
        divided ? 'each proxy alone on a processor, client and cluster on another' : 'all share the processors'
      }\n`,
    );
    const rounds = Number(values.rounds);
    const requests = Number(values.requests);
    const pause = Number(values.pause);
    const some = Math.ceil(requests / 4);
    for (const load of loads) await measure(client, servers[0] as Server, load, { requests: WARM_UP, pause: 0 });
    console.log(`the first ${4 * some} requests of each kind, after a pause of ${pause} ms each:`);
    await measureAll(client, servers, { requests: some, rounds: 4, pause, isJudged: false });
    for (const load of loads) {
      for (const server of servers) await measure(client, server, load, { requests: WARM_UP, pause: 0 });
    }
    console.log(`after ${WARM_UP} of each kind, after a pause of ${pause} ms each:`);
    const isGoodPaused = await measureAll(client, servers, { requests: some, rounds, pause, isJudged: true });
    console.log('without pauses:');
    const isGoodAtOnce = await measureAll(client, servers, { requests, rounds, pause: 0, isJudged: true });
    return isGoodPaused && isGoodAtOnce ? 0 : 1;
  } finally {
    for (const stop of stops.reverse()) await stop();
  }
}

function inFolder(directory: string, name: string): string {
  const folder = path.join(directory, name);
  mkdirSync(folder);
  return folder;
}

/** Nine rules that do not match, and a last one that leads to the only cluster. */
function rulesConfig(directory: string): Readonly<Record<string, unknown>> {
  const rulesConfigPath = path.join(directory, 'rules.yaml');
  const others = typicalRules.slice(0, 9).map(([condition]) => [condition, 'other'] as const);
  writeFileSync(rulesConfigPath, rulesFileOf([...others, ['request.getMethod() == "POST"', 'adhoc']]));
  return {
    requestAnalyzerConfig: { analyzeRequest: true },
    routingRules: { rulesEngineEnabled: true, rulesConfigPath },
  };
}

/** How a load is put. */
interface Course {
  readonly requests: number;
  /** Milliseconds before each request. */
  readonly pause: number;
}

/** Requests so far: each submission is another one. */
let count = 0;

async function measure(
  client: SequentialClient,
  { url, workerPid, settle }: Server,
  load: Load,
  { requests, pause }: Course,
): Promise<Round> {
  const { port, host } = new URL(url);
  const texts = Array.from({ length: requests }, () => load.text(++count));
  const before = workerPid === null ? 0 : cpuMicroseconds(workerPid);
  const plan = { port: Number(port), head: load.request(host), texts, expected: load.expected, pause };
  const { times, failed } = await client.ask(plan);
  await settle();
  const cpu = workerPid === null ? Number.NaN : (cpuMicroseconds(workerPid) - before) / requests;
  return { p50: percentile(times, 0.5), p99: percentile(times, 0.99), cpu, failed };
}

/** Measures all loads; whether all figures are as they should be. */
async function measureAll(
  client: SequentialClient,
  servers: readonly Server[],
  course: Course & { readonly rounds: number; readonly isJudged: boolean },
): Promise<boolean> {
  let isGood = true;
  for (const load of loads) {
    const measured = new Map<string, Round[]>(servers.map(({ name }) => [name, []]));
    for (let round = 0; round < course.rounds; round++) {
      for (const server of servers) {
        measured.get(server.name)?.push(await measure(client, server, load, course));
      }
    }
    isGood = report(load, measured, course.isJudged) && isGood;
  }
  return isGood;
}

/** Prints the figures of a load; whether they are as they should be. */
function report({ name, mayCost }: Load, measured: ReadonlyMap<string, readonly Round[]>, isJudged: boolean): boolean {
  console.log(`${name.padEnd(12)}p50 ms   ± se     p99 ms  CPU µs/req  of haproxy's  failed`);
  const peer = measured.get('haproxy');
  for (const [server, rounds] of measured) {
    const p50s = rounds.map(({ p50 }) => p50);
    const cpu = mean(rounds.map((round) => round.cpu));
    const cells = [
      `  ${server.padEnd(10)}`,
      mean(p50s).toFixed(3),
      standardError(p50s).toFixed(3).padStart(8),
      mean(rounds.map(({ p99 }) => p99))
        .toFixed(3)
        .padStart(10),
      (Number.isNaN(cpu) ? '-' : cpu.toFixed(1)).padStart(11),
      ratio(cpu, peer).padStart(13),
      String(rounds.reduce((sum, { failed }) => sum + failed, 0)).padStart(7),
    ];
    console.log(cells.join(' '));
  }
  const own = measured.get('gateway') ?? [];
  const failed = own.reduce((sum, round) => sum + round.failed, 0);
  if (peer === undefined) return failed === 0;
  const costs = own.map(({ p50 }, round) => p50 - (peer[round] as Round).p50);
  const isReached = mean(costs) <= mayCost && failed === 0;
  const error = standardError(costs).toFixed(3);
  console.log(
    `${name}: ${mean(costs).toFixed(3)} ms (± ${error}) more than haproxy at p50${isJudged ? ` (to reach: ${mayCost} ms): ${isReached ? 'reached' : 'MISSED'}` : ', while code is still being compiled'}\n`,
  );
  return isReached || !isJudged;
}

function ratio(cpu: number, peer: readonly Round[] | undefined): string {
  if (peer === undefined || Number.isNaN(cpu)) return '-';
  return `${(cpu / mean(peer.map((round) => round.cpu))).toFixed(2)} ×`;
}
