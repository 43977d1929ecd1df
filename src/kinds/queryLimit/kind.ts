import { durationMs } from '../../model/durationField.ts';
import { isRecord } from '../../model/record.ts';
import type { LimitMatch, LimitPolicy } from '../../routing/admissionPolicy.ts';
import type { Tenancy } from '../../rules/tenancy.ts';
import { matchProblems, validMatcher } from '../../rules/textMatcher.ts';
import { type StringMatch, uncapitalized } from '../fields/spec.ts';
import {
  accepted,
  conditionState,
  countProperties,
  groupsText,
  type ResourceOutcome,
  ready,
  type State,
  servedGroups,
  statusDraft,
  usageFields,
} from '../outcome.ts';
import { type PolicyOutcome, PolicyProgram } from '../policyProgram.ts';
import {
  type CheckedManifest,
  column,
  conditionColumn,
  countColumns,
  groupFindings,
  type ManifestFinding,
  plainKind,
  type ResourceKind,
  specCheck,
  writeAccess,
} from '../resourceKind.ts';
import { DEFAULT_PERIOD, QUERY_LIMIT, QUERY_LIMITS, QueryLimitSpec } from './spec.ts';

export interface LimitOutcome extends PolicyOutcome<LimitPolicy> {
  readonly references: State;
}

export function isLimitOutcome(outcome: ResourceOutcome): outcome is LimitOutcome {
  return outcome.key.kind === QUERY_LIMIT;
}

/** Limits of users and sources (docs/resources.md#limits-of-users-and-sources). */
export const queryLimit: ResourceKind<LimitOutcome> = {
  ...plainKind,
  kind: QUERY_LIMIT,
  plural: QUERY_LIMITS,
  singular: 'querylimit',
  shortName: 'ql',
  description: 'QueryLimit limits how many queries of users and sources run, wait and begin.',
  spec: QueryLimitSpec,
  statusProperties: countProperties,
  columns: [
    column('Per', 'string', 'spec.per', 'What has a counter of its own.'),
    column('Limit', 'integer', 'spec.maxRunningQueries', 'Queries at a time by one counter.'),
    column('Mode', 'string', 'spec.mode', 'Enforce or Observe.'),
    ...countColumns,
    conditionColumn('ResolvedRefs', 'The routing groups that it names have clusters.', 1),
  ],
  selectableFields: ['.spec.per', '.spec.mode', '.spec.gatewayClassName'],
  example: {
    match: { users: [{ type: 'Prefix', value: 'etl-' }], routingGroups: [{ value: 'adhoc' }] },
    per: 'User',
    maxRunningQueries: 10,
  },
  ownAccess: writeAccess(
    'Limits of users and sources are followed; REST writes create, apply (patch) and delete them.',
  ),
  gauge: { name: 'query_limits', help: 'QueryLimit resources.' },
  specProblems: (spec) => limitProblems(spec),
  findings: limitFindings,
  program: () =>
    new PolicyProgram<LimitPolicy, LimitOutcome>({
      hasUniqueNames: false,
      isFrozenBySuspension: false,
      acceptance: accepted('the limit is valid'),
      problems: (spec) => limitProblems(spec),
      policy: ({ metadata, spec }, _name, tenancy) => limitPolicy(metadata, spec as QueryLimitSpec, tenancy),
      rejection: ({ metadata }, _policy, tenancy) => tenancy.decidesRejection(metadata.namespace),
      completer: ({ clusters, admission }) => {
        const served = servedGroups(clusters, admission.groups);
        return (outcome, declared) => {
          const groups = declared === null ? [] : (groupsOf.get(declared) ?? []);
          return { ...outcome, references: limitReferences(groups, served) };
        };
      },
      publish: (policies, draft) => {
        draft.admission = { ...draft.admission, limits: policies.toSorted((a, b) => (a.key < b.key ? -1 : 1)) };
      },
    }),
  status: (outcome, { stored, counts }) => {
    const { policy, acceptance, references } = outcome;
    const fields = usageFields(policy === null ? null : counts.limit(policy.key));
    const others = outcome.suspended ? [] : [references];
    return statusDraft(outcome, acceptance, fields, {
      ResolvedRefs: references,
      Ready: ready(acceptance, stored, ...others),
    });
  },
  hasCounts: true,
};

/** Routing groups that a policy names. */
const groupsOf = new WeakMap<LimitPolicy, readonly string[]>();

function limitPolicy(
  { namespace, name }: { readonly namespace: string; readonly name: string },
  spec: QueryLimitSpec,
  tenancy: Tenancy,
): LimitPolicy {
  const { per, weight = 1, mode = 'Enforce', message = null } = spec;
  const { queries = 0, period = DEFAULT_PERIOD, burst = queries } = spec.rate ?? {};
  const policy: LimitPolicy = {
    key: `${namespace}/${name}`,
    match: limitMatch(spec, tenancy, namespace),
    rate: spec.rate === undefined ? null : { queries, periodMs: durationMs(period), burst },
    ...{ weight, message },
    maxRunning: spec.maxRunningQueries ?? null,
    maxQueued: spec.maxQueuedQueries ?? null,
    per: uncapitalized(per),
    mode: uncapitalized(mode),
  };
  groupsOf.set(policy, namedGroups(spec));
  return policy;
}

/** Whom a valid spec is about; of a tenant, only queries that it decides. */
function limitMatch({ match }: QueryLimitSpec, tenancy: Tenancy, namespace: string): LimitMatch {
  const tenant = tenancy.tenantOf(namespace);
  return {
    users: matches(match.users),
    groups: matches(match.userGroups),
    sources: matches(match.sources),
    routingGroups: matches(match.routingGroups),
    digests: match.digests ?? null,
    sizes: match.estimate ?? null,
    isDecided: tenant === null ? null : (...query) => tenancy.deciderOf(...query).tenant === tenant,
  };
}

function matches(values: readonly StringMatch[] | undefined): ((text: string) => boolean) | null {
  return values === undefined ? null : validMatcher(values, true);
}

/** Routing groups that a spec names whole. */
function namedGroups({ match }: QueryLimitSpec): readonly string[] {
  return (match.routingGroups ?? []).flatMap(({ type = 'Exact', value }) => (type === 'Exact' ? [value] : []));
}

/** The condition `ResolvedRefs`. @param served groups that queries can be sent to */
function limitReferences(groups: readonly string[], served: ReadonlySet<string>): State {
  const absent = groups.filter((group) => !served.has(group));
  if (absent.length > 0) {
    const message = `no cluster belongs to ${groupsText(absent)} of spec.match.routingGroups: nothing is limited there`;
    return conditionState('False', 'GroupNotFound', message);
  }
  return groups.length === 0
    ? conditionState('True', 'NoReferences', 'the limit names no routing group')
    : conditionState('True', 'ResolvedRefs', 'the routing groups that it names have clusters');
}

/** Mistakes in the spec of a QueryLimit. */
const limitProblems = specCheck(
  QueryLimitSpec,
  ({ match: { everyone: _everyone, digests: _digests, estimate: _estimate, ...lists } }) =>
    matchProblems('spec.match', lists),
);

/** Findings about a QueryLimit in addition to the mistakes of its spec. */
function limitFindings({ spec }: CheckedManifest): readonly ManifestFinding[] {
  const groups = isRecord(spec.match) && Array.isArray(spec.match.routingGroups) ? spec.match.routingGroups : [];
  const findings = groups.flatMap((group: unknown, index) =>
    isRecord(group) && (group.type ?? 'Exact') === 'Exact'
      ? groupFindings(group.value, `spec.match.routingGroups[${index}].value`)
      : [],
  );
  const { maxQueuedQueries = 0, maxRunningQueries, rate } = spec;
  if (maxQueuedQueries !== 0 && maxRunningQueries === undefined && rate === undefined) {
    const message =
      'spec.maxQueuedQueries: alone it bounds only how many wait for limits of clusters and groups; set maxRunningQueries or rate to make queries wait here';
    findings.push({ severity: 'warning', message, at: 'spec.maxQueuedQueries' });
  }
  return findings;
}
