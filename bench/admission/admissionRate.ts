import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Agent } from 'undici';
import { hasMariadb, startMariadb } from '../../test/support/mariadb.ts';
import { hasPostgresql, startPostgresql } from '../../test/support/postgresql.ts';
import type { TestServer } from '../../test/support/serverProcess.ts';
import { pathOf, type QueryResults } from '../../test/support/statementClient.ts';
import { cpuMicroseconds, cpuMicrosecondsOfAll, cpuMicrosecondsOfFamily } from '../proxy/processTimes.ts';
import { median, percentile } from '../statistics.ts';
import { startLimitedGateways } from './limitedGateway.ts';

const SECONDS = 10;
/** At 500 a second each slot may be idle for three times as long as its query runs. */
const SLOTS = 200;
const MIN_RATE = 500;
const MAX_GAP_MS = 300;

/** How many queries a second are admitted over two replicas. */
export function measureAdmissions(): Promise<void> {
  return onDatabases(measureRate);
}

/** How soon a slot that is free is used again, also by the other replica. */
export function measureReuse(): Promise<void> {
  return onDatabases(async (name, server, hold) => {
    for (const alternates of [false, true]) await measureGaps(name, server, hold, alternates);
  });
}

async function onDatabases(measure: (name: string, server: TestServer, hold: string) => Promise<void>): Promise<void> {
  for (const [name, isAvailable, start] of [
    ['PostgreSQL', hasPostgresql, startPostgresql],
    ['MariaDB', hasMariadb, startMariadb],
  ] as const) {
    if (!isAvailable()) continue;
    const server = await start();
    try {
      for (const hold of ['0s', '10s']) {
        await measure(`${name}, ${hold === '0s' ? 'all wait in the queue' : 'requests are held'}`, server, hold);
      }
    } finally {
      await server.dispose();
    }
  }
}

/** A cluster whose queries run for a time, and that says when slots were free and used again. */
class TimedCluster {
  readonly gaps: { readonly ms: number; readonly isOtherReplica: boolean }[] = [];
  submissions = 0;
  most = 0;
  readonly #server = createServer((request, response) => void this.#respond(request, response));
  readonly #runMs: number;
  #running = 0;
  #last: { readonly at: number; readonly by: string } | null = null;

  constructor(runMs: number) {
    this.#runMs = runMs;
  }

  async listen(): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
    request.resume();
    const send = (value: object) => {
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify(value));
    };
    if (request.url === '/v1/info') {
      send({ starting: false });
      return;
    }
    const { 'x-forwarded-host': host, 'x-forwarded-port': port } = request.headers;
    const base = `http://${String(host).split(':')[0]}:${port}`;
    if (request.method === 'POST') {
      this.#running++;
      this.most = Math.max(this.most, this.#running);
      if (this.#last !== null) {
        this.gaps.push({ ms: performance.now() - this.#last.at, isOtherReplica: this.#last.by !== base });
      }
      this.#last = null;
      const id = `20261123_000000_${String(this.submissions++).padStart(5, '0')}_bench`;
      const nextUri = `${base}/v1/statement/executing/${id}/x/1`;
      send({ id, infoUri: base, nextUri, stats: { state: 'RUNNING' } });
      return;
    }
    await sleep(this.#runMs);
    this.#running--;
    this.#last = { at: performance.now(), by: base };
    send({ id: request.url?.split('/')[4] ?? '', infoUri: base, stats: { state: 'FINISHED' } });
  }
}

interface Scene {
  readonly cluster: TimedCluster;
  readonly urls: readonly string[];
  readonly pids: readonly number[];
}

async function withScene(
  server: TestServer,
  options: { readonly hold: string; readonly maxRunning: number; readonly runMs: number },
  work: (scene: Scene) => Promise<void>,
): Promise<void> {
  const directory = mkdtempSync(path.join(tmpdir(), 'eg-bench-'));
  const cluster = new TimedCluster(options.runMs);
  const { hold, maxRunning } = options;
  const gateways = await startLimitedGateways({
    ...{ directory, cluster: await cluster.listen(), dataStore: await server.createDatabase() },
    ...{ maxRunning, hold, count: 2 },
  });
  try {
    await work({ cluster, urls: gateways.map(({ url }) => url), pids: gateways.map(({ pid }) => pid) });
  } finally {
    await Promise.all(gateways.map((gateway) => gateway.stop()));
    await cluster.close();
    rmSync(directory, { recursive: true, force: true });
  }
}

/** Clients that run one query after the other; each keeps to a replica, or takes the next one at each request. */
class Clients {
  ended = 0;
  waited = 0;
  readonly failures = new Set<string>();
  readonly #agent = new Agent({ connections: 2_000 });
  readonly #urls: readonly string[];
  readonly #alternates: boolean;
  readonly #work: Promise<unknown>;
  #isStopping = false;

  constructor(urls: readonly string[], count: number, alternates: boolean) {
    this.#urls = urls;
    this.#alternates = alternates;
    this.#work = Promise.all(Array.from({ length: count }, (_, index) => this.#loop(index)));
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    await this.#work;
    await this.#agent.destroy();
  }

  async #loop(index: number): Promise<void> {
    let turn = index;
    const ask = async (target: string, body: string | null): Promise<QueryResults> => {
      const origin = this.#urls[(this.#alternates ? turn++ : index) % this.#urls.length] as string;
      const method = body === null ? 'GET' : 'POST';
      const headers = { 'X-Engine-User': `user${index % 20}` };
      for (;;) {
        const response = await this.#agent.request({ origin, path: target, method, body, headers });
        // As clients of the protocol do: the same request again, which the gateway asks for where its database is late.
        if (response.statusCode !== 503) return (await response.body.json()) as QueryResults;
        await response.body.dump();
        await sleep(50);
      }
    };
    while (!this.#isStopping) {
      let page = await ask('/v1/statement', 'SELECT 1');
      if (page.id?.endsWith('_queue')) this.waited++;
      while (page.nextUri !== undefined) page = await ask(pathOf(page.nextUri), null);
      if (page.error === undefined) this.ended++;
      else this.failures.add(page.error.message);
    }
  }
}

/** 800 clients, queries of 100 ms, and so many slots that their number does not bound the rate while each is idle for a while. */
async function measureRate(name: string, server: TestServer, hold: string): Promise<void> {
  await withScene(server, { hold, maxRunning: SLOTS, runMs: 100 }, async ({ cluster, urls, pids }) => {
    const clients = new Clients(urls, 800, true);
    await sleep(5_000);
    const times = () => ({
      gateways: pids.reduce((sum, pid) => sum + cpuMicroseconds(pid), 0),
      database: cpuMicrosecondsOfFamily(server.pid),
      load: cpuMicroseconds(process.pid),
      all: cpuMicrosecondsOfAll(),
    });
    const before = { submissions: cluster.submissions, times: times(), at: performance.now() };
    await sleep(SECONDS * 1_000);
    const after = times();
    const seconds = (performance.now() - before.at) / 1000;
    const admitted = cluster.submissions - before.submissions;
    const each = (name: keyof typeof after) => (after[name] - before.times[name]) / admitted / 1000;
    const rest = each('all') - each('gateways') - each('database') - each('load');
    const division = `both gateways ${each('gateways').toFixed(2)}, database ${each('database').toFixed(2)}, clients and cluster ${each('load').toFixed(2)}, all else on the machine ${rest.toFixed(2)}`;
    const waited = clients.waited / clients.ended;
    await clients.stop();
    const rate = admitted / seconds;
    const failures = clients.failures.size === 0 ? '' : `; failures: ${[...clients.failures].join('; ')}`;
    console.log(
      `${name}: ${rate.toFixed(0)} admissions a second over two replicas (to reach: ${MIN_RATE}): ${rate >= MIN_RATE ? 'reached' : 'MISSED'}; ms CPU each: ${division}; ${(100 * Math.min(1, waited)).toFixed(0)} % were in the queue, at most ${cluster.most} of ${SLOTS} at once${failures}`,
    );
  });
}

/** One slot, and four clients: two at each replica, or such as take the next replica at each request. */
async function measureGaps(name: string, server: TestServer, hold: string, alternates: boolean): Promise<void> {
  await withScene(server, { hold, maxRunning: 1, runMs: 20 }, async ({ cluster, urls }) => {
    const clients = new Clients(urls, 4, alternates);
    await sleep(2_000);
    const first = cluster.gaps.length;
    await sleep(SECONDS * 1_000);
    await clients.stop();
    const gaps = cluster.gaps.slice(first);
    const all = gaps.map(({ ms }) => ms);
    const others = gaps.flatMap(({ ms, isOtherReplica }) => (isOtherReplica ? [ms] : []));
    const [p99, otherP99] = [percentile(all, 0.99), percentile(others, 0.99)];
    console.log(
      `${name}, clients ${alternates ? 'alternate' : 'keep to their replica'}: a slot is used again after ${median(all).toFixed(1)} ms (median), ${p99.toFixed(0)} ms (p99); by another replica than that of the last page (${others.length} of ${all.length}) after ${median(others).toFixed(0)} ms, ${otherP99.toFixed(0)} ms (to reach: p99 ${MAX_GAP_MS} ms): ${Math.max(p99, otherP99) <= MAX_GAP_MS ? 'reached' : 'MISSED'}; at most ${cluster.most} at once`,
    );
  });
}
