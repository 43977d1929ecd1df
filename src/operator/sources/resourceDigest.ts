import { createHash } from 'node:crypto';
import { isRecord } from '../../model/record.ts';
import { API_FIELD_MANAGER, API_GROUP, type Resource } from '../../model/resource.ts';
import type { FieldWriter } from './source.ts';

/** Audited part of a resource: its spec and the gateway's own annotations. */
export function stateOf({ spec, metadata }: Pick<Resource, 'spec' | 'metadata'>): object {
  const annotations = Object.entries(metadata.annotations ?? {}).filter(([name]) => name.startsWith(`${API_GROUP}/`));
  return annotations.length === 0 ? spec : { ...spec, annotations: Object.fromEntries(annotations) };
}

const digests = new WeakMap<object, string>();

/** Digest of all that the audit compares of a resource, secrets and what is cut included. */
export function stateDigest(resource: Pick<Resource, 'spec' | 'metadata'>): string {
  return digests.getOrInsertComputed(resource, () => digestOfState(stateOf(resource)));
}

/**
 * Digest of what a write by REST left of a resource. Another write by the same field manager has another digest, as its time or
 * its state differs: the name of a manager is any client's to choose.
 */
export function writeDigest(resource: Pick<Resource, 'spec' | 'metadata'>, writers: readonly FieldWriter[]): string {
  const own = writers.filter(({ manager }) => manager === API_FIELD_MANAGER);
  return digestOfState([
    'written',
    stateDigest(resource),
    ...own.map((each) => `${each.operation} ${each.time}`).toSorted(),
  ]);
}

/** Digest of a state, with any order of its fields. What is gone has that of a list of its uid. */
export function digestOfState(state: object): string {
  const cached = digests.get(state);
  if (cached !== undefined) return cached;
  const text = JSON.stringify(state, (_, value: unknown) =>
    isRecord(value) ? Object.fromEntries(Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1))) : value,
  );
  const digest = createHash('sha256').update(text).digest('hex');
  digests.set(state, digest);
  return digest;
}
