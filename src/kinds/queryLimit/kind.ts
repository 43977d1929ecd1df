import { countProperties } from '../admissionStatus.ts';
import { isSameOutcome } from '../outcome.ts';
import { conditionColumn, type ResourceKind } from '../resourceKind.ts';
import { limitFindings } from './limitFindings.ts';
import type { LimitOutcome } from './limitOutcome.ts';
import { LimitProgram } from './limitProgram.ts';
import { limitStatus } from './limitStatus.ts';
import { QUERY_LIMIT, QUERY_LIMITS, QueryLimitSpec } from './spec.ts';
import { limitProblems } from './validation.ts';

/** Limits of users and sources (docs/resources.md#limits-of-users-and-sources). */
export const queryLimit: ResourceKind<LimitOutcome> = {
  kind: QUERY_LIMIT,
  plural: QUERY_LIMITS,
  singular: 'querylimit',
  shortName: 'ql',
  description: 'QueryLimit limits how many queries of users and sources run, wait and begin.',
  spec: QueryLimitSpec,
  objectRules: [],
  statusProperties: countProperties,
  columns: [
    { name: 'Per', type: 'string', jsonPath: '.spec.per', description: 'What has a counter of its own.' },
    { name: 'Limit', type: 'integer', jsonPath: '.spec.maxRunning', description: 'Queries at a time by one counter.' },
    { name: 'Mode', type: 'string', jsonPath: '.spec.mode', description: 'enforce or observe.' },
    { name: 'Running', type: 'integer', jsonPath: '.status.running', description: 'Queries that run.' },
    { name: 'Waiting', type: 'integer', jsonPath: '.status.waiting', description: 'Queries that wait.' },
    { name: 'Refused', type: 'integer', jsonPath: '.status.refused', description: 'Queries refused.' },
    conditionColumn('Ready', 'Accepted, in the routing table and in the database.'),
    conditionColumn('ResolvedRefs', 'The routing groups that it names have clusters.', 1),
  ],
  selectableFields: ['.spec.per', '.spec.mode', '.spec.gatewayClassName'],
  example: { match: { users: ['~etl-.*'], routingGroups: ['adhoc'] }, per: 'user', maxRunning: 10 },
  ownAccess: {
    verbs: ['get', 'list', 'watch', 'create', 'patch', 'delete'],
    why: 'Limits of users and sources are followed; REST writes create, apply (patch) and delete them.',
  },
  gauge: { name: 'query_limits', help: 'QueryLimit resources.' },
  specProblems: limitProblems,
  findings: limitFindings,
  // A gateway that ran before has no limits.
  exported: () => [],
  program: (settings) => new LimitProgram(settings),
  isSame: isSameOutcome,
  status: limitStatus,
  endedAnnotations: () => [],
  rows: null,
  isRequired: false,
  hasUniqueNames: false,
  hasCounts: true,
};
