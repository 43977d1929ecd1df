import { API_GROUP_VERSION, type Kind, type Resource } from '../../src/model/resource.ts';

/** A resource as sources give it, in the namespace `ns` where the metadata does not say otherwise. */
export function resourceOf(
  kind: Kind,
  name: string,
  spec: Record<string, unknown> = {},
  metadata: Partial<Resource['metadata']> = {},
): Resource {
  return {
    apiVersion: API_GROUP_VERSION,
    kind,
    metadata: {
      name,
      namespace: 'ns',
      uid: `uid-${metadata.namespace ?? 'ns'}-${name}`,
      resourceVersion: '1',
      generation: 1,
      creationTimestamp: '2026-01-01T00:00:00Z',
      ...metadata,
    },
    spec,
  };
}
