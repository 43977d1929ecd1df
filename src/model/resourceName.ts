import { createHash } from 'node:crypto';
import type { Resource } from './resource.ts';

/** Longest metadata.name that is made: names appear in labels, whose values are at most 63 characters. */
const MAX_LENGTH = 63;
const HASH_LENGTH = 8;

/** Whether a name may be a metadata.name of ours as it is: an RFC 1123 label or subdomain of at most 63 characters. */
export function isResourceName(name: string): boolean {
  return name.length <= MAX_LENGTH && /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/.test(name);
}

/**
 * Names for the resource of a registry name, best first: the name itself where it may be one, otherwise its letters
 * and digits with a hash of the whole. The same name gives the same candidates everywhere; a later one is for the case
 * that a resource of another registry name holds the earlier.
 */
export function* resourceNames(registryName: string): Generator<string, never, undefined> {
  if (isResourceName(registryName)) yield registryName;
  const slug = registryName
    .normalize('NFKD')
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .slice(0, MAX_LENGTH - HASH_LENGTH - 1)
    .replaceAll(/^-+|-+$/g, '');
  for (let attempt = 0; ; attempt += 1) {
    const hash = createHash('sha256')
      .update(attempt === 0 ? registryName : `${registryName}\0${attempt}`)
      .digest('hex')
      .slice(0, HASH_LENGTH);
    yield slug === '' ? `x-${hash}` : `${slug}-${hash}`;
  }
}

/** Name of a resource in the registry (of a rule: its name): `spec.name`, or `metadata.name`. */
export function registryNameOf(resource: Pick<Resource, 'metadata'> & { readonly spec: object }): string {
  const { name } = resource.spec as { readonly name?: unknown };
  return typeof name === 'string' && name !== '' ? name : resource.metadata.name;
}
