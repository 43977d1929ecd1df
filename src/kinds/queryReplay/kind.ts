import { createHash } from 'node:crypto';
import { durationMs } from '../../model/durationField.ts';
import { problemText } from '../../model/errors.ts';
import { keyText, keyTextOf, type Resource } from '../../model/resource.ts';
import { coverageOf, type ReplayPlan, type ReplayProgress } from '../../replay/replayJobs.ts';
import { type VerdictKind, verdictKinds } from '../../replay/verdict.ts';
import type { Tenancy } from '../../rules/tenancy.ts';
import { capitalized, uncapitalized } from '../fields/spec.ts';
import {
  type Acceptance,
  accepted,
  conditionState,
  countField,
  type Findings,
  liveOf,
  notAccepted,
  notGranted,
  outcomeOf,
  type ResourceOutcome,
  ready,
  type State,
  statusDraft,
} from '../outcome.ts';
import {
  column,
  conditionColumn,
  plainKind,
  type ResourceKind,
  type RoutingDraft,
  specCheck,
  writeAccess,
} from '../resourceKind.ts';
import { QUERY_REPLAY, QUERY_REPLAYS, QueryReplaySpec, replayDefaults } from './spec.ts';

export interface ReplayOutcome extends ResourceOutcome {
  readonly acceptance: Acceptance;
  /** Null: it is not accepted. */
  readonly plan: ReplayPlan | null;
  readonly references: State;
}

export function isReplayOutcome(outcome: ResourceOutcome): outcome is ReplayOutcome {
  return outcome.key.kind === QUERY_REPLAY;
}

/** Recorded queries on two clusters (docs/replay.md). */
export const queryReplay: ResourceKind<ReplayOutcome> = {
  ...plainKind,
  kind: QUERY_REPLAY,
  plural: QUERY_REPLAYS,
  singular: 'queryreplay',
  shortName: 'qr',
  description: 'QueryReplay replays recorded queries on two clusters and compares results.',
  spec: QueryReplaySpec,
  statusProperties: {
    selected: countField('Queries that are replayed.'),
    expectedCpuSeconds: countField('CPU time that the selected queries took: the expected cost on each cluster.'),
    replayed: countField('Queries that were replayed.'),
    coverage: countField('Percent of the CPU time of recorded queries that compared ones stand for.'),
    ...Object.fromEntries(
      verdictKinds.map((kind) => [uncapitalized(kind), countField(`Queries with the verdict ${kind}.`)]),
    ),
  },
  columns: [
    column('Candidate', 'string', 'spec.candidate', 'The cluster that is verified.'),
    column('Replayed', 'integer', 'status.replayed', 'Queries that were replayed.'),
    column('Selected', 'integer', 'status.selected', 'Queries that are replayed.'),
    column('Different', 'integer', 'status.different', 'Queries with other results.'),
    column('Failed', 'integer', 'status.failedOnCandidate', 'Queries that fail on the candidate only.'),
    conditionColumn('Verified', 'No difference is unexplained, and enough is covered.'),
  ],
  selectableFields: ['.spec.candidate', '.spec.gatewayClassName'],
  example: {
    ...{ control: 'blue', candidate: 'green', from: { history: { last: '24h', routingGroups: ['adhoc'] } } },
    replayAs: { credentialsSecretRef: { name: 'replay' } },
  },
  ownAccess: writeAccess('Replays are followed; REST writes create, apply (patch) and delete them.'),
  gauge: { name: 'query_replays', help: 'QueryReplay resources.' },
  specProblems: (spec) => replayProblems(spec),
  findings: () => [],
  program: () => ({
    restore: () => undefined,
    refresh: (resources, draft) =>
      new Map(liveOf(resources).map((each) => [keyTextOf(each), replayOutcome(each, draft)])),
  }),
  status: (outcome, { stored, findings }) => {
    const { acceptance, references } = outcome;
    const progress = progressOf(outcome, findings);
    const isAccepted = acceptance.status === 'True';
    return statusDraft(outcome, acceptance, progress === null ? {} : progressFields(progress), {
      ResolvedRefs: isAccepted ? references : null,
      Running: isAccepted ? runningState(progress) : null,
      Verified: isAccepted ? verifiedState(progress) : null,
      Ready: ready(acceptance, stored, ...(outcome.suspended ? [] : [references])),
    });
  },
};

const replayProblems = specCheck(QueryReplaySpec);

/** The progress of a replay as its resource is now; null: it has not begun. */
export function progressOf({ key, plan }: ReplayOutcome, findings: Pick<Findings, 'of'>): ReplayProgress | null {
  const { replay } = findings.of(keyText(key));
  return replay?.revision === plan?.revision ? (replay ?? null) : null;
}

function replayOutcome(resource: Resource, draft: RoutingDraft): ReplayOutcome {
  const base = outcomeOf(resource);
  const rejected = (acceptance: Acceptance): ReplayOutcome => ({
    ...{ ...base, acceptance, plan: null, references: acceptance },
  });
  const problems = replayProblems(resource.spec);
  if (problems.length > 0) return rejected(notAccepted('InvalidSpec', problemText(problems)));
  const spec = resource.spec as QueryReplaySpec;
  const { tenancy } = draft;
  const { namespace } = resource.metadata;
  const clusters = (['control', 'candidate'] as const).map((field) => {
    const group = draft.clusters.find(({ name }) => name === spec[field])?.routingGroup;
    return { field, group, rejection: group === undefined ? null : tenancy.groupRejection(namespace, field, group) };
  });
  const rejection = tenancy.decidesRejection(namespace) ?? clusters.find((each) => each.rejection !== null)?.rejection;
  if (rejection != null) return rejected(notGranted(rejection));
  const references = replayReferences(spec, clusters[0]?.group, clusters[1]?.group);
  return { ...base, acceptance: accepted('the replay is valid'), plan: planOf(resource, spec, tenancy), references };
}

/** The condition `ResolvedRefs`. */
function replayReferences({ control, candidate }: QueryReplaySpec, one?: string, other?: string): State {
  if (one === undefined || other === undefined) {
    const missing = one === undefined ? control : candidate;
    return conditionState('False', 'ClusterNotFound', `there is no cluster ${missing}`);
  }
  if (one === other) return conditionState('True', 'ResolvedRefs', 'both clusters belong to one routing group');
  const message = `${control} belongs to the routing group ${one}, ${candidate} to ${other}; a replay compares clusters of one group`;
  return conditionState('False', 'OtherRoutingGroup', message);
}

function planOf({ metadata }: Resource, spec: QueryReplaySpec, tenancy: Tenancy): ReplayPlan {
  const { suspend = false, gatewayClassName: _class, ...replayed } = spec;
  const { history, live } = spec.from;
  const { routingGroups = null, users = null, max = replayDefaults.max } = history ?? live ?? {};
  const last = history === undefined ? (live?.for ?? replayDefaults.for) : (history.last ?? replayDefaults.last);
  const { concurrency = replayDefaults.concurrency, time, cpu } = spec.limits ?? {};
  const { excludeCatalogs = [], minCoverage = replayDefaults.minCoverage, window, every } = spec;
  const { uid, namespace, name } = metadata;
  const tenant = tenancy.tenantOf(namespace);
  return {
    ...{ uid, revision: createHash('sha256').update(JSON.stringify(replayed)).digest('hex').slice(0, 16) },
    ...{ namespace, name, control: spec.control, candidate: spec.candidate, isSuspended: suspend },
    ...{ mode: spec.mode === 'Validate' ? 'validate' : 'run', last: durationMs(last), concurrency, minCoverage },
    isLive: live !== undefined,
    filter: {
      ...{ routingGroups, users, excludeCatalogs: excludeCatalogs.map((each) => each.toLowerCase()) },
      ...{ perDigest: live === undefined ? (history?.perDigest ?? replayDefaults.perDigest) : max, max },
      percent: live?.percent ?? 100,
      decider: tenant === null ? null : { tenancy: tenancy.data, tenant },
    },
    limits: { time: durationMs(time ?? replayDefaults.time), cpu: durationMs(cpu ?? replayDefaults.cpu) },
    every: every === undefined ? null : durationMs(every),
    window: window === undefined ? null : { from: minuteOf(window.from), to: minuteOf(window.to) },
  };
}

function minuteOf(time: string): number {
  const [hours, minutes] = time.split(':').map(Number);
  return (hours ?? 0) * 60 + (minutes ?? 0);
}

function progressFields(progress: ReplayProgress): Readonly<Record<string, number>> {
  const { selected, replayed, verdicts } = progress;
  return {
    ...{ selected: selected.queries, expectedCpuSeconds: Math.round(selected.cpuMillis / 1000) },
    ...{ replayed: replayed.queries, coverage: coverageOf(progress).cpu },
    ...Object.fromEntries(verdictKinds.map((kind: VerdictKind) => [uncapitalized(kind), verdicts[kind]])),
  };
}

function runningState(progress: ReplayProgress | null): State {
  if (progress === null) return conditionState('Unknown', 'Pending', 'the replay has not begun');
  const { state, message, replayed, selected } = progress;
  const isRunning = state === 'running' || state === 'selecting';
  const counts = `${replayed.queries} of ${selected.queries} queries are replayed`;
  const text = isRunning || state === 'done' ? counts : message;
  return conditionState(isRunning ? 'True' : 'False', capitalized(state), text);
}

function verifiedState(progress: ReplayProgress | null): State {
  const { verified = null, message = '' } = progress ?? {};
  if (verified === null) return conditionState('Unknown', 'Pending', 'the replay has not ended');
  return conditionState(verified ? 'True' : 'False', verified ? 'Verified' : 'NotVerified', message);
}
