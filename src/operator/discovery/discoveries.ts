import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { Logger } from 'pino';
import { ENGINE_CLUSTER } from '../../kinds/engineCluster/spec.ts';
import {
  type DiscoveredCluster,
  type DiscoveryContext,
  discoveredCluster,
  ServiceNotUsable,
} from '../../kinds/engineClusterDiscovery/discoveredCluster.ts';
import { type DiscoveryOutcome, isDiscoveryOutcome } from '../../kinds/engineClusterDiscovery/kind.ts';
import {
  DISCOVERY_FIELD_MANAGER,
  DISCOVERY_LABEL,
  discoveryOwner,
  ENGINE_CLUSTER_DISCOVERY,
  MAX_CLUSTERS,
  SERVICE_ANNOTATION,
} from '../../kinds/engineClusterDiscovery/spec.ts';
import type { DiscoveryFinding, DiscoveryReport, DiscoveryReports } from '../../kinds/kindProgram.ts';
import { type KnownService, SERVICE, type ServiceLists } from '../../kinds/serviceLookup.ts';
import type { Clock } from '../../model/clock.ts';
import type { GroupBindings } from '../../model/groupBindings.ts';
import { isRecord } from '../../model/record.ts';
import { API_GROUP, API_GROUP_VERSION, keyOf, keyOfText, keyTextOf, type Resource } from '../../model/resource.ts';
import { registryNameOf } from '../../model/resourceName.ts';
import type { RoutingTableHolder } from '../../routing/tableHolder.ts';
import type { Leadership } from '../leadership/leadership.ts';
import type { Controller } from '../reconcile/controller.ts';
import {
  DeletionGuard,
  type DeletionGuardSettings,
  type HeldDeletions,
  type OtherLosses,
} from '../reconcile/deletionGuard.ts';
import type { KubernetesSource } from '../sources/kubernetes/kubernetesSource.ts';
import { VersionConflict } from '../sources/source.ts';
import { matchingServices } from './matchingServices.ts';

/** Clusters that are written or removed concurrently. */
const MAX_WRITES = 8;
/** Time before a look, in which further changes are collected, in milliseconds. */
const COLLECT_MS = 100;
/** Time before a look after a failed one, in milliseconds. */
const RETRY_MS = 2_000;
/** Annotation of a discovered cluster: a digest of what its discovery made of the Service. */
const DIGEST_ANNOTATION = `${API_GROUP}/discovery-digest`;

type DiscoveryController = Pick<
  Controller,
  'outcomes' | 'isFromSource' | 'scheduleRefresh' | 'expectDeletion' | 'clusterDeleted' | 'whenStored'
>;

/** Dependencies of discoveries. */
export interface DiscoveriesOptions {
  readonly services: ServiceLists;
  readonly source: KubernetesSource;
  /** Leadership of this gateway. */
  readonly leadership: Leadership;
  /** Leadership of the replica that writes clusters, if it is one of all gateways of a class. */
  readonly statusLeadership: Leadership | undefined;
  readonly table: Pick<RoutingTableHolder, 'current'>;
  /** `resources.discovery.namespaces` */
  readonly allowed: readonly string[];
  readonly groups: GroupBindings;
  readonly deletionGuard: DeletionGuardSettings;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** A discovery over time: if it loses most of its Services, their clusters stay until that is confirmed. */
interface Scan {
  readonly guard: DeletionGuard;
  /** Result of the last look; null before the first. */
  report: DiscoveryReport | null;
  /** Reason why clusters could not be written the last time; null: they were. */
  failure: string | null;
}

/** A cluster as a discovery states it; `present`: as it is, or null. */
interface WantedCluster extends Pick<Resource, 'spec'> {
  readonly name: string;
  readonly service: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  readonly present: Resource | null;
}

interface ClusterPlan {
  readonly write: readonly WantedCluster[];
  readonly remove: readonly Resource[];
  /** Clusters that are as they should be, or stay as they are. */
  readonly settled: number;
  readonly conflicts: readonly DiscoveryFinding[];
  readonly refusals: readonly DiscoveryFinding[];
}

/**
 * Makes clusters of Services (docs/discovery.md). Every replica plans, so that each new leader knows of losses; the leader
 * writes. It looks again if resources, Services or settings change.
 */
export class Discoveries implements DiscoveryReports, OtherLosses {
  readonly #options: DiscoveriesOptions;
  readonly #scans = new Map<string, Scan>();
  readonly #stops: (() => unknown)[] = [];
  readonly #stop = new AbortController();
  #running: Promise<void> | null = null;
  #isRequested = false;
  #retry: NodeJS.Timeout | undefined;
  #controller: DiscoveryController | null = null;

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

  start(controller: DiscoveryController): void {
    this.#controller = controller;
    const { services, leadership, statusLeadership } = this.#options;
    for (const each of [services, leadership, statusLeadership])
      this.#stops.push(each?.onChange(() => this.request()) ?? (() => undefined));
    this.request();
  }

  get #isLeader(): boolean {
    const { leadership, statusLeadership = leadership } = this.#options;
    return statusLeadership.isLeader;
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
    if (this.#controller === null || this.#stop.signal.aborted || this.#running !== null) return;
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
      this.#options.logger.error({ err: error }, 'failed to list Services; retrying');
      return false;
    });
    if (!isComplete && !signal.aborted) this.#retry = setTimeout(() => this.request(), RETRY_MS);
  }

  /** One look at all discoveries; false if a write failed. */
  async #look(): Promise<boolean> {
    const { source } = this.#options;
    const controller = this.#controller;
    if (controller?.isFromSource !== true) return true;
    const discoveries = [...controller.outcomes.values()].filter(isDiscoveryOutcome);
    const owned = Map.groupBy(source.list(ENGINE_CLUSTER), (cluster) => discoveryOwner(cluster)?.uid ?? '');
    const uids = new Set(discoveries.map(({ resource }) => resource.metadata.uid));
    for (const [uid, { guard }] of this.#scans) {
      if (uids.has(uid)) continue;
      guard.stop();
      this.#scans.delete(uid);
    }
    const plans = discoveries.map(
      (outcome) => [outcome, this.#plan(outcome, owned.get(outcome.resource.metadata.uid) ?? [])] as const,
    );
    if (!this.#isLeader) return true;
    let isComplete = true;
    for (const [outcome, plan] of plans) {
      if (plan !== null && !(await this.#carryOut(outcome.resource, plan))) isComplete = false;
    }
    for (const [uid, clusters] of owned) {
      if (uid !== '' && !uids.has(uid) && !(await this.#removeOrphans(uid, clusters))) isComplete = false;
    }
    return isComplete;
  }

  /** Plans the clusters of a discovery, and reports on it; null: nothing changes, as it is paused or not accepted. */
  #plan({ spec, paused, resource }: DiscoveryOutcome, owned: readonly Resource[]): ClusterPlan | null {
    if (spec === null || paused) return null;
    const { services: lists, allowed, groups, clock } = this.#options;
    const { uid, namespace } = resource.metadata;
    const scan = this.#scanOf(uid);
    const { guard } = scan;
    const matching = matchingServices(lists, { spec, namespace, allowed });
    const ofClusters = owned.flatMap((cluster) => {
      const service = discoveryOwner(cluster)?.service ?? null;
      return service === null ? [] : [serviceResource(service, null)];
    });
    if (scan.report === null) guard.restore(ofClusters);
    const present = matching.services.map((each) => serviceResource(`${each.namespace}/${each.name}`, each));
    const read = new Set(present.map(keyTextOf));
    const unread = ofClusters.filter((each) => {
      const { namespace: of } = each.metadata;
      // A namespace that is no longer looked at is left on purpose; nothing is known of one that cannot be read.
      if (!matching.isInScope(of)) guard.expect(keyTextOf(each));
      return matching.isInScope(of) && !matching.isRead(of) && !read.has(keyTextOf(each));
    });
    const served = guard
      .serve([...present, ...unread])
      .filter(({ metadata }) => matching.isInScope(metadata.namespace));
    // No call deletes Services.
    guard.forgive(new Set(), clock.monotonic());
    const plan = clusterPlan(served, resource, { spec, namespace, groups }, owned, this.#holderIn(namespace, uid));
    const report: DiscoveryReport = {
      services: served.length,
      clusters: plan.settled,
      references: matching.references,
      conflicts: plan.conflicts,
      refusals: plan.refusals,
      held: guard.held.reduce((sum, { held }) => sum + held, 0),
      failure: scan.failure,
    };
    if (!isDeepStrictEqual(report, scan.report)) {
      scan.report = report;
      this.#controller?.scheduleRefresh();
    }
    return plan;
  }

  #scanOf(uid: string): Scan {
    const { deletionGuard: settings, clock, logger } = this.#options;
    return this.#scans.getOrInsertComputed(uid, () => {
      const onDue = () => this.request();
      const guard = new DeletionGuard({ kind: SERVICE, settings, isOfAnother: () => false, clock, logger, onDue });
      return { guard, report: null, failure: null };
    });
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
  async #carryOut(discovery: Resource, { write, remove }: ClusterPlan): Promise<boolean> {
    const { uid, namespace, name } = discovery.metadata;
    // Writes come first: a group is not to be without clusters in between.
    const failures = [
      ...(await this.#inTurns(write, (cluster) => this.#write(discovery, cluster))),
      ...(await this.#inTurns(remove, (cluster) => this.#remove(cluster, true))),
    ];
    const reason = reasonOf(failures);
    const failure = reason === null ? null : `failed to write discovered clusters: ${reason}`;
    const scan = this.#scanOf(uid);
    if (scan.failure !== failure) {
      scan.failure = failure;
      const facts = { discovery: `${namespace}/${name}`, reason };
      if (failure !== null) this.#options.logger.warn(facts, 'failed to write discovered clusters');
      this.#isRequested = true;
    }
    return failures.length === 0;
  }

  async #write(discovery: Resource, { name, spec, labels, annotations, present }: WantedCluster): Promise<void> {
    const { source, logger } = this.#options;
    const { namespace, uid, name: owner } = discovery.metadata;
    const cluster = {
      ...{ kind: ENGINE_CLUSTER, namespace, name, spec, labels, annotations },
      owner: { apiVersion: API_GROUP_VERSION, kind: ENGINE_CLUSTER_DISCOVERY, name: owner, uid, controller: true },
    };
    await source.applyOwned(cluster, present?.metadata.uid ?? null, DISCOVERY_FIELD_MANAGER);
    const what = present === null ? 'a Service became a cluster' : 'a cluster follows its Service';
    logger.info({ discovery: `${namespace}/${owner}`, cluster: name, proxyTo: spec.proxyTo }, what);
  }

  /** Removes a cluster as it was read. @param isMeant true: no loss, as its Service is known to be deleted */
  async #remove(cluster: Resource, isMeant: boolean): Promise<void> {
    const { source, logger } = this.#options;
    const controller = this.#controller;
    const key = keyOf(cluster);
    // A list may have resources as they were before their last status.
    const current = source.get(key);
    if (current === null || discoveryOwner(current)?.uid !== discoveryOwner(cluster)?.uid) return;
    const unexpect = isMeant ? controller?.expectDeletion(key) : undefined;
    try {
      await source.delete(key, current.metadata.resourceVersion);
    } catch (error) {
      unexpect?.();
      throw error;
    }
    logger.info({ cluster: cluster.metadata.name }, 'cluster removed with its Service or discovery');
    if (!isMeant) return;
    controller?.clusterDeleted(registryNameOf(cluster));
    await controller?.whenStored(cluster);
  }

  /**
   * Removes the clusters of a deleted discovery. If those are most of all clusters, they stay routed until that is
   * confirmed, as with any other source; Kubernetes may have collected them already.
   */
  async #removeOrphans(uid: string, clusters: readonly Resource[]): Promise<boolean> {
    const { source, logger } = this.#options;
    const [first] = clusters;
    const name = first === undefined ? undefined : discoveryOwner(first)?.name;
    if (first === undefined || name === undefined) return true;
    const { namespace } = first.metadata;
    const failures = await this.#inTurns([name], async () => {
      const owner = await source.readCurrent({ kind: ENGINE_CLUSTER_DISCOVERY, namespace, name });
      // If it is there, the next event brings it.
      if (owner?.metadata.uid === uid) return;
      const [failure] = await this.#inTurns(clusters, (cluster) => this.#remove(cluster, false));
      if (failure !== undefined) throw failure;
    });
    const reason = reasonOf(failures);
    if (reason !== null) {
      logger.warn({ discovery: `${namespace}/${name}`, reason }, 'clusters of deleted discovery not removed');
    }
    return failures.length === 0;
  }

  /** Works on each item while this replica leads, on some concurrently; returns the errors. */
  async #inTurns<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<readonly unknown[]> {
    const errors: unknown[] = [];
    for (let start = 0; start < items.length; start += MAX_WRITES) {
      if (!this.#isLeader || this.#stop.signal.aborted) break;
      const results = await Promise.allSettled(items.slice(start, start + MAX_WRITES).map(work));
      for (const result of results) if (result.status === 'rejected') errors.push(result.reason);
    }
    return errors;
  }
}

/** Message of the first error that is no conflict of versions; null: none. */
function reasonOf(errors: readonly unknown[]): string | null {
  const first = errors.find((error) => !(error instanceof VersionConflict));
  return first === undefined ? null : first instanceof Error ? first.message : String(first);
}

/** A Service as a resource, as `DeletionGuard` takes it. @param key `namespace/name` */
function serviceResource(key: string, service: KnownService | null): Resource {
  const { namespace, name } = keyOfText(`${SERVICE}/${key}`);
  const { uid = '', creationTimestamp = '' } = service ?? {};
  const metadata = { namespace, name, uid, creationTimestamp, resourceVersion: '', generation: 0 };
  return { apiVersion: API_GROUP_VERSION, kind: SERVICE, metadata, spec: { service } };
}

/**
 * Works out which clusters a discovery writes and removes: never one that it does not own. Pure.
 * @param services as `serviceResource` gives them; where only the cluster of one is known, that stays as it is
 * @param holder owner of a cluster's name as text; null: free, or the discovery itself
 */
function clusterPlan(
  services: readonly Resource[],
  discovery: Resource,
  context: DiscoveryContext,
  owned: readonly Resource[],
  holder: (name: string) => string | null,
): ClusterPlan {
  const byName = new Map(owned.map((cluster) => [cluster.metadata.name, cluster]));
  const byService = new Map(owned.map((cluster) => [discoveryOwner(cluster)?.service ?? '', cluster]));
  const wanted = new Map<string, WantedCluster>();
  const unchanged = new Map<string, string>();
  const conflicts: DiscoveryFinding[] = [];
  const refusals: DiscoveryFinding[] = [];
  let left = 0;
  const titleOf = ({ metadata }: Resource): string => `${metadata.namespace}/${metadata.name}`;
  // Those that have a cluster first: who comes later takes no name, and no place, from them.
  const rank = (each: Resource): string =>
    `${byService.has(titleOf(each)) ? 0 : 1} ${each.metadata.creationTimestamp} ${titleOf(each)}`;
  for (const each of services.toSorted((a, b) => (rank(a) < rank(b) ? -1 : 1))) {
    const key = titleOf(each);
    const service = each.spec.service as KnownService | null;
    if (service === null) {
      const present = byService.get(key);
      if (present !== undefined) unchanged.set(present.metadata.name, key);
      continue;
    }
    let cluster: DiscoveredCluster;
    try {
      cluster = discoveredCluster(service, context);
    } catch (error) {
      if (!(error instanceof ServiceNotUsable)) throw error;
      refusals.push({ service: key, reason: error.reason, message: error.message });
      continue;
    }
    const { name, spec } = cluster;
    const other = wanted.get(name)?.service ?? unchanged.get(name);
    const taken = other === undefined ? holder(name) : `the Service ${other}`;
    if (taken !== null) {
      const message = `the name ${name} is that of ${taken}`;
      conflicts.push({ service: key, reason: 'NameConflict', message });
    } else if (wanted.size >= MAX_CLUSTERS) left += 1;
    else {
      const labels = { [DISCOVERY_LABEL]: discovery.metadata.name };
      const annotations = { [SERVICE_ANNOTATION]: key, [DIGEST_ANNOTATION]: digestOfSpec(spec) };
      wanted.set(name, { name, spec, labels, annotations, present: byName.get(name) ?? null, service: key });
    }
  }
  if (left > 0) {
    const message = `${left} more Services match than the ${MAX_CLUSTERS} of which clusters are made; narrow the selector, or use another discovery`;
    refusals.push({ service: '…', reason: 'TooManyServices', message });
  }
  const write = [...wanted.values()].filter(
    ({ spec, labels, annotations, present }) =>
      !holds({ spec: present?.spec, ...present?.metadata }, { spec, labels, annotations }),
  );
  const remove = owned.filter(({ metadata: { name } }) => !wanted.has(name) && !unchanged.has(name));
  return { write, remove, settled: wanted.size - write.length + unchanged.size, conflicts, refusals };
}

/** True if a value has all that is wanted; more of it may be a default, or another user's. */
function holds(present: unknown, wanted: unknown): boolean {
  if (!isRecord(wanted)) return isDeepStrictEqual(present, wanted);
  return isRecord(present) && Object.entries(wanted).every(([field, value]) => holds(present[field], value));
}

function digestOfSpec(spec: Resource['spec']): string {
  return createHash('sha256').update(JSON.stringify(spec)).digest('base64url').slice(0, 16);
}
