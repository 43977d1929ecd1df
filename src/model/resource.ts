import { Type } from 'typebox';

export const API_GROUP = 'enginegateway.dev';
export const API_VERSION = 'v1beta1';
/** `apiVersion` of most resources. */
export const API_GROUP_VERSION = `${API_GROUP}/${API_VERSION}`;
/** Kinds of the version v1alpha1, with fields that may still change, and their plurals. */
const alphaNames: ReadonlySet<string> = new Set(['QueryReplay', 'queryreplays', 'EngineRollout', 'enginerollouts']);
/** Returns the version of a kind, by its name or its plural. */
export const kindVersion = (name: string): string => (alphaNames.has(name) ? 'v1alpha1' : API_VERSION);
/** Returns `apiVersion` of the resources of a kind. */
export const apiVersionOf = (kind: Kind): string => `${API_GROUP}/${kindVersion(kind)}`;
/** Field manager of changes by REST (server-side apply). */
export const API_FIELD_MANAGER = 'engine-gateway-api';

/** Annotation with a run-time override of `spec.active`, JSON (docs/resources.md#activate-and-deactivate). */
export const ACTIVE_ANNOTATION = `${API_GROUP}/active`;

/** Name of a kind of the API group; `src/kinds/registry.ts` lists them. */
export type Kind = string;

/** Owner of a resource (Kubernetes: OwnerReference). */
export interface OwnerReference {
  readonly apiVersion: string;
  readonly kind: Kind;
  readonly name: string;
  readonly uid: string;
  readonly controller?: boolean;
}

/** Metadata of a resource; the subset of Kubernetes' ObjectMeta that the gateway uses. */
export interface ObjectMeta {
  readonly name: string;
  readonly namespace: string;
  readonly uid: string;
  /** Opaque for foreign sources; increasing decimal digits in every source of this project. */
  readonly resourceVersion: string;
  /** Incremented by each change of `spec`. */
  readonly generation: number;
  /** RFC 3339. */
  readonly creationTimestamp: string;
  readonly deletionTimestamp?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  /** Absent if empty, as in every source except Kubernetes. */
  readonly ownerReferences?: readonly OwnerReference[];
}

/** A resource of the API group in a source. Its spec is not validated yet. */
export interface Resource<Spec = Readonly<Record<string, unknown>>> {
  readonly apiVersion: string;
  readonly kind: Kind;
  readonly metadata: ObjectMeta;
  readonly spec: Spec;
  readonly status?: ResourceStatus;
}

export interface ResourceStatus {
  readonly observedGeneration?: number;
  readonly conditions?: readonly Condition[];
  /** Effective value of `active` (EngineCluster only). */
  readonly active?: boolean;
}

/** Identity of a resource within its source. */
export interface ResourceKey {
  readonly kind: Kind;
  readonly namespace: string;
  readonly name: string;
}

/** `Kind/namespace/name`: the key of queues and maps. */
export function keyText(key: ResourceKey): string {
  return `${key.kind}/${key.namespace}/${key.name}`;
}

const texts = new WeakMap<object, string>();

/** `keyText` of a resource: cached, as each change looks up thousands of resources by it. */
export function keyTextOf(resource: Pick<Resource, 'kind' | 'metadata'>): string {
  const existing = texts.get(resource);
  if (existing !== undefined) return existing;
  const text = keyText(keyOf(resource));
  texts.set(resource, text);
  return text;
}

/** Parses the result of `keyText`. */
export function keyOfText(text: string): ResourceKey {
  const [kind, namespace, name] = text.split('/') as [Kind, string, string];
  return { kind, namespace, name };
}

export function keyOf(resource: Pick<Resource, 'kind' | 'metadata'>): ResourceKey {
  return { kind: resource.kind, namespace: resource.metadata.namespace, name: resource.metadata.name };
}

/** Status of a condition (Kubernetes API conventions: typical status properties). */
export type ConditionStatus = 'True' | 'False' | 'Unknown';

/** A condition of a resource's status, as metav1.Condition. */
export interface Condition {
  readonly type: string;
  readonly status: ConditionStatus;
  /** CamelCase word for programs. */
  readonly reason: string;
  /** Sentence for users: the state, and the action to take. At most 32,768 characters. */
  readonly message: string;
  readonly observedGeneration?: number;
  /** RFC 3339; changes only when `status` changes. */
  readonly lastTransitionTime: string;
}

export type ConditionDraft = Omit<Condition, 'lastTransitionTime'>;

export function conditionsAt(observedGeneration: number) {
  return (type: string, status: ConditionStatus, reason: string, message: string): ConditionDraft => ({
    type,
    status,
    reason,
    message,
    observedGeneration,
  });
}

/**
 * Merges drafts into existing conditions: equal status keeps its transition time; types without a draft are kept.
 * @param nowIso RFC 3339 time for transitions
 */
export function mergeConditions(
  existing: readonly Condition[],
  drafts: readonly ConditionDraft[],
  nowIso: string,
): readonly Condition[] {
  const byType = new Map(existing.map((condition) => [condition.type, condition]));
  for (const draft of drafts) {
    const before = byType.get(draft.type);
    byType.set(draft.type, {
      ...draft,
      lastTransitionTime: before?.status === draft.status ? before.lastTransitionTime : nowIso,
    });
  }
  return [...byType.values()];
}

/** Registry name of a resource (or name of a rule): `spec.name`, or `metadata.name`. */
export function registryNameOf(resource: Pick<Resource, 'metadata'> & { readonly spec: object }): string {
  const { name } = resource.spec as { readonly name?: unknown };
  return typeof name === 'string' && name !== '' ? name : resource.metadata.name;
}

/** Holders of names: the resource of one kind that has a registry name. */
export type NameClaims<R extends Claimant = Resource> = ReadonlyMap<string, R>;

type Claimant = Pick<Resource, 'kind' | 'metadata'> & { readonly spec: object };

/**
 * Decides which resource has a registry name if several claim it: the older one; of equally old ones the one with the
 * first key. Resources under deletion claim nothing. Pure.
 * @param resources of one kind
 * @returns the holder of each registry name
 */
export function claimNames<R extends Claimant>(resources: readonly R[]): NameClaims<R> {
  const holders = new Map<string, R>();
  for (const resource of resources) {
    if (resource.metadata.deletionTimestamp !== undefined) continue;
    const name = registryNameOf(resource);
    const holder = holders.get(name);
    if (holder === undefined || isOlder(resource, holder)) holders.set(name, resource);
  }
  return holders;
}

/** Describes a name conflict, with the fix. @param holder the resource that has the name */
export function nameConflictMessage(resource: Claimant, holder: Claimant): string {
  const { namespace, name } = holder.metadata;
  return `the name ${registryNameOf(resource)} belongs to the older ${holder.kind} ${namespace}/${name}; set another spec.name or delete one of the two`;
}

/** True if a resource precedes another with the same claim: the older one; of equally old ones by their keys. */
export function isOlder(a: Pick<Resource, 'kind' | 'metadata'>, b: Pick<Resource, 'kind' | 'metadata'>): boolean {
  const difference = Date.parse(a.metadata.creationTimestamp) - Date.parse(b.metadata.creationTimestamp);
  return difference === 0 || Number.isNaN(difference) ? keyText(keyOf(a)) < keyText(keyOf(b)) : difference < 0;
}

/** Class of the gateway in a spec, or null. */
export function gatewayClassOf(spec: object): string | null {
  const { gatewayClassName } = spec as { readonly gatewayClassName?: unknown };
  return typeof gatewayClassName === 'string' ? gatewayClassName : null;
}

const MAX_CLASS_LENGTH = 40;

/** Schema rules of a class name: an RFC 1123 label, shorter, as it is a part of the names of Leases. */
export const gatewayClassRules = {
  minLength: 1,
  maxLength: MAX_CLASS_LENGTH,
  pattern: '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$',
} as const;

/**
 * `spec.gatewayClassName` of every kind: the gateway that a resource belongs to (docs/resources.md#several-gateways).
 */
export const GatewayClassName = Type.String({
  ...gatewayClassRules,
  description:
    'Class of the gateway that the resource is for, resources.class of its configuration; left out, it is for gateways without a class.',
});

/** Returns the mistake in a class name, or null. */
export function gatewayClassProblem(text: string): string | null {
  return text.length <= MAX_CLASS_LENGTH && new RegExp(gatewayClassRules.pattern).test(text)
    ? null
    : `must be lower-case letters, digits and "-", at most ${MAX_CLASS_LENGTH}, starting and ending with a letter or digit, not "${text}"`;
}
