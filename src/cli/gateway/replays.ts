import { Agent } from 'undici';
import { httpClientSettings } from '../../config/httpClient.ts';
import { ReplayThread } from '../../gateway/replay/replayThread.ts';
import type { ClusterTls } from '../../gateway/tls/clusterTls.ts';
import { PageThread } from '../../replay/pageThread.ts';
import { ReplayJobs } from '../../replay/replayJobs.ts';
import { MAX_BYTES, StatementRuns } from '../../replay/statementRuns.ts';
import { databaseSettings, replaySettings } from '../settings.ts';
import type { Control, GatewayContext, Storage } from './context.ts';

/** Queries that a selection reads, and its time in milliseconds. */
const SELECTION_BOUNDS = { queries: 500_000, time: 120_000 } as const;
/** Connections of replays to each cluster. */
const CONNECTIONS = 64;

/** Starts the replays of recorded queries, over connections with the certificates of clusters. */
export function openReplays(
  { config, names, clock, logger, onClose }: GatewayContext,
  { store }: Pick<Storage, 'store'>,
  { operator, table }: Control,
  tls: ClusterTls,
): void {
  const { connectTimeout } = httpClientSettings(config, 'proxy');
  const dispatcher = new Agent({
    ...{ connections: CONNECTIONS, allowH2: false, connect: tls.connector(connectTimeout) },
    maxResponseSize: 2 * MAX_BYTES,
  });
  const pages = new PageThread();
  const history = new ReplayThread();
  onClose(() => Promise.all([dispatcher.destroy(), pages.close(), history.close()]));
  const { replays, leadership } = operator;
  const clusterOf = (name: string) => ({ name, proxyTo: table.current.clusters.get(name)?.proxyTo ?? '' });
  const parts = {
    ...{ repository: store.replays, isLeader: () => leadership.fence !== null },
    select: ({ filter, last }, started, signal) => {
      const job = { database: databaseSettings(config), settings: replaySettings(config), bounds: SELECTION_BOUNDS };
      return history.run({ ...job, range: { from: started - last, to: started }, filter }, signal);
    },
    targets: async (plan) => {
      const [control, candidate] = [clusterOf(plan.control), clusterOf(plan.candidate)];
      const account = await replays.account(plan, [control, candidate]);
      return typeof account === 'string' ? account : { control, candidate, account };
    },
    runs: (account) => new StatementRuns(names, account, dispatcher, pages),
    ...{ plans: () => replays.plans(), uids: () => replays.uids() },
    note: (plan, progress) => replays.note(plan, progress),
  } satisfies ConstructorParameters<typeof ReplayJobs>[0];
  const jobs = new ReplayJobs(parts, clock, logger);
  onClose(() => jobs.stop());
  jobs.start();
}
