import { isDeepStrictEqual } from 'node:util';
import {
  type ConditionDraft,
  conditionsAt,
  type Kind,
  keyOf,
  keyText,
  nameConflictMessage,
  type Resource,
  type ResourceKey,
  registryNameOf,
} from '../model/resource.ts';
import type { ReplayProgress } from '../replay/replayJobs.ts';
import type { RolloutState } from '../rollout/rolloutState.ts';
import type { AdmissionCount, AdmissionCounts } from '../routing/admissionCounts.ts';
import type { GroupPolicy } from '../routing/admissionPolicy.ts';
import type { RoutableCluster, RoutingTable } from '../routing/routingTable.ts';
import { type GrantRejection, grantText } from '../rules/tenancy.ts';
import { ENGINE_CLUSTER } from './engineCluster/spec.ts';
import { ENGINE_TENANT } from './engineTenant/spec.ts';
import type { GroupTargetState } from './resourceGroupConfiguration/kind.ts';
import { ROUTING_RULE } from './routingRule/spec.ts';

/** Outcome of a resource; each kind extends it. Immutable. */
export interface ResourceOutcome {
  readonly key: ResourceKey;
  readonly resource: Resource;
  /** Name in the registry (of a rule: its name). */
  readonly registryName: string;
  /** `spec.suspend`. */
  readonly suspended: boolean;
}

/** The part of an outcome that each resource has. */
export function outcomeOf(resource: Resource): ResourceOutcome {
  return { key: keyOf(resource), resource, registryName: registryNameOf(resource), suspended: isSuspended(resource) };
}

/** True if two outcomes say the same of the same version of a resource. */
export function isSameOutcome(a: ResourceOutcome, b: ResourceOutcome): boolean {
  if (a === b) return true;
  const { resource: resourceA, ...restA } = a;
  const { resource: resourceB, ...restB } = b;
  return resourceA === resourceB && isDeepStrictEqual(restA, restB);
}

export function isSuspended({ spec }: Resource): boolean {
  return spec.suspend === true;
}

/** Resources that are not being deleted. */
export function liveOf(resources: readonly Resource[]): readonly Resource[] {
  return resources.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
}

/** A condition without its type and generation. */
export type State = Pick<ConditionDraft, 'status' | 'reason' | 'message'>;

export function conditionState(status: State['status'], reason: string, message: string): State {
  return { status, reason, message };
}

export interface Acceptance extends State {
  /** Nothing but a change of the resource, or of the one that has its name, fixes it (condition `Stalled`). */
  readonly final: boolean;
}

export function accepted(message: string): Acceptance {
  return { ...conditionState('True', 'Accepted', message), final: false };
}

/** A resource that is not accepted until a user changes it. */
export function notAccepted(reason: string, message: string): Acceptance {
  return { ...conditionState('False', reason, message), final: true };
}

export function nameConflict(resource: Resource, holder: Resource): Acceptance {
  return notAccepted('NameConflict', nameConflictMessage(resource, holder));
}

/** The acceptance of a resource whose namespace may not declare it. */
export function notGranted(refusal: GrantRejection): Acceptance {
  return notAccepted(refusal.reason, grantText(refusal));
}

/** True if a resource is accepted as it is; false for kinds that accept in another way. */
export function isAccepted(outcome: ResourceOutcome & { readonly acceptance?: Acceptance }): boolean {
  return outcome.acceptance?.status === 'True';
}

export function clustersByGroup(clusters: readonly RoutableCluster[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const { routingGroup } of clusters) counts.set(routingGroup, (counts.get(routingGroup) ?? 0) + 1);
  return counts;
}

/** Routing groups that queries can be sent to: those with clusters, and those with a fallback that has some. */
export function servedGroups(
  clusters: readonly RoutableCluster[],
  policies: ReadonlyMap<string, GroupPolicy>,
): ReadonlySet<string> {
  const counts = clustersByGroup(clusters);
  const served = new Set(counts.keys());
  for (const { name, fallbacks } of policies.values()) {
    if (fallbacks.some((fallback) => counts.has(fallback))) served.add(name);
  }
  return served;
}

/** `the routing group a`, `the routing groups a, b`: the first ten of them. */
export function groupsText(names: readonly string[]): string {
  const listed = names.slice(0, 10).join(', ');
  return `the routing group${names.length === 1 ? '' : 's'} ${listed}${names.length > 10 ? ', …' : ''}`;
}

export interface StatusDraft {
  readonly observedGeneration: number;
  readonly conditions: readonly ConditionDraft[];
  readonly fields: Readonly<Record<string, unknown>>;
}

export interface Stored {
  readonly stored: boolean;
  /** Reason; empty if stored. */
  readonly reason: string;
}

/** Content of a status in addition to the outcome of the resource. */
export interface StatusView {
  readonly stored: Stored;
  readonly table: RoutingTable;
  readonly findings: Findings;
  readonly counts: AdmissionCounts;
}

/**
 * The condition `Ready`: the first state that is not true, or `Ready`.
 * @param others states that it sums up; a suspended resource, which is in its desired state, has none
 */
export function ready(acceptance: Acceptance, stored: Stored, ...others: readonly State[]): State {
  if (acceptance.status !== 'True') return acceptance;
  if (!stored.stored) return conditionState('False', 'NotStored', stored.reason);
  const unmet = others.find(({ status }) => status === 'False') ?? others.find(({ status }) => status === 'Unknown');
  return unmet ?? conditionState('True', 'Ready', 'accepted, in the routing table and in the database');
}

const suspendedState = conditionState(
  'True',
  'Suspended',
  'spec.suspend is true: the gateway does not act on the resource until it is false',
);

/**
 * The status of a resource: `Accepted`, the conditions of its kind, `Stalled` where only a change by a user helps, and `Suspended`. Pure.
 * @param conditions by type, `Ready` among them; null: it is left out
 */
export function statusDraft(
  { resource, suspended }: ResourceOutcome,
  acceptance: Acceptance,
  fields: StatusDraft['fields'],
  conditions: Readonly<Record<string, State | null>>,
): StatusDraft {
  const { generation } = resource.metadata;
  const isStalled = acceptance.final && acceptance.status === 'False';
  const { Ready: readiness = null, Stalled: stalled = null, Suspended: paused = null } = conditions;
  const all = Object.entries({
    Accepted: acceptance,
    ...conditions,
    // A suspended resource is in its desired state.
    Ready: suspended && readiness?.status === 'True' ? suspendedState : readiness,
    Stalled: isStalled ? acceptance : stalled,
    Suspended: suspended ? suspendedState : paused,
  });
  const drafts = all.flatMap(([type, state]) => {
    if (state === null) return [];
    return [conditionsAt(generation)(type, type === 'Stalled' ? 'True' : state.status, state.reason, state.message)];
  });
  return { observedGeneration: generation, fields, conditions: drafts };
}

/** Counts as fields of a status: without those that are not known. */
export function usageFields(count: AdmissionCount | null): Readonly<Record<string, number>> {
  if (count === null) return {};
  const { running, waiting, refused } = count;
  const limited = running === null ? null : { runningQueries: running };
  return { ...limited, queuedQueries: waiting, rejectedQueries: refused };
}

/** Schema of a field of a status that is a count. */
export const countField = (description: string) => ({ type: 'integer', format: 'int64', minimum: 0, description });

/** Fields of a status that show how much of a limit is used, as the last count of all replicas found it. */
export const countProperties = {
  runningQueries: countField('Queries that run and count against it, on all replicas.'),
  queuedQueries: countField('Queries that wait for it.'),
  rejectedQueries: countField(
    'Queries that it rejected, or would have rejected where it only observes, since counting began.',
  ),
};

export interface ForwardedHeadersFinding {
  readonly ok: boolean;
  readonly message: string;
}

/** Reason that a check's credentials are not sent to a cluster. */
export interface CredentialsFinding {
  readonly reason: string;
  readonly message: string;
}

type Outcomes = { readonly of: (kind: Kind) => readonly ResourceOutcome[] };
type OfGeneration = { readonly generation: number; readonly message: string };

/** Observations of one resource by this replica. */
interface Finding {
  /** The last failure of a rule or tenant at evaluation. */
  readonly failure?: OfGeneration;
  /** The last change of its row by another program that was overwritten, and when, in monotonic milliseconds. */
  readonly overruled?: OfGeneration & { readonly at: number };
  /** When its status was written last, in monotonic milliseconds. */
  readonly written?: { readonly uid: string; readonly at: number };
  /** State of the rollout that it declares; left out: not known yet. */
  readonly rollout?: RolloutState;
  /** Progress of the replay that it declares; left out: not known yet. */
  readonly replay?: ReplayProgress;
  /** States of the groups that it declares, by database; left out: not tried yet. */
  readonly targets?: readonly GroupTargetState[];
}

/** Time for which the condition `Drift` is shown at most, in milliseconds. */
const DRIFT_MS = 24 * 3_600_000;

/** This replica's observations of resources, for their statuses. */
export class Findings {
  readonly #byKey = new Map<string, Finding>();
  /** By cluster, from its first query on. */
  readonly forwardedHeaders = new Map<string, ForwardedHeadersFinding>();
  /** By cluster. */
  readonly credentials = new Map<string, CredentialsFinding>();

  /** @param key as `keyText` has it */
  of(key: string): Finding {
    return this.#byKey.get(key) ?? {};
  }

  note(key: string, finding: Finding): void {
    this.#byKey.set(key, { ...this.of(key), ...finding });
  }

  /** Drops the findings of a resource that was deleted. */
  forget(key: string): void {
    this.#byKey.delete(key);
  }

  /** Notes that a rule as it is now failed for a request. @returns keys of the resources whose status that changes */
  noteRuleFailure(rule: string, message: string, outcomes: Outcomes): readonly string[] {
    return this.#noteFailure(outcomesOfName(outcomes, ROUTING_RULE, rule), message);
  }

  /** Notes the first query that tenants as they are now match together. @returns as `noteRuleFailure` */
  noteTenantConflict(tenants: readonly string[], outcomes: Outcomes): readonly string[] {
    const message = `spec.decides of the tenants ${tenants.join(', ')} match the same query, which none of them decides`;
    const all = tenants.flatMap((name) => outcomesOfName(outcomes, ENGINE_TENANT, name));
    return this.#noteFailure(
      all.filter((outcome) => this.failure(outcome) === null),
      message,
    );
  }

  #noteFailure(outcomes: readonly ResourceOutcome[], message: string): readonly string[] {
    const changed = outcomes.filter((outcome) => this.failure(outcome) !== message);
    for (const { key, resource } of changed)
      this.note(keyText(key), { failure: { generation: resource.metadata.generation, message } });
    return changed.map(({ key }) => keyText(key));
  }

  /** The last failure of the current version of a rule or tenant, or null. */
  failure({ key, resource }: ResourceOutcome): string | null {
    const { failure } = this.of(keyText(key));
    return failure?.generation === resource.metadata.generation ? failure.message : null;
  }

  /** The condition `Drift` of a version of a resource, for a day; null: nothing was overwritten. @param now monotonic milliseconds */
  drift(key: string, generation: number, now: number): ConditionDraft | null {
    const { overruled } = this.of(key);
    if (overruled?.generation !== generation || now - overruled.at >= DRIFT_MS) return null;
    return conditionsAt(generation)('Drift', 'True', 'ForeignWriteOverruled', overruled.message);
  }

  /** Ends drifts that have been shown for a day. @returns keys of their resources */
  endDrifts(now: number): readonly string[] {
    const over = [...this.#byKey].filter(([, { overruled }]) => overruled && now - overruled.at >= DRIFT_MS);
    return over.map(([key, { overruled: _, ...finding }]) => {
      this.#byKey.set(key, finding);
      return key;
    });
  }
}

/** Notes a finding about a cluster; null forgets it. @returns keys of the resources whose status that changes */
export function noteFinding<Found>(
  findings: Map<string, Found>,
  cluster: string,
  finding: Found | null,
  outcomes: Outcomes,
): readonly string[] {
  if (isDeepStrictEqual(findings.get(cluster) ?? null, finding)) return [];
  if (finding === null) findings.delete(cluster);
  else findings.set(cluster, finding);
  return keysOfCluster(outcomes, cluster);
}

/** Keys of the resources whose status depends on a cluster, by its registry name. */
export function keysOfCluster(outcomes: Outcomes, cluster: string): string[] {
  return outcomesOfName(outcomes, ENGINE_CLUSTER, cluster).map(({ key }) => keyText(key));
}

function outcomesOfName(outcomes: Outcomes, kind: Kind, name: string): readonly ResourceOutcome[] {
  return outcomes.of(kind).filter(({ registryName }) => registryName === name);
}
