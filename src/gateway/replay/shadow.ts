import { LRUCache } from 'lru-cache';
import type { Logger } from 'pino';
import { Agent } from 'undici';
import { ClusterAddresses } from '../../model/clusterAddresses.ts';
import { productNames } from '../../model/names.ts';
import { PageThread } from '../../replay/pageThread.ts';
import { replayQuery } from '../../replay/replayedQuery.ts';
import {
  type ReplayPlan,
  type ReplayResult,
  type ReplayTargets,
  resultOf,
  type ShadowReport,
  warmUp,
} from '../../replay/replayJobs.ts';
import type { ResultColumn } from '../../replay/resultFold.ts';
import { addTo, type SelectedQuery, type SelectionJob, selectQueries } from '../../replay/selection.ts';
import { MAX_BYTES, type StatementRun, StatementRuns } from '../../replay/statementRuns.ts';
import { verdictOf } from '../../replay/verdict.ts';
import { AddressGuard, ClusterTls, type ClusterTlsData } from '../tls/clusterTls.ts';

/** Reads that are repeated at a candidate, in a form that can be sent to another thread. */
export interface ShadowJob extends SelectionJob {
  readonly plan: ReplayPlan;
  readonly targets: ReplayTargets;
  readonly tls: ClusterTlsData;
  readonly addresses: ConstructorParameters<typeof ClusterAddresses>[0];
  readonly clusterHeaders: Parameters<typeof productNames>[1];
  readonly connectTimeout: number;
  /** An integer: other than 0 once the work has to end. */
  readonly stop: SharedArrayBuffer;
}

const CHECK_MS = 50;
/** Milliseconds after which no further read is repeated, and of the first statement. */
const MAX_MS = 30_000;
const WARM_UP_MS = 10_000;
/** One of so many reads is replayed on both clusters. */
const SAMPLE = 10;
/** Errors of connections that this machine lacks. */
const SHORT = /EMFILE|ENFILE|EADDRNOTAVAIL|ENOBUFS/;

/** Statements with columns in memory. */
const MAX_COLUMNS = 500;

const pages = new PageThread();
/** Columns of results of the control, by statement and session. */
const columns = new LRUCache<string, readonly ResultColumn[]>({ max: MAX_COLUMNS });
let count = 0;

/**
 * Repeats reads that ended at a candidate, each within the limits of the plan, and compares error, columns and CPU time
 * with their records. Runs in a thread (`replayThread.ts`).
 * @throws GatewayError EG_DATABASE_UNAVAILABLE
 */
export async function shadowQueries(job: ShadowJob, logger: Logger): Promise<ShadowReport> {
  const { plan, targets, tls, settings } = job;
  const bounds = { ...job.bounds, time: MAX_MS };
  const { queries, recorded, excluded } = await selectQueries({ ...job, bounds }, logger);
  if (queries.length === 0) return { results: [], recorded, excluded };
  const dropped = { queries: 0, cpuMillis: 0, ...excluded.dropped };
  const results: ReplayResult[] = [];
  const end = new AbortController();
  const stop = new Int32Array(job.stop);
  const timer = setInterval(() => {
    if (Atomics.load(stop, 0) !== 0) end.abort(new Error('stopped'));
  }, CHECK_MS);
  const servers = new Map(tls.servers);
  const clusterTls = new ClusterTls(
    { current: { context: tls.context, chain: [] } },
    tls.verifyHostname,
    (origin) => servers.get(origin) ?? null,
    new AddressGuard(new ClusterAddresses(job.addresses)),
    logger,
  );
  const connect = clusterTls.connector(job.connectTimeout);
  const dispatcher = new Agent({
    connections: plan.concurrency,
    allowH2: false,
    connect,
    maxResponseSize: 2 * MAX_BYTES,
  });
  const names = productNames(settings.productName, job.clusterHeaders);
  const runs = new StatementRuns(names, targets.account, dispatcher, pages);
  const late = performance.now() + MAX_MS;
  const work = queries.values();
  const repeatNext = async () => {
    for (const query of work) {
      const isLate = end.signal.aborted || performance.now() > late;
      const verdict = isLate ? null : await repeated(runs, query, job, end.signal).catch(() => null);
      if (verdict === null || SHORT.test(verdict.reason)) addTo(dropped, query.cpuMillis);
      else results.push(resultOf(query, verdict));
    }
  };
  try {
    await runs.run(targets.candidate, warmUp, { ...plan.limits, time: WARM_UP_MS }, end.signal).catch(() => null);
    await Promise.all(Array.from({ length: plan.concurrency }, repeatNext));
  } finally {
    clearInterval(timer);
    await dispatcher.destroy();
  }
  return { results, recorded, excluded: dropped.queries === 0 ? excluded : { ...excluded, dropped } };
}

/** Runs a read at the candidate, or a sample on both clusters. @throws the reason of the signal */
async function repeated(
  runs: StatementRuns,
  { queryId, cpuMillis, statement, error }: SelectedQuery,
  { plan, targets }: ShadowJob,
  signal: AbortSignal,
): ReturnType<typeof replayQuery> {
  const { Catalog, Schema } = statement.headers;
  const key = JSON.stringify([targets.control.proxyTo, statement.text, statement.prepared, Catalog, Schema]);
  if (plan.mode === 'validate' || count++ % SAMPLE === 0) {
    const verdict = await replayQuery(runs, statement, error !== null, { ...plan, ...targets }, signal);
    if (verdict.control.kind === 'done') columns.set(key, verdict.control.digest.columns);
    return verdict;
  }
  const candidate = await runs.run(targets.candidate, statement, plan.limits, signal);
  const present = columns.get(key);
  // Rows of the recorded query are not stored: those of the candidate count as equal.
  let control: StatementRun = { kind: 'tooLarge', columns: [], queryId, cpuMillis };
  if (error !== null) control = { kind: 'failed', error, queryId, cpuMillis };
  else if (candidate.kind === 'done')
    control = {
      ...candidate,
      queryId,
      cpuMillis,
      digest: { ...candidate.digest, columns: present ?? candidate.digest.columns },
    };
  const verdict = verdictOf(control, candidate, null, false, error !== null);
  const reason = `no error, as recorded${present === undefined ? '' : '; equal columns'}`;
  return { ...verdict, ...(verdict.kind === 'Same' && error === null && { reason }), control, candidate };
}
