import { type ConditionDraft, conditionsAt } from '../model/condition.ts';
import { PAUSED_ANNOTATION, type Resource } from '../model/resource.ts';
import type { ResourceOutcome } from './outcome.ts';

export function isPaused(resource: Resource): boolean {
  return resource.metadata.annotations?.[PAUSED_ANNOTATION] === 'true';
}

/**
 * Generation that a status speaks of. That of a paused resource stays what it was: a change that is not taken over is not
 * to look as if it was (kstatus).
 */
export function observedGeneration({ resource, paused }: Pick<ResourceOutcome, 'resource' | 'paused'>): number {
  const { generation } = resource.metadata;
  return paused ? Math.min(generation, resource.status?.observedGeneration ?? 0) : generation;
}

const pausedMessage = `changes are not taken over until the annotation ${PAUSED_ANNOTATION} is removed`;

/** The condition `Paused`, which speaks of the resource as it is now: `kubectl wait` asks for that generation. */
export function pausedCondition({ resource }: Pick<ResourceOutcome, 'resource'>): ConditionDraft {
  return conditionsAt(resource.metadata.generation)('Paused', 'True', 'PausedByAnnotation', pausedMessage);
}
