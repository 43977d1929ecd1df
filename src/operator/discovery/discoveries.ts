import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { ENGINE_CLUSTER } from '../../kinds/engineCluster/spec.ts';
import { discoveredCluster, ServiceNotUsable } from '../../kinds/engineClusterDiscovery/discoveredCluster.ts';
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
import { ALL_NAMESPACES, SERVICE, type Service, type ServiceLists } from '../../kinds/serviceLookup.ts';
import { matchesLabels } from '../../model/labelSelector.ts';
import { isRecord } from '../../model/record.ts';
import { API_GROUP, API_GROUP_VERSION, keyOf, keyText, keyTextOf, type Resource } from '../../model/resource.ts';
import { registryNameOf } from '../../model/resourceName.ts';
import { batches } from '../../store/columns.ts';
import type { Leadership } from '../leadership/leadership.ts';
import type { KubernetesComponents, OperatorOptions } from '../operatorOptions.ts';
import { DeletionGuard, type HeldDeletions, type OtherLosses } from '../reconcile/deletionGuard.ts';
import { digestOfJson, type ResourceWrites } from '../registry/resourceWrites.ts';
import { type OwnedResource, VersionConflict } from '../sources/source.ts';

/** Clusters that are written or removed concurrently. */
const MAX_WRITES = 8;
/** Time in which changes are collected before a look, in milliseconds. */
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
  /** Result of the last scan; null before the first. */
  report: DiscoveryReport | null;
  /** Reason why clusters could not be written the last time; null: they were. */
  reason: string | null;
}

/** A Service that gives no cluster, by `namespace/name`. */
type Finding = Readonly<Record<'service' | 'reason' | 'message', string>>;

interface ClusterPlan {
  /** With the uid of the cluster that is there; null creates it. */
  readonly write: readonly { readonly cluster: OwnedResource; readonly uid: string | null }[];
  readonly remove: readonly Resource[];
  /** Clusters that are as they should be, or stay as they are. */
  readonly settled: number;
  readonly findings: readonly Finding[];
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
  #running: Promise<void> = Promise.resolve();
  #isRequested = true;

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
    const { services, statusLeadership } = this.#kubernetes;
    for (const each of [services, this.#leadership, statusLeadership])
      if (each !== undefined) this.#stops.push(each.onChange(() => this.request()));
    this.#running = this.#run(writes);
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    for (const stop of this.#stops) stop();
    await this.#running;
    for (const { guard } of this.#scans.values()) guard.stop();
  }

  /** Looks at all discoveries soon; many calls become one look. */
  request(): void {
    this.#isRequested = true;
  }

  async #run(writes: ResourceWrites): Promise<void> {
    const { signal } = this.#stop;
    const pause = (ms: number) => sleep(ms, undefined, { signal, ref: false }).catch(() => undefined);
    for (; !signal.aborted; await pause(COLLECT_MS)) {
      if (!this.#isRequested || !writes.controller.isFromSource) continue;
      this.#isRequested = false;
      const isComplete = await this.#look(writes).catch((error: unknown) => {
        this.#options.logger.error({ err: error }, 'failed to list Services; retrying');
        return false;
      });
      if (isComplete) continue;
      this.request();
      await pause(RETRY_MS);
    }
  }

  get #isLeader(): boolean {
    return (this.#kubernetes.statusLeadership ?? this.#leadership).isLeader && !this.#stop.signal.aborted;
  }

  /** One look at all discoveries; false if a write failed. */
  async #look(writes: ResourceWrites): Promise<boolean> {
    const { source } = this.#kubernetes;
    const discoveries = [...writes.controller.outcomes.values()].filter(isDiscoveryOutcome);
    const owned = Map.groupBy(source.list(ENGINE_CLUSTER), (cluster) => discoveryOwner(cluster)?.uid ?? '');
    const plans = new Map(discoveries.map((outcome) => [outcome.resource, this.#plan(outcome, owned, writes)]));
    const uids = new Set(['', ...discoveries.map(({ resource }) => resource.metadata.uid)]);
    for (const [uid, { guard }] of this.#scans) if (!uids.has(uid) && this.#scans.delete(uid)) guard.stop();
    let isComplete = true;
    for (const [resource, plan] of plans) {
      const scan = this.#scanOf(resource.metadata.uid);
      if (plan !== null && !(await this.#carryOut(keyTextOf(resource), plan, scan, writes))) isComplete = false;
    }
    // Clusters of a deleted discovery; Kubernetes may have collected them already.
    for (const [uid, remove] of this.#isLeader ? owned : []) {
      if (uids.has(uid)) continue;
      const [first] = remove as [Resource];
      const key = { ...keyOf(first), kind: ENGINE_CLUSTER_DISCOVERY, name: discoveryOwner(first)?.name ?? '' };
      // If it is there, the next event brings it.
      if ((await source.readCurrent(key))?.metadata.uid === uid) continue;
      const plan = { write: [], remove, settled: 0, findings: [] };
      if (!(await this.#carryOut(key.name, plan, null, writes))) isComplete = false;
    }
    return isComplete;
  }

  /**
   * Plans the clusters of a discovery, and reports on it; null: nothing changes, as it is paused or not accepted.
   * @param clusters all, by the uid of their discovery
   */
  #plan(
    { spec, paused, resource }: DiscoveryOutcome,
    clusters: ReadonlyMap<string, readonly Resource[]>,
    writes: ResourceWrites,
  ): ClusterPlan | null {
    if (spec === null || paused) return null;
    const { discoveryNamespaces: allowed = [], policy, clock } = this.#options;
    const { uid, namespace } = resource.metadata;
    const owned = clusters.get(uid) ?? [];
    const scan = this.#scanOf(uid);
    const { guard } = scan;
    const matching = matchingServices(this.#kubernetes.services, namespace, allowed, spec);
    const { services, isInScope, isRead, references } = matching;
    const ofClusters = owned.flatMap((cluster) => namedService(discoveryOwner(cluster)?.service ?? null));
    if (scan.report === null) guard.restore(ofClusters);
    // A namespace that is no longer looked at is left on purpose.
    for (const each of ofClusters) if (!isInScope(each.metadata.namespace)) guard.expect(keyTextOf(each));
    const keys = new Set(services.map(keyTextOf));
    const unread = ofClusters.filter((each) => !isRead(each.metadata.namespace) && !keys.has(keyTextOf(each)));
    const present = guard.serve([...services, ...unread]) as readonly Service[];
    const served = present.filter(({ metadata }) => isInScope(metadata.namespace));
    // No call deletes Services.
    guard.forgive(new Set(), clock.monotonic());
    const clusterOf = (service: Service) => discoveredCluster(service, spec, namespace, policy.groups);
    const plan = clusterPlan(served, resource, clusterOf, owned, this.#holderIn(namespace, uid));
    const heldCount = guard.held.reduce((sum, each) => sum + each.held, 0);
    const conflicts = plan.findings.filter(({ reason }) => reason === 'NameConflict').length;
    const counts = { services: served.length, clusters: plan.settled, conflicts };
    const report = { counts, references, discovered: discoveredState(served.length, plan, heldCount, scan.reason) };
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
    const others = source.list(ENGINE_CLUSTER).filter((cluster) => discoveryOwner(cluster)?.uid !== uid);
    const holders = new Map(
      others.flatMap((each) => [keyTextOf(each), registryNameOf(each)].map((key) => [key, each])),
    );
    return (name) => {
      const key = { kind: ENGINE_CLUSTER, namespace, name };
      const holder = (holders.get(keyText(key)) ?? holders.get(name))?.metadata;
      if (holder !== undefined) return `the ${ENGINE_CLUSTER} ${holder.namespace}/${holder.name}`;
      if (source.isOfAnother(key)) return `the ${ENGINE_CLUSTER} ${namespace}/${name} of another gateway`;
      const isRow = this.#options.table.current.clusters.get(name)?.origin === 'row';
      return isRow ? 'a row of the database without a resource' : null;
    };
  }

  /**
   * Writes and removes clusters while this replica leads, some concurrently; false if something failed.
   * @param scan null: the discovery was deleted. If its clusters are most of all clusters, they stay routed until that is confirmed, as
   * with any other source
   */
  async #carryOut(
    discovery: string,
    { write, remove }: ClusterPlan,
    scan: Scan | null,
    writes: ResourceWrites,
  ): Promise<boolean> {
    const { logger } = this.#options;
    const writing = write.map(({ cluster, uid }) => async () => {
      await this.#kubernetes.source.applyOwned(cluster, uid, DISCOVERY_FIELD_MANAGER);
      logger.info({ discovery, cluster: cluster.name, proxyTo: cluster.spec.proxyTo }, 'discovered cluster written');
    });
    const removing = remove.map((cluster) => () => this.#remove(cluster, writes, scan !== null));
    const failures: unknown[] = [];
    // Writes come first: a group is not to be without clusters in between.
    for (const steps of [...batches(writing, MAX_WRITES), ...batches(removing, MAX_WRITES)]) {
      const results = await Promise.allSettled(this.#isLeader ? steps.map((step) => step()) : []);
      failures.push(...results.flatMap((result) => (result.status === 'rejected' ? [result.reason] : [])));
    }
    // A conflict of versions is settled by the next look.
    const first = failures.find((error) => !(error instanceof VersionConflict));
    const reason = first === undefined ? null : first instanceof Error ? first.message : String(first);
    if (scan?.reason === reason) return failures.length === 0;
    if (reason !== null) logger.warn({ discovery, reason }, 'failed to write discovered clusters');
    if (scan !== null) {
      scan.reason = reason;
      this.request();
    }
    return failures.length === 0;
  }

  /** Removes a cluster as it was read. @param isMeant true: no loss, as its Service is known to be deleted */
  async #remove(cluster: Resource, writes: ResourceWrites, isMeant: boolean): Promise<void> {
    const { source } = this.#kubernetes;
    // A list may have resources as they were before their last status.
    const current = source.get(keyOf(cluster));
    if (current === null || discoveryOwner(current)?.uid !== discoveryOwner(cluster)?.uid) return;
    if (isMeant) await writes.remove(current, true);
    else await source.delete(keyOf(current), current.metadata.resourceVersion);
    this.#options.logger.info({ cluster: cluster.metadata.name }, 'cluster removed with its Service or discovery');
    if (!isMeant) return;
    writes.controller.clusterDeleted(registryNameOf(cluster));
    await writes.controller.whenStored(cluster);
  }
}

/**
 * Selects Services, in the namespaces that the configuration allows and no others (docs/discovery.md#namespaces).
 * Namespaces are followed from the first time on that a discovery names them.
 * @param own namespace of the discovery: its Services it may always look at
 * @param allowed `resources.discovery.namespaces`
 */
function matchingServices(
  lists: ServiceLists,
  own: string,
  allowed: readonly string[],
  { namespaces: wanted = [own], selector: { matchLabels = {}, matchExpressions = [] } }: EngineClusterDiscoverySpec,
) {
  const mayAll = allowed.includes(ALL_NAMESPACES);
  const wantsAll = wanted.includes(ALL_NAMESPACES);
  const named = new Set(wantsAll ? [...wanted, own, ...allowed] : wanted);
  named.delete(ALL_NAMESPACES);
  const permitted = [...named].filter((each) => mayAll || each === own || allowed.includes(each));
  const isInScope = (each: string) => (wantsAll && mayAll) || permitted.includes(each);
  // One list for all where that is allowed: the number of namespaces is other people's.
  const read = (mayAll ? [ALL_NAMESPACES] : permitted).map((each) => ({ namespace: each, ...lists.list(each) }));
  const requirements = [
    ...Object.entries(matchLabels).map(([key, value]) => ({ key, operator: 'in' as const, values: [value] })),
    ...matchExpressions.map(({ key, operator, values = [] }) => ({ key, operator: operators[operator], values })),
  ];
  const isMatch = ({ metadata: { labels = {}, namespace } }: Service) =>
    isInScope(namespace) && matchesLabels({ requirements }, labels);
  const pending = read.filter(({ synced }) => !synced).map(({ namespace }) => namespace);
  const isRead = (each: string) => !isInScope(each) || !pending.includes(mayAll ? ALL_NAMESPACES : each);
  const services = read.flatMap((list) => list.services.filter(isMatch));
  const withState = (references: State) => ({ services, isInScope, isRead, references });
  const refused = [...named].filter((each) => !permitted.includes(each)).slice(0, LISTED);
  if (refused.length > 0) {
    const message = `the Services of ${refused.join(', ')} may not be looked at; have the namespace added to resources.discovery.namespaces of the gateway's configuration, or take it out of spec.namespaces`;
    return withState(conditionState('False', 'NamespaceNotAllowed', message));
  }
  const failing = read.find(({ reason }) => reason !== null && reason !== NOT_LISTED);
  if (failing !== undefined) {
    const where = failing.namespace === ALL_NAMESPACES ? 'all namespaces' : failing.namespace;
    const message = `the Services of ${where} cannot be read: ${failing.reason}`;
    return withState(conditionState('False', 'ServicesUnavailable', message));
  }
  if (pending.length === 0)
    return withState(conditionState('True', 'ResolvedRefs', 'the Services of its namespaces are followed'));
  return withState(conditionState('Unknown', 'Pending', `the Services of ${pending.join(', ')} are being read`));
}

const operators = { In: 'in', NotIn: 'notIn', Exists: 'exists', DoesNotExist: 'doesNotExist' } as const;

/** A Service of which only the name is known, by its cluster. @param key `namespace/name`; null: none */
function namedService(key: string | null): readonly Service[] {
  if (key === null) return [];
  const [namespace = '', name = ''] = key.split('/');
  const metadata = { namespace, name, uid: '', creationTimestamp: '', resourceVersion: '', generation: 0 };
  return [{ apiVersion: API_GROUP_VERSION, kind: SERVICE, metadata, spec: {} }];
}

/**
 * Works out which clusters a discovery writes and removes: never one that it does not own. Pure.
 * @param services where only the name of one is known, its cluster stays as it is
 * @param clusterOf the cluster of a Service; throws ServiceNotUsable
 * @param holder owner of a cluster's name as text; null: free, or the discovery itself
 */
function clusterPlan(
  services: readonly Service[],
  { metadata: { name: discovery, namespace, uid } }: Resource,
  clusterOf: (service: Service) => Pick<OwnedResource, 'name' | 'spec'>,
  owned: readonly Resource[],
  holder: (name: string) => string | null,
): ClusterPlan {
  const byService = new Map(owned.map((cluster) => [discoveryOwner(cluster)?.service ?? '', cluster.metadata.name]));
  const present = new Map(owned.map((cluster) => [cluster.metadata.name, cluster]));
  /** Services by the name of their cluster. */
  const names = new Map<string, string>();
  const write: { cluster: OwnedResource; uid: string | null }[] = [];
  const findings: Finding[] = [];
  let left = 0;
  const titleOf = ({ metadata }: Service): string => `${metadata.namespace}/${metadata.name}`;
  // Those that have a cluster first: who comes later takes no name, and no place, from them.
  const rank = (each: Service): string =>
    `${byService.has(titleOf(each)) ? 0 : 1} ${each.metadata.creationTimestamp} ${titleOf(each)}`;
  for (const each of services.toSorted((a, b) => (rank(a) < rank(b) ? -1 : 1))) {
    const service = titleOf(each);
    const clusterName = byService.get(service);
    if (each.spec.ports === undefined) {
      if (clusterName !== undefined) names.set(clusterName, service);
      continue;
    }
    try {
      const { name, spec } = clusterOf(each);
      const taken = names.has(name) ? `the Service ${names.get(name)}` : holder(name);
      if (taken !== null) throw new ServiceNotUsable('NameConflict', `the name ${name} is that of ${taken}`);
      if (names.size >= MAX_CLUSTERS) {
        left += 1;
        continue;
      }
      names.set(name, service);
      const labels = { [DISCOVERY_LABEL]: discovery };
      const annotations = { [SERVICE_ANNOTATION]: service, [DIGEST_ANNOTATION]: digestOfJson(spec) };
      const { spec: written, metadata } = present.get(name) ?? {};
      if (holds({ written, ...metadata }, { written: spec, labels, annotations })) continue;
      const owner = { apiVersion: API_GROUP_VERSION, kind: ENGINE_CLUSTER_DISCOVERY, name: discovery, uid };
      const cluster = { kind: ENGINE_CLUSTER, namespace, name, spec, annotations, labels };
      write.push({ cluster: { ...cluster, owner: { ...owner, controller: true } }, uid: metadata?.uid ?? null });
    } catch (error) {
      if (!(error instanceof ServiceNotUsable)) throw error;
      findings.push({ service, reason: error.reason, message: error.message });
    }
  }
  if (left > 0) {
    const message = `${left} more Services match than the ${MAX_CLUSTERS} of which clusters are made; narrow the selector, or use another discovery`;
    findings.push({ service: '…', reason: 'TooManyServices', message });
  }
  const remove = owned.filter(({ metadata }) => !names.has(metadata.name));
  return { write, remove, settled: names.size - write.length, findings };
}

/** True if a value has all that is wanted; more of it may be a default, or another user's. */
function holds(present: unknown, wanted: unknown): boolean {
  if (!isRecord(wanted)) return isDeepStrictEqual(present, wanted);
  return isRecord(present) && Object.entries(wanted).every(([field, value]) => holds(present[field], value));
}

/** Condition `Discovered`: every Service that matches is a cluster. */
function discoveredState(services: number, { settled, findings }: ClusterPlan, held: number, failure: string | null) {
  const count = `${services} Service${services === 1 ? '' : 's'}, ${settled} cluster${settled === 1 ? '' : 's'}`;
  const state = (reason: string, message: string) => conditionState('False', reason, `${count}; ${message}`);
  if (failure !== null) return state('WriteFailed', `failed to write discovered clusters: ${failure}`);
  if (held > 0) {
    const message = `${held} Services are gone at once, and their clusters stay; confirm with POST /api/heldDeletions/confirm, or create the Services again`;
    return state('DeletionsHeld', message);
  }
  // Looks that find the same have the same message; conflicts come first.
  const sorted = findings.toSorted((a, b) => (a.service < b.service ? -1 : 1));
  const conflicts = sorted.filter(({ reason }) => reason === 'NameConflict');
  const shown = conflicts.length > 0 ? conflicts : sorted;
  const [first] = shown;
  if (first !== undefined) {
    const what = conflicts.length > 0 ? "names that are not this discovery's" : 'Services that become no clusters';
    const listed = shown.slice(0, LISTED).map(({ service, message }) => `${service}: ${message}`);
    if (shown.length > LISTED) listed.push(`and ${shown.length - LISTED} more`);
    return state(first.reason, `${what}: ${listed.join('; ')}`);
  }
  if (settled === services) return conditionState('True', 'Discovered', count);
  return conditionState('Unknown', 'Pending', `${count}; clusters are being written`);
}
