import { engineCluster } from './engineCluster/kind.ts';
import { engineClusterDiscovery } from './engineClusterDiscovery/kind.ts';
import { engineRollout } from './engineRollout/kind.ts';
import { engineTenant } from './engineTenant/kind.ts';
import { queryLimit } from './queryLimit/kind.ts';
import { queryReplay } from './queryReplay/kind.ts';
import { resourceGroupConfiguration } from './resourceGroupConfiguration/kind.ts';
import { KindRegistry } from './resourceKind.ts';
import { routingGroup } from './routingGroup/kind.ts';
import { routingRule } from './routingRule/kind.ts';

/** Every kind of resources, a line each; a kind may look at what those before it mean. */
export const resourceKinds = new KindRegistry([
  engineTenant, // before all others, which need its grants
  engineCluster, // before rules, which name clusters and their groups
  engineClusterDiscovery,
  routingGroup, // before limits and rules, which name groups
  queryLimit,
  routingRule,
  queryReplay,
  engineRollout,
  resourceGroupConfiguration,
]);
