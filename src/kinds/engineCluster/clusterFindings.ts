import { ClusterAddresses } from '../../model/clusterAddresses.ts';
import { isRecord } from '../../model/record.ts';
import { groupFindings } from '../groupFindings.ts';
import type { CheckedManifest, ManifestFinding } from '../manifestFinding.ts';
import { TLS_WITHOUT_HTTPS } from './spec.ts';

/** What a gateway allows whose configuration names no addresses; where it runs, and so loopback, is not known here. */
const defaultAddresses = new ClusterAddresses({ allowed: [], loopback: true });

/**
 * What is to be said of an EngineCluster beside the mistakes of its spec: addresses that only a configuration can allow, and
 * what the API server refuses while resources that are there already go on.
 */
export function clusterFindings({ spec }: CheckedManifest): readonly ManifestFinding[] {
  const findings = groupFindings(spec.routingGroup, 'spec.routingGroup');
  const refusal = typeof spec.proxyTo === 'string' ? defaultAddresses.urlRefusal(spec.proxyTo) : null;
  if (refusal !== null) {
    findings.push({ severity: 'warning', message: `spec.proxyTo: ${refusal}`, at: 'spec.proxyTo' });
  }
  if (isRecord(spec.tls) && !isHttps(spec)) {
    findings.push({ severity: 'problem', message: `spec.tls: ${TLS_WITHOUT_HTTPS}`, at: 'spec.tls' });
  }
  return findings;
}

function isHttps({ proxyTo, serviceRef }: CheckedManifest['spec']): boolean {
  if (typeof proxyTo === 'string') return proxyTo.startsWith('https://');
  return isRecord(serviceRef) && serviceRef.scheme === 'https';
}
