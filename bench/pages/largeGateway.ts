import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Knex } from 'knex';
import { pino } from 'pino';
import { stringify } from 'yaml';
import { startSimulatedEngine } from '../../demo/simulatedEngine.ts';
import { openStore } from '../../src/store/openStore.ts';
import { type GatewayProcess, startGateway } from '../../test/support/gatewayProcess.ts';
import { hasPostgresql, startPostgresql } from '../../test/support/postgresql.ts';
import type { TestServer } from '../../test/support/serverProcess.ts';
import { buildShippedProgram } from '../../test/support/shippedProgram.ts';
import { cpuMicroseconds } from '../proxy/processTimes.ts';

const CLUSTERS = 500;
const RULES = 5_000;
const QUERIES = 1_000_000;
/** Queries that one statement inserts. */
const PART = 25_000;
const GROUPS = 50;
/** Groups of users; each user is in three of them. */
const USER_GROUPS = 100;
const CHANGES = 100_000;
/** Each is a resource group with nine below it. */
const TEAMS = 50;
/** Clusters share a few engines: what they answer is no part of what is measured. */
const ENGINES = 5;
const DAY_MS = 24 * 3_600_000;
const START_MS = 180_000;
/** A gateway has started once it took less processor time than this in each of so many seconds. */
const IDLE_MICROSECONDS = 60_000;
const IDLE_SECONDS = 3;

/** What ships, with many clusters and rules and a long history on PostgreSQL. */
export interface LargeGateway extends AsyncDisposable {
  readonly gateway: GatewayProcess;
  /** Process of the database server; each connection has a child of it. */
  readonly databasePid: number;
  /** When the first query of the history was submitted and when the last one was, milliseconds since 1970. */
  readonly from: number;
  readonly to: number;
}

/** Starts it, once its clusters are known and looked at. */
export async function startLargeGateway(): Promise<LargeGateway> {
  if (!hasPostgresql()) throw new Error('PostgreSQL is not installed');
  await buildShippedProgram();
  await using parts = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), 'pages-bench-'));
  parts.defer(() => rm(folder, { recursive: true, force: true }));
  const server = await startPostgresql({ isDurable: false });
  parts.defer(() => server.dispose());
  const dataStore = await server.createDatabase();
  const times = await fillHistory(dataStore);
  const engines = await Promise.all(
    Array.from({ length: ENGINES }, (_, index) => startSimulatedEngine({ name: `engine-${index}` })),
  );
  for (const engine of engines) parts.defer(() => engine.close());
  const manifests = join(folder, 'manifests');
  await mkdir(manifests);
  await writeFile(join(manifests, 'clusters.yaml'), clusters(engines.map(({ url }) => url)));
  await writeFile(join(manifests, 'rules.yaml'), rules());
  const gateway = await startGateway(
    {
      authentication: 'none',
      resources: { source: 'directory', directory: manifests },
      dataStore,
      monitor: { taskDelay: '60s' },
    },
    { NODE_ENV: 'production' },
    { program: 'shipped', isUnderLoad: true },
  );
  parts.defer(async () => void (await gateway.stop()));
  await untilLooked(gateway.url);
  await untilIdle(gateway.pid);
  const owned = parts.move();
  return {
    gateway,
    databasePid: server.pid ?? 0,
    ...times,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

const id = `'20261121_' || lpad(i::text, 9, '0') || '_kvhrm'`;
/** Id of the last query of the history. */
export const lastQuery = `20261121_${String(QUERIES - 1).padStart(9, '0')}_kvhrm`;

/** A day of queries at an even rate, each with the decision that chose its cluster, and how it ended. */
async function fillHistory(
  dataStore: Awaited<ReturnType<TestServer['createDatabase']>>,
): Promise<Pick<LargeGateway, 'from' | 'to'>> {
  const store = await openStore({ ...dataStore, runMigrations: true, logger: pino({ level: 'warn' }) });
  const { knex } = store.database;
  const start = Date.now() - DAY_MS;
  const created = `${start} + i * ${DAY_MS / QUERIES}::numeric`;
  const indexes: { readonly indexname: string; readonly indexdef: string }[] = (
    await knex.raw(
      "select indexname, indexdef from pg_indexes where tablename = 'eg_query_outcomes' and indexname not like '%pkey'",
    )
  ).rows;
  // Made at the end they take a fraction of the time.
  for (const { indexname } of indexes) await knex.raw(`drop index ${indexname}`);
  // In parts, as the store waits ten seconds for an answer.
  for (let from = 1; from < QUERIES; from += PART) {
    const numbers = `generate_series(${from}::bigint, ${from + PART - 1}) i`;
    await knex.raw(`insert into query_history
      (query_id, query_text, created, backend_url, user_name, source, routing_group, external_url)
      select ${id}, 'select a, b, c from catalog.schema.orders where x = ' || i, ${created},
      'http://c' || i % ${CLUSTERS} || '.example:8080', 'user' || i * 7919 % 500, 's' || i % ${RULES},
      'g' || i % ${GROUPS}, 'http://c' || i % ${CLUSTERS} || '.example:8080' from ${numbers}`);
    await knex.raw(`insert into eg_query_decisions (query_id, cluster, created, decision)
      select ${id}, 'c' || i % ${CLUSTERS}, ${created},
      '{"group":"g' || i % ${GROUPS} || '","decidedBy":"rule","rule":"r' || i % ${RULES} ||
      '","cluster":"c' || i % ${CLUSTERS} || '"}' from ${numbers}`);
    await knex.raw(outcomes(created, numbers));
    await knex.raw(`insert into eg_query_groups (group_name, created, query_id)
      select 'team' || (i * 7919 % 500 * 3 + n) % ${USER_GROUPS}, ${created}, ${id} from ${numbers}, generate_series(1, 3) n`);
  }
  await knex.raw(`insert into eg_group_sets (set_id, group_name, last_used)
    select 'set' || i, 'team' || (i * 3 + n) % ${USER_GROUPS}, ${start + 9 * DAY_MS}
    from generate_series(0, 499) i, generate_series(1, 3) n`);
  for (const { indexdef } of indexes) await knex.raw(indexdef);
  await fillAudit(knex, start);
  await fillResourceGroups(knex);
  await knex.raw('analyze');
  // As the leader does of hours that are over, a few at a time.
  for (let left = 1; left > 0; ) {
    const round = await store.hourlySums.sum(Date.now());
    if (round.failure !== null) throw round.failure;
    left = round.left;
  }
  await knex.raw('analyze eg_query_sums');
  await store.close();
  return { from: start, to: start + DAY_MS };
}

/** Changes of rules over the day. */
async function fillAudit(knex: Knex, start: number): Promise<void> {
  await knex.raw(`insert into eg_audit (id, at, source, action, kind, namespace, name, resource, object, user_name, roles,
    before_text, after_text)
    select 'change-' || i, ${start} + i::bigint * ${DAY_MS / CHANGES}, 'rest', 'change', 'RoutingRule', 'default', 'r' || i % 1000,
    'r' || i % 1000, 'rule', 'user' || i % 500, 'ADMIN', '{"spec":{"priority":1}}', '{"spec":{"priority":2}}'
    from generate_series(1, ${CHANGES}) i`);
}

/** Teams with groups of their own, each with selectors. */
async function fillResourceGroups(knex: Knex): Promise<void> {
  const figures = "'80%', 100, 10";
  const columns = 'name, soft_memory_limit, max_queued, hard_concurrency_limit, parent';
  await knex.raw(`insert into resource_groups (${columns})
    select 'team' || i, ${figures}, null from generate_series(0, ${TEAMS - 1}) i`);
  await knex.raw(`insert into resource_groups (${columns})
    select g.name || '-' || i, ${figures}, g.resource_group_id from resource_groups g, generate_series(1, 9) i`);
  await knex.raw(`insert into selectors (resource_group_id, priority, user_regex)
    select resource_group_id, i, name || '-' || i from resource_groups, generate_series(1, 4) i`);
}

/**
 * Durations that spread over seven powers of ten, queues over four; one query in 53 fails, whatever its cluster. Buckets as `durationBucket` has
 * them.
 */
function outcomes(created: string, numbers: string): string {
  const bucket = (milliseconds: string) => `1 + floor(log(2, ${milliseconds}) * 8)`;
  return `insert into eg_query_outcomes (query_id, created, last_seen, refused, cluster, routing_group, user_name, source,
    rule_name, state, error_name, error_type, elapsed_ms, elapsed_bucket, queued_ms, queued_bucket, cpu_ms,
    processed_rows, processed_bytes, peak_memory_bytes, result_bytes, pages, group_set, certainty)
    select ${id}, ${created}, ${created} + elapsed, 0, 'c' || i % ${CLUSTERS}, 'g' || i % ${GROUPS},
    'user' || i * 7919 % 500, 's' || i % ${RULES}, 'r' || i % ${RULES},
    case when i % 53 = 7 then 'FAILED' when i % 53 = 8 then 'CANCELLED' else 'FINISHED' end,
    case when i % 53 = 7 then 'EXCEEDED_TIME_LIMIT' end, case when i % 53 = 7 then 'INSUFFICIENT_RESOURCES' end,
    elapsed, ${bucket('elapsed')}, queued, ${bucket('queued')}, elapsed * 3, elapsed * 10, elapsed * 1000, 5000000,
    elapsed * 20, 3, 'set' || i * 7919 % 500, 4
    from (select i, round(10 ^ (7 * random()))::bigint as elapsed, round(10 ^ (4 * random()))::bigint as queued
    from ${numbers}) q`;
}

function clusters(urls: readonly string[]): string {
  const manifests = Array.from({ length: CLUSTERS }, (_, index) =>
    manifest('EngineCluster', `c${index}`, { proxyTo: urls[index % urls.length], routingGroup: `g${index % GROUPS}` }),
  );
  return manifests.join('---\n');
}

/** Rules of several conditions; one in fifty names a group that no cluster belongs to. */
function rules(): string {
  const manifests = Array.from({ length: RULES }, (_, index) =>
    manifest('RoutingRule', `r${index}`, {
      description: `Queries of the source s${index}`,
      priority: index,
      condition: `request.getHeader("X-Engine-Source") == "s${index}" && request.getHeader("X-Engine-User") != "nobody${index}"`,
      routeTo: { routingGroup: index % 50 === 49 ? `missing-${index}` : `g${index % GROUPS}` },
    }),
  );
  return manifests.join('---\n');
}

function manifest(kind: string, name: string, spec: object): string {
  return stringify({ apiVersion: 'enginegateway.dev/v1beta1', kind, metadata: { name }, spec });
}

async function untilLooked(url: string): Promise<void> {
  const deadline = performance.now() + START_MS;
  for (;;) {
    const healthy = await healthyClusters(url);
    if (healthy === CLUSTERS) return;
    if (performance.now() > deadline) throw new Error(`only ${healthy} of ${CLUSTERS} clusters are healthy`);
    await new Promise((resolve) => setTimeout(resolve, 1_000));
  }
}

/** Statuses are written and the heap is tidied for a while: what is measured meanwhile would be that. */
async function untilIdle(pid: number): Promise<void> {
  const deadline = performance.now() + START_MS;
  for (let idle = 0; idle < IDLE_SECONDS && performance.now() < deadline; ) {
    const before = cpuMicroseconds(pid);
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    idle = cpuMicroseconds(pid) - before < IDLE_MICROSECONDS ? idle + 1 : 0;
  }
}

async function healthyClusters(url: string): Promise<number> {
  const response = await fetch(`${url}/api/overview`);
  if (response.status !== 200) return 0;
  const { clusters: counts } = (await response.json()) as {
    readonly clusters: { readonly byStatus: { HEALTHY?: number } };
  };
  return counts.byStatus.HEALTHY ?? 0;
}
