import type { Logger } from 'pino';
import type { Refusal } from '../../routing/refusal.ts';
import { type BodyFault, bodyRefusal } from '../bodies/bodyRefusal.ts';
import type { RequestBodies } from '../bodies/requestBodies.ts';
import type { DataPlaneSettings } from '../dataPlaneSettings.ts';
import type { DataPlaneMetrics } from '../metrics/dataPlaneMetrics.ts';
import type { ProxiedRequest } from '../proxiedRequest.ts';
import { classify, isHeadTooLarge, isOwnFault } from '../upstreams/clusterError.ts';
import type { ClusterReports } from './clusterReports.ts';
import { answerHeadTooLarge } from './exchangeRefusals.ts';
import type { AttemptStage } from './exchangeState.ts';

/** An attempt at a cluster that failed before the client had anything of a response. */
export interface AttemptFailure {
  /** Registry name; "" where it is not known. */
  readonly cluster: string;
  readonly proxyTo: string;
  /** The query that the request is about; null for none. */
  readonly queryId: string | null;
  readonly error: Error;
  readonly stage: AttemptStage;
  /** True if the client's body is too large. */
  readonly isBodyTooLarge: boolean;
}

export interface AttemptFailuresDependencies {
  readonly reports: ClusterReports;
  readonly metrics: Pick<DataPlaneMetrics, 'clusterError' | 'retry'>;
  readonly bodies: RequestBodies;
  readonly settings: Pick<DataPlaneSettings, 'maxBodySize'>;
  readonly logger: Logger;
}

/** Notes failed attempts: for metrics, trace and log, and for the health of the cluster where they say something of it. */
export class AttemptFailures {
  readonly #dependencies: AttemptFailuresDependencies;

  constructor(dependencies: AttemptFailuresDependencies) {
    this.#dependencies = dependencies;
  }

  /**
   * Notes a failed attempt.
   * @returns what went wrong, in words, or the refusal where another attempt could not end better
   */
  note(proxied: ProxiedRequest, failure: AttemptFailure): string | Refusal {
    const { reports, metrics, logger } = this.#dependencies;
    const { cluster, proxyTo, error, stage, isBodyTooLarge } = failure;
    if (isBodyTooLarge) return this.bodyRefusal('body_too_large');
    const { type, reason } = classify(error, stage !== 'connecting');
    metrics.clusterError(cluster, type);
    proxied.trace?.noteFailure(reason);
    logger.debug({ cluster, proxyTo, err: error }, 'cluster did not answer');
    if (isHeadTooLarge(error)) return answerHeadTooLarge(cluster, failure.queryId);
    if (stage === 'connecting' && !isOwnFault(error)) reports.connectionFailed(cluster, proxyTo, reason);
    return reason;
  }

  /** Notes that a cluster responded 5xx on a statement path, or not at all; how many times in a row by now. */
  noteServerError(cluster: string, proxyTo: string, reason: string, inARow: number): void {
    this.#dependencies.reports.serverFailed(cluster, proxyTo, reason, inARow);
  }

  /** Notes that a submission is sent again after a cluster failed. */
  noteRetry(cluster: string): void {
    this.#dependencies.metrics.retry(cluster);
  }

  /** The refusal of a request for its body. */
  bodyRefusal(fault: BodyFault): Refusal {
    const { bodies, settings } = this.#dependencies;
    return bodyRefusal(fault, bodies.memory, settings.maxBodySize);
  }
}
