import { EventRecorder } from './events/eventRecorder.ts';
import { type DatabaseLeadership, LEASE_NAME } from './leadership/leadership.ts';
import { LeaseLeadership } from './leadership/leaseLeadership.ts';
import type { OperatorOptions, SourceComponents } from './operatorOptions.ts';
import { countedCalls } from './sources/kubernetes/apiServerCalls.ts';
import { SecretCredentials } from './sources/kubernetes/healthCredentials.ts';
import { KubeApi } from './sources/kubernetes/kubeApi.ts';
import { loadKubeConfig, ownNamespace, watchedNamespace } from './sources/kubernetes/kubeConfig.ts';
import { KubernetesServices } from './sources/kubernetes/kubernetesServices.ts';
import { KubernetesSource } from './sources/kubernetes/kubernetesSource.ts';

/**
 * The parts of an operator whose resources are on a Kubernetes API server.
 * @param row the database's epoch row, which fences what the holder of the Lease writes there
 */
export function kubernetesParts(options: OperatorOptions, row: DatabaseLeadership): SourceComponents {
  const { resources, kinds, clock, random, logger, instance: holder } = options;
  const config = loadKubeConfig(resources.kubeconfig);
  const api = new KubeApi(config, undefined, kinds, countedCalls(options.metrics));
  const namespace = watchedNamespace(resources.namespace, config);
  const own = ownNamespace(config);
  const writeNamespace = resources.writeNamespace ?? namespace ?? own;
  const leaseNamespace = namespace ?? own;
  return {
    source: new KubernetesSource({ api, kinds, namespace, writeNamespace, clock, random, logger }),
    leadership: new LeaseLeadership({ api, namespace: leaseNamespace, holder, row, clock, logger }),
    services: new KubernetesServices({ api, clock, random, logger }),
    events: new EventRecorder({
      api,
      instance: holder,
      lease: { namespace: leaseNamespace, name: LEASE_NAME },
      clock,
      logger,
    }),
    credentials: new SecretCredentials(api, clock),
    stop: () => config.destroy(),
  };
}
