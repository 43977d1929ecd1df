import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import pg from 'pg';
import { Agent } from 'undici';
import { askPostgresql, hasPostgresql, startPostgresql } from '../test/support/postgresql.ts';
import type { TestServer } from '../test/support/serverProcess.ts';
import { pathOf, type QueryResults } from '../test/support/statementClient.ts';
import { startLimitedGateways } from './admission/limitedGateway.ts';
import { cpuMicroseconds, cpuMicrosecondsOfPastFamily } from './proxy/processTimes.ts';
import { startPagedCluster } from './replicas/pagedCluster.ts';
import { percentile } from './statistics.ts';

const help = `usage: npm run bench -- replicas [--replicas 1,2,4,8] [--limits none,50,2] [--rate 200] [--seconds 20] [--statements]
  --limits      queries that a group may run at a time; none: it has no limit
  --rate        queries a second that are begun, as long as fewer than 40 are running or waiting
  --statements  prints the statements that make up the figures`;

const CLIENTS = 40;
/** Queries a replica before the measurement: hot paths are compiled, addresses known. */
const WARM_UP = 500;
const IDLE_MS = 15_000;

interface Figures {
  readonly gateways: number;
  readonly database: number;
  readonly statements: number;
  readonly rows: number;
  readonly wal: number;
}

/**
 * `npm run bench -- replicas`: what a query costs over 1 to 8 replicas that ship, on one PostgreSQL: its submission and both
 * follow-ups each go to a replica at random.
 */
export async function run(): Promise<void> {
  const { values } = parseArgs({
    args: process.argv.slice(3),
    options: {
      replicas: { type: 'string', default: '1,2,4,8' },
      limits: { type: 'string', default: 'none,50,2' },
      rate: { type: 'string', default: '200' },
      seconds: { type: 'string', default: '20' },
      statements: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help || !hasPostgresql()) {
    console.log(help);
    return;
  }
  const server = await startPostgresql();
  try {
    await askPostgresql(server.port, "alter system set shared_preload_libraries = 'pg_stat_statements'");
    await server.stop();
    await server.start();
    await askPostgresql(server.port, 'create extension pg_stat_statements');
    for (const limit of values.limits.split(',')) {
      for (const replicas of values.replicas.split(',')) {
        const maxRunning = limit === 'none' ? null : Number(limit);
        await measure(
          server,
          maxRunning,
          Number(replicas),
          Number(values.rate),
          Number(values.seconds),
          values.statements,
        );
      }
    }
  } finally {
    await server.dispose();
  }
}

async function measure(
  server: TestServer,
  maxRunning: number | null,
  replicas: number,
  rate: number,
  seconds: number,
  printsStatements: boolean,
): Promise<void> {
  const directory = mkdtempSync(path.join(tmpdir(), 'eg-bench-'));
  const cluster = await startPagedCluster();
  const dataStore = await server.createDatabase();
  const gateways = await startLimitedGateways({
    ...{ directory, cluster: cluster.url, dataStore, maxRunning, hold: '10s', count: replicas },
  });
  const database = new pg.Client({ host: '127.0.0.1', port: server.port, user: 'postgres', database: 'postgres' });
  await database.connect();
  const clients = new Clients(gateways.map(({ url }) => url));
  const figures = async (): Promise<Figures> => {
    const { rows } = await database.query(`select sum(calls)::float as statements, sum(rows)::float as rows,
      pg_current_wal_lsn() - '0/0' as wal from pg_stat_statements where dbid =
      (select oid from pg_database where datname = '${dataStore.jdbcUrl.split('/').at(-1)}')`);
    return {
      gateways: gateways.reduce((sum, { pid }) => sum + cpuMicroseconds(pid), 0) / 1000,
      database: cpuMicrosecondsOfPastFamily(server.pid) / 1000,
      statements: rows[0].statements,
      rows: rows[0].rows,
      wal: Number(rows[0].wal) / 1000,
    };
  };
  try {
    await clients.run(WARM_UP * replicas, 2_000);
    await sleep(3_000);
    const idle = await between(figures, () => sleep(IDLE_MS));
    await database.query('checkpoint');
    await database.query('select pg_stat_statements_reset()');
    clients.times.length = 0;
    const began = performance.now();
    const used = await between(figures, async () => {
      await clients.run(rate * seconds, rate);
      await sleep(1_000);
    });
    const ms = performance.now() - began;
    const { times } = clients;
    const perSecond = (name: keyof Figures) => (idle[name] * 1_000) / IDLE_MS;
    /** Costs of a query in addition to those without queries. */
    const each = (name: keyof Figures) => (used[name] - (perSecond(name) * ms) / 1_000) / times.length;
    const parts = [
      `limit ${maxRunning ?? 'none'}, ${replicas} replicas: ${((times.length * 1000) / (ms - 1000)).toFixed(0)} queries a second`,
      `ms of CPU a query: gateways ${each('gateways').toFixed(2)}, database ${each('database').toFixed(2)}`,
      `${each('statements').toFixed(2)} statements, ${each('rows').toFixed(2)} rows, ${each('wal').toFixed(2)} kB of WAL a query`,
      `a query takes ${percentile(times, 0.5).toFixed(0)} ms (p50), ${percentile(times, 0.99).toFixed(0)} ms (p99)`,
      `without queries: s of CPU a minute a replica ${((perSecond('gateways') * 0.06) / replicas).toFixed(2)}, database ${(perSecond('database') * 0.06).toFixed(2)}; statements a second ${perSecond('statements').toFixed(1)}`,
    ];
    console.log(
      parts.join('; ') + (clients.failures.size === 0 ? '' : `; failures: ${[...clients.failures].join(', ')}`),
    );
    if (printsStatements) await printStatements(database, times.length);
  } finally {
    await clients.stop();
    await Promise.all(gateways.map((gateway) => gateway.stop()));
    await database.end();
    await cluster.stop();
    rmSync(directory, { recursive: true, force: true });
  }
}

async function between(figures: () => Promise<Figures>, work: () => Promise<void>): Promise<Figures> {
  const before = await figures();
  await work();
  const after = await figures();
  const names = Object.keys(after) as (keyof Figures)[];
  return Object.fromEntries(names.map((name) => [name, after[name] - before[name]])) as unknown as Figures;
}

async function printStatements(database: pg.Client, queries: number): Promise<void> {
  const { rows } =
    await database.query(`select left(regexp_replace(query, '\\s+', ' ', 'g'), 110) as text, calls::float, rows::float,
    wal_bytes::float as wal, total_exec_time as ms from pg_stat_statements order by calls desc limit 25`);
  for (const { text, calls, rows: count, wal, ms } of rows) {
    const figures = [calls, count, wal / 1000, ms].map((value) => (value / queries).toFixed(3).padStart(8));
    console.log(`  ${figures.join(' ')}  ${text}`);
  }
}

/** Clients that send each request to a replica at random. */
class Clients {
  /** Milliseconds of each query. */
  readonly times: number[] = [];
  readonly failures = new Set<string>();
  readonly #urls: readonly string[];
  readonly #agent = new Agent({ connections: CLIENTS });

  constructor(urls: readonly string[]) {
    this.#urls = urls;
  }

  /** Runs queries, so many a second if that many clients are enough. */
  async run(queries: number, rate: number): Promise<void> {
    const began = performance.now();
    let begun = 0;
    const client = async () => {
      for (let mine = begun++; mine < queries; mine = begun++) {
        const early = began + (mine * 1000) / rate - performance.now();
        if (early > 0) await sleep(early);
        const start = performance.now();
        let page = await this.#ask('/v1/statement', 'SELECT n.name FROM tpch.tiny.nation n WHERE n.nationkey = 7');
        while (page.nextUri !== undefined) page = await this.#ask(pathOf(page.nextUri), null);
        if (page.error === undefined) this.times.push(performance.now() - start);
        else this.failures.add(page.error.message);
      }
    };
    await Promise.all(Array.from({ length: CLIENTS }, client));
  }

  async stop(): Promise<void> {
    await this.#agent.destroy();
  }

  async #ask(target: string, body: string | null): Promise<QueryResults> {
    const origin = this.#urls[Math.floor(Math.random() * this.#urls.length)] as string;
    const method = body === null ? 'GET' : 'POST';
    const headers = { 'X-Engine-User': `user${Math.floor(Math.random() * 50)}`, 'X-Engine-Source': 'replicas' };
    for (;;) {
      const response = await this.#agent.request({ origin, path: target, method, body, headers });
      if (response.statusCode !== 503) return (await response.body.json()) as QueryResults;
      await response.body.dump();
      await sleep(50);
    }
  }
}
