import { isDeepStrictEqual } from 'node:util';
import { API_GROUP_VERSION, type Resource, type ResourceStatus } from '../../model/resource.ts';
import { registryNameOf } from '../../model/resourceName.ts';
import type { SourceName, StoredResource } from '../../store/store.ts';

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

/** A resource as a row of `eg_resources`: its projection, whole. */
export function storedOfResource(resource: Resource, source: SourceName): StoredResource {
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
  };
}

/**
 * Whether a stored row says the same as a resource. On Kubernetes each written status makes a version of its own, and
 * the status is kept there: neither makes a row out of date. A row that is the resource itself has the latest status.
 */
export function sameStored(stored: StoredResource, resource: Resource, source: SourceName): boolean {
  const expected = storedOfResource(resource, source);
  return (
    stored.uid === expected.uid &&
    stored.source === expected.source &&
    stored.generation === expected.generation &&
    isDeepStrictEqual(stored.spec, expected.spec) &&
    isDeepStrictEqual(stored.annotations, expected.annotations) &&
    (source === 'kubernetes' || stored.resourceVersion === expected.resourceVersion) &&
    (source !== 'directory' || isDeepStrictEqual(stored.status, expected.status))
  );
}
