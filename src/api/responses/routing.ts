import { Type } from 'typebox';
import { groupSourceNames } from '../../model/membership.ts';
import { type SizeEstimate, sizeClassNames } from '../../model/sizeEstimates.ts';
import { strategyNames } from '../../model/strategies.ts';
import { routerNames } from '../../routing/groupRouter.ts';
import type { QueryDecision } from '../../routing/storedDecision.ts';
import {
  flagField,
  integerField,
  list,
  nullable,
  objectOf,
  objectOrNull,
  objects,
  oneOf,
  type ResponseBody,
  reference,
  textField,
  textOrNull,
} from '../schemas.ts';
import { bypassed, QueryInputResponse, QueryOutcome, QueuePlace } from './queries.ts';

export const RuleEffect = Type.Object({
  rule: Type.String(),
  origin: oneOf(['file', 'resource']),
  priority: Type.Integer(),
  stage: Type.Optional(oneOf(['tenant', 'final'])),
  tenant: Type.Optional(textField('Tenant of the rule.')),
  outcome: oneOf(['fired', 'not-matched', 'failed', 'denied', 'skipped']),
  put: Type.Optional(Type.Record(Type.String(), textOrNull(), { description: 'What it put into result.' })),
  error: Type.Optional(textField('Why it failed, or was skipped.')),
});
export type RuleEffect = ResponseBody<typeof RuleEffect>;

const considered = {
  cluster: Type.String(),
  routingGroup: Type.String(),
  taken: flagField('One of those that the request may be sent to.'),
  reason: textField('Why, or why not.'),
};

const ReadConditions = Type.Array(
  Type.Object({
    rule: Type.String(),
    origin: oneOf(['file', 'resource']),
    condition: Type.String(),
    values: Type.Array(
      Type.Object({
        expression: textField('e.g. request.getHeader("X-Engine-Source")'),
        value: textField('Texts in quotes; cut at 200 characters.'),
        source: textOrNull('header:NAME, user, queryType, …; null where that is not known.'),
      }),
    ),
  }),
);

const figure = (description: string) => nullable(Type.Number(), `${description} Null: no run reported it.`);

const Estimate = Type.Unsafe<SizeEstimate>(
  Type.Object(
    {
      sizeClass: oneOf([...sizeClassNames, 'unknown']),
      seconds: figure('Duration that 90 % of its runs took at most.'),
      cpuSeconds: figure('Processor time, likewise.'),
      peakMemoryBytes: figure('Peak memory, likewise.'),
      confidence: Type.Number({ description: 'Share of its runs with this class, lower for few runs: 0 to 1.' }),
      source: oneOf(['exact', 'shape', 'none']),
      runs: integerField('Runs of the last five days.'),
    },
    { description: 'Expected size of the query (docs/size-classes.md).' },
  ),
);

export const Explanation = Type.Object({
  outcome: oneOf(['routed', 'denied', 'rejected', 'noCluster']),
  message: textField('The decision in a sentence.'),
  routingGroup: Type.String(),
  decidedBy: oneOf([...routerNames, 'transaction']),
  rule: textOrNull('Rule that decided, denied or failed.'),
  pinnedCluster: textOrNull('Cluster that a rule chose.'),
  onUnavailable: oneOf(['fallback', 'reject']),
  fallback: flagField(
    'Another group serves in place of the one asked for: one of its fallbacks, or the default group.',
  ),
  steps: list(
    Type.String(),
    'How it comes to these clusters, a sentence each; empty where the group asked for has them.',
  ),
  clusters: Type.Array(Type.Object(considered)),
  waitsFor: textOrNull('What it would wait for now: the limits that are full. Null: nothing.'),
  rules: list(RuleEffect, 'Every rule in order, and what became of it.'),
  conditions: list(
    ReadConditions.items,
    'What the conditions of rules read: of those that did something first, 50 at most. Empty for callers who may not list rules.',
  ),
  request: Type.Object({
    isSubmission: Type.Boolean(),
    user: textOrNull(),
    userMapping: objectOrNull('What the user mapping did. Null: the name is not mapped.', {
      from: textField('The name before.'),
    }),
    groups: nullable(
      Type.Array(
        Type.Object({
          source: oneOf([...groupSourceNames, 'described']),
          groups: Type.Array(Type.String()),
          note: Type.Optional(textField('Why it says nothing, or not what is current.')),
        }),
      ),
      'Groups of the user, by the source that they come from. Null: no source of groups is configured.',
    ),
    query: Type.Union([
      Type.Object({
        queryType: Type.String(),
        resourceGroupQueryType: Type.String(),
        tables: Type.Array(Type.String()),
        catalogs: Type.Array(Type.String()),
        schemas: Type.Array(Type.String()),
        errorMessage: textOrNull(),
        queryDigest: textField('Digest of the shape of the statement; empty if nothing was analysed.'),
        estimate: Estimate,
      }),
      Type.Null(),
    ]),
  }),
});
export type Explanation = ResponseBody<typeof Explanation>;

const millis = (description: string) => Type.Optional(Type.Integer({ description }));

/** Stored routing of a query; further fields are listed in docs/rest-api.md#decisions. */
const Decision = Type.Unsafe<QueryDecision>(
  objectOf(
    { additionalProperties: true },
    {
      refused: Type.Optional(textField('Why the gateway refused it: denied, rule_failed, no_cluster, …')),
      estimate: Type.Optional(Estimate),
      times: Type.Optional(
        Type.Object({
          receivedAt: integerField('When the head of its request had arrived, milliseconds since 1970.'),
          analysed: millis('When user and statement were known, milliseconds after `receivedAt`.'),
          decided: millis('When its routing group was decided, milliseconds after `receivedAt`.'),
          submitted: millis('When its cluster had answered, milliseconds after `receivedAt`.'),
        }),
      ),
      strategy: Type.Optional(textField(`What picked the cluster: ${strategyNames.join(', ')}, rule or only.`)),
      candidates: Type.Optional(
        objects('Clusters of the groups that were looked at, as they were then; 16 at most.', {
          ...considered,
          queued: Type.Optional(Type.Number({ description: 'Queued queries by its last check.' })),
          running: Type.Optional(Type.Number({ description: 'Running queries by its last check.' })),
          chosen: Type.Optional(Type.Literal(true, { description: 'It took the query.' })),
        }),
      ),
      conditions: Type.Optional(ReadConditions),
    },
  ),
);

export const RoutedQuery = Type.Object({
  queryId: Type.String(),
  user: textOrNull(),
  source: textOrNull(),
  routingGroup: textOrNull(),
  cluster: textField('Registry name of the cluster it ran on; empty until one has it.'),
  backendUrl: Type.String(),
  externalUrl: textOrNull(),
  queryText: textField('Empty until a cluster has it.'),
  received: textOrNull(
    'When a query that waited came in, RFC 3339. Null: it did not wait for long, or that is not kept any more.',
  ),
  created: textField('When its cluster had it, RFC 3339; until then when it came in.'),
  queuedAs: textOrNull(
    'Id of the gateway under which it waits, or waited; the same as `queryId` while no cluster has it. Null: it did not wait for long.',
  ),
  bypassed,
  decision: nullable(
    Decision,
    'How it was routed: group, rule, what rules did (docs/rest-api.md#decisions). Of a query that was refused before its group was decided `group` is empty, `refused` says why, `conditions` (for callers who may list rules) what the rule read. Null for queries of a gateway that ran before, and until a cluster has the query.',
  ),
  rule: textOrNull(
    'Rule that decided its routing group, or that denied or refused it. Null: none did, or no cluster has it yet.',
  ),
  queue: nullable(
    QueuePlace,
    'Its place in the queue and why it waits, as in `/api/queue`. Null: it does not wait there.',
  ),
  outcome: nullable(reference(QueryOutcome), 'How it ended; null while it runs, and where nobody saw its end.'),
  inputs: objects(
    'Tables that it read, up to 64, by an event of its cluster (docs/query-events.md).',
    QueryInputResponse,
  ),
});
export type RoutedQuery = ResponseBody<typeof RoutedQuery>;

/** Which resource group engines choose for a query, and how that came about. */
export const GroupExplanation = Type.Object({
  environment: textField('Environment whose groups were looked at.'),
  outcome: oneOf(
    ['selected', 'rejected', 'failed', 'unknown'],
    'rejected: no selector matches, so that the engine refuses the query; failed: the name of the group cannot be made of what the query has, so that the query fails; unknown: it depends on an expression that cannot be matched here.',
  ),
  message: textField('Why.'),
  selector: nullable(
    Type.Integer(),
    'The selector that decides, by its place in the order in which they are tried, from 0.',
  ),
  group: nullable(Type.Array(Type.String()), "The group's name, root first."),
  path: objects('The groups that it consists of, root first, with the limits that hold there.', {
    resourceGroupId: Type.Integer(),
    name: textField('With its variables.'),
    softMemoryLimit: textOrNull('As it is stored.'),
    hardConcurrencyLimit: Type.Integer(),
    maxQueued: Type.Integer(),
  }),
  selectors: objects('What selectors did, highest priority first, up to the one that decides; the first 500 of them.', {
    id: nullable(Type.Integer(), 'Key of the row, where the table has one.'),
    priority: Type.Integer(),
    resourceGroupId: Type.Integer(),
    group: textField('Path of its group.'),
    outcome: oneOf(['matched', 'not-matched', 'unknown']),
    condition: textOrNull('The condition that did not hold, or is not known.'),
    message: Type.String(),
  }),
  omitted: integerField('How many of these were left out.'),
  samePriority: objects(
    'Further selectors of the same priority that match and lead elsewhere: which of them an engine takes is not defined.',
    {
      id: nullable(Type.Integer(), 'Key of the row.'),
      resourceGroupId: Type.Integer(),
      group: Type.String(),
    },
  ),
  problems: list(Type.String(), 'With these, engines load nothing, and keep what they loaded last.'),
});
export type GroupExplanation = ResponseBody<typeof GroupExplanation>;
