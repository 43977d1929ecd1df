/**
 * Seconds that the impact of a change of rules takes over 100,000 queries in PostgreSQL, and for how long it holds the event loop
 * of the gateway meanwhile. The texts differ, as do a part of users and sources.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pino } from 'pino';
import { stringify } from 'yaml';
import { openStore } from '../src/store/openStore.ts';
import type { QueryRecord } from '../src/store/store.ts';
import { startGateway } from '../test/support/gatewayProcess.ts';
import { loopFigures, withLoopProbe } from '../test/support/loopFigures.ts';
import { hasPostgresql, startPostgresql } from '../test/support/postgresql.ts';
import { cpuMicroseconds } from './proxy/processTimes.ts';

const QUERIES = 100_000;
const BATCH = 500;
const IDLE_MS = 5_000;

const bySource = (index: number) => `request.getHeader("X-Engine-Source") == "source-${index}"`;
const byTables =
  'engineQueryProperties.getTables().toString().contains("events_7") && engineQueryProperties.getQueryType() == "Query"';
const edited = (name: string, condition: string, priority: number) => ({
  changes: [{ name, rule: { condition, priority, actions: ['result.put("routingGroup", "batch")'] } }],
});

/** What is edited. */
const edits = [
  ['a rule by the source', edited('r7', bySource(7), 7)],
  ['a rule for all queries', edited('all', 'true', 10_000)],
  ['a rule by the tables of each statement', edited('tables', byTables, 10_000)],
] as const;

const statement = (index: number): string =>
  `select a.id, count(*) as n, sum(b.amount) from hive.web.events_${index % 20} a join sales.orders b on a.id = b.id
where a.day = ${index} and b.state in ('open', 'paid') group by a.id having count(*) > ${index % 7} order by n desc limit 100`;

const record = (index: number, now: number): QueryRecord => ({
  queryId: `20261123_000000_${String(index).padStart(6, '0')}_kvhrm`,
  ...{
    queryText: statement(index),
    user: `user-${index % 500}`,
    source: `source-${index % 100}`,
    created: now - index,
  },
  ...{ backendUrl: 'http://a:8080', routingGroup: 'adhoc', externalUrl: 'http://a.example', cluster: 'a' },
  decision: JSON.stringify({
    ...{ group: 'adhoc', decidedBy: 'rule', rule: `r${index % 100}`, cluster: 'a' },
    request: {
      text: statement(index).length,
      headers: { 'x-engine-user': `user-${index % 500}`, 'x-engine-catalog': 'hive', 'x-engine-schema': 'web' },
    },
  }),
});

/** A rules file of so many rules. */
const rulesFile = (rules: number): string =>
  Array.from({ length: rules }, (_, index) =>
    stringify({
      ...{ name: `r${index}`, priority: index, condition: bySource(index) },
      actions: [`result.put("routingGroup", "group-${index % 10}")`],
    }),
  ).join('---\n');

/** Runs the benchmark and prints its figures. */
export async function run(): Promise<void> {
  if (!hasPostgresql()) return;
  const folder = await mkdtemp(join(tmpdir(), 'eg-bench-impact-'));
  const server = await startPostgresql();
  const settings = await server.createDatabase();
  const logger = pino({ level: 'warn' });
  const store = await openStore({ ...settings, runMigrations: true, logger });
  const now = Date.now();
  for (let from = 0; from < QUERIES; from += BATCH) {
    await store.history.insert(Array.from({ length: BATCH }, (_, index) => record(from + index, now)));
  }
  // As a database of some age has done by itself; before, PostgreSQL looks through all rows for each page of them.
  await store.database.knex.raw('analyze');
  try {
    for (const rules of [100, 5_000]) await measure(rules, settings, folder);
  } finally {
    await store.close();
    await server.dispose();
    await rm(folder, { recursive: true, force: true });
  }
}

async function measure(rules: number, dataStore: object, folder: string): Promise<void> {
  const rulesConfigPath = join(folder, `rules-${rules}.yaml`);
  await writeFile(rulesConfigPath, rulesFile(rules));
  const gateway = await startGateway(
    {
      ...{ resources: { source: 'database' }, dataStore, routingRules: { rulesConfigPath } },
      queryHistory: { spillDirectory: join(folder, 'spill') },
      requestAnalyzerConfig: { analyzeRequest: true },
    },
    withLoopProbe(folder),
    { isUnderLoad: true },
  );
  try {
    await sleep(IDLE_MS);
    await loopFigures(folder, gateway.pid);
    await sleep(IDLE_MS);
    console.log(`${rules} rules, idle: the event loop is held for ${text(await loopFigures(folder, gateway.pid))}`);
    for (const [what, question] of edits) {
      await loopFigures(folder, gateway.pid);
      const began = performance.now();
      const cpuBefore = cpuMicroseconds(gateway.pid);
      const response = await fetch(`${gateway.url}/api/rules/impact`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(question),
      });
      const body = await response.text();
      if (!response.ok) throw new Error(`${response.status} ${body}`);
      const { queries, moved, unknown } = JSON.parse(body) as { queries: number; moved: number; unknown: number };
      const seconds = ((performance.now() - began) / 1000).toFixed(1);
      const cpu = ((cpuMicroseconds(gateway.pid) - cpuBefore) / 1e6).toFixed(1);
      const figures = text(await loopFigures(folder, gateway.pid));
      console.log(
        `${rules} rules, ${what}: ${seconds} s (${cpu} s of processor time, all threads) for ${queries} queries (${moved} move, ${unknown} unknown); the event loop is held for ${figures}`,
      );
    }
  } finally {
    await gateway.stop();
  }
}

const text = ({ cpuMs, wallMs }: { readonly cpuMs: number; readonly wallMs: number }): string =>
  `${cpuMs.toFixed(1)} ms of processor time (${wallMs.toFixed(1)} ms elapsed) at most`;
