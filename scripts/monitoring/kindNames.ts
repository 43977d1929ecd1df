import { engineCluster } from '../../src/kinds/engineCluster/kind.ts';
import { resourceKinds } from '../../src/kinds/registry.ts';
import { routingRule } from '../../src/kinds/routingRule/kind.ts';

/** Values of the label `controller`, or of `name` of a work queue, of this operator: a regular expression. */
export const controllerNames = resourceKinds.all.map(({ singular }) => singular).join('|');
/** Values of the label `kind`: a regular expression. */
export const kindNames = resourceKinds.all.map(({ kind }) => kind).join('|');
/** All kinds, as kubectl takes them. */
export const plurals = resourceKinds.all.map(({ plural }) => plural).join(',');
/** Subresources that the Role has to allow. */
export const statuses = resourceKinds.all.map(({ plural }) => `\`${plural}/status\``).join(', ');
export const clusters = engineCluster.plural;
export const rules = routingRule.plural;
