import { EventRecorder } from './events/eventRecorder.ts';
import { type DatabaseLeadership, leaseNameOf } from './leadership/leadership.ts';
import { LeaseLeadership } from './leadership/leaseLeadership.ts';
import type { OperatorOptions, SourceComponents } from './operator.ts';
import { countedCalls } from './sources/kubernetes/apiServerCalls.ts';
import { KubeApi } from './sources/kubernetes/kubeApi.ts';
import { loadKubeConfig, ownNamespace, watchedNamespaces } from './sources/kubernetes/kubeConfig.ts';
import { KubernetesServices } from './sources/kubernetes/kubernetesServices.ts';
import { KubernetesSource } from './sources/kubernetes/kubernetesSource.ts';
import { SecretCredentials } from './sources/kubernetes/referencedObjects.ts';

/**
 * The parts of an operator whose resources are on a Kubernetes API server.
 * @param row the database's epoch row, which fences what the holder of the Lease writes there
 */
export function kubernetesParts(options: OperatorOptions, row: DatabaseLeadership): SourceComponents {
  const { resources, kinds, clock, random, logger, instance: holder } = options;
  const config = loadKubeConfig(resources.kubeconfig);
  const api = new KubeApi(config, undefined, kinds, countedCalls(options.metrics));
  const namespaces = watchedNamespaces(resources, config);
  const own = ownNamespace(config);
  const [only = own] = namespaces ?? [];
  const writeNamespace = resources.writeNamespace ?? (namespaces?.includes(own) ? own : only);
  // Of a list none is special; of one namespace the Lease is there, so that gateways from elsewhere see it.
  const namespace = resources.namespaces.length === 0 ? only : own;
  const classLease = leaseNameOf(resources.class);
  const leaseName = resources.leaseName ?? classLease;
  const lease = { api, namespace, holder, clock, logger };
  const leadership = new LeaseLeadership({ ...lease, name: leaseName, row });
  const source = new KubernetesSource({ api, kinds, namespaces, writeNamespace, clock, random, logger });
  const events = new EventRecorder(api, holder, { namespace, name: leaseName }, clock, logger);
  const isClassLeader = leaseName === classLease;
  const ofClass = { ...lease, name: classLease, candidate: leadership };
  const statusLeadership = isClassLeader ? undefined : new LeaseLeadership(ofClass);
  const stop = async (): Promise<void> => {
    await services.stop();
    await events.stop();
    await config.destroy();
  };
  const services = new KubernetesServices(api, clock, random, logger);
  const credentials = new SecretCredentials(api, clock);
  const webhook = { api, leadership, namespace: own, clock, logger };
  const kubernetes = { source, statusLeadership, services, events, credentials, webhook, stop };
  return { source, namespace: own, leadership, kubernetes };
}
