import swagger, { type FastifyDynamicSwaggerOptions } from '@fastify/swagger';
import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import { DescribedRequest } from '../gateway/analysis/explainRequest.ts';
import { ExactMatchSelector } from '../model/exactMatchSelector.ts';
import { GlobalProperty, StoredGlobalProperty } from '../model/globalProperty.ts';
import { RegistryCluster, RegistryClusterInput } from '../model/registryCluster.ts';
import { ResourceGroup, ResourceGroupCreate, ResourceGroupUpdate } from '../model/resourceGroup.ts';
import { Selector, SelectorCreate, SelectorMatch, SelectorUpdate } from '../model/selector.ts';
import type { ApiContext } from './apiContext.ts';
import type { SecurityScheme } from './auth/endpointAccess.ts';
import { ClusterDetails, ClusterState, NewQueries, SwitchedCluster } from './clusters.ts';
import { GroupDetails, GroupState, LimitState } from './limits.ts';
import { ReplayState } from './replays.ts';
import { Overview } from './responses/overview.ts';
import { QueryOutcome } from './responses/queries.ts';
import { RolloutDetails } from './rollouts.ts';
import { routes } from './routes.ts';
import { RuleState } from './rules.ts';
import { ErrorBody, WebappError } from './schemas.ts';

const shared = [
  ...[ErrorBody, RegistryCluster, RegistryClusterInput],
  ...[ResourceGroup, ResourceGroupCreate, ResourceGroupUpdate],
  ...[Selector, SelectorCreate, SelectorMatch, SelectorUpdate],
  ...[GlobalProperty, StoredGlobalProperty, ExactMatchSelector, WebappError, DescribedRequest],
  ...[ClusterState, ClusterDetails, SwitchedCluster, NewQueries, Overview, RuleState],
  ...[GroupState, GroupDetails, LimitState, QueryOutcome, ReplayState, RolloutDetails],
];

/**
 * Prepares the OpenAPI document; to be called before any route, as it collects them.
 * @param schemes security schemes by name; empty without authentication
 */
export async function collectOpenapi(
  app: FastifyInstance,
  product: string,
  version: string,
  schemes: Readonly<Record<string, SecurityScheme>>,
): Promise<void> {
  for (const schema of shared) app.addSchema(schema);
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: `${product} Gateway`,
        version,
        description: 'REST API of the gateway. Errors are JSON of the form Error; docs/errors.md lists the codes.',
        license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
      },
      servers: [{ url: '/' }],
      // The generator's types know OpenAPI 3.0, which has no mutualTLS.
      components: { securitySchemes: { ...schemes } as never },
    },
    transformObject: (document) => optionalBodies(document),
    refResolver: { buildLocalReference: (json, _base, _fragment, index) => String(json.$id ?? `schema${index}`) },
  });
}

type TransformObject = NonNullable<FastifyDynamicSwaggerOptions['transformObject']>;

function optionalBodies(document: Parameters<TransformObject>[0]): ReturnType<TransformObject> {
  if (!('openapiObject' in document)) return document.swaggerObject;
  const { openapiObject } = document;
  const paths = (openapiObject.paths ?? {}) as Record<string, Record<string, Record<string, unknown>>>;
  for (const operation of Object.values(paths).flatMap((item) => Object.values(item))) {
    if (operation['x-body-optional'] === undefined) continue;
    delete operation['x-body-optional'];
    operation.requestBody = { ...(operation.requestBody as object), required: false };
  }
  return openapiObject;
}

/** `/openapi.json`, generated from the schemas the routes are checked with. */
export function openapiRoute(api: ApiContext): void {
  routes(api, 'pages')('GET', '/openapi.json', {
    summary: 'This document',
    returns: ['OpenAPI 3.1 document.', Type.Object({}, { additionalProperties: true })],
    handle: () => api.app.swagger(),
  });
}
