import type { Logger } from 'pino';
import type { DataPlaneFindings } from '../../kinds/dataPlaneFindings.ts';
import { isClusterOutcome } from '../../kinds/engineCluster/clusterOutcome.ts';
import { clusterStatus, type StatusDraft, type Stored } from '../../kinds/engineCluster/clusterStatus.ts';
import type { ResourceOutcome } from '../../kinds/outcome.ts';
import { isRuleOutcome } from '../../kinds/routingRule/ruleOutcome.ts';
import { ruleStatus } from '../../kinds/routingRule/ruleStatus.ts';
import type { RoutingTableHolder } from '../../routing/tableHolder.ts';
import type { Leadership } from '../leadership.ts';
import type { OperatorMetrics } from '../metrics.ts';
import type { RoutingState } from '../routingState.ts';
import type { ServedResources } from '../servedResources.ts';
import type { ResourceSource } from '../source.ts';
import type { StatusWriter } from '../statusWriter.ts';
import { endOverride } from './overrideEnd.ts';
import type { Projector } from './projector.ts';

/** Options of a reconciler. */
export interface ReconcilerOptions {
  readonly source: Pick<ResourceSource, 'apply'>;
  readonly resources: Pick<ServedResources, 'fromSource'>;
  readonly state: Pick<RoutingState, 'outcomes'>;
  readonly leadership: Pick<Leadership, 'isLeader'>;
  readonly projector: Projector;
  readonly statuses: Pick<StatusWriter, 'offer' | 'forget'>;
  readonly findings: DataPlaneFindings;
  readonly table: Pick<RoutingTableHolder, 'current'>;
  readonly metrics: Pick<OperatorMetrics, 'reconciles' | 'reconcileErrors'>;
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
    const { source, resources, state, leadership, projector, metrics, logger } = this.#options;
    if (!leadership.isLeader || !resources.fromSource) return;
    metrics.reconciles.inc();
    const outcome = state.outcomes.get(key);
    if (outcome === undefined) {
      await this.#reconcileAbsence(key);
      return;
    }
    let failure: unknown = null;
    try {
      if (!projector.has(key, outcome)) await projector.project(key, outcome);
    } catch (error) {
      failure = error;
    }
    this.#options.statuses.offer(outcome.resource, this.#status(key, outcome, failure));
    if (isClusterOutcome(outcome) && outcome.override.kind === 'ended') {
      await endOverride(source, outcome.resource, logger);
    }
    if (failure !== null) {
      metrics.reconcileErrors.inc();
      throw failure;
    }
  }

  async #reconcileAbsence(key: string): Promise<void> {
    const { findings, statuses, projector } = this.#options;
    findings.forgetRule(key);
    statuses.forget(key);
    projector.forget(key);
    await projector.project(key, null);
  }

  #status(key: string, outcome: ResourceOutcome, failure: unknown): StatusDraft {
    const { findings, table } = this.#options;
    const stored = this.#stored(key, outcome, failure);
    if (isRuleOutcome(outcome)) return ruleStatus(outcome, stored, findings.ruleFailure(key, outcome));
    if (!isClusterOutcome(outcome)) throw new TypeError(`${key} is of no kind that has a status`);
    const { registryName, routable } = outcome;
    const entry = routable === null ? null : (table.current.clusters.get(registryName) ?? null);
    return clusterStatus(
      outcome,
      entry,
      stored,
      findings.forwardedHeaders(registryName),
      findings.credentials(registryName),
    );
  }

  #stored(key: string, outcome: ResourceOutcome, failure: unknown): Stored {
    if (this.#options.projector.hasVersion(key, outcome)) return { stored: true, reason: '' };
    const reason =
      failure === null
        ? 'the database has a newer version of the resource than its source; change the resource again'
        : 'the database is not available; the change follows when it is back';
    return { stored: false, reason };
  }
}
