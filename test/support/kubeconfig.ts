import { stringify } from 'yaml';

/** Text of a kubeconfig with one cluster and one user. @param namespace of its context; left out for none */
export function kubeconfigText(cluster: object, user: object, namespace?: string): string {
  return stringify({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'c', cluster }],
    users: [{ name: 'u', user }],
    contexts: [{ name: 'x', context: { cluster: 'c', user: 'u', ...(namespace === undefined ? {} : { namespace }) } }],
    'current-context': 'x',
  });
}
