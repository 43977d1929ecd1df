import { createHash } from 'node:crypto';
import type { ResourceOutcome } from '../../kinds/outcome.ts';
import type { Condition } from '../../model/condition.ts';
import { keyOf, type Resource } from '../../model/resource.ts';
import type { Provenance, ResourceSource } from '../sources/source.ts';

/** A resource for users: where it is written, and what its status states. */
export interface DeclaredResource extends Provenance {
  readonly namespace: string;
  readonly name: string;
  readonly generation: number;
  readonly paused: boolean;
  /** As its status has them, which the leader writes. */
  readonly conditions: readonly Condition[];
}

/** The resource of an outcome, with its present status. */
export function declaredResource(
  { resource, paused }: ResourceOutcome,
  source: Pick<ResourceSource, 'get' | 'provenance'>,
): DeclaredResource {
  const key = keyOf(resource);
  // The outcome holds the resource as it was when anything but its status changed last.
  const latest = source.get(key) ?? resource;
  const { namespace, name, generation } = resource.metadata;
  return {
    namespace,
    name,
    generation,
    paused,
    conditions: latest.status?.conditions ?? [],
    ...(source.provenance(key) ?? { place: '', managers: [] }),
  };
}

/** A short text that changes whenever what a resource declares does. */
export function specVersion({ metadata, spec }: Resource): string {
  const text = JSON.stringify([metadata.uid, spec]);
  return createHash('sha256').update(text).digest('base64url').slice(0, 16);
}
