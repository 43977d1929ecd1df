import { isDeepStrictEqual } from 'node:util';
import { API_GROUP_VERSION, type Resource, type ResourceStatus } from '../../model/resource.ts';
import { registryNameOf } from '../../model/resourceName.ts';
import type { BackendRow, SourceName, StoredResource } from '../../store/store.ts';

/** A row of `eg_resources` as a resource. */
export function resourceOfStored(stored: StoredResource): Resource {
  return {
    apiVersion: API_GROUP_VERSION,
    kind: stored.kind,
    metadata: {
      name: stored.name,
      namespace: stored.namespace,
      uid: stored.uid,
      resourceVersion: stored.resourceVersion,
      generation: stored.generation,
      creationTimestamp: stored.creationTimestamp,
      labels: stored.labels,
      annotations: stored.annotations,
    },
    spec: stored.spec,
    ...(stored.status === null ? {} : { status: stored.status as ResourceStatus }),
  };
}

/** A resource as a row of `eg_resources`. @param row that it gives in `gateway_backend` */
export function storedOfResource(resource: Resource, source: SourceName, row: BackendRow | null): StoredResource {
  const { metadata } = resource;
  return {
    kind: resource.kind,
    namespace: metadata.namespace,
    name: metadata.name,
    registryName: registryNameOf(resource),
    uid: metadata.uid,
    resourceVersion: metadata.resourceVersion,
    generation: metadata.generation,
    creationTimestamp: metadata.creationTimestamp,
    spec: resource.spec,
    labels: metadata.labels ?? {},
    annotations: metadata.annotations ?? {},
    status: resource.status === undefined ? null : { ...resource.status },
    source,
    row,
  };
}

/**
 * True if a row of `eg_resources` of one resource is also that of the other. On Kubernetes each written status makes a version,
 * and the status is kept there: neither makes a row out of date.
 */
export function isSameResource(a: Resource, b: Resource, source: SourceName): boolean {
  if (a === b) return true;
  return (
    a.metadata.uid === b.metadata.uid &&
    a.metadata.generation === b.metadata.generation &&
    isDeepStrictEqual(a.spec, b.spec) &&
    isDeepStrictEqual(a.metadata.annotations ?? {}, b.metadata.annotations ?? {}) &&
    (source === 'kubernetes' ||
      (a.metadata.resourceVersion === b.metadata.resourceVersion && isDeepStrictEqual(a.status, b.status)))
  );
}
