import { createHash } from 'node:crypto';
import type { ActiveOverride } from '../../kinds/engineCluster/activeOverride.ts';

/**
 * A short text that changes whenever a user switches a cluster on or off, as far as that can be known: of a cluster
 * without an override, with `active` itself.
 */
export function activationVersion(active: boolean, override: ActiveOverride | null): string {
  const text = JSON.stringify([active, override === null ? null : [override.active, override.by, override.at]]);
  return createHash('sha256').update(text).digest('base64url').slice(0, 16);
}
