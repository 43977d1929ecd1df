import { isDeepStrictEqual } from 'node:util';
import type { Logger } from 'pino';
import { isClusterOutcome } from '../../kinds/engineCluster/clusterOutcome.ts';
import {
  engineRollout,
  isRolloutOutcome,
  type RolloutOutcome,
  rolloutStateOf,
} from '../../kinds/engineRollout/kind.ts';
import { ENGINE_ROLLOUT, type EngineRolloutSpec } from '../../kinds/engineRollout/spec.ts';
import type { Findings } from '../../kinds/outcome.ts';
import type { Clock } from '../../model/clock.ts';
import { GatewayError } from '../../model/errors.ts';
import { keyOf, keyText } from '../../model/resource.ts';
import { type DigestHistory, judge, type StartedQuery, type StepVerdict } from '../../rollout/judge.ts';
import {
  advance,
  afterAction,
  begun,
  isOver,
  type RolloutAction,
  type RolloutCluster,
  type RolloutPlan,
  type RolloutState,
} from '../../rollout/rolloutState.ts';
import { startJob } from '../../store/job.ts';
import type { RolloutQueryRow } from '../../store/rolloutRepository.ts';
import type { Fence, Store } from '../../store/store.ts';
import type { Leadership } from '../leadership/leadership.ts';
import {
  type DeclaredResource,
  declaredResource,
  mustBeGranted,
  type ResourceWrites,
  type SpecWrite,
  type SpecWriteContext,
  specVersion,
} from './resourceWrites.ts';

/** A rollout as REST lists it. */
export interface InventoryRollout {
  readonly namespace: string;
  readonly name: string;
  readonly spec: Readonly<Record<string, unknown>>;
  /** True if it is accepted. */
  readonly inForce: boolean;
  readonly message: string;
  readonly version: string;
  readonly resource: DeclaredResource;
  /** Null: it has not begun. */
  readonly state: RolloutState | null;
}

/** Time between reads while a rollout has not ended, and else, in milliseconds. */
const READ_MS = 250;
const IDLE_READ_MS = 5_000;
/** Time between verdicts, and how much longer than the reading of queries it is at least. */
const JUDGE_MS = 1_000;
const JUDGE_FACTOR = 10;
/** Queries on stable before the rollout that are known by digest. */
const HISTORY_MS = 7 * 24 * 3_600_000;
const MAX_HISTORY = 500;

/** A stored state, with the generation of its row. */
interface StoredRollout {
  readonly generation: number;
  readonly text: string;
  readonly state: RolloutState;
}

/** Queries on stable before a revision of a rollout, and when it was judged last. */
interface Judging {
  readonly revision: string;
  readonly history: ReadonlyMap<string, DigestHistory>;
  /** Monotonic milliseconds. */
  nextAt: number;
}

/**
 * Rollouts as REST lists and changes them, and as they run (docs/rollouts.md): every replica reads their states and routes by
 * them, and the leader advances them.
 */
export class RolloutRegistry {
  readonly #writes: ResourceWrites;
  readonly #findings: Findings;
  readonly #store: Pick<Store, 'rollouts' | 'digestStatistics'>;
  readonly #leadership: Leadership;
  readonly #clock: Clock;
  readonly #logger: Logger;
  /** By uid, as read last. */
  #stored: ReadonlyMap<string, StoredRollout> = new Map();
  readonly #judging = new Map<string, Judging>();
  #hasFailed = false;
  #end = async () => {};

  constructor(
    writes: ResourceWrites,
    findings: Findings,
    store: Pick<Store, 'rollouts' | 'digestStatistics'>,
    leadership: Leadership,
    { clock, logger }: { readonly clock: Clock; readonly logger: Logger },
  ) {
    this.#writes = writes;
    this.#findings = findings;
    this.#store = store;
    this.#leadership = leadership;
    this.#clock = clock;
    this.#logger = logger;
  }

  start(): void {
    this.#end = startJob(0, () => this.#round());
  }

  async stop(): Promise<void> {
    await this.#end();
  }

  /** All rollouts, by namespace and name. */
  list(): readonly InventoryRollout[] {
    return this.#outcomes()
      .map((outcome) => this.#inventory(outcome))
      .sort((a, b) => (`${a.namespace}/${a.name}` < `${b.namespace}/${b.name}` ? -1 : 1));
  }

  /** A rollout, or null. */
  find(namespace: string, name: string): InventoryRollout | null {
    const outcome = this.#outcome(namespace, name);
    return outcome === null ? null : this.#inventory(outcome);
  }

  /** Declares a rollout. @param spec valid */
  async put(namespace: string, name: string, spec: EngineRolloutSpec, context: SpecWriteContext): Promise<SpecWrite> {
    const { controller } = this.#writes;
    controller.refreshNow();
    mustBeGranted(controller.tenancy.groupRejection(namespace, 'routingGroup', spec.routingGroup));
    return await this.#writes.put(engineRollout, { kind: ENGINE_ROLLOUT, namespace, name }, spec, context);
  }

  async delete(namespace: string, name: string, version: string | undefined): Promise<SpecWrite> {
    return await this.#writes.delete(engineRollout, { kind: ENGINE_ROLLOUT, namespace, name }, version);
  }

  /**
   * Does what a user asks for; other replicas follow within 250 ms.
   * @throws GatewayError EG_CONFLICT if the phase does not allow it
   */
  async act(namespace: string, name: string, action: RolloutAction, by: string): Promise<void> {
    await this.#read();
    const plan = this.#outcome(namespace, name)?.plan ?? null;
    if (plan === null) throw new GatewayError('EG_CONFLICT', `${action} is not possible: the rollout is not accepted`);
    const now = this.#clock.now();
    const stored = this.#stored.get(plan.uid);
    const state = stored?.state.revision === plan.revision ? stored.state : begun(plan, now);
    const next = afterAction(plan, state, action, by, now);
    if (next === null)
      throw new GatewayError('EG_CONFLICT', `${action} is not possible while the rollout is ${state.phase}`);
    if (!(await this.#replace(plan.uid, stored, next, null)))
      throw new GatewayError('EG_CONFLICT', 'another change of the rollout came first; read it and try again');
    await this.#read();
  }

  async #round(): Promise<number> {
    try {
      await this.#read();
      const fence = this.#leadership.fence;
      if (fence !== null && this.#writes.controller.isFromSource) await this.#lead(fence);
      this.#hasFailed = false;
    } catch (error) {
      // Weights stay as they are, and steps wait.
      if (!this.#hasFailed) this.#logger.warn({ err: error }, 'failed to advance rollouts');
      this.#hasFailed = true;
    }
    const isActive = [...this.#stored.values()].some(({ state }) => !isOver(state));
    const isNew = this.#plans().some(({ uid, revision }) => this.#stored.get(uid)?.state.revision !== revision);
    return isActive || (isNew && this.#leadership.isLeader) ? READ_MS : IDLE_READ_MS;
  }

  /** Reads all states and routes by them. */
  async #read(): Promise<void> {
    const rows = await this.#store.rollouts.all();
    const before = this.#stored;
    const stored = new Map(
      rows.map(({ id, generation, state: text }) => {
        const present = before.get(id);
        return [
          id,
          present?.text === text ? { ...present, generation } : { generation, text, state: JSON.parse(text) },
        ];
      }),
    );
    this.#stored = stored;
    const splits = [...stored].flatMap(([rollout, { state }]) => {
      const { routingGroup, stable, candidate, weight } = state;
      return weight === 0 ? [] : [{ rollout, routingGroup, stable, candidate, weight }];
    });
    const { splits: present } = this.#writes.table.current;
    if (!isDeepStrictEqual([...present.values()], splits)) this.#writes.table.setInputs({ splits });
    for (const { namespace, name, uid } of this.#plans()) {
      const state = stored.get(uid)?.state;
      const key = keyText({ kind: ENGINE_ROLLOUT, namespace, name });
      if (state !== undefined && this.#findings.of(key).rollout !== state)
        this.#writes.controller.reportRollout(key, state);
    }
  }

  /** Advances all rollouts. */
  async #lead(fence: Fence): Promise<void> {
    const plans = this.#plans();
    const uids = new Set(plans.map(({ uid }) => uid));
    for (const plan of plans) await this.#advance(plan, fence);
    for (const [uid, stored] of this.#stored) {
      if (uids.has(uid)) continue;
      // Without its resource a rollout ends: stable serves, unless the candidate was promoted and the specs are not updated.
      const { phase, stable, candidate } = stored.state;
      const view = { stable: this.#cluster(stable), candidate: this.#cluster(candidate) };
      const isPending = phase === 'Promoted' && view.candidate?.isRolloutOnly === true;
      this.#judging.delete(uid);
      if (!isPending && (await this.#store.rollouts.replace(uid, stored.generation, null, fence))) await this.#read();
    }
  }

  async #advance(plan: RolloutPlan, fence: Fence): Promise<void> {
    const stored = this.#stored.get(plan.uid);
    const state = stored?.state ?? null;
    const next = advance(plan, state, {
      ...{ now: this.#clock.now(), stable: this.#cluster(plan.stable), candidate: this.#cluster(plan.candidate) },
      ...{ verdict: await this.#verdict(plan, state), other: this.#other(plan) },
    });
    if (next === state) return;
    await this.#replace(plan.uid, stored, next, fence);
    if (next.phase === state?.phase && next.step === state.step) return;
    const { phase, weight, reason, message } = next;
    this.#logger.info(
      { rollout: `${plan.namespace}/${plan.name}`, phase, weight, reason, message },
      'rollout advanced',
    );
    await this.#read();
  }

  async #replace(uid: string, stored: StoredRollout | undefined, next: RolloutState, fence: Fence | null) {
    return await this.#store.rollouts.replace(uid, stored?.generation ?? 0, JSON.stringify(next), fence);
  }

  /** Judges the current step; null: not now. */
  async #verdict(plan: RolloutPlan, state: RolloutState | null): Promise<StepVerdict | null> {
    if (state?.phase !== 'Progressing' || state.revision !== plan.revision) return null;
    const began = this.#clock.monotonic();
    const judging = await this.#judgingOf(plan);
    if (began < judging.nextAt) return null;
    const rows = await this.#store.rollouts.queries([plan.stable, plan.candidate], state.since);
    const now = this.#clock.now();
    const queries = rows.map((row) => startedQuery(row, plan, now));
    const { minQueries = 1 } = plan.steps[state.step] ?? {};
    const rules = { steps: plan.steps.length, minQueries, compare: plan.compare, slowFactor: plan.slowFactor };
    const verdict = judge({ queries, history: judging.history, now }, rules);
    judging.nextAt = began + Math.max(JUDGE_MS, JUDGE_FACTOR * (this.#clock.monotonic() - began));
    return verdict;
  }

  async #judgingOf({ uid, revision, stable }: RolloutPlan): Promise<Judging> {
    const present = this.#judging.get(uid);
    if (present?.revision === revision) return present;
    const to = this.#clock.now();
    const digests = await this.#store.digestStatistics
      .top({ cluster: stable, from: to - HISTORY_MS, to }, 'count', MAX_HISTORY)
      .catch((error: unknown) => {
        this.#logger.warn({ err: error }, 'rollout is judged without earlier queries');
        return [];
      });
    const history = digests.flatMap(({ digest, figures }) => {
      const { queries, failures, user_errors: userErrors } = figures.totals;
      return digest === null ? [] : [[digest, { queries, failures: failures + userErrors }] as const];
    });
    const judging = { revision, history: new Map(history), nextAt: 0 };
    this.#judging.set(uid, judging);
    return judging;
  }

  /** Another rollout of the same group that has begun and not ended. */
  #other({ uid, routingGroup }: RolloutPlan): string | null {
    const plans = this.#plans();
    for (const [other, { state }] of this.#stored) {
      if (other === uid || state.routingGroup !== routingGroup || isOver(state) || state.phase === 'Pending') continue;
      const plan = plans.find((each) => each.uid === other);
      return plan === undefined ? 'of a deleted resource' : `${plan.namespace}/${plan.name}`;
    }
    return null;
  }

  #cluster(name: string): RolloutCluster | null {
    const declared = this.#writes.holder(name, isClusterOutcome);
    const entry = this.#writes.table.current.clusters.get(name);
    if (declared === null || entry === undefined) return null;
    const { routingGroup, active, rolloutOnly = false, health } = entry;
    return {
      ...{ routingGroup, isActive: active, isRolloutOnly: rolloutOnly, status: health.status },
      isOverridden: declared.override.kind === 'inForce',
      ...{ coordinatorId: health.coordinatorId ?? null, version: health.version ?? null },
    };
  }

  #plans(): readonly RolloutPlan[] {
    return this.#outcomes().flatMap(({ plan }) => (plan === null ? [] : [plan]));
  }

  #outcomes(): RolloutOutcome[] {
    return [...this.#writes.controller.outcomesOf(ENGINE_ROLLOUT)].filter(isRolloutOutcome);
  }

  #outcome(namespace: string, name: string): RolloutOutcome | null {
    const outcome = this.#writes.controller.outcomes.get(keyText({ kind: ENGINE_ROLLOUT, namespace, name }));
    return outcome === undefined || !isRolloutOutcome(outcome) ? null : outcome;
  }

  #inventory(outcome: RolloutOutcome): InventoryRollout {
    const { resource, acceptance } = outcome;
    const { namespace, name } = resource.metadata;
    const { gatewayClassName: _class, ...spec } = resource.spec;
    return {
      ...{ namespace, name, spec, inForce: acceptance.status === 'True', message: acceptance.message },
      ...{ version: specVersion(this.#writes.source.get(keyOf(resource)) ?? resource) },
      ...{ resource: declaredResource(outcome, this.#writes.source), state: rolloutStateOf(outcome, this.#findings) },
    };
  }
}

function startedQuery(row: RolloutQueryRow, { candidate }: RolloutPlan, now: number): StartedQuery {
  const number = (value: number | null) => (value === null ? null : Number(value));
  const started = Number(row.created);
  return {
    ...{ queryId: row.query_id, digest: row.digest ?? '', user: row.user_name ?? '', started },
    ...{ side: row.cluster === candidate ? 'candidate' : 'stable', state: row.state },
    ...{ errorType: row.error_type, errorName: row.error_name, cpuMillis: number(row.cpu_ms) },
    elapsedMillis: row.state === 'RUNNING' ? now - started : (number(row.elapsed_ms) ?? 0),
  };
}
