import { openAddresses } from '../../model/clusterAddresses.ts';
import { areAlike, isRecord } from '../../model/record.ts';
import { ACTIVE_ANNOTATION, type Resource, registryNameOf } from '../../model/resource.ts';
import type { AdmissionCounts } from '../../routing/admissionCounts.ts';
import type { ClusterEntry, RoutableCluster } from '../../routing/routingTable.ts';
import { openTenancy } from '../../rules/tenancy.ts';
import type { BackendRow } from '../../store/store.ts';
import {
  conditionState,
  countField,
  type ForwardedHeadersFinding,
  ready,
  type State,
  type StatusDraft,
  type StatusView,
  statusDraft,
} from '../outcome.ts';
import {
  type CheckedManifest,
  column,
  conditionColumn,
  type Exportable,
  type ExportedResource,
  groupFindings,
  type KindProgram,
  type ManifestFinding,
  type ProgramSettings,
  plainKind,
  type ResourceKind,
  type RoutingDraft,
  writeAccess,
} from '../resourceKind.ts';
import { noServices } from '../serviceLookup.ts';
import {
  type ClusterOutcome,
  clusterOutcomes,
  clusterSpecProblems,
  rowCluster,
  specActive,
  toBackendRow,
} from './clusterOutcome.ts';
import { ENGINE_CLUSTER, ENGINE_CLUSTERS, EngineClusterSpec, TLS_WITHOUT_HTTPS } from './spec.ts';

/** Clusters behind the gateway (docs/resources.md). */
export const engineCluster: ResourceKind<ClusterOutcome> = {
  ...plainKind,
  kind: ENGINE_CLUSTER,
  plural: ENGINE_CLUSTERS,
  singular: 'enginecluster',
  shortName: 'ec',
  description: 'EngineCluster is a query engine cluster behind the gateway.',
  spec: EngineClusterSpec,
  statusProperties: {
    active: {
      type: 'boolean',
      description: 'Effective value of spec.active: an override by annotation goes before it.',
    },
    proxyTo: { type: 'string', description: 'URL in use: spec.proxyTo, or what spec.serviceRef resolved to.' },
    runningQueries: countField(
      'Queries that run, as its health check counts them, or those that count against maxRunningQueries.',
    ),
    queuedQueries: countField('Queries that wait on the cluster, as its health check counts them.'),
    version: { type: 'string', description: 'Version of the engine, as GET /v1/info reported it.' },
    coordinatorId: {
      type: 'string',
      description:
        'The five characters that the ids of queries of its coordinator end in, as GET /v1/info reported them.',
    },
  },
  columns: [
    column('Group', 'string', 'spec.routingGroup', 'Routing group.'),
    column('Active', 'boolean', 'status.active', 'Takes new queries.'),
    conditionColumn('Healthy', 'The last health check was good.'),
    column('Running', 'integer', 'status.runningQueries', 'Queries that run.'),
    column('Queued', 'integer', 'status.queuedQueries', 'Queries that wait.', 1),
    column('Version', 'string', 'status.version', 'Version of the engine.', 1),
    column('URL', 'string', 'status.proxyTo', 'URL in use.', 1),
    column('Override', 'string', 'status.conditions[?(@.type=="Active")].reason', 'Why it is active or not.', 1),
  ],
  selectableFields: ['.spec.routingGroup', '.spec.active', '.spec.gatewayClassName'],
  example: { proxyTo: 'http://engine-a:8080', routingGroup: 'adhoc' },
  ownAccess: writeAccess(
    'The controller lists and watches the resources; REST writes create, apply (patch) and delete clusters.',
  ),
  gauge: { name: 'engine_clusters', help: 'EngineCluster resources.' },
  specProblems: clusterSpecProblems,
  findings: clusterFindings,
  exported: exportedClusters,
  program: (settings) => new ClusterProgram(settings),
  status: clusterStatusIn,
  endedAnnotations: ({ override }) => (override.kind === 'ended' ? [ACTIVE_ANNOTATION] : []),
  rows: {
    ofOutcome: ({ routable }) => (routable === null ? null : toBackendRow(routable)),
    ofResource: standaloneRow,
  },
  isRequired: true,
  worksWithoutResources: true,
  hasUniqueNames: true,
};

/** Rows of `gateway_backend` as EngineClusters. */
function* exportedClusters({ clusters }: Exportable): Generator<ExportedResource> {
  for (const { name, proxyTo, externalUrl, active, routingGroup } of clusters) {
    const external = externalUrl === proxyTo || externalUrl === '' ? {} : { externalUrl };
    yield { registryName: name, spec: { proxyTo, ...external, active, routingGroup } };
  }
}

/**
 * Row of `gateway_backend` that a cluster gives when it is looked at alone; null if it is suspended or not accepted, as its last
 * good version may be routed, which is not known here.
 */
function standaloneRow(resource: Resource): BackendRow | null {
  const context = {
    services: noServices,
    allowedServiceNamespaces: [],
    addresses: openAddresses,
    tenancy: openTenancy,
  };
  const [outcome] = clusterOutcomes([resource], { ...context, lastGood: new Map() }).values();
  return outcome?.routable == null ? null : toBackendRow(outcome.routable);
}

/** Findings about an EngineCluster that the API server rejects while existing resources continue. */
function clusterFindings({ spec }: CheckedManifest): readonly ManifestFinding[] {
  const findings = groupFindings(spec.routingGroup, 'spec.routingGroup');
  if (typeof spec.proxyTo === 'string' && /^https?:\/\/[^/]+\/./.test(spec.proxyTo)) {
    const message = 'spec.proxyTo: must end after host and port; leave out the path';
    findings.push({ severity: 'problem', message, at: 'spec.proxyTo' });
  }
  if (isRecord(spec.tls) && !isHttps(spec)) {
    findings.push({ severity: 'problem', message: `spec.tls: ${TLS_WITHOUT_HTTPS}`, at: 'spec.tls' });
  }
  return findings;
}

function isHttps({ proxyTo, serviceRef }: CheckedManifest['spec']): boolean {
  if (typeof proxyTo === 'string') return proxyTo.startsWith('https://');
  return isRecord(serviceRef) && serviceRef.scheme === 'HTTPS';
}

class ClusterProgram implements KindProgram {
  readonly #settings: ProgramSettings;
  readonly #lastGood = new Map<string, RoutableCluster>();

  constructor(settings: ProgramSettings) {
    this.#settings = settings;
  }

  restore(resources: readonly Resource[], rows: readonly BackendRow[]): void {
    const byName = new Map(rows.map((row) => [row.name, row]));
    for (const resource of resources) {
      const { uid } = resource.metadata;
      const row = byName.get(registryNameOf(resource));
      if (row === undefined || this.#lastGood.has(uid)) continue;
      const rolloutOnly = resource.spec.rolloutOnly === true && { rolloutOnly: true };
      this.#lastGood.set(uid, { ...rowCluster(row), ...rolloutOnly, origin: 'resource', uid });
    }
  }

  refresh(resources: readonly Resource[], draft: RoutingDraft): ReadonlyMap<string, ClusterOutcome> {
    const { services, allowedServiceNamespaces, addresses } = this.#settings;
    const outcomes = clusterOutcomes(resources, {
      services,
      allowedServiceNamespaces,
      addresses,
      tenancy: draft.tenancy,
      lastGood: this.#lastGood,
    });
    this.#remember(outcomes);
    draft.clusters = withRows(outcomes, draft.rows);
    return withSameUrls(outcomes, draft.clusters);
  }

  #remember(outcomes: ReadonlyMap<string, ClusterOutcome>): void {
    const live = new Set<string>();
    for (const { resource, routable } of outcomes.values()) {
      live.add(resource.metadata.uid);
      if (routable !== null) this.#lastGood.set(resource.metadata.uid, routable);
    }
    for (const uid of this.#lastGood.keys()) if (!live.has(uid)) this.#lastGood.delete(uid);
  }
}

function withRows(
  outcomes: ReadonlyMap<string, ClusterOutcome>,
  rows: readonly BackendRow[],
): readonly RoutableCluster[] {
  const routable = [...outcomes.values()].map((outcome) => outcome.routable).filter((cluster) => cluster !== null);
  const claimed = new Set(outcomes.values().map((outcome) => outcome.registryName));
  return [...routable, ...rows.filter((row) => !claimed.has(row.name)).map(rowCluster)];
}

/** Number of names that the condition `SharedURL` lists. */
const LISTED_NAMES = 10;
/** Outcomes with the names of other clusters of their URL, by those without. */
const withNames = new WeakMap<ClusterOutcome, ClusterOutcome>();

/** Adds the names of clusters with one URL to their outcomes. */
function withSameUrls(
  outcomes: ReadonlyMap<string, ClusterOutcome>,
  clusters: readonly RoutableCluster[],
): ReadonlyMap<string, ClusterOutcome> {
  const byUrl = Map.groupBy(clusters, ({ proxyTo }) => proxyTo);
  if (byUrl.size === clusters.length) return outcomes;
  // As many as are listed, one that shows that there are more, and its own: thousands of clusters may have one URL.
  const firstOf = new Map(
    [...byUrl].map(([url, all]) => [
      url,
      all
        .map(({ name }) => name)
        .toSorted()
        .slice(0, LISTED_NAMES + 2),
    ]),
  );
  return new Map(
    [...outcomes].map(([key, outcome]) => {
      const { routable, registryName } = outcome;
      const names = routable === null ? [] : (firstOf.get(routable.proxyTo) ?? []);
      const sameUrl = names.filter((name) => name !== registryName).slice(0, LISTED_NAMES + 1);
      return [key, sameUrl.length === 0 ? outcome : outcomeOfSharedUrl(outcome, sameUrl)];
    }),
  );
}

/** The same object as before while nothing changed. */
function outcomeOfSharedUrl(outcome: ClusterOutcome, sameUrl: readonly string[]): ClusterOutcome {
  const before = withNames.get(outcome);
  if (before?.sameUrl !== undefined && areAlike(before.sameUrl, sameUrl)) return before;
  const changed = { ...outcome, sameUrl };
  withNames.set(outcome, changed);
  return changed;
}

/** The status of a cluster by the routing table and what the data plane found. Pure. */
function clusterStatusIn(outcome: ClusterOutcome, { stored, table, findings, counts }: StatusView): StatusDraft {
  const { registryName, routable, acceptance, sameUrl } = outcome;
  const entry = routable === null ? null : (table.clusters.get(registryName) ?? null);
  const credentials = findings.credentials.get(registryName);
  return statusDraft(
    outcome,
    acceptance,
    routable === null ? {} : { active: routable.active, proxyTo: routable.proxyTo, ...engineFields(entry, counts) },
    {
      Healthy: healthy(entry),
      Active: active(outcome),
      ForwardedHeaders: forwarded(findings.forwardedHeaders.get(registryName)),
      Ready: ready(acceptance, stored),
      SharedURL: sameUrl === undefined ? null : shared(sameUrl),
      HealthCredentials:
        credentials === undefined ? null : conditionState('False', credentials.reason, credentials.message),
    },
  );
}

/** Fields of a status that show the engine, as far as they are known. */
function engineFields(entry: ClusterEntry | null, counts: AdmissionCounts): Readonly<Record<string, unknown>> {
  if (entry === null) return {};
  const { running, queued, version, coordinatorId } = entry.health;
  const fields = {
    runningQueries: running ?? (entry.maxRunningQueries === undefined ? null : counts.cluster(entry.name)),
    queuedQueries: queued,
  };
  const all = Object.entries({ ...fields, version, coordinatorId });
  return Object.fromEntries(all.filter(([, value]) => value !== null && value !== undefined));
}

function shared(names: readonly string[]): State {
  const listed = names.slice(0, LISTED_NAMES).join(', ');
  const message = `the same URL is that of ${listed}${names.length > LISTED_NAMES ? ', …' : ''}: the history may name the wrong one, and queries count on each; give each cluster another URL, or delete the others`;
  return conditionState('True', 'SharedURL', message);
}

function healthy(entry: ClusterEntry | null): State {
  if (entry === null) return conditionState('Unknown', 'NotRouted', 'the cluster is not in the routing table');
  const { status, reason } = entry.health;
  if (status === 'HEALTHY') return conditionState('True', 'Healthy', 'the last health check was good');
  return status === 'UNHEALTHY'
    ? conditionState('False', 'Unhealthy', reason ?? '')
    : conditionState('Unknown', 'Pending', reason ?? '');
}

function active({ resource, override }: ClusterOutcome): State {
  const specified = specActive(resource);
  const status = (value: boolean): State['status'] => (value ? 'True' : 'False');
  if (override.kind === 'inForce') {
    const { active: value, by, at } = override.override;
    const when = at === null ? '' : ` at ${at}`;
    const word = value ? 'activated' : 'deactivated';
    return conditionState(status(value), 'Overridden', `${word} by ${by}${when}; spec.active is ${specified}`);
  }
  const note = override.kind === 'unreadable' ? `; ${override.message}` : '';
  return conditionState(status(specified), 'AsSpecified', `spec.active is ${specified}${note}`);
}

function forwarded(finding: ForwardedHeadersFinding | undefined): State {
  if (finding === undefined) return conditionState('Unknown', 'NotObserved', 'no query has been seen yet');
  return finding.ok
    ? conditionState('True', 'Honoured', finding.message)
    : conditionState('False', 'NotHonoured', finding.message);
}
