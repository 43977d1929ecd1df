import { ClusterAddresses } from '../../model/clusterAddresses.ts';
import type { CheckedManifest, ManifestFinding } from '../manifestFinding.ts';

/** What a gateway allows whose configuration names no addresses; where it runs, and so loopback, is not known here. */
const defaultAddresses = new ClusterAddresses({ allowed: [], loopback: true });

/** Addresses of an EngineCluster that only a configuration can allow. */
export function clusterFindings({ spec }: CheckedManifest): readonly ManifestFinding[] {
  const refusal = typeof spec.proxyTo === 'string' ? defaultAddresses.urlRefusal(spec.proxyTo) : null;
  if (refusal === null) return [];
  return [{ severity: 'warning', message: `spec.proxyTo: ${refusal}`, at: 'spec.proxyTo' }];
}
