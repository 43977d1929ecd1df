import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { ENGINE_CLUSTER } from '../../kinds/engineCluster/spec.ts';
import { type DiscoveryOutcome, isDiscoveryOutcome } from '../../kinds/engineClusterDiscovery/discoveryProgram.ts';
import type { DiscoveryReport, DiscoveryReports } from '../../kinds/engineClusterDiscovery/discoveryReport.ts';
import { DISCOVERY_FIELD_MANAGER, discoveryOwner } from '../../kinds/engineClusterDiscovery/ownership.ts';
import { ENGINE_CLUSTER_DISCOVERY, type EngineClusterDiscoverySpec } from '../../kinds/engineClusterDiscovery/spec.ts';
import type { ServiceLists } from '../../kinds/serviceLookup.ts';
import type { Clock } from '../../model/clock.ts';
import type { GroupBindings } from '../../model/groupBindings.ts';
import { API_GROUP_VERSION, keyOf, type Resource } from '../../model/resource.ts';
import { registryNameOf } from '../../model/resourceName.ts';
import type { RoutingTableHolder } from '../../routing/tableHolder.ts';
import type { Leadership } from '../leadership/leadership.ts';
import type { Controller } from '../reconcile/controller.ts';
import type { DeletionGuardSettings, HeldDeletions, OtherLosses } from '../reconcile/deletionGuard.ts';
import type { KubernetesSource } from '../sources/kubernetes/kubernetesSource.ts';
import type { SelectedSource } from '../sources/selectedSource.ts';
import { VersionConflict } from '../sources/source.ts';
import type { ClusterPlan, WantedCluster } from './clusterPlan.ts';
import { DiscoveryScan } from './discoveryScan.ts';

/** Clusters that are written or removed at once. */
const MAX_WRITES = 8;
/** Time before a look after one that failed, doubled up to the greatest, in milliseconds. */
const RETRY_MS = 1_000;
const MAX_RETRY_MS = 60_000;
/** A look is followed by a pause of this many times what it took, at most so many milliseconds. */
const PAUSE_FACTOR = 2;
const MAX_PAUSE_MS = 500;

/** What discoveries work with. */
export interface DiscoveriesOptions {
  readonly services: ServiceLists;
  /** The gateway's own resources, and how what it owns is written. */
  readonly source: Pick<SelectedSource, 'list' | 'get' | 'isOfAnother' | 'complete' | 'delete'>;
  readonly writer: Pick<KubernetesSource, 'applyOwned' | 'readCurrent'>;
  readonly controller: () => Pick<
    Controller,
    'outcomes' | 'isFromSource' | 'scheduleRefresh' | 'expectDeletion' | 'clusterDeleted' | 'whenStored'
  >;
  /** Who writes clusters: one replica of one of the gateways of a class. */
  readonly leadership: Pick<Leadership, 'isLeader' | 'onChange'>;
  /** Who leads this gateway, which that depends on. */
  readonly ownLeadership: Pick<Leadership, 'onChange'>;
  readonly table: Pick<RoutingTableHolder, 'current'>;
  /** `resources.discovery.namespaces`, as it is now. */
  readonly allowed: () => readonly string[];
  readonly groups: () => GroupBindings;
  readonly deletionGuard: () => DeletionGuardSettings;
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * Makes clusters of Services (docs/discovery.md). Every replica works out what is discovered, so that each one that comes to
 * lead knows of losses; the leader writes. It looks again whenever resources, Services or settings change.
 */
export class Discoveries implements DiscoveryReports, OtherLosses {
  readonly #options: DiscoveriesOptions;
  /** By uid of the discovery. */
  readonly #scans = new Map<string, DiscoveryScan>();
  /** By uid: why its clusters could not be written the last time. */
  readonly #failures = new Map<string, string>();
  readonly #stops: (() => unknown)[] = [];
  #running: Promise<void> | null = null;
  #isRequested = false;
  readonly #stop = new AbortController();
  #failedLooks = 0;
  #retry: NodeJS.Timeout | undefined;

  constructor(options: DiscoveriesOptions) {
    this.#options = options;
  }

  report(uid: string): DiscoveryReport | null {
    return this.#scans.get(uid)?.report ?? null;
  }

  get losses(): readonly HeldDeletions[] {
    return this.#scans
      .values()
      .map((scan) => scan.held)
      .filter((loss) => loss !== null)
      .toArray();
  }

  confirm(): void {
    for (const scan of this.#scans.values()) scan.confirm();
    this.request();
  }

  start(): void {
    const { services, leadership, ownLeadership } = this.#options;
    this.#stops.push(
      ownLeadership.onChange(() => this.request()),
      services.onChange(() => this.request()),
      leadership.onChange(() => this.request()),
    );
    this.request();
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    clearTimeout(this.#retry);
    for (const stop of this.#stops.splice(0)) stop();
    for (const scan of this.#scans.values()) scan.stop();
    await this.#running;
  }

  /** Has everything looked at soon; many calls become one look. */
  request(): void {
    this.#isRequested = true;
    if (this.#stop.signal.aborted || this.#running !== null) return;
    this.#running = this.#run().finally(() => {
      this.#running = null;
      if (this.#isRequested) this.request();
    });
  }

  async #run(): Promise<void> {
    // What comes with one event of the API server is looked at together.
    await new Promise((resolve) => setImmediate(resolve));
    while (this.#isRequested && !this.#stop.signal.aborted) {
      this.#isRequested = false;
      clearTimeout(this.#retry);
      let isComplete = false;
      const { clock } = this.#options;
      const started = clock.monotonic();
      try {
        isComplete = await this.#look();
      } catch (error) {
        this.#options.logger.error({ err: error }, 'Services could not be looked at; trying again');
      }
      if (isComplete) this.#failedLooks = 0;
      else this.#retryLater();
      // Thousands of Services that change all the time leave time for everything else.
      const pauseMs = Math.min(MAX_PAUSE_MS, PAUSE_FACTOR * (clock.monotonic() - started));
      if (this.#isRequested && pauseMs > 1)
        await sleep(pauseMs, undefined, { signal: this.#stop.signal }).catch(() => undefined);
    }
  }

  #retryLater(): void {
    if (this.#stop.signal.aborted) return;
    const waitMs = Math.min(MAX_RETRY_MS, RETRY_MS * 2 ** this.#failedLooks);
    this.#failedLooks = Math.min(this.#failedLooks + 1, 16);
    this.#retry = setTimeout(() => this.request(), waitMs);
  }

  /** One look at all discoveries; false when something could not be written. */
  async #look(): Promise<boolean> {
    const controller = this.#options.controller();
    if (!controller.isFromSource) return true;
    const { source, leadership } = this.#options;
    const discoveries = [...controller.outcomes.values()].filter(isDiscoveryOutcome);
    const owned = Map.groupBy(source.list(ENGINE_CLUSTER), (cluster) => discoveryOwner(cluster)?.uid ?? '');
    this.#forgetAllBut(new Set(discoveries.map(({ resource }) => resource.metadata.uid)));
    const plans = discoveries.flatMap((outcome) => {
      const plan = this.#plan(outcome, owned.get(outcome.resource.metadata.uid) ?? []);
      return plan === null ? [] : [{ outcome, plan }];
    });
    if (!leadership.isLeader) return true;
    let isComplete = true;
    for (const { outcome, plan } of plans) if (!(await this.#carryOut(outcome, plan))) isComplete = false;
    const uids = new Set(discoveries.map(({ resource }) => resource.metadata.uid));
    for (const [uid, clusters] of owned) {
      if (uid !== '' && !uids.has(uid) && !(await this.#removeOrphans(uid, clusters))) isComplete = false;
    }
    return isComplete;
  }

  #forgetAllBut(uids: ReadonlySet<string>): void {
    for (const [uid, scan] of this.#scans) {
      if (uids.has(uid)) continue;
      scan.stop();
      this.#scans.delete(uid);
      this.#failures.delete(uid);
    }
  }

  /** What a discovery wants; null: nothing changes, as it is paused or not accepted. */
  #plan(outcome: DiscoveryOutcome, owned: readonly Resource[]): ClusterPlan | null {
    const { spec, paused, resource } = outcome;
    if (spec === null || paused) return null;
    const { services, allowed, groups, deletionGuard, clock, logger } = this.#options;
    const { uid, namespace } = resource.metadata;
    const scan =
      this.#scans.get(uid) ??
      new DiscoveryScan({ settings: deletionGuard, clock, logger, onDue: () => this.request() });
    this.#scans.set(uid, scan);
    const before = scan.report;
    const plan = scan.look(
      {
        outcome: outcome as DiscoveryOutcome & { readonly spec: EngineClusterDiscoverySpec },
        lists: services,
        allowed: allowed(),
        groups: groups(),
        owned,
        holder: this.#holderIn(namespace, uid),
      },
      this.#failures.get(uid) ?? null,
    );
    if (scan.report !== before) this.#options.controller().scheduleRefresh();
    return plan;
  }

  /** Who has names of clusters: other resources, wherever they are, and rows of a gateway that ran before. */
  #holderIn(namespace: string, uid: string): (name: string) => string | null {
    const { source, table } = this.#options;
    const holders = new Map<string, Resource>();
    for (const cluster of source.list(ENGINE_CLUSTER)) {
      if (discoveryOwner(cluster)?.uid === uid) continue;
      holders.set(registryNameOf(cluster), cluster);
    }
    return (name) => {
      const key = { kind: ENGINE_CLUSTER, namespace, name };
      const there = source.get(key);
      const holder = there !== null && discoveryOwner(there)?.uid !== uid ? there : holders.get(name);
      if (holder !== undefined) return `the ${ENGINE_CLUSTER} ${holder.metadata.namespace}/${holder.metadata.name}`;
      if (source.isOfAnother(key)) return `the ${ENGINE_CLUSTER} ${namespace}/${name} of another gateway`;
      const isRow = table.current.clusters.get(name)?.origin === 'row';
      return isRow ? 'a row of the database without a resource' : null;
    };
  }

  /** Writes and removes what a plan says; false when something failed. */
  async #carryOut(outcome: DiscoveryOutcome, { write, remove }: ClusterPlan): Promise<boolean> {
    const failures: string[] = [];
    const attempt = async (name: string, work: () => Promise<unknown>): Promise<void> => {
      if (!this.#options.leadership.isLeader || this.#stop.signal.aborted) return;
      try {
        await work();
      } catch (error) {
        const message = error instanceof Error ? error.message : String(error);
        failures.push(error instanceof VersionConflict ? '' : `${name}: ${message}`);
      }
    };
    // What is to be there comes before what is not: a group shall not be without clusters in between.
    await inTurns(write, (cluster) => attempt(cluster.name, () => this.#write(outcome, cluster)));
    await inTurns(remove, (cluster) => attempt(cluster.metadata.name, () => this.#remove(cluster, true)));
    const { uid, namespace, name } = outcome.resource.metadata;
    const [first] = failures.filter((failure) => failure !== '');
    const before = this.#failures.get(uid);
    if (first === undefined) this.#failures.delete(uid);
    else {
      this.#failures.set(uid, `clusters could not be written: ${first}`);
      if (this.#failures.get(uid) !== before) {
        this.#options.logger.warn(
          { discovery: `${namespace}/${name}`, reason: first },
          'clusters could not be written',
        );
      }
    }
    if (this.#failures.get(uid) !== before) this.#isRequested = true;
    return failures.length === 0;
  }

  async #write(
    { resource }: DiscoveryOutcome,
    { name, spec, labels, annotations, present }: WantedCluster,
  ): Promise<void> {
    const { source, writer, logger } = this.#options;
    const { namespace, uid, name: owner } = resource.metadata;
    const cluster = source.complete({
      kind: ENGINE_CLUSTER,
      namespace,
      name,
      spec,
      labels,
      annotations,
      owner: { apiVersion: API_GROUP_VERSION, kind: ENGINE_CLUSTER_DISCOVERY, name: owner, uid, controller: true },
    });
    await writer.applyOwned(cluster, present?.metadata.uid ?? null, DISCOVERY_FIELD_MANAGER);
    const what = present === null ? 'a Service became a cluster' : 'a cluster follows its Service';
    logger.info({ discovery: `${namespace}/${owner}`, cluster: name, proxyTo: spec.proxyTo }, what);
  }

  /** Removes a cluster as it was read. @param isMeant whether it is no loss, as its Service is known to be gone */
  async #remove(cluster: Resource, isMeant: boolean): Promise<void> {
    const { source, logger } = this.#options;
    const controller = this.#options.controller();
    const key = keyOf(cluster);
    // The list has each as it was when anything but its status changed last.
    const current = source.get(key);
    if (current === null || discoveryOwner(current)?.uid !== discoveryOwner(cluster)?.uid) return;
    const unexpect = isMeant ? controller.expectDeletion(key) : () => undefined;
    try {
      await source.delete(key, current.metadata.resourceVersion);
    } catch (error) {
      unexpect();
      throw error;
    }
    logger.info({ cluster: cluster.metadata.name }, 'a cluster was removed with its Service or discovery');
    if (!isMeant) return;
    controller.clusterDeleted(registryNameOf(cluster));
    await controller.whenStored(cluster);
  }

  /**
   * Removes the clusters of a discovery that is gone. Where that is most of all clusters, they stay routed until it is
   * confirmed, as with any other source; Kubernetes may have collected them already.
   */
  async #removeOrphans(uid: string, clusters: readonly Resource[]): Promise<boolean> {
    const [first] = clusters;
    const name = first === undefined ? undefined : discoveryOwner(first)?.name;
    if (first === undefined || name === undefined) return true;
    const { namespace } = first.metadata;
    const { writer, logger } = this.#options;
    try {
      const owner = await writer.readCurrent({ kind: ENGINE_CLUSTER_DISCOVERY, namespace, name });
      // It is there: what is known of it comes with the next event.
      if (owner?.metadata.uid === uid) return true;
      await inTurns(clusters, async (cluster) => {
        if (!this.#options.leadership.isLeader || this.#stop.signal.aborted) return;
        await this.#remove(cluster, false);
      });
      return true;
    } catch (error) {
      if (!(error instanceof VersionConflict)) {
        const reason = error instanceof Error ? error.message : String(error);
        logger.warn({ discovery: `${namespace}/${name}`, reason }, 'clusters of a discovery that is gone stay for now');
      }
      return false;
    }
  }
}

/** Does work on each, some at once. Rejects with the first failure, when all have ended. */
async function inTurns<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const waiting = items.values();
  const workers = Array.from({ length: Math.min(MAX_WRITES, items.length) }, async () => {
    for (const item of waiting) await work(item);
  });
  const results = await Promise.allSettled(workers);
  const failure = results.find((result) => result.status === 'rejected');
  if (failure !== undefined) throw failure.reason;
}
