import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { ENGINE_CLUSTER } from '../../kinds/engineCluster/spec.ts';
import {
  type DiscoveredCluster,
  discoveredCluster,
  ServiceNotUsable,
} from '../../kinds/engineClusterDiscovery/discoveredCluster.ts';
import { type DiscoveryOutcome, isDiscoveryOutcome } from '../../kinds/engineClusterDiscovery/kind.ts';
import {
  DISCOVERY_FIELD_MANAGER,
  DISCOVERY_LABEL,
  discoveryOwner,
  ENGINE_CLUSTER_DISCOVERY,
  type EngineClusterDiscoverySpec,
  MAX_CLUSTERS,
  SERVICE_ANNOTATION,
} from '../../kinds/engineClusterDiscovery/spec.ts';
import type { DiscoveryReport, DiscoveryReports } from '../../kinds/kindProgram.ts';
import { conditionState, type State } from '../../kinds/outcome.ts';
import { ALL_NAMESPACES, type KnownService, SERVICE, type ServiceLists } from '../../kinds/serviceLookup.ts';
import { matchesLabels } from '../../model/labelSelector.ts';
import { isRecord } from '../../model/record.ts';
import { API_GROUP, API_GROUP_VERSION, keyOf, keyTextOf, type Resource } from '../../model/resource.ts';
import { registryNameOf } from '../../model/resourceName.ts';
import type { Leadership } from '../leadership/leadership.ts';
import type { KubernetesComponents, OperatorOptions } from '../operatorOptions.ts';
import { DeletionGuard, type HeldDeletions, type OtherLosses } from '../reconcile/deletionGuard.ts';
import { digestOfJson, type ResourceWrites } from '../registry/resourceWrites.ts';
import { type OwnedResource, VersionConflict } from '../sources/source.ts';

/** Clusters that are written or removed concurrently. */
const MAX_WRITES = 8;
/** Time before a look, in which further changes are collected, in milliseconds. */
const COLLECT_MS = 100;
/** Time before a look after a failed one, in milliseconds. */
const RETRY_MS = 2_000;
/** Annotation of a discovered cluster: a digest of what its discovery made of the Service. */
const DIGEST_ANNOTATION = `${API_GROUP}/discovery-digest`;
/** Findings that a condition names. */
const LISTED = 5;
/** Reason of a list that is being made. */
const NOT_LISTED = 'not listed yet';

/** A discovery over time: if it loses most of its Services, their clusters stay until that is confirmed. */
interface Scan {
  readonly guard: DeletionGuard;
  /** Result of the last look; null before the first. */
  report: DiscoveryReport | null;
  /** Reason why clusters could not be written the last time; null: they were. */
  reason: string | null;
}

/** A Service that gives no cluster. */
interface Finding {
  /** `namespace/name`. */
  readonly service: string;
  readonly reason: string;
  readonly message: string;
}

interface ClusterPlan {
  /** With the uid of the cluster that is there; null creates it. */
  readonly write: readonly { readonly cluster: OwnedResource; readonly uid: string | null }[];
  readonly remove: readonly Resource[];
  /** Clusters that are as they should be, or stay as they are. */
  readonly settled: number;
  readonly conflicts: readonly Finding[];
  readonly refusals: readonly Finding[];
}

/**
 * Makes clusters of Services (docs/discovery.md). Every replica plans, so that each new leader knows of losses; the leader
 * writes. It looks again if resources, Services or settings change.
 */
export class Discoveries implements DiscoveryReports, OtherLosses {
  readonly #options: OperatorOptions;
  readonly #kubernetes: KubernetesComponents;
  readonly #leadership: Leadership;
  /** By uid of the discovery. */
  readonly #scans = new Map<string, Scan>();
  readonly #stops: (() => unknown)[] = [];
  readonly #stop = new AbortController();
  #running: Promise<void> | null = null;
  #isRequested = false;
  #retry: NodeJS.Timeout | undefined;
  #writes: ResourceWrites | null = null;

  constructor(options: OperatorOptions, kubernetes: KubernetesComponents, leadership: Leadership) {
    this.#options = options;
    this.#kubernetes = kubernetes;
    this.#leadership = leadership;
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

  start(writes: ResourceWrites): void {
    this.#writes = writes;
    const { services, statusLeadership } = this.#kubernetes;
    for (const each of [services, this.#leadership, statusLeadership])
      if (each !== undefined) this.#stops.push(each.onChange(() => this.request()));
    this.request();
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    clearTimeout(this.#retry);
    for (const stop of this.#stops) stop();
    for (const { guard } of this.#scans.values()) guard.stop();
    await this.#running;
  }

  /** Looks at all discoveries soon; many calls become one look. */
  request(): void {
    this.#isRequested = true;
    if (this.#writes === null || this.#stop.signal.aborted) return;
    this.#running ??= this.#run(this.#writes).finally(() => {
      this.#running = null;
      if (this.#isRequested) this.request();
    });
  }

  async #run(writes: ResourceWrites): Promise<void> {
    const { signal } = this.#stop;
    await sleep(COLLECT_MS, undefined, { signal }).catch(() => undefined);
    if (signal.aborted) return;
    this.#isRequested = false;
    clearTimeout(this.#retry);
    const isComplete = await this.#look(writes).catch((error: unknown) => {
      this.#options.logger.error({ err: error }, 'failed to list Services; retrying');
      return false;
    });
    if (!isComplete && !signal.aborted) this.#retry = setTimeout(() => this.request(), RETRY_MS);
  }

  get #isLeader(): boolean {
    return (this.#kubernetes.statusLeadership ?? this.#leadership).isLeader;
  }

  /** One look at all discoveries; false if a write failed. */
  async #look(writes: ResourceWrites): Promise<boolean> {
    if (!writes.controller.isFromSource) return true;
    const discoveries = [...writes.controller.outcomes.values()].filter(isDiscoveryOutcome);
    const clusters = this.#kubernetes.source.list(ENGINE_CLUSTER);
    const owned = Map.groupBy(clusters, (cluster) => discoveryOwner(cluster)?.uid ?? '');
    const uids = new Set(discoveries.map(({ resource }) => resource.metadata.uid));
    for (const [uid, { guard }] of this.#scans) {
      if (uids.has(uid)) continue;
      guard.stop();
      this.#scans.delete(uid);
    }
    const works = discoveries.map((outcome) => {
      const { uid, namespace, name } = outcome.resource.metadata;
      const plan = this.#plan(outcome, owned.get(uid) ?? [], writes);
      return async () =>
        plan === null || (await this.#carryOut(`${namespace}/${name}`, plan, this.#scanOf(uid), writes));
    });
    for (const [uid, orphans] of owned) {
      if (uid !== '' && !uids.has(uid)) works.push(() => this.#removeOrphans(uid, orphans, writes));
    }
    let isComplete = true;
    for (const work of this.#isLeader ? works : []) if (!(await work())) isComplete = false;
    return isComplete;
  }

  /** Plans the clusters of a discovery, and reports on it; null: nothing changes, as it is paused or not accepted. */
  #plan(outcome: DiscoveryOutcome, owned: readonly Resource[], writes: ResourceWrites): ClusterPlan | null {
    const { spec, paused, resource } = outcome;
    if (spec === null || paused) return null;
    const { discoveryNamespaces: allowed = [], policy, clock } = this.#options;
    const { uid, namespace } = resource.metadata;
    const scan = this.#scanOf(uid);
    const { guard } = scan;
    const matching = matchingServices(this.#kubernetes.services, spec, namespace, allowed);
    const ofClusters = owned.flatMap((cluster) => serviceResource(discoveryOwner(cluster)?.service ?? null, null));
    if (scan.report === null) guard.restore(ofClusters);
    const served = servedServices(guard, matching, ofClusters);
    // No call deletes Services.
    guard.forgive(new Set(), clock.monotonic());
    const context = { spec, namespace, groups: policy.groups };
    const plan = clusterPlan(
      served,
      resource,
      (service) => discoveredCluster(service, context),
      owned,
      this.#holderIn(namespace, uid),
    );
    const heldServices = guard.held.reduce((sum, each) => sum + each.held, 0);
    const report: DiscoveryReport = {
      counts: { services: served.length, clusters: plan.settled, conflicts: plan.conflicts.length },
      references: matching.references,
      discovered: discoveredState(served.length, plan, heldServices, scan.reason),
    };
    if (!isDeepStrictEqual(report, scan.report)) {
      scan.report = report;
      writes.controller.scheduleRefresh();
    }
    return plan;
  }

  #scanOf(uid: string): Scan {
    const { deletionGuard: settings, clock, logger } = this.#options;
    return this.#scans.getOrInsertComputed(uid, () => {
      const onDue = () => this.request();
      const guard = new DeletionGuard({ kind: SERVICE, settings, isOfAnother: () => false, clock, logger, onDue });
      return { guard, report: null, reason: null };
    });
  }

  /** Finds the owner of a cluster's name: another resource, in any namespace, or a row of Trino Gateway. */
  #holderIn(namespace: string, uid: string): (name: string) => string | null {
    const { source } = this.#kubernetes;
    const isOwn = (cluster: Resource) => discoveryOwner(cluster)?.uid === uid;
    const others = source.list(ENGINE_CLUSTER).filter((cluster) => !isOwn(cluster));
    const holders = new Map(others.map((cluster) => [registryNameOf(cluster), cluster]));
    return (name) => {
      const key = { kind: ENGINE_CLUSTER, namespace, name };
      const there = source.get(key);
      const holder = there !== null && !isOwn(there) ? there : holders.get(name);
      if (holder !== undefined) return `the ${ENGINE_CLUSTER} ${holder.metadata.namespace}/${holder.metadata.name}`;
      if (source.isOfAnother(key)) return `the ${ENGINE_CLUSTER} ${namespace}/${name} of another gateway`;
      const isRow = this.#options.table.current.clusters.get(name)?.origin === 'row';
      return isRow ? 'a row of the database without a resource' : null;
    };
  }

  /**
   * Writes and removes clusters; false if something failed.
   * @param scan null: the discovery was deleted. If its clusters are most of all clusters, they stay routed until that is confirmed, as
   * with any other source
   */
  async #carryOut(
    discovery: string,
    { write, remove }: Pick<ClusterPlan, 'write' | 'remove'>,
    scan: Scan | null,
    writes: ResourceWrites,
  ): Promise<boolean> {
    const { logger } = this.#options;
    // Writes come first: a group is not to be without clusters in between.
    const failures = await this.#inTurns(write, async ({ cluster, uid }) => {
      await this.#kubernetes.source.applyOwned(cluster, uid, DISCOVERY_FIELD_MANAGER);
      const what = uid === null ? 'a Service became a cluster' : 'a cluster follows its Service';
      logger.info({ discovery, cluster: cluster.name, proxyTo: cluster.spec.proxyTo }, what);
    });
    failures.push(...(await this.#inTurns(remove, (cluster) => this.#remove(cluster, writes, scan !== null))));
    // A conflict of versions is settled by the next scan.
    const first = failures.find((error) => !(error instanceof VersionConflict));
    const reason = first === undefined ? null : first instanceof Error ? first.message : String(first);
    if (reason !== null && scan?.reason !== reason)
      logger.warn({ discovery, reason }, 'failed to write discovered clusters');
    if (scan !== null && scan.reason !== reason) {
      scan.reason = reason;
      this.#isRequested = true;
    }
    return failures.length === 0;
  }

  /** Removes a cluster as it was read. @param isMeant true: no loss, as its Service is known to be deleted */
  async #remove(cluster: Resource, writes: ResourceWrites, isMeant: boolean): Promise<void> {
    const { source } = this.#kubernetes;
    const key = keyOf(cluster);
    // A list may have resources as they were before their last status.
    const current = source.get(key);
    if (current === null || discoveryOwner(current)?.uid !== discoveryOwner(cluster)?.uid) return;
    if (isMeant) await writes.remove(current, true);
    else await source.delete(key, current.metadata.resourceVersion);
    this.#options.logger.info({ cluster: cluster.metadata.name }, 'cluster removed with its Service or discovery');
    if (!isMeant) return;
    writes.controller.clusterDeleted(registryNameOf(cluster));
    await writes.controller.whenStored(cluster);
  }

  /** Removes the clusters of a deleted discovery; Kubernetes may have collected them already. */
  async #removeOrphans(uid: string, clusters: readonly Resource[], writes: ResourceWrites): Promise<boolean> {
    const [first] = clusters as [Resource];
    const key = { ...keyOf(first), kind: ENGINE_CLUSTER_DISCOVERY, name: discoveryOwner(first)?.name ?? '' };
    const owner = await this.#kubernetes.source.readCurrent(key);
    // If it is there, the next event brings it.
    if (owner?.metadata.uid === uid) return true;
    return await this.#carryOut(`${key.namespace}/${key.name}`, { write: [], remove: clusters }, null, writes);
  }

  /** Works on each item while this replica leads, on some concurrently; returns the errors. */
  async #inTurns<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<unknown[]> {
    const errors: unknown[] = [];
    for (let start = 0; start < items.length; start += MAX_WRITES) {
      if (!this.#isLeader || this.#stop.signal.aborted) break;
      const results = await Promise.allSettled(items.slice(start, start + MAX_WRITES).map(work));
      for (const result of results) if (result.status === 'rejected') errors.push(result.reason);
    }
    return errors;
  }
}

interface MatchingServices {
  readonly services: readonly KnownService[];
  readonly isRead: (namespace: string) => boolean;
  readonly isInScope: (namespace: string) => boolean;
  /** Condition `ResolvedRefs`. */
  readonly references: State;
}

/**
 * Selects Services, in the namespaces that the configuration allows and no others (docs/discovery.md#namespaces).
 * Namespaces are followed from the first time on that a discovery names them.
 * @param own namespace of the discovery: its Services it may always look at
 * @param allowed `resources.discovery.namespaces`
 */
function matchingServices(
  lists: ServiceLists,
  { namespaces: wanted = [], selector: { matchLabels = {}, matchExpressions = [] } }: EngineClusterDiscoverySpec,
  own: string,
  allowed: readonly string[],
): MatchingServices {
  const mayAll = allowed.includes(ALL_NAMESPACES);
  const wantsAll = wanted.includes(ALL_NAMESPACES);
  const named = new Set(wantsAll ? [...wanted, own, ...allowed] : wanted.length === 0 ? [own] : wanted);
  named.delete(ALL_NAMESPACES);
  const permitted = [...named].filter((each) => mayAll || each === own || allowed.includes(each));
  const isInScope = (each: string) => (wantsAll && mayAll) || permitted.includes(each);
  // One list for all where that is allowed: the number of namespaces is other people's.
  const read = (mayAll ? [ALL_NAMESPACES] : permitted).map((each) => ({ namespace: each, ...lists.list(each) }));
  const requirements = [
    ...Object.entries(matchLabels).map(([key, value]) => ({ key, operator: 'in' as const, values: [value] })),
    ...matchExpressions.map(({ key, operator, values = [] }) => ({ key, operator: operators[operator], values })),
  ];
  const isMatch = ({ labels, namespace }: KnownService) =>
    matchesLabels({ requirements }, labels) && isInScope(namespace);
  const pending = read.filter(({ synced }) => !synced).map(({ namespace }) => namespace);
  const failing = read.find(({ reason }) => reason !== null && reason !== NOT_LISTED);
  const refused = [...named].filter((each) => !permitted.includes(each)).slice(0, LISTED);
  let references = conditionState('True', 'ResolvedRefs', 'the Services of its namespaces are followed');
  if (refused.length > 0) {
    const message = `the Services of ${refused.join(', ')} may not be looked at; have the namespace added to resources.discovery.namespaces of the gateway's configuration, or take it out of spec.namespaces`;
    references = conditionState('False', 'NamespaceNotAllowed', message);
  } else if (failing !== undefined) {
    const where = failing.namespace === ALL_NAMESPACES ? 'all namespaces' : failing.namespace;
    const message = `the Services of ${where} cannot be read: ${failing.reason}`;
    references = conditionState('False', 'ServicesUnavailable', message);
  } else if (pending.length > 0) {
    references = conditionState('Unknown', 'Pending', `the Services of ${pending.join(', ')} are being read`);
  }
  return {
    services: read.flatMap(({ services }) => services.filter(isMatch)),
    isInScope,
    isRead: (each) => isInScope(each) && !pending.includes(mayAll ? ALL_NAMESPACES : each),
    references,
  };
}

const operators = { In: 'in', NotIn: 'notIn', Exists: 'exists', DoesNotExist: 'doesNotExist' } as const;

/** A Service as a resource, as `DeletionGuard` takes it. @param key `namespace/name`; null: none */
function serviceResource(key: string | null, service: KnownService | null): readonly Resource[] {
  if (key === null) return [];
  const [namespace = '', name = ''] = key.split('/');
  const { uid = '', creationTimestamp = '' } = service ?? {};
  const metadata = { namespace, name, uid, creationTimestamp, resourceVersion: '', generation: 0 };
  return [{ apiVersion: API_GROUP_VERSION, kind: SERVICE, metadata, spec: { service } }];
}

/** Services that have clusters: those that match, and those that are lost or cannot be read. @param ofClusters those that had one */
function servedServices(
  guard: DeletionGuard,
  { services, isInScope, isRead }: MatchingServices,
  ofClusters: readonly Resource[],
): readonly Resource[] {
  const present = services.flatMap((each) => serviceResource(`${each.namespace}/${each.name}`, each));
  const keys = new Set(present.map(keyTextOf));
  // A namespace that is no longer looked at is left on purpose.
  for (const each of ofClusters) if (!isInScope(each.metadata.namespace)) guard.expect(keyTextOf(each));
  const isUnknown = (each: Resource) => isInScope(each.metadata.namespace) && !isRead(each.metadata.namespace);
  const unread = ofClusters.filter((each) => isUnknown(each) && !keys.has(keyTextOf(each)));
  return guard.serve([...present, ...unread]).filter(({ metadata }) => isInScope(metadata.namespace));
}

/**
 * Works out which clusters a discovery writes and removes: never one that it does not own. Pure.
 * @param services as `serviceResource` gives them; where only the cluster of one is known, that stays as it is
 * @param clusterOf the cluster of a Service; throws ServiceNotUsable
 * @param holder owner of a cluster's name as text; null: free, or the discovery itself
 */
function clusterPlan(
  services: readonly Resource[],
  { metadata: { name: discovery, namespace, uid } }: Resource,
  clusterOf: (service: KnownService) => DiscoveredCluster,
  owned: readonly Resource[],
  holder: (name: string) => string | null,
): ClusterPlan {
  const byService = new Map(owned.map((cluster) => [discoveryOwner(cluster)?.service ?? '', cluster.metadata.name]));
  const wanted = new Map<string, OwnedResource>();
  /** Services by the name of their cluster. */
  const names = new Map<string, string>();
  const conflicts: Finding[] = [];
  const refusals: Finding[] = [];
  let left = 0;
  const titleOf = ({ metadata }: Resource): string => `${metadata.namespace}/${metadata.name}`;
  // Those that have a cluster first: who comes later takes no name, and no place, from them.
  const rank = (each: Resource): string =>
    `${byService.has(titleOf(each)) ? 0 : 1} ${each.metadata.creationTimestamp} ${titleOf(each)}`;
  for (const each of services.toSorted((a, b) => (rank(a) < rank(b) ? -1 : 1))) {
    const service = titleOf(each);
    const content = each.spec.service as KnownService | null;
    if (content === null) {
      const name = byService.get(service);
      if (name !== undefined) names.set(name, service);
      continue;
    }
    try {
      const { name, spec } = clusterOf(content);
      const other = names.get(name);
      const taken = other === undefined ? holder(name) : `the Service ${other}`;
      if (taken !== null) throw new ServiceNotUsable('NameConflict', `the name ${name} is that of ${taken}`);
      if (wanted.size >= MAX_CLUSTERS) left += 1;
      else {
        names.set(name, service);
        const annotations = { [SERVICE_ANNOTATION]: service, [DIGEST_ANNOTATION]: digestOfJson(spec) };
        const owner = { apiVersion: API_GROUP_VERSION, kind: ENGINE_CLUSTER_DISCOVERY, name: discovery, uid };
        wanted.set(name, {
          ...{ kind: ENGINE_CLUSTER, namespace, name, spec, annotations },
          ...{ labels: { [DISCOVERY_LABEL]: discovery }, owner: { ...owner, controller: true } },
        });
      }
    } catch (error) {
      if (!(error instanceof ServiceNotUsable)) throw error;
      const { reason, message } = error;
      (reason === 'NameConflict' ? conflicts : refusals).push({ service, reason, message });
    }
  }
  if (left > 0) {
    const message = `${left} more Services match than the ${MAX_CLUSTERS} of which clusters are made; narrow the selector, or use another discovery`;
    refusals.push({ service: '…', reason: 'TooManyServices', message });
  }
  const present = new Map(owned.map((cluster) => [cluster.metadata.name, cluster]));
  const write = [...wanted.values()].flatMap((cluster) => {
    const { spec, metadata } = present.get(cluster.name) ?? {};
    const { labels, annotations } = cluster;
    const isWritten = holds({ spec, ...metadata }, { spec: cluster.spec, labels, annotations });
    return isWritten ? [] : [{ cluster, uid: metadata?.uid ?? null }];
  });
  const remove = owned.filter(({ metadata }) => !names.has(metadata.name));
  return { write, remove, settled: names.size - write.length, conflicts, refusals };
}

/** True if a value has all that is wanted; more of it may be a default, or another user's. */
function holds(present: unknown, wanted: unknown): boolean {
  if (!isRecord(wanted)) return isDeepStrictEqual(present, wanted);
  return isRecord(present) && Object.entries(wanted).every(([field, value]) => holds(present[field], value));
}

/** Condition `Discovered`: every Service that matches is a cluster. */
function discoveredState(services: number, plan: ClusterPlan, held: number, reason: string | null): State {
  const clusters = plan.settled;
  const count = `${services} Service${services === 1 ? '' : 's'}, ${clusters} cluster${clusters === 1 ? '' : 's'}`;
  // Scans that find the same have the same message.
  const order = (a: Finding, b: Finding) => (a.service < b.service ? -1 : 1);
  const [conflicts, refusals] = [plan.conflicts.toSorted(order), plan.refusals.toSorted(order)];
  const [refusal] = refusals;
  const state = (why: string, message: string) => conditionState('False', why, `${count}; ${message}`);
  if (reason !== null) return state('WriteFailed', `failed to write discovered clusters: ${reason}`);
  if (held > 0) {
    const message = `${held} Services are gone at once, and their clusters stay; confirm with POST /api/heldDeletions/confirm, or create the Services again`;
    return state('DeletionsHeld', message);
  }
  if (conflicts.length > 0) {
    return state('NameConflict', `names that are not this discovery's: ${findingsText(conflicts)}`);
  }
  if (refusal !== undefined) {
    return state(refusal.reason, `Services that become no clusters: ${findingsText(refusals)}`);
  }
  if (clusters === services) return conditionState('True', 'Discovered', count);
  return conditionState('Unknown', 'Pending', `${count}; clusters are being written`);
}

/** `a/x (…), b/y (…)`: the first of them. */
function findingsText(findings: readonly Finding[]): string {
  const listed = findings.slice(0, LISTED).map(({ service, message }) => `${service}: ${message}`);
  const more = findings.length - listed.length;
  return `${listed.join('; ')}${more > 0 ? `; and ${more} more` : ''}`;
}
