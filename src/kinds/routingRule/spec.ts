import { type Static, Type } from 'typebox';
import { groupWithoutEdgeSpaces, immutableName } from '../../model/cel.ts';
import { GatewayClassName, type Resource } from '../../model/resource.ts';
import {
  closedObject,
  optionalChoice,
  optionalFlag,
  optionalInteger,
  optionalText,
  suspendField,
} from '../fields/spec.ts';

export const ROUTING_RULE = 'RoutingRule';
export const ROUTING_RULES = 'routingrules';

/** Priority of a rule that has none: it fires last (docs/rules.md#fields). */
export const DEFAULT_PRIORITY = 2_147_483_647;

const name = { minLength: 1, maxLength: 256 };

/** `spec.routeTo`: where matching requests go, declaratively. */
export const RouteTo = closedObject(
  {
    routingGroup: optionalText('Routing group to choose.', name, groupWithoutEdgeSpaces('routingGroup')),
    cluster: optionalText('Registry name of the one cluster to choose.', name),
  },
  'Where matching requests go: exactly one of routingGroup and cluster.',
  [
    'has(self.routingGroup) != has(self.cluster)',
    'routeTo must have either routingGroup or cluster; set one, and remove the other',
    ({ routingGroup, cluster }) => ((routingGroup === undefined) === (cluster === undefined) ? '' : null),
  ],
);
export type RouteTo = Static<typeof RouteTo>;

/** `spec.deny`: matching submissions are rejected. */
export const Deny = closedObject(
  {
    message: Type.String({ minLength: 1, maxLength: 1024, description: 'Text that the client shows.' }),
    whenError: optionalChoice(
      ['Reject', 'Skip'],
      'What happens when the condition fails: the submission is rejected, or the rule is skipped.',
      { default: 'Reject' },
    ),
  },
  'Rejects matching submissions; final, whatever fires later.',
);
export type Deny = Static<typeof Deny>;

export const ONE_EFFECT =
  'actions, routeTo or deny must be set, and only one of them; write routeTo: {routingGroup: NAME}, or remove the others';

/** `spec` of a RoutingRule (docs/rules.md#fields). */
export const RoutingRuleSpec = closedObject(
  {
    name: optionalText('Name of the rule where it is no Kubernetes name; metadata.name by default. Immutable.', name),
    description: optionalText('Text for people.', { maxLength: 1024 }),
    stage: optionalChoice(
      ['First', 'Final'],
      'First: before the rules of tenants; Final: after them, only in the namespace of the platform.',
      { default: 'First' },
    ),
    priority: optionalInteger(
      -2_147_483_648,
      DEFAULT_PRIORITY,
      'Rules of a stage fire in ascending order, those without a priority last; a later one overrules an earlier one.',
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
    whenUnavailable: optionalChoice(
      ['Fallback', 'Reject'],
      'When the chosen group has no healthy cluster: fall back to the default group, or reject.',
      { default: 'Fallback' },
    ),
    stop: optionalFlag('No later rule is asked once this one fired.', { default: false }),
    gatewayClassName: Type.Optional(GatewayClassName),
    suspend: suspendField('While true, the rule is not asked.'),
  },
  'A rule that chooses the routing group of requests.',
  [
    '[has(self.actions), has(self.routeTo), has(self.deny)].filter(present, present).size() == 1',
    ONE_EFFECT,
    ['actions', 'routeTo', 'deny'],
    'is set next to another: ',
  ],
  immutableName(ROUTING_RULE),
);
export type RoutingRuleSpec = Static<typeof RoutingRuleSpec>;

export type RoutingRule = Resource<RoutingRuleSpec>;
