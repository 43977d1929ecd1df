import { isDeepStrictEqual } from 'node:util';
import type { ConditionDraft } from '../model/condition.ts';
import { nameConflictMessage } from '../model/nameClaims.ts';
import { keyOf, PAUSED_ANNOTATION, type Resource, type ResourceKey } from '../model/resource.ts';
import { registryNameOf } from '../model/resourceName.ts';
import type { GroupPolicy } from '../routing/admissionPolicy.ts';
import type { RoutableCluster } from '../routing/routingTable.ts';

/** Outcome of a resource; each kind extends it. Immutable. */
export interface ResourceOutcome {
  readonly key: ResourceKey;
  readonly resource: Resource;
  /** Name in the registry (of a rule: its name). */
  readonly registryName: string;
  readonly paused: boolean;
}

/** The part of an outcome that each resource has. */
export function outcomeOf(resource: Resource): ResourceOutcome {
  return { key: keyOf(resource), resource, registryName: registryNameOf(resource), paused: isPaused(resource) };
}

/** True if two outcomes say the same of the same version of a resource. */
export function isSameOutcome(a: ResourceOutcome, b: ResourceOutcome): boolean {
  if (a === b) return true;
  const { resource: resourceA, ...restA } = a;
  const { resource: resourceB, ...restB } = b;
  return resourceA === resourceB && isDeepStrictEqual(restA, restB);
}

export function isPaused(resource: Resource): boolean {
  return resource.metadata.annotations?.[PAUSED_ANNOTATION] === 'true';
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

/** Reason that a namespace may not declare something of routing groups (docs/resources.md#several-teams). */
export interface GroupRefusal {
  /** Field of the spec, without `spec.`; null: no field is to be corrected. */
  readonly field: string | null;
  readonly message: string;
}

/** The acceptance of a resource whose namespace may not declare it. */
export function groupNotAllowed({ field, message }: GroupRefusal): Acceptance {
  return notAccepted('GroupNotAllowed', field === null ? message : `spec.${field}: ${message}`);
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
