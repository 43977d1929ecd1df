import { type Static, Type } from 'typebox';
import { cel, groupWithoutEdgeSpaces, immutableName } from '../../model/cel.ts';
import { GatewayClassName } from '../../model/gatewayClass.ts';
import type { Resource } from '../../model/resource.ts';

export const ROUTING_RULE = 'RoutingRule';
export const ROUTING_RULES = 'routingrules';

/** Priority of a rule that has none: it fires last (docs/rules.md#fields). */
export const DEFAULT_PRIORITY = 2_147_483_647;

/** `spec.routeTo`: where matching requests go, declaratively. */
export const RouteTo = Type.Object(
  {
    routingGroup: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 256,
        ...cel(groupWithoutEdgeSpaces('routingGroup')),
        description: 'Routing group to choose.',
      }),
    ),
    cluster: Type.Optional(
      Type.String({ minLength: 1, maxLength: 256, description: 'Registry name of the one cluster to choose.' }),
    ),
  },
  {
    additionalProperties: false,
    description: 'Where matching requests go: exactly one of routingGroup and cluster.',
    ...cel([
      'has(self.routingGroup) != has(self.cluster)',
      'routeTo must name exactly one of routingGroup and cluster',
    ]),
  },
);
export type RouteTo = Static<typeof RouteTo>;

/** `spec.deny`: matching submissions are rejected. */
export const Deny = Type.Object(
  {
    message: Type.String({ minLength: 1, maxLength: 1024, description: 'Text that the client shows.' }),
    onError: Type.Optional(
      Type.Union([Type.Literal('deny'), Type.Literal('skip')], {
        default: 'deny',
        description: 'What happens when the condition fails: the submission is denied, or the rule is skipped.',
      }),
    ),
  },
  { additionalProperties: false, description: 'Refuses matching submissions; final, whatever fires later.' },
);
export type Deny = Static<typeof Deny>;

/** `spec` of a RoutingRule (docs/rules.md#fields). */
export const RoutingRuleSpec = Type.Object(
  {
    name: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 256,
        description: 'Name of the rule where it is no Kubernetes name; metadata.name by default. Immutable.',
      }),
    ),
    description: Type.Optional(Type.String({ maxLength: 1024, description: 'Text for people.' })),
    priority: Type.Optional(
      Type.Integer({
        minimum: -2_147_483_648,
        maximum: DEFAULT_PRIORITY,
        default: DEFAULT_PRIORITY,
        description: 'Rules fire in ascending order; a later one overrules an earlier one.',
      }),
    ),
    condition: Type.String({
      minLength: 1,
      maxLength: 16_384,
      description: 'Expression that is true for the requests the rule is for.',
    }),
    actions: Type.Optional(
      Type.Array(Type.String({ minLength: 1, maxLength: 16_384 }), {
        minItems: 1,
        maxItems: 64,
        description: 'Expressions run when the condition is true, e.g. result.put("routingGroup", "etl").',
      }),
    ),
    routeTo: Type.Optional(RouteTo),
    deny: Type.Optional(Deny),
    onUnavailable: Type.Optional(
      Type.Union([Type.Literal('fallback'), Type.Literal('reject')], {
        default: 'fallback',
        description: 'When the chosen group has no healthy cluster: fall back to the default group, or refuse.',
      }),
    ),
    stop: Type.Optional(Type.Boolean({ default: false, description: 'No later rule is asked once this one fired.' })),
    gatewayClassName: Type.Optional(GatewayClassName),
    suspended: Type.Optional(Type.Boolean({ default: false, description: 'The rule is kept but never asked.' })),
  },
  {
    additionalProperties: false,
    description: 'A rule that chooses the routing group of requests.',
    ...cel(
      [
        '[has(self.actions), has(self.routeTo), has(self.deny)].filter(present, present).size() == 1',
        'exactly one of actions, routeTo and deny must be set',
      ],
      immutableName(ROUTING_RULE),
    ),
  },
);
export type RoutingRuleSpec = Static<typeof RoutingRuleSpec>;

export type RoutingRule = Resource<RoutingRuleSpec>;
