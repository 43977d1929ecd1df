import type { Logger } from 'pino';
import { GatewayError } from '../../model/errors.ts';
import { keyOf, keyText, type Resource } from '../../model/resource.ts';
import { annotate, type ResourceSource, VersionConflict } from '../sources/source.ts';

/**
 * Takes away annotations whose effect has ended (an override, as `spec.active` changed after it): otherwise they would
 * come back into force with a later change. Where the source cannot be written that is left to its owner.
 * @param names annotations to remove
 * @returns whether they were removed
 */
export async function removeEnded(
  source: Pick<ResourceSource, 'apply'>,
  resource: Resource,
  names: readonly string[],
  logger: Logger,
): Promise<boolean> {
  const annotations = Object.fromEntries(names.map((name) => [name, null]));
  try {
    await annotate(source, keyOf(resource), annotations, resource.metadata.resourceVersion);
    return true;
  } catch (error) {
    // The resource changed again: its next reconcile looks again.
    if (error instanceof VersionConflict) return false;
    if (!(error instanceof GatewayError) || error.code === 'EG_SOURCE_UNAVAILABLE') throw error;
    logger.warn(
      { key: keyText(keyOf(resource)), annotations: names, err: error },
      'annotations without effect cannot be removed',
    );
    return false;
  }
}
