import type { Condition } from './condition.ts';

export const API_GROUP = 'enginegateway.dev';
export const API_VERSION = 'v1beta1';
/** `apiVersion` of every resource. */
export const API_GROUP_VERSION = `${API_GROUP}/${API_VERSION}`;
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
  readonly apiVersion: typeof API_GROUP_VERSION;
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
