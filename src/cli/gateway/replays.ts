import { Agent } from 'undici';
import { httpClientSettings } from '../../config/httpClient.ts';
import { ReplayThread } from '../../gateway/replay/replayThread.ts';
import type { OverloadManager } from '../../gateway/server/overloadManager.ts';
import type { ClusterTls } from '../../gateway/tls/clusterTls.ts';
import { PageThread } from '../../replay/pageThread.ts';
import { ReplayJobs, type ReplayParts } from '../../replay/replayJobs.ts';
import { MAX_BYTES, StatementRuns } from '../../replay/statementRuns.ts';
import { clusterAddressOptions, databaseSettings, replaySettings } from '../settings.ts';
import type { Control, GatewayContext, Storage } from './context.ts';

/** Queries that a selection reads, and its time in milliseconds. */
const SELECTION_BOUNDS = { queries: 500_000, time: 120_000 } as const;
/** Connections of replays to each cluster. */
const CONNECTIONS = 64;

/** Queries that a turn of live replays reads, and its milliseconds in addition to those of its last query. */
const MAX_READ = 50_000;
const TURN_MS = 120_000;
/** Interval of checks for shortages in milliseconds, and the part of it in which a short event loop is busy. */
const CHECK_MS = 500;
const MAX_BUSY = 0.9;

/** Starts the replays of recorded queries, over connections with the certificates of clusters. */
export function openReplays(
  { config, names, clock, logger, onClose }: GatewayContext,
  { store }: Pick<Storage, 'store'>,
  { operator, table }: Control,
  tls: ClusterTls,
  overload: Pick<OverloadManager, 'isShort'>,
): void {
  const { connectTimeout } = httpClientSettings(config, 'proxy');
  const dispatcher = new Agent({
    ...{ connections: CONNECTIONS, allowH2: false, connect: tls.connector(connectTimeout) },
    maxResponseSize: 2 * MAX_BYTES,
  });
  const pages = new PageThread();
  const [history, live] = [new ReplayThread(), new ReplayThread()];
  onClose(() => Promise.all([dispatcher.destroy(), pages.close(), history.close(), live.close()]));
  const { replays, leadership } = operator;
  const clusterOf = (name: string) => ({ name, proxyTo: table.current.clusters.get(name)?.proxyTo ?? '' });
  const source = { database: databaseSettings(config), settings: replaySettings(config) };
  const { clusterHeaders } = config.protocol;
  const connection = { addresses: clusterAddressOptions(config), clusterHeaders, connectTimeout };
  let before = performance.eventLoopUtilization();
  const shortage = () => {
    const { utilization } = performance.eventLoopUtilization(before);
    before = performance.eventLoopUtilization();
    if (overload.isShort) return 'memory';
    return utilization > MAX_BUSY ? 'processor time' : null;
  };
  const parts = {
    ...{ repository: store.replays, isLeader: () => leadership.fence !== null },
    select: ({ filter, last }, started, signal) =>
      history.run(
        { ...source, bounds: SELECTION_BOUNDS, range: { from: started - last, to: started }, filter },
        signal,
      ),
    shortage,
    shadow: async (plan, targets, range, signal) => {
      const { filter, limits } = plan;
      const bounds = { queries: MAX_READ, time: TURN_MS + 4 * limits.time };
      const tlsData = tls.dataFor([targets.control.proxyTo, targets.candidate.proxyTo]);
      const stop = new SharedArrayBuffer(4);
      const check = () => {
        if (signal.aborted || shortage() !== null) Atomics.store(new Int32Array(stop), 0, 1);
      };
      const timer = setInterval(check, CHECK_MS).unref();
      const job = { ...source, ...connection, plan, filter, targets, range, bounds, tls: tlsData, stop };
      // The thread ends its queries itself.
      return await live.run(job, new AbortController().signal).finally(() => clearInterval(timer));
    },
    targets: async (plan) => {
      const [control, candidate] = [clusterOf(plan.control), clusterOf(plan.candidate)];
      const account = await replays.account(plan, [control, candidate]);
      return typeof account === 'string' ? account : { control, candidate, account };
    },
    runs: (account) => new StatementRuns(names, account, dispatcher, pages),
    uids: () => replays.uids(),
    note: (plan, progress) => replays.note(plan, progress),
  } satisfies Omit<ReplayParts, 'plans'>;
  // A live replay and one of recorded queries run at the same time.
  for (const isLive of [false, true]) {
    const plans = () => replays.plans().filter((plan) => plan.isLive === isLive);
    const jobs = new ReplayJobs({ ...parts, plans }, clock, logger);
    onClose(() => jobs.stop());
    jobs.start();
  }
}
