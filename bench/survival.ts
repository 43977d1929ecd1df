import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pino } from 'pino';
import type { DataPlaneParts, QueueOptions } from '../src/gateway/dataPlane.ts';
import type { ProxiedRequest, RequestAnalyzer } from '../src/gateway/proxiedRequest.ts';
import type { DurableQueue } from '../src/gateway/queue/durableQueue.ts';
import { QueueKey } from '../src/gateway/queue/queueKey.ts';
import { Survival } from '../src/gateway/queue/survival.ts';
import { productNames } from '../src/model/names.ts';
import type { SurvivalPolicy } from '../src/routing/admissionPolicy.ts';
import { requestAnalysis } from '../src/sql/analyzeRequest.ts';
import { openStore } from '../src/store/openStore.ts';
import { headerUserAnalyzer } from '../test/support/defaults.ts';
import { closeAll, clusterAt, startGateway } from '../test/support/gateway.ts';
import { groupPolicy, groupsOf } from '../test/support/groupPolicy.ts';
import { startMortalEngine } from '../test/support/mortalEngine.ts';
import { runQuery } from '../test/support/statementClient.ts';

const ROUNDS = 7;
const ROUND_MS = 400;
const QUERIES = 200;
const key = new QueueKey('a secret');
const survival: SurvivalPolicy = {
  ...{ reasons: ['ClusterLost'], maxAttempts: 2, to: [], exceptRules: [], retriesPerMinute: 60 },
};

/** `npm run bench -- survival`: what survival costs queries of groups that do not use it, and of those that do. */
export async function run(): Promise<void> {
  const groups = groupsOf(groupPolicy('adhoc', { survival }), groupPolicy('etl'));
  const unused = time(() => groups.get('etl')?.survival ?? groups.get('other')?.survival);
  const marks = new Survival({} as DataPlaneParts, { key } as unknown as QueueOptions, {} as DurableQueue);
  const target = { path: '/v1/statement/executing/20261127_000000_00000_aaaaa/y1/2', query: 'maxWait=1s' };
  const poll = { method: 'GET', target, rawTarget: `${target.path}?${target.query}` } as unknown as ProxiedRequest;
  const read = time(() => marks.read(poll));
  console.log(
    `a group without survival: ${unused.toFixed(3)} µs a submission, ${read.toFixed(3)} µs a poll with parameters`,
  );
  for (const [name, admission] of [
    ['no group has survival', groupsOf(groupPolicy('adhoc'))],
    ['another group has survival', groupsOf(groupPolicy('adhoc'), groupPolicy('etl', { survival }))],
    ['the group has survival', groups],
  ] as const)
    console.log(`${name}: ${(await statements(admission)).toFixed(2)} database statements a query`);
}

/** Microseconds of processor time of a call, of the fastest round. */
function time(call: () => unknown): number {
  let best = Number.POSITIVE_INFINITY;
  for (let round = 0; round < ROUNDS; round++) {
    const start = performance.now();
    const before = process.threadCpuUsage();
    let calls = 0;
    for (; performance.now() - start < ROUND_MS; calls += 1_000) for (let count = 0; count < 1_000; count++) call();
    const { user, system } = process.threadCpuUsage(before);
    best = Math.min(best, (user + system) / calls);
  }
  return best;
}

/** Database statements of a query of the group adhoc on average; none is counted of starts, history and outcomes. */
async function statements(groups: ReturnType<typeof groupsOf>): Promise<number> {
  const directory = mkdtempSync(path.join(tmpdir(), 'eg-bench-'));
  const jdbcUrl = `jdbc:sqlite:${path.join(directory, 'gateway.db')}`;
  const store = await openStore({ jdbcUrl, runMigrations: true, logger: pino({ level: 'silent' }) });
  try {
    const engine = await startMortalEngine('aaaaa', 'of a');
    engine.page = 'rows';
    const { queuedQueries: repository, quarantine } = store;
    const queue = { repository, quarantine, key, replica: 'bench' };
    const gateway = await startGateway({ store, clusters: [clusterAt('a', engine.url)], queue, analyzer });
    gateway.table.setInputs({ admission: { groups, limits: [] } });
    await runQuery(gateway.url, 'SELECT 1');
    let count = 0;
    const note = () => {
      count += 1;
    };
    store.database.knex.on('query', note);
    for (let query = 0; query < QUERIES; query++) await runQuery(gateway.url, `SELECT ${query}`);
    store.database.knex.off('query', note);
    return count / QUERIES;
  } finally {
    await closeAll();
    await store.close();
    rmSync(directory, { recursive: true, force: true });
  }
}

const names = productNames('Engine');
const analysis = requestAnalysis({ names, maxBodySize: 1_000_000, clientsUseV2Format: false, cacheBytes: 0 });
const { user } = headerUserAnalyzer(names);
const analyzer: RequestAnalyzer = {
  user,
  analyze: async (proxied, body) => ({
    user: await user(proxied),
    queryProperties: analysis({
      ...{ method: 'POST', isSubmission: true, headers: proxied.request.rawHeaders, body: body?.bytes ?? null },
    }),
  }),
};
