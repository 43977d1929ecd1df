import { type Static, Type } from 'typebox';
import { cel } from '../../model/cel.ts';
import { durationField } from '../../model/durationField.ts';
import { GatewayClassName, type Resource } from '../../model/resource.ts';
import { sizeClassNames } from '../../model/sizeEstimates.ts';
import {
  closedObject,
  literals,
  MAX_QUEUED_QUERIES,
  MAX_RUNNING_QUERIES,
  optionalChoice,
  optionalFlag,
  optionalInteger,
  optionalMatches,
  optionalText,
  suspendField,
} from '../fields/spec.ts';

export const QUERY_LIMIT = 'QueryLimit';
export const QUERY_LIMITS = 'querylimits';

export const DEFAULT_PERIOD = '1m';

/** `spec.match`: whose queries a limit is about. */
export const Match = closedObject(
  {
    everyone: optionalFlag('True: it is about all queries, and no other field is set.'),
    users: optionalMatches('Names of users'),
    userGroups: optionalMatches('Groups of users, by the sources of userGroups in the configuration'),
    sources: optionalMatches('Sources'),
    routingGroups: optionalMatches('Routing groups that queries are for'),
    digests: Type.Optional(
      Type.Array(
        Type.String({
          ...{ pattern: '^[0-9a-f]{16}$', minLength: 16, maxLength: 16 },
          ...cel([
            "self.matches('^[0-9a-f]{16}$')",
            'digests must have digests of 16 characters such as c9b40199bcc6dce9',
          ]),
        }),
        {
          minItems: 1,
          maxItems: 64,
          description: 'Digests of statements, exact or of their shape; one of them matches.',
        },
      ),
    ),
    estimate: Type.Optional(
      Type.Array(literals([...sizeClassNames, 'Unknown'], 'A class of queries, or Unknown: no run is known.'), {
        ...{ minItems: 1, maxItems: 4, description: 'Classes of expected size; the one of the query is among them.' },
      }),
    ),
  },
  'Queries that it is about: every field that is set must match.',
  [
    '(has(self.everyone) && self.everyone) != (has(self.users) || has(self.userGroups) || has(self.sources) || has(self.routingGroups) || has(self.digests) || has(self.estimate))',
    'match must have everyone: true, or users, userGroups, sources, routingGroups, digests or estimate; write match: {everyone: true} for all queries',
    ({ everyone = false, ...lists }) => (everyone === (Object.keys(lists).length === 0) ? null : ''),
  ],
);

/** `spec.rate`: how often queries may begin. */
export const Rate = closedObject(
  {
    queries: Type.Integer({
      minimum: 1,
      maximum: MAX_RUNNING_QUERIES,
      description: 'Queries that may begin in a period.',
    }),
    period: Type.Optional(
      durationField(
        'period',
        { least: '1s', most: '24h' },
        `Length of the period, 1s to 24h; ${DEFAULT_PERIOD} by default.`,
      ),
    ),
    burst: optionalInteger(
      1,
      MAX_RUNNING_QUERIES,
      'Queries that may begin at once after a pause; as many as queries by default.',
    ),
  },
  'How often queries may begin, over all replicas.',
);

/** `spec` of a QueryLimit (docs/resources.md#limits-of-users-and-sources). */
export const QueryLimitSpec = closedObject(
  {
    match: Match,
    per: literals(
      ['User', 'Source', 'All'],
      'One counter for each user, for each source, or for all queries that match together.',
    ),
    maxRunningQueries: optionalInteger(1, MAX_RUNNING_QUERIES, 'Queries that may run by one counter.'),
    maxQueuedQueries: optionalInteger(
      0,
      MAX_QUEUED_QUERIES,
      'Queries that may wait by one counter; 0: a query that cannot run immediately is rejected.',
    ),
    rate: Type.Optional(Rate),
    weight: optionalInteger(
      1,
      1_000,
      'Share in a fair queue of those whom it is about, relative to others, who have 1.',
      { default: 1 },
    ),
    mode: optionalChoice(
      ['Enforce', 'Observe'],
      'Observe: what it would reject or let wait is counted and shown, and runs.',
      { default: 'Enforce' },
    ),
    message: optionalText('Text for people at the end of its rejections.', { minLength: 1, maxLength: 1024 }),
    suspend: suspendField('While true, the limit does not apply.'),
    gatewayClassName: Type.Optional(GatewayClassName),
  },
  'How many queries of users and sources may run, wait and begin.',
  [
    'has(self.maxRunningQueries) || has(self.maxQueuedQueries) || has(self.rate)',
    'maxRunningQueries, maxQueuedQueries or rate must be set: without any nothing is limited',
    ({ maxRunningQueries, maxQueuedQueries, rate }) =>
      (maxRunningQueries ?? maxQueuedQueries ?? rate) === undefined ? 'maxRunningQueries' : null,
    'is missing: ',
  ],
);
export type QueryLimitSpec = Static<typeof QueryLimitSpec>;

export type QueryLimit = Resource<QueryLimitSpec>;
