import { noServices } from '../kinds/serviceLookup.ts';
import { parseLabelSelector } from '../model/labelSelector.ts';
import { keyTextOf } from '../model/resource.ts';
import { registryNameOf } from '../model/resourceName.ts';
import { noCounts } from '../routing/admissionCounts.ts';
import { OperatorAudit } from './audit/operatorAudit.ts';
import { Discoveries } from './discovery/discoveries.ts';
import { DatabaseLeadership } from './leadership/leadership.ts';
import { type OperatorOptions, platformOf, type ResourceSettings, type SourceComponents } from './operatorOptions.ts';
import { Controller } from './reconcile/controller.ts';
import { ExternalChanges } from './reconcile/externalChanges.ts';
import { groupApplier } from './reconcile/groupApplier.ts';
import { operatorMetrics } from './reconcile/metrics.ts';
import { clusterCredentials, ResourceClusterRegistry } from './registry/clusterRegistry.ts';
import { groupTables } from './registry/groupWrites.ts';
import { LimitRegistry } from './registry/limitRegistry.ts';
import { type AppliedChange, ResourceWrites } from './registry/resourceWrites.ts';
import { DatabaseSource, type DatabaseSourceOptions } from './sources/database/databaseSource.ts';
import { DirectorySource } from './sources/directory/directorySource.ts';
import type { ResourceSelection } from './sources/source.ts';

/** The operator of one replica, ready to be started. */
export type Operator = Awaited<ReturnType<typeof createOperator>>;

/** Makes the operator for the configured source of resources. */
export async function createOperator(options: OperatorOptions) {
  const metrics = operatorMetrics(options.metrics, options.kinds);
  const changes = new ExternalChanges(options.clock, options.logger, metrics);
  const parts = await sourceParts(options, changes);
  const { leadership, kubernetes } = parts;
  const source = parts.source.selecting(selectionOf(options.resources));
  const { store, table, clock, logger, resourceGroups: groupStores = null, ownDatabase = null } = options;
  const { unmanagedRows } = options.resources;
  const several = platformOf(options.resources, parts.namespace);
  const platform = several.areSeveral ? several : { ...several, namespace: source.writeNamespace };
  const discoveries = kubernetes === undefined ? undefined : new Discoveries(options, kubernetes, leadership);
  const { groupOwners } = store;
  const effects = groupApplier(groupStores, groupOwners, () => controller.outcomes, logger);
  const controller: Controller = new Controller({
    ...options,
    ...{ source, leadership, statusLeadership: kubernetes?.statusLeadership, metrics },
    ...{ effects, platform, changes, unmanagedRows, discoveries, otherLosses: discoveries },
    services: kubernetes?.services ?? noServices,
    onTransition: (transition) => {
      kubernetes?.events.recordTransition(transition);
      const { resource, condition } = transition;
      if (condition.type !== 'Accepted' || condition.status !== 'False') return;
      logger.warn({ resource: keyTextOf(resource), reason: condition.reason }, `not accepted: ${condition.message}`);
    },
    onEnded: (before, after) => audit?.recordEnded(before, after),
    onRefresh: (changed) => {
      audit?.note(changed);
      discoveries?.request();
    },
  });
  const writes = new ResourceWrites(source, controller, table, options.addresses, clock, options.apiWrites);
  const audit: OperatorAudit | null =
    options.auditWriter === undefined ? null : new OperatorAudit(options, leadership, writes);
  const registry = new ResourceClusterRegistry(writes);
  const limits = new LimitRegistry(writes, options.admissionCounts ?? noCounts);
  const groups = groupStores === null ? null : groupTables(groupStores, groupOwners, effects, writes, ownDatabase);
  return {
    source,
    writes,
    leadership,
    controller,
    registry,
    limits,
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
    /** Parts of the certificate of the admission webhook; undefined without Kubernetes. */
    webhook: kubernetes?.webhook,
    start: async (): Promise<void> => {
      discoveries?.start(writes);
      await controller.start();
      audit?.start();
    },
    stop: async (): Promise<void> => {
      await audit?.stop();
      await discoveries?.stop();
      await controller.stop();
      await kubernetes?.stop();
    },
  };
}

async function sourceParts(options: OperatorOptions, changes: ExternalChanges): Promise<SourceComponents> {
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
    const onExternalChange: DatabaseSourceOptions['onExternalChange'] = (resource, fields) =>
      changes.report({ resource, cluster: registryNameOf(resource), outcome: 'adopted', fields });
    const source = new DatabaseSource({ kinds, store, namespace, clock, logger, onExternalChange });
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
