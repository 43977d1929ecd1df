import { type Static, Type } from 'typebox';
import {
  type CelRule,
  cel,
  groupWithoutEdgeSpaces,
  immutableName,
  withoutControlCharacters,
  withoutDuplicates,
} from '../../model/cel.ts';
import { durationField, durationMs } from '../../model/durationField.ts';
import { routingGroupRules } from '../../model/registryCluster.ts';
import { GatewayClassName, type Resource } from '../../model/resource.ts';
import { HEADER_NAME_FORM, strategyNames } from '../../model/strategies.ts';
import {
  capitalized,
  closedObject,
  literals,
  MAX_QUEUED_QUERIES,
  MAX_RUNNING_QUERIES,
  optionalChoice,
  optionalFlag,
  optionalInteger,
  optionalText,
  suspendField,
} from '../fields/spec.ts';

export const ROUTING_GROUP = 'RoutingGroup';
export const ROUTING_GROUPS = 'routinggroups';

const groupName = (field: string) => {
  const [rule, message] = groupWithoutEdgeSpaces(field);
  const trimmed = [rule, message, (name: string) => (name === name.trim() ? null : '')] as const;
  return { ...routingGroupRules, ...cel(withoutControlCharacters(field), trimmed) };
};

/** `spec.strategy.affinity`: what the strategy `Affinity` keeps on one cluster. */
const Affinity = closedObject(
  {
    type: literals(
      ['User', 'Source', 'Session', 'Header'],
      'Queries of the same user, source, session, or value of a header go to one cluster.',
    ),
    name: optionalText('Name of the header.', { pattern: HEADER_NAME_FORM, maxLength: 128 }),
  },
  'What queries that go to one cluster have in common; the user by default.',
  [
    "has(self.name) == (self.type == 'Header')",
    'strategy.affinity.name is required with type: Header, and allowed with no other type; write the name of the header, or remove it',
    ({ type, name }) => ((name !== undefined) === (type === 'Header') ? null : 'name'),
  ],
);

/** `spec.strategy`: how a cluster of the group is chosen. */
const GroupStrategy = closedObject(
  {
    type: literals(strategyNames.map(capitalized), 'Name of the strategy.'),
    affinity: Type.Optional(Affinity),
  },
  "How a cluster of the group is chosen; the configuration's routing.strategy by default.",
  [
    "!has(self.affinity) || self.type == 'Affinity'",
    'strategy.affinity has no effect without strategy.type: Affinity; set that, or remove affinity',
    ({ type, affinity }) => (affinity === undefined || type === 'Affinity' ? null : 'affinity'),
  ],
);

/** `spec.queue`: how submissions wait for the group. */
export const Queue = closedObject(
  {
    maxQueuedQueries: optionalInteger(
      0,
      MAX_QUEUED_QUERIES,
      'Queries that may wait for the group at a time, over all replicas; 1000 by default, 0 for none.',
    ),
    maxWait: Type.Optional(
      durationField('maxWait', { least: '1s', most: '24h' }, 'Longest wait, 1s to 24h; 10m by default.'),
    ),
    fairBy: optionalChoice(['User', 'Source'], 'Whose queries take turns: User (by default) or Source.'),
    hold: Type.Optional(
      durationField(
        'hold',
        { least: '0s', most: '10s', example: '500ms' },
        'How long a submission is kept waiting before it is answered as queued, 0s to 10s; 500ms by default.',
      ),
    ),
  },
  'How queries wait for the group.',
  [
    '!has(self.hold) || !has(self.maxWait) || duration(self.hold) <= duration(self.maxWait)',
    'queue.hold must not be longer than queue.maxWait; lower it',
    ({ hold, maxWait }) => (hold && maxWait && durationMs(hold) > durationMs(maxWait) ? 'hold' : null),
  ],
);

/** `spec.survival`: which queries continue on another cluster. */
const Survival = closedObject(
  {
    reasons: Type.Array(literals(['ClusterLost', 'InsufficientResources'], 'Reason of a retry.'), {
      minItems: 1,
      maxItems: 2,
      ...cel(withoutDuplicates('survival.reasons must not name a reason twice; remove one of them')),
      description:
        'Reasons of retries. ClusterLost: the coordinator rejects connections for 10 s, or was restarted. InsufficientResources: the query failed, as its cluster has too little memory or no workers.',
    }),
    maxAttempts: optionalInteger(2, 5, 'Clusters that a query is sent to at most, the first one included.', {
      default: 2,
    }),
    to: Type.Optional(
      Type.Array(Type.String(groupName('to')), {
        minItems: 1,
        maxItems: 16,
        ...cel(withoutDuplicates('survival.to must not name a group twice; remove one of them')),
        description: 'Routing groups of the next attempts, in this order; by default the group itself.',
      }),
    ),
    exceptRules: Type.Optional(
      Type.Array(Type.String({ minLength: 1, maxLength: 256 }), {
        maxItems: 64,
        description: 'Names of rules: queries that they send to the group end with their cluster.',
      }),
    ),
    retryBudget: optionalInteger(1, 10_000, 'Retries of the group in a minute, over all replicas.', { default: 60 }),
  },
  'Reads of the group continue on another cluster after theirs is lost, as long as no row was sent.',
);

/** `spec` of a RoutingGroup (docs/resources.md#routing-groups-and-their-queues). */
export const RoutingGroupSpec = closedObject(
  {
    name: optionalText(
      'Name of the routing group where it is no Kubernetes name; metadata.name by default. Immutable.',
      groupName('name'),
    ),
    strategy: Type.Optional(GroupStrategy),
    fallbacks: Type.Optional(
      Type.Array(Type.String(groupName('fallbacks')), {
        maxItems: 16,
        ...cel(withoutDuplicates('fallbacks must not name a group twice; remove one of them')),
        description: 'Routing groups that serve in place of this one, in this order.',
      }),
    ),
    whenFull: optionalChoice(
      ['Wait', 'Fallback'],
      'While no cluster of the group has room, queries wait, or its fallbacks serve; while none is available they do in any case.',
      { default: 'Wait' },
    ),
    whenUnavailable: optionalChoice(
      ['Reject', 'Wait'],
      'While no cluster of the group, nor of its fallbacks, is available, queries are rejected, or wait.',
      { default: 'Reject' },
    ),
    bestEffort: optionalFlag('While no cluster is healthy, an unhealthy one is tried in place of a rejection.', {
      default: false,
    }),
    maxRunningQueries: optionalInteger(
      1,
      MAX_RUNNING_QUERIES,
      'Queries that may run at a time on all clusters of the group; left out, there is no limit.',
    ),
    queue: Type.Optional(Queue),
    survival: Type.Optional(Survival),
    suspend: suspendField('While true, changes are not taken over: what holds for the group stays as it was.'),
    gatewayClassName: Type.Optional(GatewayClassName),
  },
  'Limits, queue and fallbacks of a routing group.',
  [
    "!(has(self.whenUnavailable) && self.whenUnavailable == 'Wait' && has(self.queue) && has(self.queue.maxQueuedQueries) && self.queue.maxQueuedQueries == 0)",
    'whenUnavailable: Wait needs queue.maxQueuedQueries of at least 1: with 0 no query may wait',
    ({ whenUnavailable, queue }) =>
      whenUnavailable === 'Wait' && queue?.maxQueuedQueries === 0 ? 'queue.maxQueuedQueries' : null,
    'is 0: ',
  ],
  immutableName(ROUTING_GROUP),
);
export type RoutingGroupSpec = Static<typeof RoutingGroupSpec>;

export const NOT_ITSELF = 'must not name the group itself; remove it';

/** A group whose name is `metadata.name` knows it only as a whole. */
export const objectRules: readonly CelRule[] = [
  [
    '!has(self.spec.fallbacks) || !((has(self.spec.name) ? self.spec.name : self.metadata.name) in self.spec.fallbacks)',
    `fallbacks ${NOT_ITSELF}`,
  ],
];

export type RoutingGroup = Resource<RoutingGroupSpec>;
