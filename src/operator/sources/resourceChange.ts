import type { Resource } from '../../model/resource.ts';
import type { ResourceChange } from './source.ts';

/** A resource after a change, metadata that the source assigns left as it was. */
export function changedResource(resource: Resource, change: ResourceChange): Resource {
  const spec: Record<string, unknown> = { ...resource.spec, ...change.set };
  for (const field of change.remove) delete spec[field];
  const annotations: Record<string, string> = { ...resource.metadata.annotations };
  for (const [name, value] of Object.entries(change.annotations)) {
    if (value === null) delete annotations[name];
    else annotations[name] = value;
  }
  return { ...resource, metadata: { ...resource.metadata, annotations }, spec };
}

export function isEmptyChange(change: ResourceChange): boolean {
  return (
    Object.keys(change.set).length === 0 && change.remove.length === 0 && Object.keys(change.annotations).length === 0
  );
}
