import { PAUSED_ANNOTATION, type Resource } from '../model/resource.ts';

/** Whether reconciling of a resource is paused. */
export function isPaused(resource: Resource): boolean {
  return resource.metadata.annotations?.[PAUSED_ANNOTATION] === 'true';
}

/** Message of the condition `Paused`. */
export const pausedMessage = `changes are not taken over until the annotation ${PAUSED_ANNOTATION} is removed`;
