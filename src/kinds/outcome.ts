import { isDeepStrictEqual } from 'node:util';
import type { Resource, ResourceKey } from '../model/resource.ts';

/** Outcome of a resource; each kind extends it. Immutable. */
export interface ResourceOutcome {
  readonly key: ResourceKey;
  readonly resource: Resource;
  /** Name in the registry (of a rule: its name). */
  readonly registryName: string;
  readonly paused: boolean;
}

/** True if two outcomes say the same of the same version of a resource. */
export function isSameOutcome(a: ResourceOutcome, b: ResourceOutcome): boolean {
  if (a === b) return true;
  const { resource: resourceA, ...restA } = a;
  const { resource: resourceB, ...restB } = b;
  return resourceA === resourceB && isDeepStrictEqual(restA, restB);
}
