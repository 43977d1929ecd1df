import type { DeclaredLimits, InventoryLimit } from '../operator/registry/limitRegistry.ts';
import type { LimitState } from './answers/limits.ts';

/** Counts as answers have them: null if nothing counts. */
export function countsOf(count: InventoryLimit['count']): Pick<LimitState, 'running' | 'waiting' | 'refused'> {
  return { running: count?.running ?? null, waiting: count?.waiting ?? null, refused: count?.refused ?? null };
}

/** Status of a resource in responses. */
export function declaredState({
  acceptance,
  isInForce,
  version,
  resource,
}: DeclaredLimits): Pick<LimitState, 'inForce' | 'message' | 'version' | 'resource'> {
  return { inForce: isInForce, message: acceptance.message, version, resource };
}
