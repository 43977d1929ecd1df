import type { DeclaredLimits, InventoryLimit } from '../operator/registry/limitRegistry.ts';
import type { LimitState } from './answers/limits.ts';

/** Counts as answers have them: null where nothing counts. */
export function countsOf(count: InventoryLimit['count']): Pick<LimitState, 'running' | 'waiting' | 'refused'> {
  return { running: count?.running ?? null, waiting: count?.waiting ?? null, refused: count?.refused ?? null };
}

/** What became of a resource, as answers have it. */
export function declaredState({
  acceptance,
  isInForce,
  version,
  resource,
}: DeclaredLimits): Pick<LimitState, 'inForce' | 'message' | 'version' | 'resource'> {
  return { inForce: isInForce, message: acceptance.message, version, resource };
}
