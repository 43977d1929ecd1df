import type { Logger } from 'pino';
import type { DataPlaneFindings } from '../../kinds/dataPlaneFindings.ts';
import type { KindRegistry } from '../../kinds/kindRegistry.ts';
import type { ResourceOutcome } from '../../kinds/outcome.ts';
import type { StatusDraft } from '../../kinds/status.ts';
import { conditionsAt } from '../../model/condition.ts';
import { GatewayError } from '../../model/errors.ts';
import { keyOfText, type Resource } from '../../model/resource.ts';
import type { AdmissionCounts } from '../../routing/admissionCounts.ts';
import type { RoutingTableHolder } from '../../routing/tableHolder.ts';
import type { Store } from '../../store/store.ts';
import type { Leadership } from '../leadership/leadership.ts';
import type { ResourceSource } from '../sources/source.ts';
import { resourceOfStored } from '../sources/storedResource.ts';
import { removeEnded } from './endedAnnotations.ts';
import type { ExternalChanges } from './externalChanges.ts';
import type { OperatorMetrics } from './metrics.ts';
import type { ResourceEffects } from './resourceEffects.ts';
import type { ResourceWriter, StoredState } from './resourceWriter.ts';
import type { RoutingState } from './routingState.ts';
import type { ServedResources } from './servedResources.ts';
import type { StatusWriter } from './statusWriter.ts';

export interface ReconcilerOptions {
  readonly kinds: KindRegistry;
  readonly source: Pick<ResourceSource, 'name' | 'apply' | 'get'>;
  readonly resources: Pick<ServedResources, 'fromSource' | 'heldOf'>;
  readonly state: Pick<RoutingState, 'outcomes'>;
  readonly leadership: Pick<Leadership, 'isLeader' | 'fence'>;
  readonly store: Pick<Store, 'resources'>;
  readonly writer: ResourceWriter;
  readonly changes: ExternalChanges;
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
    const { kinds, source, state, writer, leadership, logger } = this.#options;
    const outcome = state.outcomes.get(key);
    if (outcome === undefined) {
      await this.#reconcileAbsence(key);
      return;
    }
    const stored = writer.stateOf(key, outcome);
    // After the attempt to write it the key is reconciled again.
    if (stored === 'pending') {
      writer.request();
      return;
    }
    const { fence } = leadership;
    let failure: unknown = null;
    try {
      if (fence !== null) await this.#options.effects.apply(outcome, fence);
    } catch (error) {
      failure = error;
    }
    this.#options.statuses.offer(outcome.resource, this.#status(key, outcome, stored));
    const ended = kinds.of(outcome.key.kind).endedAnnotations(outcome);
    if (ended.length > 0 && (await removeEnded(source, outcome.resource, ended, logger))) {
      this.#options.onEnded?.(outcome.resource);
    }
    if (failure !== null) throw failure;
    if (stored === 'failed')
      throw new GatewayError('EG_DATABASE_UNAVAILABLE', 'the database does not have the resource');
  }

  async #reconcileAbsence(key: string): Promise<void> {
    const { findings, changes, statuses, writer, source, store, leadership } = this.#options;
    findings.forget(key);
    changes.forget(key);
    statuses.forget(key);
    writer.request();
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
    await this.#options.effects.remove(keyOfText(key), fence);
  }

  #status(key: string, outcome: ResourceOutcome, state: StoredState): StatusDraft {
    const { kinds, source, changes, findings, counts, table, resources, effects } = this.#options;
    const { targets } = effects;
    const isStored = state === 'stored';
    const reason = isStored ? '' : 'the database is not available; the change follows when it is back';
    const stored = { stored: isStored, reason };
    const { kind } = outcome.key;
    const draft = kinds.of(kind).status(outcome, { stored, table: table.current, findings, counts, targets });
    const drift = changes.condition(key, source.get(outcome.key) ?? outcome.resource);
    const conditions = drift === null ? draft.conditions : [...draft.conditions, drift];
    const loss = resources.heldOf(kind);
    if (loss === null) return { ...draft, conditions };
    const condition = conditionsAt(draft.observedGeneration);
    const message = `${loss.held} ${kind} resources are gone from the source at once and stay routed; confirm with POST /api/heldDeletions/confirm, or declare them again`;
    return { ...draft, conditions: [...conditions, condition('DeletionsHeld', 'True', 'MassDeletion', message)] };
  }
}
