import type { Logger } from 'pino';
import { GatewayError } from '../../model/errors.ts';
import { ACTIVE_ANNOTATION, keyOf, keyText, type Resource } from '../../model/resource.ts';
import { annotate, type ResourceSource, VersionConflict } from '../source.ts';

/**
 * Takes away the annotation of an override that has ended, as `spec.active` changed after it: otherwise it would come
 * back into force when `spec.active` changes back. Where the source cannot be written that is left to its owner.
 */
export async function endOverride(
  source: Pick<ResourceSource, 'apply'>,
  resource: Resource,
  logger: Logger,
): Promise<void> {
  try {
    await annotate(source, keyOf(resource), { [ACTIVE_ANNOTATION]: null }, resource.metadata.resourceVersion);
  } catch (error) {
    // The resource changed again: its next reconcile looks anew.
    if (error instanceof VersionConflict) return;
    if (!(error instanceof GatewayError) || error.code === 'EG_SOURCE_UNAVAILABLE') throw error;
    logger.warn({ key: keyText(keyOf(resource)), err: error }, 'an override that ended cannot be removed');
  }
}
