import type { KubeRequests } from '../../operator/sources/kubernetes/kubeRequests.ts';

/** Used fields of a TokenReview (authentication.k8s.io/v1). */
interface TokenReview {
  readonly status?: {
    readonly authenticated?: boolean;
    readonly audiences?: readonly string[];
    readonly user?: { readonly username?: string; readonly uid?: string; readonly groups?: readonly string[] };
  };
}

export interface KubernetesIdentity {
  readonly name: string;
  readonly uid: string;
  readonly groups: readonly string[];
}

/**
 * Asks the API server whose a token is.
 * @param audiences of which the token must have one; null: the API server's own
 * @returns null for a token that it does not accept
 * @throws ApiException, or what the connection failed of
 */
export async function reviewToken(
  requests: KubeRequests,
  token: string,
  audiences: readonly string[] | null,
  timeoutMs: number,
): Promise<KubernetesIdentity | null> {
  const { status } = await requests.send<TokenReview>({
    method: 'POST',
    path: '/apis/authentication.k8s.io/v1/tokenreviews',
    body: {
      apiVersion: 'authentication.k8s.io/v1',
      kind: 'TokenReview',
      spec: { token, ...(audiences === null ? {} : { audiences }) },
    },
    timeoutMs,
  });
  const name = status?.user?.username;
  if (status?.authenticated !== true || name === undefined || name === '') return null;
  // An authenticator that knows nothing of audiences leaves them out: then the token is not bound to ours.
  if (audiences !== null && !audiences.some((audience) => status.audiences?.includes(audience))) return null;
  return { name, uid: status.user?.uid ?? '', groups: status.user?.groups ?? [] };
}
