import type { Kind, ResourceKey } from '../../model/resource.ts';
import { registryNameOf, resourceNames } from '../../model/resourceName.ts';
import type { ResourceSource } from '../sources/source.ts';

/** The key of a resource to be created for a registry name: the first name for it that nothing else has. */
export function newResourceKey(
  source: Pick<ResourceSource, 'writeNamespace' | 'get' | 'isOfAnother'>,
  kind: Kind,
  registryName: string,
): ResourceKey {
  const namespace = source.writeNamespace;
  for (const name of resourceNames(registryName)) {
    const key = { kind, namespace, name };
    const there = source.get(key);
    // The next candidate is for a name that a resource of another registry name, or of another gateway, has.
    const isTaken = there !== null && registryNameOf(there) !== registryName;
    if (!isTaken && !source.isOfAnother(key)) return key;
  }
  throw new Error('names never end');
}
