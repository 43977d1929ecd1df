import { engineCluster } from './engineCluster/kind.ts';
import { KindRegistry } from './kindRegistry.ts';
import { routingRule } from './routingRule/kind.ts';

/** Every kind of resources, a line each; a kind may look at what those before it mean. */
export const resourceKinds = new KindRegistry([
  engineCluster, // before rules, which name clusters and their groups
  routingRule,
]);
