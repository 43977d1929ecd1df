import { isDeepStrictEqual } from 'node:util';
import {
  API_GROUP_VERSION,
  type Kind,
  type OwnerReference,
  type Resource,
  type ResourceStatus,
} from '../../../model/resource.ts';
import type { KubeObject } from './kubeApi.ts';

/** An annotation of kubectl that repeats the whole manifest. */
const lastApplied = 'kubectl.kubernetes.io/last-applied-configuration';

export function resourceOfObject(kind: Kind, object: KubeObject): Resource {
  const { metadata } = object;
  const { [lastApplied]: _, ...annotations } = metadata.annotations ?? {};
  return {
    apiVersion: API_GROUP_VERSION,
    kind,
    metadata: {
      name: metadata.name,
      namespace: metadata.namespace ?? '',
      uid: metadata.uid,
      resourceVersion: metadata.resourceVersion,
      generation: metadata.generation ?? 0,
      creationTimestamp: String(metadata.creationTimestamp ?? ''),
      ...(metadata.deletionTimestamp === undefined ? {} : { deletionTimestamp: String(metadata.deletionTimestamp) }),
      labels: metadata.labels ?? {},
      annotations,
      ...(metadata.ownerReferences === undefined ? {} : { ownerReferences: metadata.ownerReferences.map(ownerOf) }),
    },
    spec: object.spec ?? {},
    ...(object.status === undefined ? {} : { status: object.status as ResourceStatus }),
  };
}

function ownerOf({ apiVersion, kind, name, uid, controller }: OwnerReference): OwnerReference {
  return { apiVersion, kind, name, uid, ...(controller === true ? { controller } : {}) };
}

/**
 * True if a later resource is the same as an earlier one but for its status, and for the version that each written
 * status makes. A version that is lower is of an API server that went back to an earlier state: there a generation may
 * have been given twice, and is compared with the rest.
 */
export function onlyStatusDiffers(a: Resource, b: Resource): boolean {
  return (
    a.metadata.uid === b.metadata.uid &&
    !isLower(b.metadata.resourceVersion, a.metadata.resourceVersion) &&
    isDeepStrictEqual(a.spec, b.spec) &&
    a.metadata.generation === b.metadata.generation &&
    a.metadata.deletionTimestamp === b.metadata.deletionTimestamp &&
    isDeepStrictEqual(a.metadata.annotations, b.metadata.annotations) &&
    isDeepStrictEqual(a.metadata.labels, b.metadata.labels) &&
    isDeepStrictEqual(a.metadata.ownerReferences, b.metadata.ownerReferences)
  );
}

function isLower(version: string, than: string): boolean {
  return version.length < than.length || (version.length === than.length && version < than);
}
