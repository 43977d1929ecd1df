import type { Registry } from 'prom-client';
import type { GatewayConfig } from '../config/gatewayConfig.ts';
import { Findings } from '../kinds/outcome.ts';
import type { Platform, ProgramSettings } from '../kinds/resourceKind.ts';
import { noServices } from '../kinds/serviceLookup.ts';
import { parseLabelSelector } from '../model/labelSelector.ts';
import { type Kind, registryNameOf } from '../model/resource.ts';
import { noCounts } from '../routing/admissionCounts.ts';
import type { AuditWriter } from '../store/auditWriter.ts';
import type { SchemaStores } from '../store/resourceGroupStore.ts';
import type { Store } from '../store/store.ts';
import { OperatorAudit } from './audit/operatorAudit.ts';
import { Discoveries } from './discovery/discoveries.ts';
import type { EventRecorder } from './events/eventRecorder.ts';
import { DatabaseLeadership, type Leadership } from './leadership/leadership.ts';
import { Controller, type ControllerContext } from './reconcile/controller.ts';
import { groupApplier } from './reconcile/groupApplier.ts';
import { operatorMetrics } from './reconcile/metrics.ts';
import { type ExternalChangeReport, externalChangeReport } from './reconcile/unmanagedRows.ts';
import { clusterCredentials, ResourceClusterRegistry } from './registry/clusterRegistry.ts';
import { groupTables } from './registry/groupWrites.ts';
import { LimitRegistry } from './registry/limitRegistry.ts';
import { ReplayRegistry } from './registry/replayRegistry.ts';
import { type ApiWrites, type AppliedChange, ResourceWrites } from './registry/resourceWrites.ts';
import { RolloutRegistry } from './registry/rolloutRegistry.ts';
import { DatabaseSource, type DatabaseSourceOptions } from './sources/database/databaseSource.ts';
import { DirectorySource } from './sources/directory/directorySource.ts';
import type { KubernetesServices } from './sources/kubernetes/kubernetesServices.ts';
import type { KubernetesSource } from './sources/kubernetes/kubernetesSource.ts';
import type { SecretCredentials } from './sources/kubernetes/referencedObjects.ts';
import type { ResourceSelection, ResourceSource } from './sources/source.ts';
import type { WebhookParts } from './webhook/webhookCertificate.ts';

/** The operator of one replica, ready to be started. */
export type Operator = Awaited<ReturnType<typeof createOperator>>;

/** Makes the operator for the configured source of resources. */
export async function createOperator(options: OperatorOptions) {
  const { store, table, clock, logger, resourceGroups: groupStores = null, ownDatabase = null } = options;
  const { groupOwners } = store;
  const metrics = operatorMetrics(options.metrics, options.kinds);
  const findings = new Findings();
  const onExternalChange = externalChangeReport(findings, clock, logger, metrics);
  const parts = await sourceParts(options, onExternalChange);
  const { leadership, kubernetes } = parts;
  const source = parts.source.selecting(selectionOf(options.resources));
  const { unmanagedRows } = options.resources;
  const several = platformOf(options.resources, parts.namespace);
  const platform = several.areSeveral ? several : { ...several, namespace: source.writeNamespace };
  const discoveries = kubernetes === undefined ? undefined : new Discoveries(options, kubernetes, leadership);
  const effects = groupApplier(groupStores, groupOwners, () => controller.outcomes, findings, logger);
  const controller: Controller = new Controller({
    ...options,
    ...{ source, leadership, statusLeadership: kubernetes?.statusLeadership, metrics, findings, onExternalChange },
    ...{ effects, platform, unmanagedRows, discoveries, otherLosses: discoveries },
    services: kubernetes?.services ?? noServices,
    onTransition: kubernetes && ((transition) => kubernetes.events.recordTransition(transition)),
    onEnded: (before, after) => audit?.recordEnded(before, after),
  });
  const writes = new ResourceWrites(source, controller, table, options.addresses, clock, options.apiWrites);
  const audit: OperatorAudit | null =
    options.auditWriter === undefined ? null : new OperatorAudit(options, leadership, writes);
  const registry = new ResourceClusterRegistry(writes);
  const limits = new LimitRegistry(writes, options.admissionCounts ?? noCounts);
  const replays = new ReplayRegistry(writes, kubernetes?.credentials, findings);
  const rollouts = new RolloutRegistry(writes, findings, store, leadership, { clock, logger });
  const groups = groupStores === null ? null : groupTables(groupStores, groupOwners, effects, writes, ownDatabase);
  return {
    source,
    writes,
    leadership,
    controller,
    registry,
    limits,
    replays,
    rollouts,
    /** The tables of resource groups as calls use them; null: switched off. */
    groups,
    /**
     * Credentials of a cluster's own Secret for health checks, by registry name; null when it names none.
     * @param proxyTo the URL that they would be sent to
     */
    healthCredentials: (cluster: string, proxyTo: string) =>
      clusterCredentials(controller, kubernetes?.credentials, cluster, proxyTo),
    /** Records a change that was made by REST where the source can: an event in Kubernetes. Never throws. */
    recordChange: (change: AppliedChange) => kubernetes?.events.recordChange(change),
    /** Records an event about a resource in Kubernetes. Never throws. */
    recordWarning: (kind: Kind, name: string, reason: string, note: string): void => {
      const resource = source.list(kind).find(({ metadata }) => metadata.name === name);
      if (resource !== undefined) kubernetes?.events.recordWarning(resource, reason, note);
    },
    /** Parts of the certificate of the admission webhook; undefined without Kubernetes. */
    webhook: kubernetes?.webhook,
    start: async (): Promise<void> => {
      discoveries?.start(writes);
      await controller.start();
      rollouts.start();
      audit?.start();
    },
    stop: async (): Promise<void> => {
      await audit?.stop();
      await rollouts.stop();
      await discoveries?.stop();
      await controller.stop();
      await kubernetes?.stop();
    },
  };
}

async function sourceParts(
  options: OperatorOptions,
  onExternalChange: ExternalChangeReport,
): Promise<SourceComponents> {
  const { resources, kinds, store, clock, logger } = options;
  const row = new DatabaseLeadership({ store, holder: options.instance, clock, logger });
  if (resources.source === 'kubernetes') {
    // The client library takes half a second to load: only where it is needed.
    const { kubernetesParts } = await import('./kubernetesParts.ts');
    return kubernetesParts(options, row);
  }
  const [named = resources.namespace] = resources.namespaces;
  const namespace = named === null || named === '*' ? 'default' : named;
  if (resources.source === 'database') {
    const onAdopted: DatabaseSourceOptions['onExternalChange'] = (resource, fields) =>
      onExternalChange({ resource, cluster: registryNameOf(resource), outcome: 'adopted', fields });
    const source = new DatabaseSource({ kinds, store, namespace, clock, logger, onExternalChange: onAdopted });
    return { source, namespace, leadership: row };
  }
  // The configuration's schema asks for a directory with this source.
  const directory = resources.directory ?? '.';
  return { source: new DirectorySource({ kinds, directory, namespace, clock, logger }), namespace, leadership: row };
}

function selectionOf({ source, class: gatewayClass, labelSelector, namespaces }: ResourceSettings): ResourceSelection {
  const labels = labelSelector === null ? null : parseLabelSelector(labelSelector);
  // The configuration was checked.
  if (labels !== null && 'problem' in labels) throw new TypeError(`resources.labelSelector ${labels.problem}`);
  // On the API server no others are read.
  const isListed = source === 'kubernetes' || namespaces.length === 0;
  return { gatewayClass, labels, namespaces: isListed ? null : new Set(namespaces) };
}

/** `resources` of the configuration. */
type ResourceSettings = Omit<
  GatewayConfig['resources'],
  'allowedAddresses' | 'allowedServiceNamespaces' | 'apiWrites' | 'discovery' | 'massDeletion' | 'webhook'
>;

/** The platform of a gateway. @param own the gateway's namespace */
export function platformOf(
  { namespace, namespaces }: Pick<ResourceSettings, 'namespace' | 'namespaces'>,
  own: string,
): Platform {
  return { namespace: own, areSeveral: namespaces.length === 0 ? namespace === '*' : new Set(namespaces).size > 1 };
}

/** Options of `createOperator`; call `controller.scheduleRefresh()` when an input of outcomes has changed. */
export interface OperatorOptions
  extends Omit<ProgramSettings, 'services' | 'discoveries' | 'platform'>,
    Pick<ControllerContext, 'kinds' | 'table' | 'deletionGuard' | 'admissionCounts' | 'clock' | 'random' | 'logger'> {
  readonly resources: ResourceSettings;
  readonly apiWrites: ApiWrites;
  /** `resources.discovery.namespaces`; left out, a discovery looks only at its own namespace. */
  readonly discoveryNamespaces?: readonly string[];
  readonly store: Pick<
    Store,
    'resources' | 'backends' | 'leader' | 'audit' | 'groupOwners' | 'rollouts' | 'digestStatistics'
  >;
  /** Where resource groups are; null or left out: switched off. */
  readonly resourceGroups?: SchemaStores | null;
  /** Writes entries of the audit; left out, nothing is recorded there. */
  readonly auditWriter?: Pick<AuditWriter, 'add'>;
  /** Name of this process, unique among replicas and restarts, e.g. host name and a random part. */
  readonly instance: string;
  readonly metrics: Registry;
}

/** Parts of an operator that there are only with Kubernetes. */
export interface KubernetesComponents {
  readonly source: KubernetesSource;
  /** Leadership for statuses; undefined: general leadership. */
  readonly statusLeadership: Leadership | undefined;
  readonly services: KubernetesServices;
  readonly events: EventRecorder;
  readonly credentials: SecretCredentials;
  readonly webhook: WebhookParts;
  readonly stop: () => Promise<void>;
}

export interface SourceComponents {
  readonly source: ResourceSource;
  readonly namespace: string;
  readonly leadership: Leadership;
  readonly kubernetes?: KubernetesComponents;
}
