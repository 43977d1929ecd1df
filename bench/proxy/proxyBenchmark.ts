import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { hasPostgresql, startPostgresql } from '../../test/support/postgresql.ts';
import { folderOf } from '../../test/support/serverProcess.ts';
import { median } from '../statistics.ts';
import { type Measured, measure, print, printHead, type Target, WARM_UP_SECONDS } from './measure.ts';
import { type Nginx, startNginxProxy, startRulesService, startStubCluster } from './nginx.ts';
import { divideProcessors } from './processors.ts';
import { measureTls } from './tls.ts';
import { measureVariants } from './variants.ts';

const FOLLOW_UP = '/v1/statement/executing/20261121_015745_00001_bench/y1a2b3/1';
const SUBMIT_SCRIPT = `wrk.method = "POST"
wrk.headers["Content-Type"] = "text/plain"
wrk.headers["X-Engine-User"] = "bench"
wrk.headers["X-Engine-Source"] = "wrk"
wrk.headers["X-Engine-Catalog"] = "tpch"
local count = 0
-- Another text each time, also in the next run and in the other thread: no analysis may be one of an earlier request.
math.randomseed(os.time() + tonumber(tostring({}):match("%x+$"), 16) % 1000000)
local base = math.random(1000, 9999) * 1000000
request = function()
  count = count + 1
  return wrk.format(nil, nil, nil, "SELECT n.name, count(*) FROM tpch.tiny.nation n JOIN tpch.tiny.region r ON n.regionkey = r.regionkey WHERE n.nationkey <> " .. base + count .. " GROUP BY 1")
end
`;

/** What is to be reached: times of nginx's CPU a request. */
const targets = { 'follow-up': 4.5, submission: 8 } as const;
type Load = keyof typeof targets;

const help = `usage: npm run bench -- proxy [--seconds 10] [--rounds 3] [--million] [--plain-only | --rules-only]
  --seconds N   length of a measurement
  --rounds N    measurements of each; the median by CPU a request counts
  --plain-only  without analysis and rules, the external rules service, and TLS
  --rules-only  what analysis and rules add, and nothing else
  --million     afterwards a million follow-ups and submissions; resident memory must stay flat`;

/** Measures the gateway beside nginx as a reverse proxy, in turns, against one stub cluster. */
export async function runProxyBenchmark(args: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      seconds: { type: 'string', default: '10' },
      rounds: { type: 'string', default: '3' },
      million: { type: 'boolean', default: false },
      'plain-only': { type: 'boolean', default: false },
      'rules-only': { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) {
    console.log(help);
    return 0;
  }
  for (const program of ['nginx', 'wrk']) {
    if (folderOf([program], ['/usr/sbin']) !== null) continue;
    console.error(`${program} is missing: install the package ${program}`);
    return 1;
  }
  if (!hasPostgresql()) return 1;
  const divided = divideProcessors();
  console.log(
    divided ? 'each proxy alone on a processor, load and database on another\n' : 'all share the processors\n',
  );
  const directory = mkdtempSync(path.join(tmpdir(), 'eg-bench-'));
  const stops: (() => Promise<unknown>)[] = [async () => rmSync(directory, { recursive: true, force: true })];
  try {
    const postgresql = await startPostgresql();
    stops.push(() => postgresql.dispose());
    const cluster = await startStubCluster(directory);
    stops.push(cluster.stop);
    const nginx = await startNginxProxy(directory, cluster.url);
    stops.push(nginx.stop);
    const script = path.join(directory, 'submit.lua');
    writeFileSync(script, SUBMIT_SCRIPT);
    const measureRules = (rulesService: string | null) =>
      measureVariants({
        directory,
        cluster: cluster.url,
        nginx,
        rulesService,
        database: () => postgresql.createDatabase(),
        script,
        seconds: Number(values.seconds),
        rounds: Number(values.rounds),
      });
    if (values['rules-only']) return await measureRules(null);
    const gateway = await startGateway(cluster, await postgresql.createDatabase(), path.join(directory, 'spill'));
    stops.push(gateway.stop);
    const plain = await measureAll(nginx, gateway, script, values);
    if (values['plain-only']) return plain;
    const rulesService = await startRulesService(directory);
    stops.push(rulesService.stop);
    const variants = await measureRules(rulesService.url);
    const tls = await measureTls({
      directory,
      cluster: cluster.url,
      database: () => postgresql.createDatabase(),
      followUp: FOLLOW_UP,
      script,
      seconds: Number(values.seconds),
      rounds: Number(values.rounds),
    });
    return Math.max(plain, variants, tls);
  } finally {
    for (const stop of stops.reverse()) await stop();
  }
}

async function measureAll(
  nginx: Nginx,
  gateway: RunningGateway,
  script: string,
  values: { readonly seconds: string; readonly rounds: string; readonly million: boolean },
): Promise<number> {
  const seconds = Number(values.seconds);
  const load = (target: Target, kind: Load, duration: number) =>
    measure(
      target,
      kind === 'submission' ? '/v1/statement' : FOLLOW_UP,
      duration,
      kind === 'submission' ? script : null,
    );
  for (const kind of ['submission', 'follow-up'] as const) await load(gateway, kind, WARM_UP_SECONDS);
  let reached = true;
  printHead();
  for (const kind of ['follow-up', 'submission'] as const) {
    const rounds: { peer: Measured; own: Measured }[] = [];
    for (let round = 0; round < Number(values.rounds); round++) {
      rounds.push({ peer: await load(nginx, kind, seconds), own: await load(gateway, kind, seconds) });
    }
    const middle = rounds.sort((a, b) => a.own.cpu / a.peer.cpu - b.own.cpu / b.peer.cpu)[(rounds.length - 1) >> 1];
    if (middle === undefined) return 2;
    print(kind, 'nginx', middle.peer);
    print(kind, 'gateway', middle.own);
    const ratio = middle.own.cpu / middle.peer.cpu;
    const failed = rounds.reduce((sum, round) => sum + round.own.failed, 0);
    const good = ratio <= targets[kind] && failed === 0;
    reached &&= good;
    console.log(
      `${kind}: ${ratio.toFixed(2)} × nginx (to reach: ${targets[kind]} ×), ${failed} failed of ${rounds.reduce((sum, round) => sum + round.own.requests, 0)}: ${good ? 'reached' : 'MISSED'}\n`,
    );
  }
  if (values.million) reached = (await runMillion(gateway, load)) && reached;
  return reached ? 0 : 1;
}

/**
 * A million requests, half follow-ups, half submissions, in slices; memory of the last quarter beside the second. The
 * garbage collector runs between slices: without it resident memory swings by 80 MB with the collector's own timing.
 */
async function runMillion(
  gateway: RunningGateway,
  load: (target: RunningGateway, kind: Load, seconds: number) => Promise<Measured>,
): Promise<boolean> {
  const slices: number[] = [];
  const live: number[] = [];
  let requests = 0;
  let failed = 0;
  while (requests < 1_000_000) {
    for (const kind of ['follow-up', 'submission'] as const) {
      const measured = await load(gateway, kind, 5);
      requests += measured.requests;
      failed += measured.failed;
      slices.push(measured.resident);
    }
    const held = (await (await fetch(`${gateway.url}/live`)).json()) as { heapUsed: number; external: number };
    live.push((held.heapUsed + held.external) / 1024 ** 2);
  }
  const quarter = Math.max(1, Math.floor(slices.length / 4));
  const second = median(slices.slice(quarter, 2 * quarter));
  const last = median(slices.slice(-quarter));
  const flat = last <= second * 1.1;
  console.log(
    `memory over ${requests} requests (${failed} failed), MB: ${slices.map((value) => value.toFixed(0)).join(' ')}`,
  );
  console.log(`live after collection, MB: ${live.map((value) => value.toFixed(1)).join(' ')}`);
  console.log(
    `last quarter ${last.toFixed(0)} MB, second quarter ${second.toFixed(0)} MB: ${flat ? 'flat' : 'GROWING'}`,
  );
  return flat && failed === 0;
}

/** A gateway in a process of its own. */
interface RunningGateway extends Target {
  readonly stop: () => Promise<void>;
}

async function startGateway(cluster: Nginx, database: object, spillDirectory: string): Promise<RunningGateway> {
  const program = path.join(import.meta.dirname, 'gatewayProcess.ts');
  const flags = process.env.BENCH_NODE_OPTIONS?.split(' ') ?? [];
  const child: ChildProcess = spawn(
    process.execPath,
    ['--expose-gc', ...flags, program, cluster.url, JSON.stringify(database), spillDirectory],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  if (child.stdout === null || child.pid === undefined) throw new Error('the gateway process did not start');
  const url = `http://127.0.0.1:${await listeningPort(child.stdout)}`;
  // Its log, which somebody has to read.
  child.stdout.resume();
  return {
    url,
    workerPid: child.pid,
    settle: () => historyWritten(url),
    stop: async () => {
      const exited = once(child, 'exit');
      child.kill('SIGTERM');
      await exited;
    },
  };
}

async function listeningPort(output: Readable): Promise<string> {
  for await (const line of createInterface({ input: output })) {
    const port = /^listening (\d+)$/.exec(line)?.[1];
    if (port !== undefined) return port;
  }
  throw new Error('the gateway process ended before it listened');
}

/** Waits until all history is in the database. */
async function historyWritten(url: string): Promise<void> {
  for (let turn = 0; turn < 600; turn++) {
    const depth = (await (await fetch(`${url}/depth`)).json()) as { memory: number; spilled: number };
    if (depth.memory === 0 && depth.spilled === 0) return;
    await sleep(100);
  }
  throw new Error('the history was not written within 60 s');
}
