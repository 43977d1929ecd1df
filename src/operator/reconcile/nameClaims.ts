import { keyOf, keyText, type Resource } from '../../model/resource.ts';
import { registryNameOf } from '../resourceName.ts';

/** Who has a registry name: by `keyText`, the key of the resource that has the name it claims. */
export type NameClaims = ReadonlyMap<string, Resource>;

/**
 * Decides which resource has a registry name when several claim it: the older one; of equally old ones the one whose
 * key comes first. Resources that are being deleted claim nothing. Pure.
 * @param resources of one kind
 * @returns the holder of each registry name
 */
export function claimNames(resources: readonly Resource[]): NameClaims {
  const holders = new Map<string, Resource>();
  for (const resource of resources) {
    if (resource.metadata.deletionTimestamp !== undefined) continue;
    const name = registryNameOf(resource);
    const holder = holders.get(name);
    if (holder === undefined || isOlder(resource, holder)) holders.set(name, resource);
  }
  return holders;
}

function isOlder(a: Resource, b: Resource): boolean {
  const difference = Date.parse(a.metadata.creationTimestamp) - Date.parse(b.metadata.creationTimestamp);
  return difference === 0 || Number.isNaN(difference) ? keyText(keyOf(a)) < keyText(keyOf(b)) : difference < 0;
}
