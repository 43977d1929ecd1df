import type { StepVerdict } from './judge.ts';

/** Phases of a rollout (docs/rollouts.md#phases). */
export const rolloutPhases = [
  ...(['Pending', 'Warming', 'Progressing', 'Paused', 'Promoted', 'Succeeded', 'RolledBack'] as const),
] as const;
export type RolloutPhase = (typeof rolloutPhases)[number];

/** A step: a share of the new queries of stable, and what is required before the next step. */
export interface RolloutStep {
  /** Percent of the users. */
  readonly weight: number;
  readonly durationMs: number;
  readonly minQueries: number;
}

/** A rollout as its resource declares it. */
export interface RolloutPlan {
  /** Uid of the resource. */
  readonly uid: string;
  readonly namespace: string;
  readonly name: string;
  /** Changes if the rollout has to start again. */
  readonly revision: string;
  readonly routingGroup: string;
  readonly stable: string;
  readonly candidate: string;
  readonly steps: readonly RolloutStep[];
  readonly warmUpMs: number;
  /** Time after which a step that is inconclusive pauses. */
  readonly deadlineMs: number;
  readonly compare: 'cpu' | 'elapsed';
  readonly slowFactor: number;
  /** Result of a failing verdict. */
  readonly onFailure: 'rollBack' | 'pause' | 'observe';
  readonly isSuspended: boolean;
}

/** State of a rollout, as `eg_rollouts` has it. Times in milliseconds since 1970. */
export interface RolloutState {
  readonly revision: string;
  readonly phase: RolloutPhase;
  /** Position in the steps. */
  readonly step: number;
  /** Percent of the users that the candidate gets. */
  readonly weight: number;
  /** Begin of the phase, or of the step. */
  readonly since: number;
  readonly reason: string;
  readonly message: string;
  readonly routingGroup: string;
  readonly stable: string;
  readonly candidate: string;
  /** Judged coordinator of the candidate, and its version; null: not reported. */
  readonly coordinatorId: string | null;
  readonly version: string | null;
  readonly restarts: number;
  /** Last verdict of each step. */
  readonly verdicts: readonly StepVerdict[];
}

/** A cluster of a rollout. */
export interface RolloutCluster {
  readonly routingGroup: string;
  readonly isActive: boolean;
  /** True if a call or an annotation overrides `spec.active`. */
  readonly isOverridden: boolean;
  readonly isRolloutOnly: boolean;
  readonly status: 'PENDING' | 'HEALTHY' | 'UNHEALTHY';
  readonly coordinatorId: string | null;
  readonly version: string | null;
}

/** Facts that a rollout advances by. */
export interface RolloutView {
  readonly now: number;
  /** Null: deleted. */
  readonly stable: RolloutCluster | null;
  readonly candidate: RolloutCluster | null;
  /** Of the current step; null: not judged now. */
  readonly verdict: StepVerdict | null;
  /** Name of an older rollout of the group that has not ended; null for none. */
  readonly other: string | null;
}

const MAX_RESTARTS = 3;

/** True if a rollout has an end. */
export function isOver({ phase }: Pick<RolloutState, 'phase'>): boolean {
  return phase === 'Succeeded' || phase === 'RolledBack';
}

const changedTo = (
  state: RolloutState,
  now: number,
  phase: RolloutPhase,
  reason: string,
  message: string,
  weight = state.weight,
): RolloutState => ({ ...state, phase, reason, message, weight, since: now });

const rolledBack = (state: RolloutState, now: number, reason: string, message: string) =>
  changedTo(state, now, 'RolledBack', reason, `${message}; ${state.stable} takes all new queries`, 0);

const atStep = (state: RolloutState, now: number, step: number, { weight }: RolloutStep) => ({
  ...changedTo(state, now, 'Progressing', 'Step', `${weight} % of the users are on ${state.candidate}`, weight),
  step,
});

/** The next state of a rollout, or the same object. Pure. @param state null: it has not begun */
export function advance(plan: RolloutPlan, state: RolloutState | null, view: RolloutView): RolloutState {
  const { now, candidate } = view;
  if (state === null || state.revision !== plan.revision) return begun(plan, now);
  if (isOver(state)) return state;
  if (state.phase === 'Promoted') return isSpecUpdated(view) ? succeeded(state, now) : state;
  if (state.phase === 'Pending') return afterPreflight(plan, state, view);
  if (candidate === null) return rolledBack(state, now, 'CandidateDeleted', `${plan.candidate} was deleted`);
  if (state.phase === 'Paused') return state;
  if (candidate.status === 'UNHEALTHY' && plan.onFailure !== 'observe')
    return rolledBack(state, now, 'CandidateUnhealthy', `${plan.candidate} is unhealthy`);
  const restarted = afterRestart(state, now, candidate);
  if (restarted !== null) return restarted;
  const trouble = troubleOf(plan, view);
  if (trouble !== null) return changedTo(state, now, 'Paused', ...trouble);
  const [first] = plan.steps.slice(state.step);
  if (state.phase === 'Warming')
    return now - state.since < plan.warmUpMs || first === undefined ? state : atStep(state, now, state.step, first);
  return view.verdict === null ? state : judged(plan, state, view.verdict, now);
}

/** The state of a rollout that begins. */
export function begun(plan: RolloutPlan, now: number): RolloutState {
  const { revision, routingGroup, stable, candidate } = plan;
  return {
    ...{ revision, phase: 'Pending', step: 0, weight: 0, since: now, reason: 'Preflight', message: 'not checked yet' },
    ...{ routingGroup, stable, candidate, coordinatorId: null, version: null, restarts: 0, verdicts: [] },
  };
}

function afterPreflight(plan: RolloutPlan, state: RolloutState, view: RolloutView): RolloutState {
  const problem = preflightProblem(plan, view);
  if (problem === null) {
    const { coordinatorId = null, version = null } = view.candidate ?? {};
    const warming = changedTo(state, view.now, 'Warming', 'WarmUp', `${plan.candidate} is healthy and warms up`);
    return { ...warming, coordinatorId, version };
  }
  const [reason, message] = problem;
  return state.message === message ? state : { ...state, reason, message };
}

type Finding = readonly [reason: string, message: string];

/** The first reason that a rollout cannot begin, with the fix; null for none. */
function preflightProblem(plan: RolloutPlan, { stable, candidate, other }: RolloutView): Finding | null {
  if (plan.isSuspended) return ['Suspended', 'spec.suspend is true'];
  if (other !== null) return ['OtherRollout', `the rollout ${other} of the routing group has not ended`];
  for (const [name, cluster] of [
    [plan.stable, stable],
    [plan.candidate, candidate],
  ] as const) {
    if (cluster === null) return ['ClusterNotFound', `there is no EngineCluster ${name}; declare it`];
    if (cluster.routingGroup !== plan.routingGroup)
      return ['OtherRoutingGroup', `${name} belongs to the routing group ${cluster.routingGroup}`];
    if (cluster.isOverridden) return ['Overridden', `active of ${name} is overridden; remove the override`];
    if (!cluster.isActive) return ['NotActive', `${name} is not active; set spec.active: true`];
  }
  if (candidate?.isRolloutOnly === false)
    return ['NotRolloutOnly', `${plan.candidate} takes ordinary queries; set spec.rolloutOnly: true`];
  if (stable?.isRolloutOnly === true)
    return ['StableRolloutOnly', `${plan.stable} takes no ordinary queries; remove spec.rolloutOnly`];
  if (stable?.status !== 'HEALTHY') return ['NotHealthy', `${plan.stable} is not healthy`];
  return candidate?.status === 'HEALTHY' ? null : ['NotHealthy', `${plan.candidate} is not healthy`];
}

/** The reason that a rollout cannot continue by itself, or null. */
function troubleOf(plan: RolloutPlan, { stable, candidate }: RolloutView): Finding | null {
  if (plan.isSuspended) return ['Suspended', 'spec.suspend is true'];
  if (stable === null) return ['StableDeleted', `${plan.stable} was deleted`];
  if (stable.isOverridden || candidate?.isOverridden === true)
    return ['Overridden', 'active of a cluster is overridden; remove the override, then resume'];
  if (candidate?.isRolloutOnly === false)
    return ['NotRolloutOnly', `${plan.candidate} takes ordinary queries; set spec.rolloutOnly: true, then resume`];
  if (!stable.isActive || candidate?.isActive === false) return ['NotActive', 'a cluster is not active'];
  return stable.status === 'UNHEALTHY' ? ['StableUnhealthy', `${plan.stable} is unhealthy`] : null;
}

/** State after a new coordinator of the candidate; null: it is the same. */
function afterRestart(state: RolloutState, now: number, candidate: RolloutCluster): RolloutState | null {
  const { coordinatorId, version } = candidate;
  if (coordinatorId === null || coordinatorId === state.coordinatorId) return null;
  if (state.coordinatorId === null) return { ...state, coordinatorId, version };
  if (version !== state.version)
    return rolledBack(state, now, 'VersionChanged', `${state.candidate} changed from ${state.version} to ${version}`);
  const restarts = state.restarts + 1;
  if (restarts > MAX_RESTARTS)
    return rolledBack(state, now, 'Restarted', `the coordinator of ${state.candidate} restarted ${restarts} times`);
  const message = `the coordinator of ${state.candidate} restarted; the step begins again`;
  return { ...changedTo(state, now, 'Warming', 'Restarted', message, 0), coordinatorId, version, restarts };
}

function judged(plan: RolloutPlan, state: RolloutState, verdict: StepVerdict, now: number): RolloutState {
  const verdicts = [...state.verdicts.slice(0, state.step), verdict];
  const next = { ...state, verdicts };
  const { durationMs = 0 } = plan.steps[state.step] ?? {};
  const isFailed = verdict.verdict === 'Fail';
  if (isFailed && plan.onFailure === 'rollBack') return rolledBack(next, now, verdict.reason, verdict.message);
  if (isFailed && plan.onFailure === 'pause') return changedTo(next, now, 'Paused', verdict.reason, verdict.message);
  const isDue = now - state.since >= durationMs;
  if (isDue && (verdict.verdict === 'Pass' || isFailed)) {
    const step = plan.steps[state.step + 1];
    return step === undefined ? promoted(next, now) : atStep(next, now, state.step + 1, step);
  }
  if (now - state.since >= Math.max(durationMs, plan.deadlineMs))
    return changedTo(next, now, 'Paused', 'Inconclusive', verdict.message);
  return next;
}

function promoted(state: RolloutState, now: number): RolloutState {
  const message = `${state.candidate} takes all queries; remove rolloutOnly of ${state.candidate} and set active: false of ${state.stable}`;
  return changedTo(state, now, 'Promoted', 'SpecNotUpdated', message, 100);
}

/** True if the specs of the clusters state what the rollout decided. */
function isSpecUpdated({ stable, candidate }: RolloutView): boolean {
  const isCandidateOrdinary = candidate?.isActive === true && !candidate.isRolloutOnly;
  return isCandidateOrdinary && (stable === null || !stable.isActive || stable.isRolloutOnly);
}

const succeeded = (state: RolloutState, now: number) =>
  changedTo(state, now, 'Succeeded', 'SpecUpdated', `${state.candidate} has replaced ${state.stable}`, 0);

/** Actions of users on a rollout. */
export const rolloutActions = [...(['promote', 'pause', 'resume', 'rollback'] as const)] as const;
export type RolloutAction = (typeof rolloutActions)[number];

/** The state after an action of a user; null: it is not possible in this phase. Pure. */
export function afterAction(
  { steps }: RolloutPlan,
  state: RolloutState,
  action: RolloutAction,
  by: string,
  now: number,
): RolloutState | null {
  const { phase } = state;
  const isRunning = phase === 'Warming' || phase === 'Progressing';
  if (action === 'promote') return isRunning || phase === 'Paused' ? promoted(state, now) : null;
  if (action === 'pause') return isRunning ? changedTo(state, now, 'Paused', 'Requested', `paused by ${by}`) : null;
  if (action === 'rollback') return isOver(state) ? null : rolledBack(state, now, 'Requested', `rolled back by ${by}`);
  const step = steps[state.step];
  if (phase !== 'Paused' || step === undefined) return null;
  if (state.weight > 0) return atStep(state, now, state.step, step);
  return changedTo(state, now, 'Warming', 'WarmUp', `resumed by ${by}`);
}
