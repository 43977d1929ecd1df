import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Agent } from 'undici';
import { stringify } from 'yaml';
import { hasPostgresql, startPostgresql } from '../test/support/postgresql.ts';
import { pathOf, type QueryResults } from '../test/support/statementClient.ts';
import { cpuMicroseconds, cpuMicrosecondsOfMainThread } from './proxy/processTimes.ts';
import { startServe } from './proxy/serveProcess.ts';
import { startPagedCluster } from './replicas/pagedCluster.ts';
import { median, percentile } from './statistics.ts';

const QUERIES_A_SECOND = Number(process.env.RATE ?? 100);
const PERCENT = 10;
/** Percent of the serving path's CPU time that the shadow may add. */
const MAY_ADD = 2;
const ROUNDS = Number(process.env.ROUNDS ?? 8);
const SECONDS = Number(process.env.SECONDS ?? 15);
/** Seconds until a change of the replay has reached the gateway, and reads of before are done. */
const SETTLE_SECONDS = 8;

interface Round {
  /** Microseconds of CPU time a query: of the event loop's thread, and of the process. */
  readonly serving: number;
  readonly all: number;
  /** Milliseconds of whole queries. */
  readonly times: readonly number[];
}

/**
 * `npm run bench -- shadow`: CPU time of the thread that serves, and latency of clients, with and without a live replay of a share of
 * all reads, in turns, at the gateway that ships with its history in PostgreSQL.
 */
export async function run(): Promise<void> {
  if (!hasPostgresql()) return;
  const directory = mkdtempSync(path.join(tmpdir(), 'eg-bench-'));
  const stops: (() => unknown)[] = [() => rmSync(directory, { recursive: true, force: true })];
  try {
    const postgresql = await startPostgresql();
    stops.push(() => postgresql.dispose());
    const [cluster, candidate] = [await startPagedCluster(), await startPagedCluster()];
    stops.push(cluster.stop, candidate.stop);
    const manifest = {
      ...{ apiVersion: 'enginegateway.dev/v1beta1', kind: 'EngineCluster', metadata: { name: 'candidate' } },
      spec: { proxyTo: candidate.url, routingGroup: 'adhoc', active: false },
    };
    writeFileSync(path.join(directory, 'candidate.yaml'), stringify(manifest));
    const gateway = await startServe(directory, cluster.url, await postgresql.createDatabase(), {});
    stops.push(gateway.stop);
    const agent = new Agent();
    stops.push(() => agent.close());
    const replay = async (suspend: boolean) => {
      const live = { percent: PERCENT, for: '24h', max: 10_000 };
      const spec = { control: 'stub', candidate: 'candidate', from: { live }, replayAs: { username: 'replay' } };
      const response = await fetch(`${gateway.url}/api/replays/default/shadow`, {
        ...{ method: 'PUT', headers: { 'content-type': 'application/json' } },
        body: JSON.stringify({ ...spec, limits: { concurrency: 8 }, suspend }),
      });
      if (!response.ok) throw new Error(await response.text());
    };
    const replayed = async () => {
      const { progress } = (await (await fetch(`${gateway.url}/api/replays/default/shadow`)).json()) as {
        readonly progress: { readonly replayed: { readonly queries: number }; readonly excluded: object } | null;
      };
      return { queries: progress?.replayed.queries ?? 0, excluded: progress?.excluded ?? {} };
    };
    const measure = (seconds: number) => load(gateway.url, gateway.workerPid, agent, seconds);
    await replay(false);
    await measure(SETTLE_SECONDS);
    const rounds: { readonly off: Round; readonly on: Round }[] = [];
    let repeated = 0;
    for (let round = 0; round < ROUNDS; round++) {
      const half = async (isOn: boolean) => {
        await replay(!isOn);
        await measure(SETTLE_SECONDS);
        const before = await replayed();
        const measured = await measure(SECONDS);
        if (isOn) repeated += (await replayed()).queries - before.queries;
        return measured;
      };
      // The first of a round is another one each time.
      const first = await half(round % 2 === 0);
      const second = await half(round % 2 !== 0);
      rounds.push(round % 2 === 0 ? { on: first, off: second } : { on: second, off: first });
    }
    const added = (of: (round: Round) => number) => median(rounds.map(({ on, off }) => (of(on) / of(off) - 1) * 100));
    const latency = (kind: 'on' | 'off', share: number) =>
      median(rounds.map((round) => percentile(round[kind].times, share))).toFixed(1);
    const serving = added((round) => round.serving);
    console.log(
      `${QUERIES_A_SECOND} queries/s, ${(repeated / ROUNDS / SECONDS).toFixed(1)} of them repeated; left out: ${JSON.stringify((await replayed()).excluded)}`,
    );
    console.log(
      `CPU time of the serving thread: ${median(rounds.map(({ off }) => off.serving)).toFixed(0)} µs a query, ${serving.toFixed(1)} % more with the shadow (to reach: ${MAY_ADD} %): ${serving <= MAY_ADD ? 'reached' : 'MISSED'}`,
    );
    console.log(`CPU time of the process: ${added((round) => round.all).toFixed(1)} % more`);
    console.log(
      `a whole query without: p50 ${latency('off', 0.5)} ms, p99 ${latency('off', 0.99)} ms; with: p50 ${latency('on', 0.5)} ms, p99 ${latency('on', 0.99)} ms`,
    );
    if (serving > MAY_ADD) process.exitCode = 1;
  } finally {
    for (const stop of stops.reverse()) await stop();
  }
}

/** Sends queries with different texts at a fixed rate, whatever the gateway does. */
async function load(url: string, pid: number, agent: Agent, seconds: number): Promise<Round> {
  const times: number[] = [];
  const ask = async (target: string, body: string | null): Promise<QueryResults> => {
    const headers = { 'X-Engine-User': 'bench' };
    const response = await agent.request({
      origin: url,
      path: target,
      method: body === null ? 'GET' : 'POST',
      body,
      headers,
    });
    return (await response.body.json()) as QueryResults;
  };
  const query = async (number: number) => {
    const begun = performance.now();
    let page = await ask('/v1/statement', `SELECT n, ${number} FROM tpch.tiny.nation WHERE n < ${number}`);
    while (page.nextUri !== undefined) page = await ask(pathOf(page.nextUri), null);
    times.push(performance.now() - begun);
  };
  const before = [cpuMicrosecondsOfMainThread(pid), cpuMicroseconds(pid)];
  const begun = performance.now();
  const running: Promise<void>[] = [];
  for (let sent = 0; sent < seconds * QUERIES_A_SECOND; sent++) {
    const due = begun + (sent * 1_000) / QUERIES_A_SECOND;
    if (due > performance.now()) await sleep(due - performance.now());
    running.push(query(sent % 50));
  }
  await Promise.all(running);
  const [serving, all] = [cpuMicrosecondsOfMainThread(pid), cpuMicroseconds(pid)].map(
    (time, index) => (time - (before[index] as number)) / running.length,
  );
  return { serving: serving as number, all: all as number, times };
}
