import { createHash } from 'node:crypto';
import { durationMs } from '../../model/durationField.ts';
import { problemText } from '../../model/errors.ts';
import { keyText, keyTextOf, type Resource } from '../../model/resource.ts';
import { isOver, type RolloutPlan, type RolloutState } from '../../rollout/rolloutState.ts';
import { uncapitalized } from '../fields/spec.ts';
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
  groupFindings,
  plainKind,
  type ResourceKind,
  type RoutingDraft,
  specCheck,
  writeAccess,
} from '../resourceKind.ts';
import { ENGINE_ROLLOUT, ENGINE_ROLLOUTS, EngineRolloutSpec, rolloutDefaults } from './spec.ts';

export interface RolloutOutcome extends ResourceOutcome {
  readonly acceptance: Acceptance;
  /** Null: it is not accepted. */
  readonly plan: RolloutPlan | null;
}

export function isRolloutOutcome(outcome: ResourceOutcome): outcome is RolloutOutcome {
  return outcome.key.kind === ENGINE_ROLLOUT;
}

/** Replacement of a cluster in steps (docs/rollouts.md). */
export const engineRollout: ResourceKind<RolloutOutcome> = {
  ...plainKind,
  kind: ENGINE_ROLLOUT,
  plural: ENGINE_ROLLOUTS,
  singular: 'enginerollout',
  shortName: 'ero',
  description: 'EngineRollout replaces a cluster by another one in steps, and rolls back if queries fail.',
  spec: EngineRolloutSpec,
  statusProperties: {
    phase: { type: 'string', description: 'Phase of the rollout.' },
    step: countField('Position of the step, beginning at 1.'),
    weight: countField('Percent of the users that the candidate gets.'),
  },
  columns: [
    column('Group', 'string', 'spec.routingGroup', 'Routing group.'),
    column('Stable', 'string', 'spec.stable', 'The cluster that serves.'),
    column('Candidate', 'string', 'spec.candidate', 'The cluster that replaces it.'),
    column('Phase', 'string', 'status.phase', 'Phase of the rollout.'),
    column('Weight', 'integer', 'status.weight', 'Percent of the users on the candidate.'),
  ],
  selectableFields: ['.spec.routingGroup', '.spec.gatewayClassName'],
  example: { routingGroup: 'adhoc', stable: 'blue', candidate: 'green', steps: [{ weight: 5 }, { weight: 50 }] },
  ownAccess: writeAccess('Rollouts are followed; REST writes create, apply (patch) and delete them.'),
  gauge: { name: 'engine_rollouts', help: 'EngineRollout resources.' },
  specProblems: (spec) => rolloutProblems(spec),
  findings: ({ spec }) => groupFindings(spec.routingGroup, 'spec.routingGroup'),
  program: () => ({
    restore: () => undefined,
    refresh: (resources, draft) =>
      new Map(liveOf(resources).map((each) => [keyTextOf(each), rolloutOutcome(each, draft)])),
  }),
  status: (outcome, { stored, findings }) => {
    const { acceptance } = outcome;
    const state = rolloutStateOf(outcome, findings);
    const fields = state === null ? {} : { phase: state.phase, step: state.step + 1, weight: state.weight };
    const isAccepted = acceptance.status === 'True';
    return statusDraft(outcome, acceptance, fields, {
      ...(isAccepted && phaseConditions(state)),
      Ready: ready(acceptance, stored, ...(outcome.suspended ? [] : [readyState(state)])),
    });
  },
};

const rolloutProblems = specCheck(EngineRolloutSpec);

/** The state of a rollout; null: it has not begun. */
export function rolloutStateOf({ key, plan }: RolloutOutcome, findings: Pick<Findings, 'of'>): RolloutState | null {
  const { rollout } = findings.of(keyText(key));
  return rollout?.revision === plan?.revision ? (rollout ?? null) : null;
}

function rolloutOutcome(resource: Resource, { tenancy }: RoutingDraft): RolloutOutcome {
  const base = outcomeOf(resource);
  const problems = rolloutProblems(resource.spec);
  if (problems.length > 0)
    return { ...base, acceptance: notAccepted('InvalidSpec', problemText(problems)), plan: null };
  const spec = resource.spec as EngineRolloutSpec;
  const rejection = tenancy.groupRejection(resource.metadata.namespace, 'routingGroup', spec.routingGroup);
  return rejection === null
    ? { ...base, acceptance: accepted('the rollout is valid'), plan: planOf(resource, spec) }
    : { ...base, acceptance: notGranted(rejection), plan: null };
}

function planOf({ metadata: { uid, namespace, name } }: Resource, spec: EngineRolloutSpec): RolloutPlan {
  const { routingGroup, stable, candidate, attempt = 1, mode = 'Act', rollback = 'Automatic', suspend = false } = spec;
  const { warmUp, progressDeadline } = { ...rolloutDefaults, ...spec };
  const { compare = 'CPU', maxSlowdown = rolloutDefaults.maxSlowdown } = spec.analysis ?? {};
  const steps = spec.steps.map(({ weight, duration, minQueries }) => ({
    weight,
    durationMs: durationMs(duration ?? rolloutDefaults.duration),
    minQueries: minQueries ?? rolloutDefaults.minQueries,
  }));
  const identity = JSON.stringify([uid, routingGroup, stable, candidate, attempt, steps]);
  return {
    ...{ uid, namespace, name, routingGroup, stable, candidate, steps, isSuspended: suspend },
    revision: createHash('sha256').update(identity).digest('hex').slice(0, 16),
    ...{ warmUpMs: durationMs(warmUp), deadlineMs: durationMs(progressDeadline), slowFactor: maxSlowdown },
    compare: compare === 'CPU' ? 'cpu' : uncapitalized(compare),
    onFailure: mode === 'Observe' ? 'observe' : rollback === 'Automatic' ? 'rollBack' : 'pause',
  };
}

function phaseConditions(state: RolloutState | null): Readonly<Record<string, State | null>> {
  if (state === null) return { Progressing: conditionState('Unknown', 'Pending', 'the rollout has not begun') };
  const { phase, reason, message } = state;
  const isRunning = phase === 'Warming' || phase === 'Progressing';
  const promoted = phase === 'Promoted' || phase === 'Succeeded';
  return {
    Progressing: conditionState(isRunning ? 'True' : 'False', phase === 'Progressing' ? reason : phase, message),
    Promoted: conditionState(promoted ? 'True' : 'False', phase, message),
    SpecUpdated: promoted ? conditionState(phase === 'Succeeded' ? 'True' : 'False', reason, message) : null,
    Stalled: phase === 'RolledBack' || reason === 'NotRolloutOnly' ? conditionState('True', reason, message) : null,
    Suspended: phase === 'Paused' ? conditionState('True', reason, message) : null,
  };
}

/** True after the rollout, so that `kubectl wait --for=condition=Ready` waits for its success. */
function readyState(state: RolloutState | null): State {
  if (state === null) return conditionState('Unknown', 'Pending', 'the rollout has not begun');
  const { phase, message } = state;
  if (phase === 'Succeeded') return conditionState('True', 'Succeeded', message);
  return conditionState(isOver(state) || phase === 'Paused' ? 'False' : 'Unknown', phase, message);
}
