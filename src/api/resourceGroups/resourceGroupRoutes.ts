import type { FastifyInstance } from 'fastify';
import type { ProductNames } from '../../model/names.ts';
import type { GroupTables } from '../../operator/registry/groupWrites.ts';
import { type EnvelopeRoutes, envelopeErrors } from '../webapp/envelope.ts';
import { groupRoutes, webappGroupRoutes } from './groups.ts';
import { propertyRoutes, webappPropertyRoutes } from './properties.ts';
import { RestCalls } from './restCalls.ts';
import { selectorRoutes, webappSelectorRoutes } from './selectors.ts';
import { WebappCalls } from './webappCalls.ts';

export interface ResourceGroupRoutes {
  readonly stores: GroupTables;
  readonly names: ProductNames;
}

/** Dependencies of the web application's calls. */
export interface WebappResourceGroupRoutes extends EnvelopeRoutes {
  readonly stores: GroupTables;
}

/** Resource groups, selectors and global properties (docs/rest-api.md#resource-groups-selectors-global-properties). */
export async function resourceGroupRoutes(app: FastifyInstance, { stores, names }: ResourceGroupRoutes): Promise<void> {
  groupRoutes(new RestCalls(app, stores, names, 'resource groups'));
  selectorRoutes(new RestCalls(app, stores, names, 'selectors'));
  propertyRoutes(new RestCalls(app, stores, names, 'global properties'));
}

/** The same for the web application, every column kept (docs/rest-api.md#calls-of-the-web-application). */
export async function webappResourceGroupRoutes(
  app: FastifyInstance,
  options: WebappResourceGroupRoutes,
): Promise<void> {
  envelopeErrors(app, options);
  const calls = new WebappCalls(app, options.stores);
  webappGroupRoutes(calls);
  webappSelectorRoutes(calls);
  webappPropertyRoutes(calls);
}
