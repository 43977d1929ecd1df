import { type Static, Type } from 'typebox';
import { GatewayClassName, type Resource } from '../../model/resource.ts';
import {
  closedObject,
  credentialsHostsField,
  namespacesField,
  optionalMatches,
  StringMatch,
  suspendField,
} from '../fields/spec.ts';

export const ENGINE_TENANT = 'EngineTenant';
export const ENGINE_TENANTS = 'enginetenants';

/** Stands for the namespace of a resource in a value of `spec.names`. */
export const NAMESPACE_PLACEHOLDER = '{namespace}';
/** Default of `spec.names`. */
export const DEFAULT_NAMES: readonly StringMatch[] = [{ type: 'Prefix', value: `${NAMESPACE_PLACEHOLDER}-` }];

const MAX_PRIORITY = 2_147_483_647;
const priority = (description: string) => Type.Integer({ minimum: 1, maximum: MAX_PRIORITY, description });
const texts = (maxLength: number, description: string) =>
  Type.Array(Type.String({ minLength: 1, maxLength }), { maxItems: 64, description });

/** `spec.decides`: queries that rules of the tenant decide. */
export const Decides = closedObject(
  {
    users: optionalMatches('Names of users, which are claims of clients unless they are verified'),
    userGroups: optionalMatches('Groups of users, by the sources of userGroups in the configuration'),
    sources: optionalMatches('Sources, which are claims of clients'),
  },
  'Queries that its rules decide: every field that is set must match. Two tenants that match the same query decide nothing.',
  [
    'has(self.users) || has(self.userGroups) || has(self.sources)',
    'decides must have users, userGroups or sources; without decides no query is decided',
    (decides) => (Object.keys(decides).length === 0 ? '' : null),
  ],
);
export type Decides = Static<typeof Decides>;

/** `spec.resourceGroups`: rows of engines that the tenant declares. */
const ResourceGroups = closedObject(
  {
    environments: texts(128, 'Environments of engines.'),
    databases: Type.Optional(texts(64, "Databases in addition to the gateway's own, as useSchema names them.")),
    rootGroups: Type.Array(StringMatch, { maxItems: 64, description: 'Names of groups without a parent.' }),
    priorities: closedObject(
      { from: priority('Lowest priority of its selectors.'), to: priority('Highest priority of its selectors.') },
      'Priorities of its selectors. Selectors of the platform come above all tenants.',
      [
        'self.to >= self.from',
        'priorities.to must not be below priorities.from; raise it',
        ({ from, to }) => (to < from ? 'to' : null),
      ],
    ),
  },
  'Resource groups that its ResourceGroupConfigurations declare.',
);

/** `spec` of an EngineTenant (docs/resources.md#tenants). */
export const EngineTenantSpec = closedObject(
  {
    namespaces: namespacesField('Namespaces that belong to the tenant; each belongs to one.'),
    names: Type.Optional(
      Type.Array(StringMatch, {
        minItems: 1,
        maxItems: 64,
        default: DEFAULT_NAMES,
        description:
          'Registry names of its clusters, routing groups and rules; {namespace} stands for the namespace of the resource.',
      }),
    ),
    routingGroups: optionalMatches('Routing groups that its clusters join and its rules route to; none by default'),
    decides: Type.Optional(Decides),
    resourceGroups: Type.Optional(ResourceGroups),
    credentialsHosts: credentialsHostsField(
      'Hosts that Secrets for health checks may be sent to, in addition to Services of their namespace.',
    ),
    suspend: suspendField('While true, nothing is granted.'),
    gatewayClassName: Type.Optional(GatewayClassName),
  },
  'Namespaces of a team and what they are granted.',
);
export type EngineTenantSpec = Static<typeof EngineTenantSpec>;

export type EngineTenant = Resource<EngineTenantSpec>;
