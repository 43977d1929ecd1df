import type { Refusal } from '../../routing/refusal.ts';
import type { ClusterEntry } from '../../routing/routingTable.ts';
import type { FailedAttempt } from '../../routing/storedDecision.ts';
import { isOwnFault, isReset } from '../upstreams/clusterError.ts';
import { unreachableOwner } from './exchangeRefusals.ts';
import type { AttemptStage } from './exchangeState.ts';
import type { Submission } from './submission.ts';

export interface FailedSubmission {
  readonly cluster: ClusterEntry;
  readonly error: Error;
  readonly stage: AttemptStage;
  readonly reason: string;
}

/**
 * Next step after a failed attempt: the same cluster again, another one, a rejection, or the failure as the client's
 * response.
 */
export type RetryStep =
  | { readonly next: 'same' }
  | { readonly next: 'other'; readonly excluded: ReadonlyMap<string, string> }
  | { readonly next: 'refuse'; readonly refusal: Refusal }
  | { readonly next: 'giveUp' };

/** Decides what follows when a cluster fails a submission, so that nothing can run twice (docs/protocol.md#safe-retry). */
export class SubmissionRetry {
  readonly attempts: FailedAttempt[] = [];
  readonly #submission: Submission;
  #isBound: boolean;
  #repeats = 0;

  /** @param isBound whether only one cluster can take the submission: that of its transaction, or of the query it is about */
  constructor(submission: Submission, isBound: boolean) {
    this.#submission = submission;
    this.#isBound = isBound;
  }

  get isBound(): boolean {
    return this.#isBound;
  }

  /** @param retrySubmissions the setting of that name */
  after(failure: FailedSubmission, retrySubmissions: 'untilAnswered' | 'untilSent'): RetryStep {
    const { cluster, error, stage, reason } = failure;
    this.attempts.push({ cluster: cluster.name, error: reason });
    if (this.#isBound && stage === 'connecting' && !isOwnFault(error)) {
      const { about, transaction } = this.#submission;
      if (about !== null && transaction === null) {
        return { next: 'refuse', refusal: unreachableOwner(about.queryId, cluster.name, reason) };
      }
      // The transaction is lost with its cluster: another one states so in the engine's words, and takes the ROLLBACK.
      this.#isBound = false;
    }
    if (!this.#mayRepeat(failure, retrySubmissions)) return { next: 'giveUp' };
    if (this.#isBound) {
      this.#repeats++;
      return { next: 'same' };
    }
    const excluded = new Map(this.attempts.map((attempt) => [attempt.cluster, attempt.error]));
    return { next: 'other', excluded };
  }

  #mayRepeat({ error, stage }: FailedSubmission, retrySubmissions: 'untilAnswered' | 'untilSent'): boolean {
    if (!this.#submission.body.complete || isOwnFault(error)) return false;
    if (stage === 'connecting') return !this.#isBound;
    if (this.#isBound && this.#repeats > 0) return false;
    return retrySubmissions === 'untilAnswered' && stage === 'sent' && isReset(error);
  }
}
