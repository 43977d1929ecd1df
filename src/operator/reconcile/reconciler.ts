import type { DataPlaneFindings } from '../../kinds/dataPlaneFindings.ts';
import type { ResourceOutcome } from '../../kinds/outcome.ts';
import type { StatusDraft } from '../../kinds/status.ts';
import { conditionsAt } from '../../model/condition.ts';
import { GatewayError } from '../../model/errors.ts';
import { keyOfText } from '../../model/resource.ts';
import { noCounts } from '../../routing/admissionCounts.ts';
import { resourceOfStored } from '../sources/storedResource.ts';
import type { ControllerOptions } from './controller.ts';
import { removeEnded } from './endedAnnotations.ts';
import type { ResourceEffects } from './resourceEffects.ts';
import type { ResourceWriter, StoredState } from './resourceWriter.ts';
import type { RoutingState } from './routingState.ts';
import type { ServedResources } from './servedResources.ts';
import type { StatusWriter } from './statusWriter.ts';

/** Used if nothing is done elsewhere. */
const noEffects: Pick<ResourceEffects, 'apply' | 'remove' | 'targets'> = {
  apply: () => Promise.resolve(),
  remove: () => Promise.resolve(),
  targets: { of: () => null },
};

/** The leader's work on one resource: has the database and the status state what the resource means. */
export class Reconciler {
  readonly #options: ControllerOptions;
  readonly #resources: ServedResources;
  readonly #state: RoutingState;
  readonly #writer: ResourceWriter;
  readonly #statuses: StatusWriter;
  readonly #findings: DataPlaneFindings;
  readonly #effects: Pick<ResourceEffects, 'apply' | 'remove' | 'targets'>;

  constructor(
    options: ControllerOptions,
    resources: ServedResources,
    state: RoutingState,
    writer: ResourceWriter,
    statuses: StatusWriter,
    findings: DataPlaneFindings,
  ) {
    this.#options = options;
    this.#resources = resources;
    this.#state = state;
    this.#writer = writer;
    this.#statuses = statuses;
    this.#findings = findings;
    this.#effects = options.effects ?? noEffects;
  }

  /**
   * Works on the resource of a key (`keyText`), or on its absence. Does nothing as follower, and nothing before the
   * source has been read. Rejects when it is to be tried again.
   */
  async reconcile(key: string): Promise<void> {
    const { leadership, metrics } = this.#options;
    if (!leadership.isLeader || !this.#resources.fromSource) return;
    await metrics.reconcile(keyOfText(key).kind, () => this.#reconcile(key));
  }

  async #reconcile(key: string): Promise<void> {
    const { kinds, source, leadership, logger } = this.#options;
    const outcome = this.#state.outcomes.get(key);
    if (outcome === undefined) {
      await this.#reconcileAbsence(key);
      return;
    }
    const stored = this.#writer.stateOf(key, outcome);
    // After the attempt to write it the key is reconciled again.
    if (stored === 'pending') {
      this.#writer.request();
      return;
    }
    const { fence } = leadership;
    let failure: unknown = null;
    try {
      if (fence !== null) await this.#effects.apply(outcome, fence);
    } catch (error) {
      failure = error;
    }
    this.#statuses.offer(outcome.resource, this.#status(key, outcome, stored));
    const ended = kinds.of(outcome.key.kind).endedAnnotations(outcome);
    if (ended.length > 0 && (await removeEnded(source, outcome.resource, ended, logger))) {
      this.#options.onEnded?.(outcome.resource);
    }
    if (failure !== null) throw failure;
    if (stored === 'failed')
      throw new GatewayError('EG_DATABASE_UNAVAILABLE', 'the database does not have the resource');
  }

  async #reconcileAbsence(key: string): Promise<void> {
    const { changes, source, store, leadership } = this.#options;
    this.#findings.forget(key);
    changes.forget(key);
    this.#statuses.forget(key);
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
    await this.#effects.remove(keyOfText(key), fence);
  }

  #status(key: string, outcome: ResourceOutcome, state: StoredState): StatusDraft {
    const { kinds, source, changes, admissionCounts: counts = noCounts, table } = this.#options;
    const { targets } = this.#effects;
    const isStored = state === 'stored';
    const reason = isStored ? '' : 'the database is not available; the change follows when it is back';
    const stored = { stored: isStored, reason };
    const { kind } = outcome.key;
    const draft = kinds
      .of(kind)
      .status(outcome, { stored, table: table.current, findings: this.#findings, counts, targets });
    const drift = changes.condition(key, source.get(outcome.key) ?? outcome.resource);
    const conditions = drift === null ? draft.conditions : [...draft.conditions, drift];
    const loss = this.#resources.heldOf(kind).find(({ namespace }) => namespace === outcome.key.namespace);
    if (loss === undefined) return { ...draft, conditions };
    const condition = conditionsAt(draft.observedGeneration);
    const message = `${loss.held} ${kind} resources are gone from the source at once and stay routed; confirm with POST /api/heldDeletions/confirm, or declare them again`;
    return { ...draft, conditions: [...conditions, condition('DeletionsHeld', 'True', 'MassDeletion', message)] };
  }
}
