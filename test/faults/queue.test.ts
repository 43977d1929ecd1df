/**
 * Replicas are killed one after the other while many clients wait for few slots: limits of clusters, group and users hold
 * at the engines at every moment, every client gets an answer, and no query runs twice.
 */
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { Agent } from 'undici';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { mariadb, postgresql, type ServerDatabase } from '../support/databases.ts';
import { freePort } from '../support/freePort.ts';
import { closeAll, until } from '../support/gateway.ts';
import { type GatewayProcess, startGateway } from '../support/gatewayProcess.ts';
import { declare, manifest, sharedSecret } from '../support/queueing.ts';
import { pathOf, type QueryResults } from '../support/statementClient.ts';
import { RunningCounts, startLimitedCluster } from './limitedCluster.ts';

const CLIENTS = Number(process.env.QUEUE_CLIENTS ?? 1_000);
const USERS = 20;
/** What may run at a time: at each of two clusters, in their group, of each user. */
const LIMITS = { cluster: 20, group: 32, user: 5 };
const KILL_EVERY_MS = 10_000;
const KILLS = Number(process.env.QUEUE_KILLS ?? 3);
/** One query of so many runs longer than the lease of a dead replica: they have most of the slots. */
const LONG_EVERY = 8;
const LONG_MS = 25_000;

/** What became of a client's query. */
type End = 'rows' | 'mayHaveRun' | 'broken' | { readonly unexpected: string };

/** Clients that send one query after the other until they are stopped. */
class Clients {
  readonly ends: End[] = [];
  /** Queries of which the first answer said that they wait. */
  waited = 0;
  open = 0;
  readonly #urls: readonly string[];
  readonly #agent = new Agent({ connections: CLIENTS, headersTimeout: 60_000, bodyTimeout: 60_000 });
  #count = 0;
  #isStopping = false;
  #work: Promise<unknown> = Promise.resolve();

  constructor(urls: readonly string[]) {
    this.#urls = urls;
  }

  start(): void {
    this.#work = Promise.all(Array.from({ length: CLIENTS }, (_, index) => this.#loop(index)));
  }

  /** Starts no further queries, and waits until all have ended. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    await this.#work;
    await this.#agent.destroy();
  }

  async #loop(index: number): Promise<void> {
    let turn = index;
    await pause((index * 2_000) / CLIENTS);
    while (!this.#isStopping) {
      const number = this.#count++;
      const runs = number % LONG_EVERY === 0 ? LONG_MS : 50 + ((number * 37) % 300);
      this.open++;
      this.ends.push(await this.#query(`SELECT ${number}, ${runs}`, `user${index % USERS}`, turn++));
      this.open--;
    }
  }

  async #query(statement: string, user: string, first: number): Promise<End> {
    let turn = first;
    /** The next replica answers; null where a connection broke after a submission was sent. */
    const ask = async (path: string, body?: string): Promise<QueryResults | null> => {
      for (;;) {
        const url = `${this.#urls[turn++ % this.#urls.length]}${path}`;
        const method = body === undefined ? 'GET' : 'POST';
        try {
          const { statusCode, body: response } = await this.#agent.request({
            ...{ origin: new URL(url).origin, path, method, body: body ?? null },
            headers: { 'X-Engine-User': user },
          });
          const text = await response.text();
          if (statusCode === 200) return JSON.parse(text) as QueryResults;
          if (![502, 503, 504].includes(statusCode)) throw new Error(`HTTP ${statusCode}: ${text}`);
        } catch (error) {
          const { code } = error as { readonly code?: string };
          if (code === undefined) throw error;
          if (body !== undefined && code !== 'ECONNREFUSED') return null;
        }
        await pause(100);
      }
    };
    try {
      let page = await ask('/v1/statement', statement);
      if (page === null) return 'broken';
      if (page.id.endsWith('_queue')) this.waited++;
      const rows: unknown[] = [];
      while (page?.nextUri !== undefined) {
        page = await ask(pathOf(page.nextUri));
        rows.push(...(page?.data ?? []));
      }
      const message = page?.error?.message;
      if (message !== undefined) return message.includes('may have run') ? 'mayHaveRun' : { unexpected: message };
      return JSON.stringify(rows) === JSON.stringify([[statement]]) ? 'rows' : { unexpected: JSON.stringify(rows) };
    } catch (error) {
      return { unexpected: String(error) };
    }
  }
}

for (const [database, count] of [
  [postgresql, 4],
  [mariadb, 2],
] as const) {
  describe.skipIf(!database.available())(`replicas are killed while queries wait, on ${database.name}`, () => {
    let server: ServerDatabase;
    let folder: string;
    const replicas: GatewayProcess[] = [];
    beforeAll(async () => {
      server = await database.start();
    });
    afterEach(async () => {
      await Promise.all(replicas.splice(0).map((replica) => replica.stop('SIGKILL')));
      await closeAll();
      await rm(folder, { recursive: true, force: true });
    });
    afterAll(() => server?.dispose());

    test(`${count} replicas: no limit is exceeded, nothing is lost, nothing runs twice`, async () => {
      folder = await mkdtemp(join(tmpdir(), 'faults-queue-'));
      const counts = new RunningCounts();
      const [a, b] = [await startLimitedCluster('a', counts), await startLimitedCluster('b', counts)];
      await mkdir(join(folder, 'resources'));
      const ofCluster = { routingGroup: 'adhoc', maxRunningQueries: LIMITS.cluster };
      await declare(
        join(folder, 'resources'),
        manifest('EngineCluster', 'a', { proxyTo: a.url, ...ofCluster }),
        manifest('EngineCluster', 'b', { proxyTo: b.url, ...ofCluster }),
        manifest('RoutingGroup', 'adhoc', {
          maxRunningQueries: LIMITS.group,
          queue: { hold: '200ms', maxWait: '5m', maxQueuedQueries: 5_000 },
        }),
        manifest('QueryLimit', 'users', { match: { everyone: true }, per: 'User', maxRunningQueries: LIMITS.user }),
      );
      const dataStore = await server.create();
      const ports = await Promise.all(Array.from({ length: count }, () => freePort()));
      const start = async (index: number) => {
        replicas[index] = await startGateway(
          {
            ...sharedSecret,
            dataStore,
            resources: { source: 'directory', directory: join(folder, 'resources') },
            queryHistory: { spillDirectory: join(folder, `spill-${index}`) },
            serverConfig: { 'http-server.http.port': ports[index] },
            monitor: { taskDelay: '1s', timeout: '5s' },
          },
          {},
          { isUnderLoad: true },
        );
      };
      // One after the other: the first one makes the tables.
      for (const index of ports.keys()) await start(index);
      const urls = ports.map((port) => `http://127.0.0.1:${port}`);
      for (const url of urls) await until(async () => (await fetch(`${url}/readyz`)).status === 200, 'readiness');

      const clients = new Clients(urls);
      clients.start();
      await until(() => clients.ends.length > 100, 'the first queries', 60_000);
      const atBegin = clients.ends.length;
      const began = performance.now();
      for (let kill = 0; kill < KILLS; kill++) {
        const index = kill % count;
        await replicas[index]?.stop('SIGKILL');
        const restarted = start(index);
        await pause(KILL_EVERY_MS);
        await restarted;
      }
      const seconds = (performance.now() - began) / 1000;
      const ended = clients.ends.length - atBegin;
      const open = clients.open;
      for (const cluster of [a, b]) cluster.hurry();
      await clients.stop();

      const by = (end: End) => clients.ends.filter((each) => each === end).length;
      const peaks = Object.fromEntries(['a', 'b', 'all'].map((key) => [key, counts.most.get(key)]));
      const ofUsers = Math.max(...Array.from({ length: USERS }, (_, user) => counts.most.get(`user${user}`) ?? 0));
      console.log(
        `${database.name}, ${count} replicas, ${CLIENTS} clients: ${(ended / seconds).toFixed(0)} queries a second, ${clients.waited} of ${clients.ends.length} waited in the queue, ${open} open at the end of ${KILLS} kills; ${by('mayHaveRun')} may have run, ${by('broken')} submissions broke off; at once ${JSON.stringify(peaks)}, of a user ${ofUsers}`,
      );
      expect(clients.ends.filter((end) => typeof end === 'object')).toEqual([]);
      expect(clients.waited).toBeGreaterThan(CLIENTS / 2);
      // None was sent twice; what was begun and not answered is what its client knows of.
      const all = [...a.taken.entries(), ...b.taken.entries()];
      const times = new Map<string, number>();
      for (const [statement, taken] of all) times.set(statement, (times.get(statement) ?? 0) + taken);
      expect([...times].filter(([, taken]) => taken > 1)).toEqual([]);
      expect(peaks.a).toBeLessThanOrEqual(LIMITS.cluster);
      expect(peaks.b).toBeLessThanOrEqual(LIMITS.cluster);
      expect(peaks.all).toBeLessThanOrEqual(LIMITS.group);
      expect(ofUsers).toBeLessThanOrEqual(LIMITS.user);
    });
  });
}
