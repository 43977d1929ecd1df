import { isDeepStrictEqual } from 'node:util';
import type { DataPlaneFindings } from '../../kinds/dataPlaneFindings.ts';
import type { ResourceOutcome } from '../../kinds/outcome.ts';
import type { StatusDraft } from '../../kinds/status.ts';
import { type Condition, conditionsAt, mergeConditions } from '../../model/condition.ts';
import { GatewayError } from '../../model/errors.ts';
import { keyOfText, type Resource, type ResourceStatus } from '../../model/resource.ts';
import { noCounts } from '../../routing/admissionCounts.ts';
import { annotate, FencedWrite, VersionConflict } from '../sources/source.ts';
import { resourceOfStored } from '../sources/storedResource.ts';
import type { ControllerOptions } from './controller.ts';
import type { ResourceWriter, StoredState } from './resourceWriter.ts';
import type { RoutingState } from './routingState.ts';
import type { ServedResources } from './servedResources.ts';

/** A transition of a condition that was written, for events. */
export interface Transition {
  readonly resource: Resource;
  readonly condition: Condition;
  readonly before: Condition | null;
}

/** Conditions of the gateway that are only there at times; all others that no draft has belong to another user. */
const TRANSIENT_TYPES = /^(DeletionsHeld|Discovered|Drift|Failing|HealthCredentials|Paused|ResolvedRefs|Stalled)$/;

/**
 * The leader's work on one resource: has the database and the status state what the resource means. A status is written on change
 * only, and at most once in 5 s an object.
 */
export class Reconciler {
  readonly #options: ControllerOptions;
  readonly #resources: ServedResources;
  readonly #state: RoutingState;
  readonly #writer: ResourceWriter;
  readonly #findings: DataPlaneFindings;
  readonly #intervalMs: number;
  /** When the status of a resource was written last, in monotonic milliseconds, by `keyText`. */
  readonly #written = new Map<string, { readonly uid: string; readonly at: number }>();

  constructor(
    options: ControllerOptions,
    resources: ServedResources,
    state: RoutingState,
    writer: ResourceWriter,
    findings: DataPlaneFindings,
  ) {
    this.#options = options;
    this.#resources = resources;
    this.#state = state;
    this.#writer = writer;
    this.#findings = findings;
    this.#intervalMs = options.statusIntervalMs ?? 5_000;
  }

  /**
   * Works on the resource of a key (`keyText`), or on its absence. Does nothing as follower, and nothing before the
   * source has been read. Rejects when it is to be tried again.
   * @returns milliseconds after which it is due again; 0: when something changes
   */
  async reconcile(key: string): Promise<number> {
    const { leadership, effects } = this.#options;
    if (!leadership.isLeader || !this.#resources.fromSource) return 0;
    const outcome = this.#state.outcomes.get(key);
    if (outcome === undefined) {
      await this.#reconcileAbsence(key);
      return 0;
    }
    const stored = await this.#writer.whenTried(key, outcome);
    // It changed meanwhile.
    if (stored === 'pending') return 1;
    const { fence } = leadership;
    const applied = fence === null ? null : effects?.apply(outcome, fence);
    const failure = await Promise.resolve(applied).then(
      () => null,
      (error: unknown) => ({ error }),
    );
    const dueMs = await this.#writeStatus(key, outcome, this.#draft(key, outcome, stored));
    await this.#removeEnded(outcome);
    if (failure !== null) throw failure.error;
    if (stored === 'failed')
      throw new GatewayError('EG_DATABASE_UNAVAILABLE', 'the database does not have the resource');
    return dueMs;
  }

  async #reconcileAbsence(key: string): Promise<void> {
    const { changes, source, store, leadership, effects } = this.#options;
    this.#findings.forget(key);
    changes.forget(key);
    this.#written.delete(key);
    this.#writer.request();
    const { fence } = leadership;
    if (fence === null) return;
    if (source.name === 'database') {
      // A call that deletes a resource deletes what is stored, too; of a cluster, another program may have deleted the row.
      const deleted = await store.resources.removeWithoutRow(keyOfText(key), fence);
      if (deleted !== null) {
        const resource = resourceOfStored(deleted);
        changes.report({ resource, cluster: deleted.registryName, outcome: 'adopted', fields: [] });
      }
    }
    await effects?.remove(keyOfText(key), fence);
  }

  #draft(key: string, outcome: ResourceOutcome, state: StoredState): StatusDraft {
    const { kinds, source, changes, admissionCounts: counts = noCounts, table, effects } = this.#options;
    const targets = effects?.targets ?? { of: () => null };
    const isStored = state === 'stored';
    const reason = isStored ? '' : 'the database is not available; the change follows when it is back';
    const stored = { stored: isStored, reason };
    const { kind, namespace } = outcome.key;
    const view = { stored, table: table.current, findings: this.#findings, counts, targets };
    const draft = kinds.of(kind).status(outcome, view);
    const conditions = [...draft.conditions];
    const drift = changes.condition(key, source.get(outcome.key) ?? outcome.resource);
    if (drift !== null) conditions.push(drift);
    const loss = this.#resources.heldOf(kind).find((each) => each.namespace === namespace);
    if (loss !== undefined) {
      const message = `${loss.held} ${kind} resources are gone from the source at once and stay routed; confirm with POST /api/heldDeletions/confirm, or declare them again`;
      conditions.push(conditionsAt(draft.observedGeneration)('DeletionsHeld', 'True', 'MassDeletion', message));
    }
    return { ...draft, conditions };
  }

  /** Writes a status that differs from what it is. @returns milliseconds after which it may be written; 0: nothing is left */
  async #writeStatus(key: string, outcome: ResourceOutcome, draft: StatusDraft): Promise<number> {
    const { source, clock, metrics, leadership, statusLeadership: leader = leadership } = this.#options;
    const { uid } = outcome.resource.metadata;
    const resource = source.get(outcome.key);
    if (!leader.isLeader || resource === null || resource.metadata.uid !== uid) return 0;
    const status = changedStatus(resource, draft, clock.now());
    if (status === null) return 0;
    const last = this.#written.get(key);
    const waitMs = last?.uid === uid ? last.at + this.#intervalMs - clock.monotonic() : 0;
    if (waitMs > 0) return waitMs;
    const { fence } = leader;
    try {
      await source.patchStatus(outcome.key, uid, status, fence);
    } catch (error) {
      if (error instanceof FencedWrite && fence !== null) leader.noteFenced(fence);
      // Changed or deleted meanwhile: what the source brings is looked at again.
      if (error instanceof VersionConflict || error instanceof FencedWrite) return 0;
      metrics.statusWrite(false);
      throw error;
    }
    this.#written.set(key, { uid, at: clock.monotonic() });
    metrics.statusWrite(true);
    for (const condition of status.conditions ?? []) this.#noteCondition(resource, condition);
    return 0;
  }

  #noteCondition(resource: Resource, condition: Condition): void {
    const before = resource.status?.conditions?.find(({ type }) => type === condition.type) ?? null;
    const isOfSameReason = before?.status === condition.status && before.reason === condition.reason;
    // Each drift counts by itself: its message states what was changed, and when it was noticed.
    if (isOfSameReason && (condition.type !== 'Drift' || before.message === condition.message)) return;
    this.#options.metrics.statusTransitions.inc();
    this.#options.onTransition({ resource, condition, before });
  }

  /**
   * Takes away annotations without effect (an override, as `spec.active` changed after it): otherwise they would be effective again
   * with a later change. Where the source cannot be written that is left to its owner.
   */
  async #removeEnded(outcome: ResourceOutcome): Promise<void> {
    const { kinds, source, logger, onEnded } = this.#options;
    const { key, resource } = outcome;
    const names = kinds.of(key.kind).endedAnnotations(outcome);
    if (names.length === 0) return;
    const annotations = Object.fromEntries(names.map((name) => [name, null]));
    try {
      await annotate(source, key, annotations, resource.metadata.resourceVersion);
      onEnded?.(resource);
    } catch (error) {
      // The resource changed again: its next reconcile looks again.
      if (error instanceof VersionConflict) return;
      if (!(error instanceof GatewayError) || error.code === 'EG_SOURCE_UNAVAILABLE') throw error;
      logger.warn({ key, annotations: names, err: error }, 'failed to remove annotations without effect');
    }
  }
}

/** The status of a resource with a draft; null if it is as it was. */
function changedStatus(resource: Resource, draft: StatusDraft, now: number): ResourceStatus | null {
  const existing = resource.status?.conditions ?? [];
  const types = new Set(draft.conditions.map(({ type }) => type));
  const status: ResourceStatus = {
    ...draft.fields,
    observedGeneration: draft.observedGeneration,
    conditions: mergeConditions(
      existing.filter(({ type }) => types.has(type)),
      draft.conditions,
      // RFC 3339 without fractions, as Kubernetes writes times.
      `${new Date(now).toISOString().slice(0, 19)}Z`,
    ),
  };
  // Conditions of others belong to them: no write of ours would take them away.
  const own = existing.filter(({ type }) => types.has(type) || TRANSIENT_TYPES.test(type));
  return isDeepStrictEqual(ordered(status), ordered({ ...resource.status, conditions: own })) ? null : status;
}

function ordered(status: ResourceStatus): unknown {
  const conditions = [...(status.conditions ?? [])].sort((x, y) => (x.type < y.type ? -1 : 1));
  return { ...status, conditions };
}
