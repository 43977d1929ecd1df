import { createSecureContext } from 'node:tls';
import { certificatesProblem } from '../../model/certificates.ts';
import type { ClusterTlsMaterial } from '../../routing/routingTable.ts';
import type { ObjectData, ServiceLookup } from '../serviceLookup.ts';
import type { ClusterTlsSpec } from './spec.ts';

type Failure = Extract<ObjectData, { readonly ok: false }>;

/** True if a cluster refers to certificates, which may change without its resource. */
export function hasTlsReferences(spec: object): boolean {
  const { caRef, clientCertificateRef } = (spec as { readonly tls?: ClusterTlsSpec }).tls ?? {};
  return caRef !== undefined || clientCertificateRef !== undefined;
}

/** Certificates that a valid cluster refers to, or the reason that they cannot be used; null: it refers to none. */
export function clusterCertificates(
  namespace: string,
  { caRef, clientCertificateRef }: ClusterTlsSpec,
  lookup: Pick<ServiceLookup, 'objectData'>,
): { readonly ok: true; readonly material: ClusterTlsMaterial | null } | Failure {
  const material: { ca?: string | undefined; certificate?: string; key?: string } = {};
  if (caRef !== undefined) {
    const { kind = 'ConfigMap', name, key = 'ca.crt' } = caRef;
    const object = lookup.objectData(kind, namespace, name);
    if (!object.ok) return at('caRef', object);
    const pem = object.data[key];
    const problem = pem === undefined ? `has no key ${key}` : certificatesProblem(pem);
    if (problem !== null) return invalid('caRef', `${kind} ${namespace}/${name} ${problem}`);
    material.ca = pem;
  }
  if (clientCertificateRef !== undefined) {
    const { name } = clientCertificateRef;
    const object = lookup.objectData('Secret', namespace, name);
    if (!object.ok) return at('clientCertificateRef', object);
    const { 'tls.crt': certificate, 'tls.key': key } = object.data;
    const problem = pairProblem(certificate, key);
    if (problem !== null) return invalid('clientCertificateRef', `Secret ${namespace}/${name} ${problem}`);
    Object.assign(material, { certificate, key });
  }
  return { ok: true, material: caRef === undefined && clientCertificateRef === undefined ? null : material };
}

function pairProblem(cert: string | undefined, key: string | undefined): string | null {
  if (cert === undefined || key === undefined) return 'must have the keys tls.crt and tls.key';
  try {
    createSecureContext({ cert, key });
    return null;
  } catch (error) {
    return `has a certificate and a key that cannot be used: ${error instanceof Error ? error.message : String(error)}`;
  }
}

function at(field: string, failure: Failure): Failure {
  return { ...failure, message: `spec.tls.${field}: ${failure.message}` };
}

function invalid(field: string, message: string): Failure {
  return { ok: false, reason: 'RefInvalid', message: `spec.tls.${field}: ${message}`, final: false };
}
