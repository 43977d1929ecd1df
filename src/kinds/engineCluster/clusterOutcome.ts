import { createSecureContext } from 'node:tls';
import { isDeepStrictEqual } from 'node:util';
import { certificatesProblem } from '../../model/certificates.ts';
import type { ClusterAddresses } from '../../model/clusterAddresses.ts';
import { clusterUrlProblem } from '../../model/clusterAddresses.ts';
import { type Problem, problemText } from '../../model/errors.ts';
import { isRecord } from '../../model/record.ts';
import { ACTIVE_ANNOTATION, claimNames, keyTextOf, type Resource, registryNameOf } from '../../model/resource.ts';
import { DEFAULT_WEIGHT } from '../../model/strategies.ts';
import type { ClusterTlsMaterial, RoutableCluster } from '../../routing/routingTable.ts';
import type { GrantRejection, Tenancy } from '../../rules/tenancy.ts';
import type { BackendRow } from '../../store/store.ts';
import { portProblem } from '../fields/spec.ts';
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
import { specCheck } from '../resourceKind.ts';
import { type Address, type ObjectData, type ServiceLookup, serviceHost } from '../serviceLookup.ts';
import { type ClusterTlsSpec, ENGINE_CLUSTER, EngineClusterSpec } from './spec.ts';

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
  readonly addresses: ClusterAddresses;
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
  const { addresses, tenancy } = context;
  const isAllowed =
    lastGoodOfName !== null &&
    clusterRejection(addresses, tenancy, resource.metadata.namespace, lastGoodOfName) === null;
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
    const { reason, message, final = false, forbidden } = address;
    const served = forbidden !== undefined && lastGood?.proxyTo.startsWith(forbidden) ? null : lastGood;
    return outcome({ status: final ? 'False' : 'Unknown', reason, message, final }, served);
  }
  const cluster = routableCluster(resource, spec, address.url);
  const refusal = refusalOf(resource, cluster, address.externalName, context);
  if (refusal !== null) return outcome(refusal, lastGood);
  const certificates = clusterCertificates(resource.metadata.namespace, spec.tls ?? {}, context.services);
  if (!certificates.ok) {
    const { reason, message, final = false } = certificates;
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
  { addresses, tenancy }: ClusterContext,
): Acceptance | null {
  const { namespace } = resource.metadata;
  const refusal = clusterRejection(addresses, tenancy, namespace, cluster);
  if (refusal !== null) return notGranted(refusal);
  const outside = externalName === undefined ? null : addresses.hostRejection(externalName);
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
    ...(spec.rolloutOnly === true && { rolloutOnly: true }),
    healthCheck: spec.healthCheck ?? null,
    tls: spec.tls ?? null,
    origin: 'resource',
    uid: resource.metadata.uid,
  };
}

/** The derived row of `gateway_backend`. */
export function toBackendRow({ name, routingGroup, proxyTo, externalUrl, active }: RoutableCluster): BackendRow {
  return { name, routingGroup, proxyTo, externalUrl, active };
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

/**
 * Returns the reason that a cluster may not have a name, an address or a group, or null.
 * @param namespace the resource's
 */
export function clusterRejection(
  addresses: ClusterAddresses,
  tenancy: Tenancy,
  namespace: string,
  { name, proxyTo, routingGroup }: { readonly name: string; readonly proxyTo: string; readonly routingGroup: string },
): GrantRejection | null {
  const message = addresses.urlRejection(proxyTo);
  const ofAddress = message === null ? null : { reason: 'AddressNotAllowed', field: 'proxyTo', message };
  return (
    tenancy.nameRejection(namespace, name) ??
    ofAddress ??
    tenancy.groupRejection(namespace, 'routingGroup', routingGroup)
  );
}

/**
 * A run-time override of `spec.active` (docs/resources.md#activate-and-deactivate): the value of the annotation, read.
 */
export interface ActiveOverride {
  readonly active: boolean;
  readonly by: string;
  /** RFC 3339; null when the annotation does not say. */
  readonly at: string | null;
  /** `spec.active` when it was set; null when the annotation does not have it: then no change of the spec ends it. */
  readonly overrode: boolean | null;
}

export type OverrideState =
  | { readonly kind: 'none' }
  | { readonly kind: 'inForce'; readonly override: ActiveOverride }
  /** `spec.active` changed afterwards: the override is over and its annotation is to be removed. */
  | { readonly kind: 'ended'; readonly override: ActiveOverride }
  | { readonly kind: 'unreadable'; readonly message: string };

/**
 * Reads the override of a resource. A bare `true` or `false`, as a user types it with kubectl, is an override too:
 * it holds until the annotation goes.
 */
export function overrideOf(resource: Resource): OverrideState {
  const text = resource.metadata.annotations?.[ACTIVE_ANNOTATION];
  if (text === undefined) return { kind: 'none' };
  const override = parse(text);
  if (override === null) {
    const form = '{"active": true or false, "by": "…", "at": "…", "overrode": true or false}';
    return { kind: 'unreadable', message: `annotation ${ACTIVE_ANNOTATION} is not of the form ${form} and is ignored` };
  }
  const over = override.overrode !== null && override.overrode !== specActive(resource);
  return { kind: over ? 'ended' : 'inForce', override };
}

/** `spec.active` with its default. */
export function specActive(resource: Resource): boolean {
  return resource.spec.active !== false;
}

/** Effective value of `active`. */
export function effectiveActive(resource: Resource): boolean {
  const state = overrideOf(resource);
  return state.kind === 'inForce' ? state.override.active : specActive(resource);
}

/** The annotation that makes `active` effective: null removes it, undefined leaves it as it is. */
export function activeAnnotation(
  resource: Resource,
  active: boolean,
  by: string,
  at: string,
): string | null | undefined {
  const { kind } = overrideOf(resource);
  if (effectiveActive(resource) === active) return kind === 'ended' || kind === 'unreadable' ? null : undefined;
  const specified = specActive(resource);
  const override: ActiveOverride = { active, by, at, overrode: specified };
  return specified === active ? null : JSON.stringify(override);
}

function parse(text: string): ActiveOverride | null {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return null;
  }
  if (typeof value === 'boolean') return { active: value, by: 'annotation', at: null, overrode: null };
  if (!isRecord(value)) return null;
  const { active, by, at, overrode } = value;
  if (typeof active !== 'boolean') return null;
  return {
    active,
    by: typeof by === 'string' && by !== '' ? by : 'annotation',
    at: typeof at === 'string' ? at : null,
    overrode: typeof overrode === 'boolean' ? overrode : null,
  };
}

type Failure = Extract<ObjectData, { readonly ok: false }>;

/** True if a cluster refers to certificates, which may change without its resource. */
export function hasTlsReferences(spec: object): boolean {
  const { caRef, clientCertificateRef } = (spec as { readonly tls?: ClusterTlsSpec }).tls ?? {};
  return caRef !== undefined || clientCertificateRef !== undefined;
}

/** Certificates that a valid cluster refers to, or the reason that they cannot be used; null: it refers to none. */
export function clusterCertificates(
  namespace: string,
  { caRef, clientCertificateRef }: ClusterTlsSpec,
  lookup: Pick<ServiceLookup, 'objectData'>,
): { readonly ok: true; readonly material: ClusterTlsMaterial | null } | Failure {
  const material: { ca?: string | undefined; certificate?: string; key?: string } = {};
  if (caRef !== undefined) {
    const { kind = 'ConfigMap', name, key = 'ca.crt' } = caRef;
    const object = lookup.objectData(kind, namespace, name);
    if (!object.ok) return at('caRef', object);
    const pem = object.data[key];
    const problem = pem === undefined ? `has no key ${key}` : certificatesProblem(pem);
    if (problem !== null) return invalid('caRef', `${kind} ${namespace}/${name} ${problem}`);
    material.ca = pem;
  }
  if (clientCertificateRef !== undefined) {
    const { name } = clientCertificateRef;
    const object = lookup.objectData('Secret', namespace, name);
    if (!object.ok) return at('clientCertificateRef', object);
    const { 'tls.crt': certificate, 'tls.key': key } = object.data;
    const problem = pairProblem(certificate, key);
    if (problem !== null) return invalid('clientCertificateRef', `Secret ${namespace}/${name} ${problem}`);
    Object.assign(material, { certificate, key });
  }
  return { ok: true, material: caRef === undefined && clientCertificateRef === undefined ? null : material };
}

function pairProblem(cert: string | undefined, key: string | undefined): string | null {
  if (cert === undefined || key === undefined) return 'must have the keys tls.crt and tls.key';
  try {
    createSecureContext({ cert, key });
    return null;
  } catch (error) {
    return `has a certificate and a key that cannot be used: ${error instanceof Error ? error.message : String(error)}`;
  }
}

function at(field: string, failure: Failure): Failure {
  return { ...failure, message: `spec.tls.${field}: ${failure.message}` };
}

function invalid(field: string, message: string): Failure {
  return { ok: false, reason: 'RefInvalid', message: `spec.tls.${field}: ${message}` };
}

const checkSpec = specCheck(EngineClusterSpec, function* ({ tls }) {
  const message = tls?.caBundle === undefined ? null : certificatesProblem(tls.caBundle);
  if (message !== null) yield { field: 'spec.tls.caBundle', message };
});

export function clusterSpecProblems(spec: unknown): readonly Problem[] {
  const ofUrls = new Map<string, Problem>();
  for (const name of ['proxyTo', 'externalUrl']) {
    const text = isRecord(spec) ? spec[name] : undefined;
    const message = typeof text === 'string' ? clusterUrlProblem(text) : null;
    if (message !== null) ofUrls.set(`spec.${name}`, { field: `spec.${name}`, message });
  }
  const problems = checkSpec(spec).filter(({ field }) => !ofUrls.has(field));
  return [...problems.map((each) => portProblem(each, 'spec.serviceRef.port')), ...ofUrls.values()];
}

/** A field of a cluster: what its resource declares, and what is active. */
export interface DeclaredField {
  /** Name below `spec`. */
  readonly field: string;
  /** Null: it is not declared. */
  readonly declared: unknown;
  /** Null: nothing of the cluster is active, or there is no value. */
  readonly inForce: unknown;
  readonly differs: boolean;
}

interface Field {
  readonly of: (cluster: RoutableCluster) => unknown;
  /** Value that counts as declared if absent; default: the active value. */
  readonly absent?: unknown;
  readonly applied?: (declared: unknown) => unknown;
}

const url = (text: unknown) => (typeof text === 'string' ? withoutSlash(text) : text);
const fields: Readonly<Record<string, Field>> = {
  proxyTo: { of: ({ proxyTo }) => proxyTo, applied: url },
  // Values from a Service follow the Service.
  serviceRef: { of: ({ proxyTo }) => proxyTo },
  externalUrl: { of: ({ externalUrl }) => externalUrl, applied: url },
  routingGroup: { of: ({ routingGroup }) => routingGroup },
  active: { of: ({ active }) => active, absent: true },
  weight: { of: ({ weight }) => weight, absent: DEFAULT_WEIGHT },
  maxRunningQueries: { of: ({ maxRunningQueries }) => maxRunningQueries ?? null, absent: null },
  rolloutOnly: { of: ({ rolloutOnly }) => rolloutOnly ?? false, absent: false },
  healthCheck: { of: ({ healthCheck }) => healthCheck, absent: null },
  tls: { of: ({ tls }) => tls, absent: null },
};

/**
 * Compares a resource's declaration with the active values, field by field: they differ if it is suspended, is not
 * accepted, or if `active` is overridden. Fields that are neither declared nor differ from their defaults are omitted.
 * @param spec of the resource, as written
 * @param routable the routed cluster, or null
 */
export function declaredFields(
  spec: Readonly<Record<string, unknown>>,
  routable: RoutableCluster | null,
): readonly DeclaredField[] {
  return Object.entries(fields).flatMap(
    ([field, { of, absent, applied = (value: unknown) => value }]): DeclaredField[] => {
      const declared = spec[field] ?? null;
      const inForce = routable === null ? null : (of(routable) ?? null);
      const wanted = declared === null ? absent : applied(declared);
      const isCompared = routable !== null && field !== 'serviceRef' && wanted !== undefined;
      const differs = routable === null ? declared !== null : isCompared && !isDeepStrictEqual(wanted, inForce);
      return declared === null && !differs ? [] : [{ field, declared, inForce, differs }];
    },
  );
}
