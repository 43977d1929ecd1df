import { isDeepStrictEqual } from 'node:util';
import { ENGINE_CLUSTER } from '../../kinds/engineCluster/spec.ts';
import { discoveredCluster, isDiscoveryOutcome, ServiceNotUsable } from '../../kinds/engineClusterDiscovery/kind.ts';
import {
  DISCOVERY_FIELD_MANAGER,
  DISCOVERY_LABEL,
  discoveryOwner,
  ENGINE_CLUSTER_DISCOVERY,
  type EngineClusterDiscoverySpec,
  MAX_CLUSTERS,
  SERVICE_ANNOTATION,
} from '../../kinds/engineClusterDiscovery/spec.ts';
import { conditionState, type State } from '../../kinds/outcome.ts';
import type { DiscoveryReport, DiscoveryReports } from '../../kinds/resourceKind.ts';
import {
  ALL_NAMESPACES,
  type NamespaceLabels,
  SERVICE,
  type Service,
  type ServiceLists,
} from '../../kinds/serviceLookup.ts';
import { type LabelSelectorSpec, matchesLabels, toLabelSelector } from '../../model/labelSelector.ts';
import { isRecord } from '../../model/record.ts';
import {
  API_GROUP,
  API_GROUP_VERSION,
  keyOf,
  keyText,
  keyTextOf,
  type Resource,
  registryNameOf,
} from '../../model/resource.ts';
import type { Tenancy } from '../../rules/tenancy.ts';
import { batches } from '../../store/columns.ts';
import { startJob } from '../../store/job.ts';
import type { Leadership } from '../leadership/leadership.ts';
import type { KubernetesComponents, OperatorOptions } from '../operator.ts';
import { DeletionGuard, type DeletionHold, type OtherLosses } from '../reconcile/servedResources.ts';
import { digestOfJson, type ResourceWrites } from '../registry/resourceWrites.ts';
import { VersionConflict } from '../sources/source.ts';

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
const NAME_CONFLICT = 'NameConflict';
const TOO_MANY = `more than ${MAX_CLUSTERS} Services match; narrow the selector, or use another discovery`;
/** Reason of a list that is being made. */
const NOT_LISTED = 'not listed yet';

/** A discovery over time: if it loses most of its Services, their clusters stay until that is confirmed. */
interface Scan {
  readonly guard: DeletionGuard;
  /** Its Services as of the last scan; before the first, those of its clusters. */
  services: readonly Resource[];
  /** Result of the last scan; null before the first. */
  report: DiscoveryReport | null;
}

/** Clusters that a scan writes and removes. */
interface ClusterPlan {
  readonly write: readonly (() => Promise<void>)[];
  readonly remove: readonly Resource[];
  /** Clusters that are as they should be, or stay as they are. */
  readonly settled: number;
  /** Services that give no cluster, by `namespace/name`. */
  readonly findings: readonly (readonly [service: string, problem: ServiceNotUsable])[];
}

/**
 * Makes clusters of Services (docs/discovery.md). Every replica plans, so that each new leader knows of losses; the leader
 * writes. It looks again if resources, Services or settings change. Clusters of a deleted discovery are Kubernetes' to collect.
 */
export class Discoveries implements DiscoveryReports, OtherLosses {
  readonly #options: OperatorOptions;
  readonly #kubernetes: KubernetesComponents;
  readonly #leadership: Leadership;
  /** By uid of the discovery. */
  readonly #scans = new Map<string, Scan>();
  #isRequested = true;
  #isStopped = false;
  #end = async () => {};

  /** @param leadership decides which replica writes if no Lease does */
  constructor(options: OperatorOptions, kubernetes: KubernetesComponents, leadership: Leadership) {
    this.#options = options;
    this.#kubernetes = kubernetes;
    this.#leadership = kubernetes.statusLeadership ?? leadership;
  }

  report(uid: string): DiscoveryReport | null {
    return this.#scans.get(uid)?.report ?? null;
  }

  get losses(): readonly DeletionHold[] {
    return [...this.#scans.values()].flatMap(({ guard }) => guard.held);
  }

  confirm(): void {
    for (const { guard } of this.#scans.values()) guard.confirm();
    this.request();
  }

  start(writes: ResourceWrites): void {
    writes.controller.onRefresh(() => this.request());
    for (const each of [this.#kubernetes.services, this.#leadership]) each.onChange(() => this.request());
    this.#end = startJob(0, () => this.#round(writes));
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#end();
    for (const { guard } of this.#scans.values()) guard.stop();
  }

  /** Looks at all discoveries soon; many calls become one look. */
  request(): void {
    this.#isRequested = true;
  }

  async #round(writes: ResourceWrites): Promise<number> {
    if (!this.#isRequested || !writes.controller.isFromSource) return COLLECT_MS;
    this.#isRequested = false;
    const discoveries = writes.controller.outcomesOf(ENGINE_CLUSTER_DISCOVERY).filter(isDiscoveryOutcome);
    const uids = new Set(discoveries.map(({ resource }) => resource.metadata.uid));
    for (const [uid, { guard }] of this.#scans) if (!uids.has(uid) && this.#scans.delete(uid)) guard.stop();
    let pauseMs = COLLECT_MS;
    for (const { spec, suspended, resource } of discoveries) {
      // Clusters of one that is suspended or not accepted stay as they are.
      if (spec === null || suspended || (await this.#scan(resource, spec, writes))) continue;
      this.request();
      pauseMs = RETRY_MS;
    }
    return pauseMs;
  }

  /** Looks at the Services of a discovery, writes and removes its clusters while this replica leads, and reports; false if something failed. */
  async #scan(resource: Resource, spec: EngineClusterDiscoverySpec, writes: ResourceWrites): Promise<boolean> {
    const { discoveryNamespaces = [], deletionGuard: settings, clock, logger } = this.#options;
    const { uid, namespace, name: discovery } = resource.metadata;
    const matching = matchingServices(this.#kubernetes.services, namespace, discoveryNamespaces, spec);
    const { services, isInScope, isPending, references, areNamespacesKnown } = matching;
    const owned = this.#kubernetes.source
      .list(ENGINE_CLUSTER)
      .filter((cluster) => discoveryOwner(cluster)?.uid === uid);
    const ofClusters = owned.flatMap((cluster) => namedService(discoveryOwner(cluster)?.service ?? null));
    const scan = this.#scans.getOrInsertComputed(uid, () => {
      const onDue = () => this.request();
      const guard = new DeletionGuard({ kind: SERVICE, settings, isOfAnother: () => false, clock, logger, onDue });
      return { guard, services: ofClusters, report: null };
    });
    const { guard } = scan;
    if (!areNamespacesKnown) {
      // Its clusters stay as they are.
      const before = scan.report?.counts ?? { services: 0, clusters: owned.length, conflicts: 0 };
      this.#report(scan, { counts: before, references, discovered: references }, writes);
      return true;
    }
    // A namespace that is no longer looked at is left on purpose.
    for (const each of ofClusters) if (!isInScope(each.metadata.namespace)) guard.expect(keyTextOf(each));
    const read = new Set(services.map(keyTextOf));
    const unread = ofClusters.filter((each) => isPending(each.metadata.namespace) && !read.has(keyTextOf(each)));
    scan.services = guard.serve([...services, ...unread], scan.services);
    const served = scan.services.filter(({ metadata }) => isInScope(metadata.namespace));
    // No call deletes Services.
    guard.forgive(new Set(), clock.monotonic());
    const unknown = new Set(served.filter((each) => !read.has(keyTextOf(each))).map(titleOf));
    const plan = this.#plan(resource, spec, services, unknown, owned, writes.controller.tenancy);
    const failures = await this.#carryOut(plan, writes);
    // A conflict of versions is settled by the next scan.
    const reason = failures.find((error) => !(error instanceof VersionConflict))?.message ?? null;
    if (reason !== null) logger.warn({ discovery, reason }, 'failed to write discovered clusters');
    const heldCount = guard.held.reduce((sum, each) => sum + each.held, 0);
    this.#report(scan, { references, ...scanResult(served.length, plan, heldCount, reason) }, writes);
    return failures.length === 0;
  }

  #report(scan: Scan, report: DiscoveryReport, writes: ResourceWrites): void {
    if (isDeepStrictEqual(report, scan.report)) return;
    scan.report = report;
    writes.controller.scheduleRefresh();
  }

  /**
   * Works out which clusters a discovery writes and removes: never one that it does not own.
   * @param unknown Services that are not known now, as `namespace/name`: their clusters stay as they are
   */
  #plan(
    { metadata: { name: discovery, namespace, uid } }: Resource,
    spec: EngineClusterDiscoverySpec,
    services: readonly Service[],
    unknown: ReadonlySet<string>,
    owned: readonly Resource[],
    tenancy: Tenancy,
  ): ClusterPlan {
    const { logger } = this.#options;
    const byService = new Map(owned.map((cluster) => [discoveryOwner(cluster)?.service ?? '', cluster.metadata.name]));
    const present = new Map(owned.map((cluster) => [cluster.metadata.name, cluster]));
    /** Services by the name of their cluster. */
    const names = new Map([...byService].flatMap(([service, name]) => (unknown.has(service) ? [[name, service]] : [])));
    const holder = this.#holderIn(namespace, uid);
    const write: (() => Promise<void>)[] = [];
    const findings: [string, ServiceNotUsable][] = [];
    // Those that have a cluster first: who comes later takes no name, and no place, from them.
    const rank = (each: Service): string =>
      `${byService.has(titleOf(each)) ? 0 : 1} ${each.metadata.creationTimestamp} ${titleOf(each)}`;
    for (const each of services.toSorted((a, b) => (rank(a) < rank(b) ? -1 : 1))) {
      const service = titleOf(each);
      try {
        const cluster = discoveredCluster(each, spec, namespace, tenancy);
        const { name } = cluster;
        const taken = names.has(name) ? `the Service ${names.get(name)}` : holder(name);
        if (taken !== null) throw new ServiceNotUsable(NAME_CONFLICT, `the name ${name} is that of ${taken}`);
        if (names.size >= MAX_CLUSTERS) throw new ServiceNotUsable('TooManyServices', TOO_MANY);
        names.set(name, service);
        const labels = { [DISCOVERY_LABEL]: discovery };
        const annotations = { [SERVICE_ANNOTATION]: service, [DIGEST_ANNOTATION]: digestOfJson(cluster.spec) };
        const { spec: written, metadata } = present.get(name) ?? {};
        if (holds({ written, ...metadata }, { written: cluster.spec, labels, annotations })) continue;
        const reference = { apiVersion: API_GROUP_VERSION, kind: ENGINE_CLUSTER_DISCOVERY, name: discovery, uid };
        const owner = { ...reference, controller: true };
        const resource = { kind: ENGINE_CLUSTER, namespace, ...cluster, annotations, labels, owner };
        write.push(async () => {
          await this.#kubernetes.source.applyOwned(resource, metadata?.uid ?? null, DISCOVERY_FIELD_MANAGER);
          logger.info({ discovery, cluster: name, proxyTo: cluster.spec.proxyTo }, 'discovered cluster written');
        });
      } catch (error) {
        if (!(error instanceof ServiceNotUsable)) throw error;
        findings.push([service, error]);
      }
    }
    const remove = owned.filter(({ metadata }) => !names.has(metadata.name));
    return { write, remove, settled: names.size - write.length, findings };
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
      const holder = holders.get(keyText(key)) ?? holders.get(name);
      if (holder !== undefined) return `the ${ENGINE_CLUSTER} ${titleOf(holder)}`;
      if (source.isOfAnother(key)) return `the ${ENGINE_CLUSTER} ${namespace}/${name} of another gateway`;
      const isRow = this.#options.table.current.clusters.get(name)?.origin === 'row';
      return isRow ? 'a row of the database without a resource' : null;
    };
  }

  /** Writes and removes clusters while this replica leads, some concurrently; returns what failed. */
  async #carryOut({ write, remove }: ClusterPlan, writes: ResourceWrites): Promise<readonly Error[]> {
    const removing = remove.map((cluster) => async () => {
      // A list may have resources as they were before their last status.
      const current = this.#kubernetes.source.get(keyOf(cluster));
      if (current === null || discoveryOwner(current)?.uid !== discoveryOwner(cluster)?.uid) return;
      await writes.remove(current, true);
      this.#options.logger.info({ cluster: cluster.metadata.name }, 'cluster removed with its Service');
    });
    const failures: Error[] = [];
    // Writes come first: a group is not to be without clusters in between.
    for (const steps of [...batches(write, MAX_WRITES), ...batches(removing, MAX_WRITES)]) {
      if (!this.#leadership.isLeader || this.#isStopped) break;
      const results = await Promise.allSettled(steps.map((step) => step()));
      failures.push(...results.flatMap((result) => (result.status === 'rejected' ? [result.reason] : [])));
    }
    return failures;
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
  { namespaces, selector }: EngineClusterDiscoverySpec,
) {
  const mayAll = allowed.includes(ALL_NAMESPACES);
  const ofLabels = namespaces?.selector === undefined ? null : selectedNamespaces(lists, namespaces.selector);
  const candidates = [own, ...allowed].filter((each) => each !== ALL_NAMESPACES && ofLabels?.has(each) === true);
  const wanted = new Set(ofLabels === null ? (namespaces?.names ?? [own]) : candidates);
  const rejected = [...wanted].filter((each) => !mayAll && each !== own && !allowed.includes(each));
  const scope = wanted.difference(new Set(rejected));
  const isInScope = (each: string) => (ofLabels !== null && mayAll ? ofLabels.has(each) : scope.has(each));
  // One list for all where that is allowed: the number of namespaces is other people's.
  const read = (mayAll ? [ALL_NAMESPACES] : [...scope]).map((each) => ({ namespace: each, ...lists.list(each) }));
  const labelsOfServices = toLabelSelector(selector);
  const isMatch = ({ metadata: { labels = {}, namespace } }: Service) =>
    isInScope(namespace) && matchesLabels(labelsOfServices, labels);
  const services = read.flatMap((list) => list.services.filter(isMatch));
  const pending = read.filter(({ synced }) => !synced).map(({ namespace }) => namespace);
  const isPending = (each: string) => pending.includes(mayAll ? ALL_NAMESPACES : each);
  /** False: it is not known yet which namespaces a selector selects. */
  const areNamespacesKnown = ofLabels?.synced !== false;
  const failing = read.find(({ reason }) => reason !== null && reason !== NOT_LISTED);
  let references = conditionState('True', 'ResolvedRefs', 'the Services of its namespaces are followed');
  if (rejected.length > 0) {
    const message = `the Services of ${rejected.slice(0, LISTED).join(', ')} may not be looked at; have the namespace added to resources.discovery.namespaces of the gateway's configuration, or take it out of spec.namespaces.names`;
    references = conditionState('False', 'NamespaceNotAllowed', message);
  } else if (ofLabels?.reason != null) {
    const message = `the labels of namespaces cannot be read: ${ofLabels.reason}`;
    references = conditionState('False', 'NamespacesUnavailable', message);
  } else if (!areNamespacesKnown)
    references = conditionState('Unknown', 'Pending', 'the labels of namespaces are being read');
  else if (failing !== undefined) {
    const where = failing.namespace === ALL_NAMESPACES ? 'all namespaces' : failing.namespace;
    const message = `the Services of ${where} cannot be read: ${failing.reason}`;
    references = conditionState('False', 'ServicesUnavailable', message);
  } else if (pending.length > 0)
    references = conditionState('Unknown', 'Pending', `the Services of ${pending.join(', ')} are being read`);
  return { services, isInScope, isPending, references, areNamespacesKnown };
}

/** Label with the name of its namespace, which every namespace has. */
const NAME_LABEL = 'kubernetes.io/metadata.name';

/** Namespaces that a selector selects. Labels are read only if it needs others than that of the name. */
function selectedNamespaces(lists: ServiceLists, spec: LabelSelectorSpec) {
  const selector = toLabelSelector(spec);
  const isOfNames = selector.requirements.every(({ key }) => key === NAME_LABEL);
  const { labels, reason, synced } = isOfNames ? noLabels : lists.namespaces();
  const has = (name: string) =>
    (isOfNames || labels.has(name)) && matchesLabels(selector, { ...labels.get(name), [NAME_LABEL]: name });
  return { has, reason, synced };
}

const noLabels: NamespaceLabels = { synced: true, reason: null, labels: new Map() };

const titleOf = ({ metadata }: Resource): string => `${metadata.namespace}/${metadata.name}`;

/** A Service of which only the name is known, by its cluster. @param key `namespace/name`; null: none */
function namedService(key: string | null): readonly Resource[] {
  if (key === null) return [];
  const [namespace = '', name = ''] = key.split('/');
  const metadata = { namespace, name, uid: '', creationTimestamp: '', resourceVersion: '', generation: 0 };
  return [{ apiVersion: API_GROUP_VERSION, kind: SERVICE, metadata, spec: {} }];
}

/** True if a value has all that is wanted; more of it may be a default, or another user's. */
function holds(present: unknown, wanted: unknown): boolean {
  if (!isRecord(wanted)) return isDeepStrictEqual(present, wanted);
  return isRecord(present) && Object.entries(wanted).every(([field, value]) => holds(present[field], value));
}

/** Counts of a status, and its condition `Discovered`: every Service that matches is a cluster. */
function scanResult(services: number, { settled, findings }: ClusterPlan, held: number, failure: string | null) {
  const ofNames = findings.filter(([, { reason }]) => reason === NAME_CONFLICT);
  const counts = { services, clusters: settled, conflicts: ofNames.length };
  const count = `${services} Service${services === 1 ? '' : 's'}, ${settled} cluster${settled === 1 ? '' : 's'}`;
  const result = (reason: string, message: string | null, status: State['status'] = 'False') => {
    const text = message === null ? count : `${count}; ${message}`;
    return { counts, discovered: conditionState(status, reason, text) };
  };
  if (failure !== null) return result('WriteFailed', `failed to write discovered clusters: ${failure}`);
  if (held > 0) {
    const message = `${held} Services are gone at once, and their clusters stay; confirm with POST /api/heldDeletions/confirm, or create the Services again`;
    return result('DeletionsHeld', message);
  }
  // Looks that find the same have the same message; conflicts come first.
  const shown = (ofNames.length > 0 ? ofNames : findings).toSorted(([a], [b]) => (a < b ? -1 : 1));
  const [first] = shown;
  if (first !== undefined) {
    const what = ofNames.length > 0 ? "names that are not this discovery's" : 'Services that become no clusters';
    const listed = shown.slice(0, LISTED).map(([service, { message }]) => `${service}: ${message}`);
    if (shown.length > LISTED) listed.push(`and ${shown.length - LISTED} more`);
    return result(first[1].reason, `${what}: ${listed.join('; ')}`);
  }
  return settled === services
    ? result('Discovered', null, 'True')
    : result('Pending', 'clusters are being written', 'Unknown');
}
