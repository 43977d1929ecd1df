import { isClusterOutcome } from '../../kinds/engineCluster/clusterOutcome.ts';
import type { Resource } from '../../model/resource.ts';
import type { Controller } from '../reconcile/controller.ts';
import type { HealthCredentials, SecretCredentials } from '../sources/kubernetes/healthCredentials.ts';

/**
 * Credentials of a cluster's own Secret for health checks; null when it names none.
 * @param credentials reads Secrets; undefined if they are missing
 * @param cluster registry name
 * @param proxyTo the URL that they would be sent to
 */
export async function clusterCredentials(
  { outcomes }: Pick<Controller, 'outcomes'>,
  credentials: SecretCredentials | undefined,
  cluster: string,
  proxyTo: string,
): Promise<HealthCredentials | null> {
  for (const outcome of outcomes.values()) {
    if (isClusterOutcome(outcome) && outcome.registryName === cluster && outcome.routable !== null) {
      return await credentialsOf(outcome.resource, proxyTo, credentials);
    }
  }
  return null;
}

async function credentialsOf(
  resource: Resource,
  proxyTo: string,
  credentials: SecretCredentials | undefined,
): Promise<HealthCredentials | null> {
  if (credentials !== undefined) return await credentials.of(resource, proxyTo);
  const check = resource.spec.healthCheck as { readonly credentialsSecretRef?: unknown } | undefined;
  if (check?.credentialsSecretRef === undefined) return null;
  return {
    ok: false,
    reason: 'SecretUnsupported',
    message: 'spec.healthCheck.credentialsSecretRef needs resources.source: kubernetes; use backendState instead',
  };
}
