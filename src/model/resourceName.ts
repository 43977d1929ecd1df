import { createHash } from 'node:crypto';

/** Maximum length of a created metadata.name: names appear in labels, whose values are at most 63 characters. */
const MAX_LENGTH = 63;
const HASH_LENGTH = 8;

/** True if a name can be used as metadata.name unchanged: an RFC 1123 label or subdomain of at most 63 characters. */
export function isResourceName(name: string): boolean {
  return name.length <= MAX_LENGTH && /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/.test(name);
}

/**
 * Names for the resource of a registry name, best first: the name itself if valid, otherwise its letters and digits
 * with a hash of the whole. Deterministic; a later name is used if a resource of another registry name has the earlier
 * one.
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
