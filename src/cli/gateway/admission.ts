import { LeasedSlots } from '../../admission/leasedSlots.ts';
import type { WaitingQueriesCount } from '../../api/clusters.ts';
import type { Admission } from '../../gateway/admission/admission.ts';
import { AdmissionChain } from '../../gateway/admission/admissionChain.ts';
import { AdmissionMetrics } from '../../gateway/admission/admissionMetrics.ts';
import { measureDifference } from '../../gateway/admission/clusterDifference.ts';
import { ClusterWait } from '../../gateway/admission/clusterWait.ts';
import { DeadReplicas } from '../../gateway/admission/deadReplicas.ts';
import { FairAdmissionQueue } from '../../gateway/admission/fairAdmissionQueue.ts';
import { LimitedAdmission } from '../../gateway/admission/limitedAdmission.ts';
import { QueueCounts } from '../../gateway/admission/queueCounts.ts';
import { QueueMetrics } from '../../gateway/admission/queueMetrics.ts';
import { RunningSlots } from '../../gateway/admission/runningSlots.ts';
import { SlotHeartbeats } from '../../gateway/admission/slotHeartbeats.ts';
import type { QueueOptions } from '../../gateway/dataPlaneComposition.ts';
import type { RunningQueries } from '../../gateway/ownership/runningQueries.ts';
import { isSameEngine } from '../../routing/routingTable.ts';
import type { GatewayContext } from './context.ts';
import type { Control } from './control.ts';
import type { Storage } from './storage.ts';

/** Maximum delay of changed limits while no query arrives. */
const REFRESH_MS = 1_000;

/** Admission of submissions, and counts of queued ones. */
export interface AdmissionParts {
  readonly admission: Admission;
  /** Number of submissions queued for a group, on all replicas. */
  readonly countWaiting: WaitingQueriesCount;
  /** Records queries that clients follow, and releases the slots of ended queries. */
  readonly runningQueries: Pick<RunningQueries, 'noteActivity' | 'noteEnd'>;
}

/**
 * Creates the admission steps: an available cluster, then slots of limits.
 * @param kept stores submissions that wait for long; null if disabled
 */
export function openAdmission(
  context: GatewayContext,
  { table, counts }: Pick<Control, 'table' | 'counts'>,
  { store, runningQueries }: Pick<Storage, 'store' | 'runningQueries'>,
  kept: QueueOptions | null,
): AdmissionParts {
  const { config, names, replica, logger, metrics, clock, random, onClose } = context;
  runningQueries.compareClusters((one, other) => isSameEngine(table.current, one, other));
  const ledger = new LeasedSlots({ replica, clock, random });
  const { endedQueries, slotQueries } = store;
  measureDifference(metrics, table, ledger);
  const running = new RunningSlots({
    replica,
    table,
    endedQueries,
    runningQueries: store.runningQueries,
    slotQueries,
    clock,
    logger,
  });
  const deadReplicas = new DeadReplicas({
    replica,
    repository: slotQueries,
    running,
    ledger,
    demandOf: (key) => limits.demandOf(key),
    clock,
    logger,
  });
  const beats = new SlotHeartbeats({
    replica,
    ledger,
    running,
    deadReplicas,
    repository: store.slots,
    slotQueries,
    clock,
    logger,
  });
  const queueCounts = new QueueCounts(ledger);
  const limits = new LimitedAdmission({
    names,
    table,
    ledger,
    running,
    queueCounts,
    counts,
    room: new FairAdmissionQueue(kept !== null, () => clock.monotonic()),
    metrics: new AdmissionMetrics(metrics, ledger),
    clock,
    isDatabaseAway: () => beats.isFailing,
    settings: {
      onDatabaseUnavailable: config.admission.onDatabaseUnavailable,
      defaultRoutingGroup: config.routing.defaultRoutingGroup,
    },
  });
  const refreshing = setInterval(() => {
    limits.refresh();
    beats.wake();
  }, REFRESH_MS).unref();
  onClose(() => {
    clearInterval(refreshing);
    return beats.stop();
  });
  const clusterWait = new ClusterWait({
    table,
    queueCounts,
    counts,
    defaultGroup: config.routing.defaultRoutingGroup,
  });
  const queue = new QueueMetrics({ registry: metrics, table, clock });
  const chain = queue.measured(new AdmissionChain([clusterWait, limits], () => clock.monotonic()));
  return {
    admission: {
      admit: (request) => chain.admit(request),
      countBound: (request) => limits.countBound(request),
      hasRoom: (cluster) => limits.hasRoom(cluster),
      whyItWaits: (request) => limits.whyItWaits(request),
      watchCoordinators: (isSuperseded) => limits.watchCoordinators(isSuperseded),
    },
    countWaiting: async (group) => {
      const here = queue.waiting(group);
      if (kept === null) return { count: here, complete: true };
      try {
        return { count: here + (await kept.repository.countElsewhere(group, kept.replica)), complete: true };
      } catch (error) {
        logger.debug({ err: error, group }, 'failed to count queries queued at other replicas');
        return { count: here, complete: false };
      }
    },
    runningQueries: {
      noteActivity(queryId, cluster, isNew) {
        runningQueries.noteActivity(queryId, cluster, isNew);
        running.noteActivity(queryId, cluster, isNew === true);
      },
      noteEnd(queryId, cluster) {
        runningQueries.noteEnd(queryId, cluster);
        running.noteEnd(queryId, cluster);
      },
    },
  };
}
