import { keyOf, keyText, type Resource } from './resource.ts';
import { registryNameOf } from './resourceName.ts';

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
