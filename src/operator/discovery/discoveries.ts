import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { ENGINE_CLUSTER } from '../../kinds/engineCluster/spec.ts';
import { type DiscoveryOutcome, isDiscoveryOutcome } from '../../kinds/engineClusterDiscovery/kind.ts';
import {
  DISCOVERY_FIELD_MANAGER,
  discoveryOwner,
  ENGINE_CLUSTER_DISCOVERY,
} from '../../kinds/engineClusterDiscovery/spec.ts';
import type { DiscoveryReport, DiscoveryReports } from '../../kinds/kindProgram.ts';
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

/** Clusters that are written or removed concurrently. */
const MAX_WRITES = 8;
/** Time before a look, in which further changes are collected, in milliseconds. */
const COLLECT_MS = 100;
/** Time before a look after a failed one, in milliseconds. */
const RETRY_MS = 2_000;

/** Dependencies of discoveries. */
export interface DiscoveriesOptions {
  readonly services: ServiceLists;
  /** The gateway's own resources, and how what it owns is written. */
  readonly source: Pick<SelectedSource, 'list' | 'get' | 'isOfAnother' | 'complete' | 'delete'>;
  readonly writer: Pick<KubernetesSource, 'applyOwned' | 'readCurrent'>;
  readonly controller: () => Pick<
    Controller,
    'outcomes' | 'isFromSource' | 'scheduleRefresh' | 'expectDeletion' | 'clusterDeleted' | 'whenStored'
  >;
  /** Leadership of the replica that writes clusters: one of all gateways of a class. */
  readonly leadership: Pick<Leadership, 'isLeader' | 'onChange'>;
  /** Leadership of this gateway, on which the other depends. */
  readonly ownLeadership: Pick<Leadership, 'onChange'>;
  readonly table: Pick<RoutingTableHolder, 'current'>;
  /** `resources.discovery.namespaces` */
  readonly allowed: readonly string[];
  readonly groups: GroupBindings;
  readonly deletionGuard: DeletionGuardSettings;
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * Makes clusters of Services (docs/discovery.md). Every replica plans, so that each new leader knows of losses; the leader
 * writes. It looks again if resources, Services or settings change.
 */
export class Discoveries implements DiscoveryReports, OtherLosses {
  readonly #options: DiscoveriesOptions;
  readonly #scans = new Map<string, DiscoveryScan>();
  readonly #stops: (() => unknown)[] = [];
  readonly #stop = new AbortController();
  #running: Promise<void> | null = null;
  #isRequested = false;
  #retry: NodeJS.Timeout | undefined;

  constructor(options: DiscoveriesOptions) {
    this.#options = options;
  }

  report(uid: string): DiscoveryReport | null {
    return this.#scans.get(uid)?.report ?? null;
  }

  get losses(): readonly HeldDeletions[] {
    return [...this.#scans.values()].flatMap(({ guard }) => guard.held);
  }

  confirm(): void {
    for (const { guard } of this.#scans.values()) guard.confirm();
    this.request();
  }

  start(): void {
    const { services, leadership, ownLeadership } = this.#options;
    for (const each of [ownLeadership, services, leadership]) this.#stops.push(each.onChange(() => this.request()));
    this.request();
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    clearTimeout(this.#retry);
    for (const stop of this.#stops.splice(0)) stop();
    for (const { guard } of this.#scans.values()) guard.stop();
    await this.#running;
  }

  /** Looks at all discoveries soon; many calls become one look. */
  request(): void {
    this.#isRequested = true;
    if (this.#stop.signal.aborted || this.#running !== null) return;
    this.#running = this.#run().finally(() => {
      this.#running = null;
      if (this.#isRequested) this.request();
    });
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    await sleep(COLLECT_MS, undefined, { signal }).catch(() => undefined);
    if (signal.aborted) return;
    this.#isRequested = false;
    clearTimeout(this.#retry);
    const isComplete = await this.#look().catch((error: unknown) => {
      this.#options.logger.error({ err: error }, 'Services could not be looked at; trying again');
      return false;
    });
    if (!isComplete && !signal.aborted) this.#retry = setTimeout(() => this.request(), RETRY_MS);
  }

  /** One look at all discoveries; false if a write failed. */
  async #look(): Promise<boolean> {
    const { source, leadership } = this.#options;
    const controller = this.#options.controller();
    if (!controller.isFromSource) return true;
    const discoveries = [...controller.outcomes.values()].filter(isDiscoveryOutcome);
    const owned = Map.groupBy(source.list(ENGINE_CLUSTER), (cluster) => discoveryOwner(cluster)?.uid ?? '');
    const uids = new Set(discoveries.map(({ resource }) => resource.metadata.uid));
    for (const [uid, { guard }] of this.#scans) {
      if (uids.has(uid)) continue;
      guard.stop();
      this.#scans.delete(uid);
    }
    const plans = discoveries.map((outcome) => [outcome, this.#plan(outcome, owned)] as const);
    if (!leadership.isLeader) return true;
    let isComplete = true;
    for (const [outcome, plan] of plans) {
      if (plan !== null && !(await this.#carryOut(outcome, plan))) isComplete = false;
    }
    for (const [uid, clusters] of owned) {
      if (uid !== '' && !uids.has(uid) && !(await this.#removeOrphans(uid, clusters))) isComplete = false;
    }
    return isComplete;
  }

  /** The plan of a discovery; null: nothing changes, as it is paused or not accepted. */
  #plan(
    { spec, paused, resource }: DiscoveryOutcome,
    owned: ReadonlyMap<string, readonly Resource[]>,
  ): ClusterPlan | null {
    if (spec === null || paused) return null;
    const { services, allowed, groups, deletionGuard, clock, logger } = this.#options;
    const { uid, namespace } = resource.metadata;
    const scan =
      this.#scans.get(uid) ??
      new DiscoveryScan({ settings: deletionGuard, clock, logger, onDue: () => this.request() });
    this.#scans.set(uid, scan);
    const before = scan.report;
    const context = { spec, namespace, groups };
    const plan = scan.look({
      ...{ discovery: resource, context, owned: owned.get(uid) ?? [], holder: this.#holderIn(namespace, uid) },
      ...{ lists: services, allowed },
    });
    if (scan.report !== before) this.#options.controller().scheduleRefresh();
    return plan;
  }

  /** Finds the owner of a cluster's name: another resource, in any namespace, or a row of Trino Gateway. */
  #holderIn(namespace: string, uid: string): (name: string) => string | null {
    const { source, table } = this.#options;
    const others = source.list(ENGINE_CLUSTER).filter((cluster) => discoveryOwner(cluster)?.uid !== uid);
    const holders = new Map(others.map((cluster) => [registryNameOf(cluster), cluster]));
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

  /** Writes and removes what a plan states; false if something failed. */
  async #carryOut({ resource }: DiscoveryOutcome, { write, remove }: ClusterPlan): Promise<boolean> {
    const { uid, namespace, name } = resource.metadata;
    // Writes come first: a group is not to be without clusters in between.
    const failures = [
      ...(await this.#inTurns(write, (cluster) => this.#write(resource, cluster))),
      ...(await this.#inTurns(remove, (cluster) => this.#remove(cluster, true))),
    ];
    const [first = null] = failures.filter((error) => !(error instanceof VersionConflict)).map(messageOf);
    const failure = first === null ? null : `clusters could not be written: ${first}`;
    const scan = this.#scans.get(uid);
    if (scan !== undefined && scan.failure !== failure) {
      scan.failure = failure;
      const discovery = `${namespace}/${name}`;
      if (failure !== null) this.#options.logger.warn({ discovery, reason: first }, 'clusters could not be written');
      this.#isRequested = true;
    }
    return failures.length === 0;
  }

  async #write(discovery: Resource, { name, spec, labels, annotations, present }: WantedCluster): Promise<void> {
    const { source, writer, logger } = this.#options;
    const { namespace, uid, name: owner } = discovery.metadata;
    const cluster = source.complete({
      ...{ kind: ENGINE_CLUSTER, namespace, name, spec, labels, annotations },
      owner: { apiVersion: API_GROUP_VERSION, kind: ENGINE_CLUSTER_DISCOVERY, name: owner, uid, controller: true },
    });
    await writer.applyOwned(cluster, present?.metadata.uid ?? null, DISCOVERY_FIELD_MANAGER);
    const what = present === null ? 'a Service became a cluster' : 'a cluster follows its Service';
    logger.info({ discovery: `${namespace}/${owner}`, cluster: name, proxyTo: spec.proxyTo }, what);
  }

  /** Removes a cluster as it was read. @param isMeant true: no loss, as its Service is known to be deleted */
  async #remove(cluster: Resource, isMeant: boolean): Promise<void> {
    const { source, logger } = this.#options;
    const controller = this.#options.controller();
    const key = keyOf(cluster);
    // A list may have resources as they were before their last status.
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
   * Removes the clusters of a deleted discovery. If those are most of all clusters, they stay routed until that is
   * confirmed, as with any other source; Kubernetes may have collected them already.
   */
  async #removeOrphans(uid: string, clusters: readonly Resource[]): Promise<boolean> {
    const { writer, logger } = this.#options;
    const [first] = clusters;
    const name = first === undefined ? undefined : discoveryOwner(first)?.name;
    if (first === undefined || name === undefined) return true;
    const { namespace } = first.metadata;
    const failures = await this.#inTurns([name], async () => {
      const owner = await writer.readCurrent({ kind: ENGINE_CLUSTER_DISCOVERY, namespace, name });
      // If it is there, the next event brings it.
      if (owner?.metadata.uid === uid) return;
      const [failure] = await this.#inTurns(clusters, (cluster) => this.#remove(cluster, false));
      if (failure !== undefined) throw failure;
    });
    const [reason] = failures.filter((error) => !(error instanceof VersionConflict)).map(messageOf);
    if (reason !== undefined) {
      logger.warn({ discovery: `${namespace}/${name}`, reason }, 'clusters of a discovery that is gone stay for now');
    }
    return failures.length === 0;
  }

  /** Works on each item while this replica leads, on some concurrently; returns the errors. */
  async #inTurns<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<readonly unknown[]> {
    const errors: unknown[] = [];
    for (let start = 0; start < items.length; start += MAX_WRITES) {
      if (!this.#options.leadership.isLeader || this.#stop.signal.aborted) break;
      const results = await Promise.allSettled(items.slice(start, start + MAX_WRITES).map(work));
      for (const result of results) if (result.status === 'rejected') errors.push(result.reason);
    }
    return errors;
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
