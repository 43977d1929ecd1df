import type { Logger } from 'pino';
import type { DataPlaneFindings } from '../../kinds/dataPlaneFindings.ts';
import type { KindRegistry } from '../../kinds/kindRegistry.ts';
import type { ResourceOutcome } from '../../kinds/outcome.ts';
import type { StatusDraft, Stored } from '../../kinds/status.ts';
import { type ConditionDraft, conditionsAt } from '../../model/condition.ts';
import { keyOfText, type Resource, type ResourceStatus } from '../../model/resource.ts';
import type { AdmissionCounts } from '../../routing/admissionCounts.ts';
import type { RoutingTableHolder } from '../../routing/tableHolder.ts';
import type { Leadership } from '../leadership/leadership.ts';
import type { ResourceSource } from '../sources/source.ts';
import type { DriftFindings } from './driftFindings.ts';
import { removeEnded } from './endedAnnotations.ts';
import type { ForeignWrites } from './foreignWrites.ts';
import type { OperatorMetrics } from './metrics.ts';
import { rowOfOutcome } from './projection.ts';
import type { Projector } from './projector.ts';
import type { ResourceEffects } from './resourceEffects.ts';
import type { RoutingState } from './routingState.ts';
import type { ServedResources } from './servedResources.ts';
import type { StatusWriter } from './statusWriter.ts';

export interface ReconcilerOptions {
  readonly kinds: KindRegistry;
  readonly source: Pick<ResourceSource, 'apply' | 'get'>;
  readonly resources: Pick<ServedResources, 'fromSource' | 'heldOf'>;
  readonly state: Pick<RoutingState, 'outcomes'>;
  readonly leadership: Pick<Leadership, 'isLeader' | 'fence'>;
  readonly projector: Projector;
  readonly foreignWrites: Pick<ForeignWrites, 'settle' | 'forget' | 'reportLost'>;
  readonly drift: Pick<DriftFindings, 'condition'>;
  readonly statuses: Pick<StatusWriter, 'offer' | 'forget'>;
  readonly findings: DataPlaneFindings;
  readonly counts: AdmissionCounts;
  readonly table: Pick<RoutingTableHolder, 'current'>;
  readonly effects: Pick<ResourceEffects, 'apply' | 'remove' | 'targets'>;
  readonly metrics: Pick<OperatorMetrics, 'reconcile'>;
  /** Called when annotations of a resource were removed as their effect had ended, with the resource as it was. */
  readonly onEnded?: (before: Resource) => void;
  readonly logger: Logger;
}

/** The leader's work on one resource: has the database and the status say what the resource means. */
export class Reconciler {
  readonly #options: ReconcilerOptions;

  constructor(options: ReconcilerOptions) {
    this.#options = options;
  }

  /**
   * Works on the resource of a key (`keyText`), or on its absence. Does nothing as follower, and nothing before the
   * source has been read. Rejects when it is to be tried again.
   */
  async reconcile(key: string): Promise<void> {
    const { resources, leadership, metrics } = this.#options;
    if (!leadership.isLeader || !resources.fromSource) return;
    await metrics.reconcile(keyOfText(key).kind, () => this.#reconcile(key));
  }

  async #reconcile(key: string): Promise<void> {
    const { kinds, source, state, projector, logger } = this.#options;
    const before = state.outcomes.get(key);
    if (before === undefined) {
      await this.#reconcileAbsence(key);
      return;
    }
    let failure: unknown = null;
    try {
      if (!projector.has(key, before) && (await projector.project(key, before)) === 'foreign') {
        await this.#options.foreignWrites.settle(before);
      }
    } catch (error) {
      failure = error;
    }
    // A foreign write may have changed the resource, which is reconciled again then.
    const outcome = state.outcomes.get(key);
    if (outcome === undefined) return;
    const { fence } = this.#options.leadership;
    let effectFailure: unknown = null;
    try {
      if (fence !== null) await this.#options.effects.apply(outcome, fence);
    } catch (error) {
      effectFailure = error;
    }
    this.#options.statuses.offer(outcome.resource, this.#status(key, outcome, failure));
    const ended = kinds.of(outcome.key.kind).endedAnnotations(outcome);
    if (ended.length > 0 && (await removeEnded(source, outcome.resource, ended, logger))) {
      this.#options.onEnded?.(outcome.resource);
    }
    if (failure !== null) throw failure;
    if (effectFailure !== null) throw effectFailure;
  }

  async #reconcileAbsence(key: string): Promise<void> {
    const { findings, foreignWrites, statuses, projector } = this.#options;
    findings.forget(key);
    foreignWrites.forget(key);
    statuses.forget(key);
    projector.forget(key);
    if ((await projector.project(key, null)) === 'foreign') foreignWrites.reportLost(key);
    const { fence } = this.#options.leadership;
    if (fence !== null) await this.#options.effects.remove(keyOfText(key), fence);
  }

  #status(key: string, outcome: ResourceOutcome, failure: unknown): StatusDraft {
    const { kinds, findings, counts, table, resources, effects } = this.#options;
    const { targets } = effects;
    const stored = this.#storedState(key, outcome, failure);
    const { kind } = outcome.key;
    const loss = resources.heldOf(kind);
    const draft = kinds.of(kind).status(outcome, { stored, table: table.current, findings, counts, targets });
    // The outcome holds the resource as it was when anything but its status changed last.
    const { status } = this.#options.source.get(outcome.key) ?? outcome.resource;
    const drift = this.#drift(key, outcome, status);
    const conditions = drift === null ? draft.conditions : [...draft.conditions, drift];
    if (loss === null) return { ...draft, conditions };
    const condition = conditionsAt(draft.observedGeneration);
    const message = `${loss.held} ${kind} resources are gone from the source at once and stay routed; confirm with POST /api/heldDeletions/confirm, or declare them again`;
    return { ...draft, conditions: [...conditions, condition('DeletionsHeld', 'True', 'MassDeletion', message)] };
  }

  #drift(key: string, outcome: ResourceOutcome, status: ResourceStatus | undefined): ConditionDraft | null {
    const { kinds, drift } = this.#options;
    const row = rowOfOutcome(kinds, outcome);
    if (row === null) return null;
    const { generation } = outcome.resource.metadata;
    const present = status?.conditions?.find(({ type }) => type === 'Drift');
    return drift.condition(key, generation, JSON.stringify(row), present);
  }

  #storedState(key: string, outcome: ResourceOutcome, failure: unknown): Stored {
    if (this.#options.projector.hasVersion(key, outcome)) return { stored: true, reason: '' };
    const reason =
      failure === null
        ? 'the database has a newer version of the resource than its source; change the resource again'
        : 'the database is not available; the change follows when it is back';
    return { stored: false, reason };
  }
}
