import { keyOf, keyText, type Resource } from './resource.ts';
import { registryNameOf } from './resourceName.ts';

/** Who has a name: the resource of one kind that holds it, by registry name. */
export type NameClaims<R extends Claimant = Resource> = ReadonlyMap<string, R>;

type Claimant = Pick<Resource, 'kind' | 'metadata'> & { readonly spec: object };

/**
 * Decides which resource has a registry name when several claim it: the older one; of equally old ones the one whose
 * key comes first. Resources that are being deleted claim nothing. Pure.
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

/** Why a resource does not get its name, and what to do. @param holder who has it */
export function nameConflictMessage(resource: Claimant, holder: Claimant): string {
  const { namespace, name } = holder.metadata;
  return `the name ${registryNameOf(resource)} belongs to the older ${holder.kind} ${namespace}/${name}; set another spec.name or delete one of the two`;
}

/** Whether a resource comes before another that claims the same: the older one; of equally old ones by their keys. */
export function isOlder(a: Pick<Resource, 'kind' | 'metadata'>, b: Pick<Resource, 'kind' | 'metadata'>): boolean {
  const difference = Date.parse(a.metadata.creationTimestamp) - Date.parse(b.metadata.creationTimestamp);
  return difference === 0 || Number.isNaN(difference) ? keyText(keyOf(a)) < keyText(keyOf(b)) : difference < 0;
}
