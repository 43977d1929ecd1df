import type { Logger } from 'pino';
import { Registry } from 'prom-client';
import { resourceKinds } from '../../src/kinds/registry.ts';
import { systemClock } from '../../src/model/clock.ts';
import { openAddresses } from '../../src/model/clusterAddresses.ts';
import type { OperatorOptions } from '../../src/operator/operator.ts';
import type { RoutingTableHolder } from '../../src/routing/routingTable.ts';
import type { Store } from '../../src/store/store.ts';
import { defaultDeletionGuard } from './defaults.ts';
import { defaultRuleCompiler } from './resourceRules.ts';

/** Resources of one namespace that name no class, as the configuration has it by default. */
export const allResources = {
  namespaces: [],
  class: null,
  labelSelector: null,
  leaseName: null,
} as const;

/** Options of an operator that watches the API server, all else as configured by default. */
export function kubernetesOperatorOptions(parts: {
  readonly kubeconfig: string;
  /** Watch all namespaces, and create resources in this one; null: the kubeconfig's namespace. */
  readonly allNamespacesFrom: string | null;
  readonly store: Store;
  readonly table: RoutingTableHolder;
  readonly instance: string;
  readonly logger: Logger;
}): OperatorOptions {
  const { kubeconfig, allNamespacesFrom, store, table, instance, logger } = parts;
  return {
    resources: {
      source: 'kubernetes',
      directory: null,
      namespace: allNamespacesFrom === null ? null : '*',
      ...allResources,
      kubeconfig,
      writeNamespace: allNamespacesFrom,
      unmanagedRows: 'serve',
    },
    kinds: resourceKinds,
    addresses: openAddresses,
    apiWrites: 'enabled',
    allowedServiceNamespaces: [],
    defaultRoutingGroup: 'adhoc',
    deletionGuard: defaultDeletionGuard,
    store,
    table,
    rules: { compiler: defaultRuleCompiler(), file: null },
    instance,
    clock: systemClock,
    random: Math.random,
    logger,
    metrics: new Registry(),
  };
}
