import { isRecord } from '../../model/record.ts';
import { PATTERN_MARK } from '../../rules/textMatcher.ts';
import { countProperties, declarationStatus, usageFields } from '../declarationStatus.ts';
import { groupFindings } from '../groupFindings.ts';
import { isSameOutcome } from '../outcome.ts';
import { type CheckedManifest, conditionColumn, type ManifestFinding, type ResourceKind } from '../resourceKind.ts';
import type { StatusDraft, StatusView } from '../status.ts';
import type { LimitOutcome } from './limitOutcome.ts';
import { LimitProgram } from './limitProgram.ts';
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

/** Findings about a QueryLimit in addition to the mistakes of its spec. */
function limitFindings({ spec }: CheckedManifest): readonly ManifestFinding[] {
  const groups = isRecord(spec.match) && Array.isArray(spec.match.routingGroups) ? spec.match.routingGroups : [];
  const findings = groups.flatMap((group, index) =>
    typeof group === 'string' && group.startsWith(PATTERN_MARK)
      ? []
      : groupFindings(group, `spec.match.routingGroups[${index}]`),
  );
  if (
    spec.maxQueued !== undefined &&
    spec.maxQueued !== 0 &&
    spec.maxRunning === undefined &&
    spec.rate === undefined
  ) {
    const message =
      'spec.maxQueued: alone it bounds only how many wait for limits of clusters and groups; set maxRunning or rate to make queries wait here';
    findings.push({ severity: 'warning', message, at: 'spec.maxQueued' });
  }
  return findings;
}

/** The status of a query limit. Pure. */
function limitStatus(outcome: LimitOutcome, { stored, counts }: Pick<StatusView, 'stored' | 'counts'>): StatusDraft {
  const { policy } = outcome;
  return declarationStatus(outcome, stored, usageFields(policy === null ? null : counts.limit(policy.key)));
}
