import { problemText } from '../../model/errors.ts';
import { claimNames } from '../../model/nameClaims.ts';
import { keyTextOf, type Resource } from '../../model/resource.ts';
import { registryNameOf } from '../../model/resourceName.ts';
import { DEFAULT_WEIGHT } from '../../model/strategies.ts';
import type { RoutableCluster } from '../../routing/routingTable.ts';
import type { Tenancy } from '../../rules/tenancy.ts';
import type { BackendRow } from '../../store/store.ts';
import {
  type Acceptance,
  accepted,
  liveOf,
  nameConflict,
  notAccepted,
  notGranted,
  outcomeOf,
  type ResourceOutcome,
} from '../outcome.ts';
import { type Address, type ServiceLookup, serviceHost } from '../serviceLookup.ts';
import { effectiveActive, type OverrideState, overrideOf } from './activeOverride.ts';
import { clusterCertificates, hasTlsReferences } from './certificates.ts';
import { type ClusterPolicy, policyRejection } from './clusterPolicy.ts';
import { ENGINE_CLUSTER, type EngineClusterSpec } from './spec.ts';
import { clusterSpecProblems } from './validation.ts';

export interface ClusterOutcome extends ResourceOutcome {
  readonly acceptance: Acceptance;
  /** The routed cluster: of this version or, while it is not accepted or suspended, of the last good one; null: none. */
  readonly routable: RoutableCluster | null;
  readonly override: OverrideState;
  /** Registry names of other clusters of its URL. */
  readonly sameUrl?: readonly string[];
}

export function isClusterOutcome(outcome: ResourceOutcome): outcome is ClusterOutcome {
  return outcome.key.kind === ENGINE_CLUSTER;
}

/** Inputs of outcomes in addition to the resources. */
export interface ClusterContext {
  readonly services: ServiceLookup;
  readonly allowedServiceNamespaces: readonly string[];
  readonly policy: ClusterPolicy;
  readonly tenancy: Tenancy;
  readonly lastGood: ReadonlyMap<string, RoutableCluster>;
}

/** The outcome of every EngineCluster there is, by `keyText`. Pure. */
export function clusterOutcomes(
  resources: readonly Resource[],
  context: ClusterContext,
): ReadonlyMap<string, ClusterOutcome> {
  const holders = claimNames(resources.filter((resource) => context.tenancy.nameRejectionOf(resource) === null));
  return new Map(
    liveOf(resources).map((resource) => {
      const holder = holders.get(registryNameOf(resource)) ?? resource;
      return [keyTextOf(resource), clusterOutcome(resource, holder, context)];
    }),
  );
}

interface KnownOutcome {
  readonly holder: Resource;
  readonly lastGood: RoutableCluster | undefined;
  readonly tenancy: Tenancy;
  readonly outcome: ClusterOutcome;
}
const outcomes = new WeakMap<Resource, KnownOutcome>();

/** The same object as before where nothing that it depends on has changed: there may be thousands. */
function clusterOutcome(resource: Resource, holder: Resource, context: ClusterContext): ClusterOutcome {
  const lastGood = context.lastGood.get(resource.metadata.uid);
  const { tenancy } = context;
  const before = outcomes.get(resource);
  // A Service, or a referenced certificate, may have changed meanwhile.
  const mayBeKnown = before !== undefined && !('serviceRef' in resource.spec) && !hasTlsReferences(resource.spec);
  // An accepted cluster only depends on its present version, and becomes the last good one itself.
  const isOwn = before?.outcome.acceptance.status === 'True' && !before.outcome.suspended;
  const sameLastGood = isOwn || before?.lastGood === lastGood;
  if (mayBeKnown && before.holder === holder && sameLastGood && before.tenancy === tenancy) return before.outcome;
  const outcome = newClusterOutcome(resource, holder, context);
  outcomes.set(resource, { holder, lastGood, tenancy, outcome });
  return outcome;
}

function newClusterOutcome(resource: Resource, holder: Resource, context: ClusterContext): ClusterOutcome {
  const base = outcomeOf(resource);
  const { registryName, suspended } = base;
  const last = context.lastGood.get(resource.metadata.uid);
  // The name is another's by now, or was this one's before it changed: neither may be routed under it.
  const lastGoodOfName = holder === resource && last?.name === registryName ? last : null;
  // A version that was allowed before, but is not now, is not routed.
  const { policy, tenancy } = context;
  const isAllowed =
    lastGoodOfName !== null && policyRejection(policy, tenancy, resource.metadata.namespace, lastGoodOfName) === null;
  const lastGood = isAllowed ? lastGoodOfName : null;
  const outcome = (acceptance: Acceptance, routable: RoutableCluster | null): ClusterOutcome => ({
    ...base,
    acceptance,
    routable: suspended ? lastGood : routable,
    override: overrideOf(resource),
  });
  const rejectedName = tenancy.nameRejectionOf(resource);
  if (rejectedName !== null) {
    // Nothing may be known by the name that it asks for.
    const { namespace, name } = resource.metadata;
    return { ...outcome(notGranted(rejectedName), null), registryName: `${namespace}/${name}` };
  }
  if (holder !== resource) return outcome(nameConflict(resource, holder), null);
  const problems = clusterSpecProblems(resource.spec);
  if (problems.length > 0) {
    const message = `${problemText(problems)}${lastGood === null ? '' : '; the last good version stays in force'}`;
    return outcome(notAccepted('InvalidSpec', message), lastGood);
  }
  const spec = resource.spec as EngineClusterSpec;
  const address = dereference(resource, spec, context.services, context.allowedServiceNamespaces);
  if (!address.ok) {
    const { reason, message, final, forbidden } = address;
    const served = forbidden !== undefined && lastGood?.proxyTo.startsWith(forbidden) ? null : lastGood;
    return outcome({ status: final ? 'False' : 'Unknown', reason, message, final }, served);
  }
  const cluster = routableCluster(resource, spec, address.url);
  const refusal = refusalOf(resource, cluster, address.externalName, context);
  if (refusal !== null) return outcome(refusal, lastGood);
  const certificates = clusterCertificates(resource.metadata.namespace, spec.tls ?? {}, context.services);
  if (!certificates.ok) {
    const { reason, message, final } = certificates;
    return outcome({ status: final ? 'False' : 'Unknown', reason, message, final }, lastGood);
  }
  const { material } = certificates;
  return outcome(accepted('the cluster is valid'), material === null ? cluster : { ...cluster, tlsMaterial: material });
}

/** The acceptance of a cluster that the configuration does not allow; null when it does. */
function refusalOf(
  resource: Resource,
  cluster: RoutableCluster,
  externalName: string | undefined,
  { policy, tenancy }: ClusterContext,
): Acceptance | null {
  const { namespace } = resource.metadata;
  const refusal = policyRejection(policy, tenancy, namespace, cluster);
  if (refusal !== null) return notGranted(refusal);
  const outside = externalName === undefined ? null : policy.addresses.hostRejection(externalName);
  if (outside === null) return null;
  const message = `spec.serviceRef: the Service stands for ${externalName}, which ${outside}`;
  return { status: 'False', reason: 'AddressNotAllowed', message, final: false };
}

function routableCluster(resource: Resource, spec: EngineClusterSpec, url: string): RoutableCluster {
  return {
    name: registryNameOf(resource),
    proxyTo: url,
    externalUrl: withoutSlash(spec.externalUrl ?? url),
    ...(spec.externalUrl === undefined ? {} : { hasExternalUrl: true as const }),
    routingGroup: spec.routingGroup,
    active: effectiveActive(resource),
    weight: spec.weight ?? DEFAULT_WEIGHT,
    ...(spec.maxRunningQueries === undefined ? {} : { maxRunningQueries: spec.maxRunningQueries }),
    healthCheck: spec.healthCheck ?? null,
    tls: spec.tls ?? null,
    origin: 'resource',
    uid: resource.metadata.uid,
  };
}

/** The derived row of `gateway_backend`. */
export function toBackendRow(cluster: RoutableCluster): BackendRow {
  return {
    name: cluster.name,
    routingGroup: cluster.routingGroup,
    proxyTo: cluster.proxyTo,
    externalUrl: cluster.externalUrl,
    active: cluster.active,
  };
}

export function rowCluster(row: BackendRow): RoutableCluster {
  const proxyTo = withoutSlash(row.proxyTo);
  return {
    name: row.name,
    proxyTo,
    externalUrl: withoutSlash(row.externalUrl === '' ? proxyTo : row.externalUrl),
    routingGroup: row.routingGroup,
    active: row.active,
    weight: DEFAULT_WEIGHT,
    healthCheck: null,
    tls: null,
    origin: 'row',
  };
}

/** First step of a reconcile: from what a resource refers to, to what it states. */
function dereference(
  resource: Resource,
  spec: EngineClusterSpec,
  services: ServiceLookup,
  allowedServiceNamespaces: readonly string[],
): Address {
  if (spec.serviceRef === undefined) return { ok: true, url: withoutSlash(spec.proxyTo ?? '') };
  const own = resource.metadata.namespace;
  const { name, namespace = own, port, scheme = 'HTTP' } = spec.serviceRef;
  const reference = { name, namespace, port, scheme };
  if (namespace !== own && !allowedServiceNamespaces.includes(namespace)) {
    return {
      ok: false,
      reason: 'RefNotPermitted',
      message: `spec.serviceRef.namespace ${namespace} is not this resource's own; add it to resources.allowedServiceNamespaces`,
      final: true,
      forbidden: serviceHost(reference),
    };
  }
  return services.address(reference);
}

/** One trailing slash is cut (docs/compatibility.md#cluster-registry). */
export function withoutSlash(url: string): string {
  return url.endsWith('/') ? url.slice(0, -1) : url;
}
