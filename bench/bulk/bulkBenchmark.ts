import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import { certificateFolder } from '../../test/support/certificates.ts';
import { hasHaproxy, startHaproxy } from '../proxy/haproxy.ts';
import { divideProcessors, measureOn } from '../proxy/processors.ts';
import { cpuMicroseconds, residentMegabytes } from '../proxy/processTimes.ts';
import { startServe } from '../proxy/serveProcess.ts';
import { mean, standardError } from '../statistics.ts';
import { type BulkClient, type BulkLoad, startBulkClient } from './bulkClient.ts';
import { type Shape, shapes } from './shapes.ts';

const help = `usage: npm run bench -- bulk [--megabytes 256] [--rounds 6] [--only NAME]
  --megabytes N  of answers a measurement
  --rounds N     measurements of each server, in turns
  --only NAME    only loads whose name begins so`;

/** Times of haproxy's CPU a GB that the gateway may take, in clear text. */
const MAY_TAKE = 2.5;
/** Resident memory that the gateway may hold with slow readers, MB. */
const MAY_HOLD = 200;
const SLOW_READERS = 50;
const CONNECTIONS = 4;

interface Server {
  readonly name: string;
  readonly url: string;
  readonly tlsUrl: string | null;
  readonly workerPid: number;
}

/** A kind of answers, and how they are requested. */
interface Load {
  readonly name: string;
  readonly shape: Shape;
  readonly protocol: BulkLoad['protocol'];
}

interface Measured {
  /** CPU seconds a GB. */
  readonly cpu: number;
  /** MB a second. */
  readonly speed: number;
  readonly resident: number;
}

/** Measures large answers through the gateway and haproxy, in turns. */
export async function runBulkBenchmark(args: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      megabytes: { type: 'string', default: '256' },
      rounds: { type: 'string', default: '6' },
      only: { type: 'string', default: '' },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) {
    console.log(help);
    return 0;
  }
  const withHaproxy = hasHaproxy();
  const divided = divideProcessors();
  const directory = mkdtempSync(path.join(tmpdir(), 'eg-bench-'));
  const stops: (() => unknown)[] = [() => rmSync(directory, { recursive: true, force: true })];
  try {
    const certificates = certificateFolder();
    stops.push(() => certificates.dispose());
    const { file } = certificates.authority('bench').issue(['DNS:localhost', 'IP:127.0.0.1']);
    const cluster = await startCluster();
    stops.push(cluster.stop);
    const servers: Server[] = [];
    if (withHaproxy) {
      const haproxy = await startHaproxy(path.join(directory, 'haproxy'), cluster.url, file);
      stops.push(haproxy.stop);
      servers.push({ name: 'haproxy', ...haproxy });
    }
    const folder = path.join(directory, 'gateway');
    mkdirSync(folder);
    const gateway = await startServe(
      folder,
      cluster.url,
      { jdbcUrl: `jdbc:sqlite:${path.join(folder, 'gateway.db')}` },
      {
        serverConfig: {
          'http-server.https.enabled': true,
          'http-server.https.port': 0,
          'http-server.https.keystore.path': file,
        },
      },
    );
    stops.push(gateway.stop);
    servers.push({ name: 'gateway', ...gateway });
    for (const { workerPid } of servers) measureOn(workerPid);
    const client = startBulkClient();
    stops.push(client.stop);
    // The gateway learns which cluster owns the query that all answers belong to.
    await fetch(`${gateway.url}/v1/statement`, { method: 'POST', headers: { 'X-Engine-User': 'bench' }, body: 'x' });
    console.log(
      `answers on ${CONNECTIONS} connections; ${
        divided ? 'each proxy alone on a processor, clients and cluster on another' : 'all share the processors'
      }\n`,
    );
    const loads = loadsOf().filter(({ name }) => name.startsWith(values.only));
    const isGood = await measureAll(client, servers, loads, Number(values.megabytes), Number(values.rounds));
    if (values.only !== '') return isGood ? 0 : 1;
    return (await measureSlowReaders(client, gateway)) && isGood ? 0 : 1;
  } finally {
    for (const stop of stops.reverse()) await stop();
  }
}

function loadsOf(): readonly Load[] {
  const clear = shapes.map((shape) => ({ name: shape.name, shape, protocol: 'http' as const }));
  const rows = shapes.find(({ name }) => name === 'rows, 16 MB') as Shape;
  return [
    ...clear,
    { name: `TLS, ${rows.name}`, shape: rows, protocol: 'tls' },
    { name: `HTTP/2, ${rows.name}`, shape: rows, protocol: 'h2' },
  ];
}

async function measureAll(
  client: BulkClient,
  servers: readonly Server[],
  loads: readonly Load[],
  megabytes: number,
  rounds: number,
): Promise<boolean> {
  const measure = async (server: Server, { shape, protocol }: Load, size: number): Promise<Measured> => {
    const url = protocol === 'http' ? server.url : (server.tlsUrl ?? '');
    const requests = Math.ceil((size * 1e6) / shape.size / CONNECTIONS) * CONNECTIONS;
    const before = cpuMicroseconds(server.workerPid);
    const start = performance.now();
    await client.ask({ url, shape, protocol, connections: CONNECTIONS, requests, slow: null });
    const seconds = (performance.now() - start) / 1_000;
    const gigabytes = (requests * shape.size) / 1e9;
    return {
      cpu: (cpuMicroseconds(server.workerPid) - before) / 1e6 / gigabytes,
      speed: (gigabytes * 1e3) / seconds,
      resident: residentMegabytes(server.workerPid),
    };
  };
  console.log('load                  proxy    CPU s/GB    ± se    MB/s  RSS MB');
  let isGood = true;
  for (const load of loads) {
    const measured = new Map<string, Measured[]>(servers.map(({ name }) => [name, []]));
    for (const server of servers) await measure(server, load, megabytes);
    for (let round = 0; round < rounds; round++) {
      for (const server of servers) measured.get(server.name)?.push(await measure(server, load, megabytes));
    }
    isGood = report(load, measured) && isGood;
  }
  return isGood;
}

/** Prints the figures of a load; whether they are as they should be. */
function report({ name, protocol }: Load, measured: ReadonlyMap<string, readonly Measured[]>): boolean {
  for (const [server, rounds] of measured) {
    const cpus = rounds.map(({ cpu }) => cpu);
    const cells = [
      name.padEnd(21),
      server.padEnd(8),
      mean(cpus).toFixed(2).padStart(8),
      standardError(cpus).toFixed(2).padStart(7),
      mean(rounds.map(({ speed }) => speed))
        .toFixed(0)
        .padStart(7),
      Math.max(...rounds.map(({ resident }) => resident))
        .toFixed(0)
        .padStart(7),
    ];
    console.log(cells.join(' '));
  }
  const peer = measured.get('haproxy');
  if (peer === undefined) return true;
  const ratios = (measured.get('gateway') ?? []).map(({ cpu }, round) => cpu / (peer[round] as Measured).cpu);
  const figure = `${mean(ratios).toFixed(2)} × haproxy (± ${standardError(ratios).toFixed(2)})`;
  const isReached = mean(ratios) <= MAY_TAKE;
  const verdict = protocol === 'http' ? ` (to reach: ${MAY_TAKE} ×): ${isReached ? 'reached' : 'MISSED'}` : '';
  console.log(`${name}: ${figure}${verdict}\n`);
  return isReached || protocol !== 'http';
}

/** Resident memory while many clients read large answers far more slowly than the cluster sends them. */
async function measureSlowReaders(client: BulkClient, { url, workerPid }: Omit<Server, 'name'>): Promise<boolean> {
  const shape = shapes.find(({ name }) => name === 'rows, 16 MB') as Shape;
  let most = 0;
  const watch = setInterval(() => {
    most = Math.max(most, residentMegabytes(workerPid));
  }, 100);
  const slow = { seconds: 10, bytesPerSecond: 400_000 };
  const { bytes } = await client
    .ask({ url, shape, protocol: 'http', connections: SLOW_READERS, requests: SLOW_READERS, slow })
    .finally(() => clearInterval(watch));
  const isReached = most < MAY_HOLD && bytes > 0;
  console.log(
    `${SLOW_READERS} slow readers (${(bytes / 1e6).toFixed(0)} MB in ${slow.seconds} s): at most ${most.toFixed(0)} MB resident (to reach: below ${MAY_HOLD} MB): ${isReached ? 'reached' : 'MISSED'}`,
  );
  return isReached;
}

async function startCluster(): Promise<{ readonly url: string; readonly stop: () => void }> {
  const program = path.join(import.meta.dirname, 'cluster.ts');
  const child = spawn(process.execPath, [program], { stdio: ['ignore', 'pipe', 'inherit'] });
  for await (const line of createInterface({ input: child.stdout })) {
    const port = /^listening (\d+)$/.exec(line)?.[1];
    if (port !== undefined) return { url: `http://127.0.0.1:${port}`, stop: () => child.kill() };
  }
  throw new Error('the cluster ended before it listened');
}
