import { firstHeader } from '../../model/http.ts';
import type { ProductNames } from '../../model/names.ts';
import { type Refusal, type RefusalReason, refusalError } from '../../routing/refusal.ts';
import { decisionText, queryGroups } from '../exchanges/queryRecorder.ts';
import type { QueryOutcomes, RejectedQuery } from '../outcomes/queryOutcomes.ts';
import type { StoredSubmission } from './storedSubmission.ts';

/** End of a queued query: rejected, or abandoned by its client. */
export type QueuedEnd = Refusal | 'CANCELLED' | 'ABANDONED';

export interface QueuedEndsDependencies {
  readonly names: ProductNames;
  readonly outcomes: Pick<QueryOutcomes, 'reject'>;
}

type EndError = RejectedQuery['error'];

/** Errors of the engines' protocol for actions of clients. */
const ofClients: Readonly<Record<'CANCELLED' | 'ABANDONED', EndError>> = {
  CANCELLED: { name: 'USER_CANCELED', type: 'USER_ERROR', code: 3, message: 'Query was canceled' },
  ABANDONED: {
    ...{ name: 'ABANDONED_QUERY', type: 'USER_ERROR', code: 2 },
    message: 'The client stopped asking for the query, which waited in the queue of the gateway.',
  },
};

const statesOfReasons: Partial<Record<RefusalReason, RejectedQuery['state']>> = {
  queue_dropped: 'CANCELLED',
  queue_lost: 'LOST',
};

/** Stores outcomes of queries that ended in the queue, under their client's id. */
export class QueuedEnds {
  readonly #outcomes: Pick<QueryOutcomes, 'reject'>;
  readonly #sourceHeader: string;

  constructor({ names, outcomes }: QueuedEndsDependencies) {
    this.#outcomes = outcomes;
    this.#sourceHeader = names.headerKey('Source');
  }

  /**
   * @param stored the submission; null if it cannot be read: its end is not stored then
   * @param waitedMs duration of the wait, milliseconds
   */
  note(id: string, stored: StoredSubmission | null, waitedMs: number, end: QueuedEnd): void {
    const error = typeof end === 'string' ? ofClients[end] : errorOf(end);
    if (stored === null || error === null) return;
    const { user, decision, headers, body } = stored;
    this.#outcomes.reject({
      queryId: id,
      state: typeof end === 'string' ? end : (statesOfReasons[end.reason] ?? 'REFUSED'),
      facts: {
        cluster: null,
        routingGroup: decision.group,
        user: user.user,
        source: firstHeader(headers, this.#sourceHeader) ?? null,
        rule: decision.rule,
        gatewayQueuedMillis: Math.round(waitedMs),
        ...(user.membership && queryGroups(user.membership)),
      },
      queryText: body.toString('utf8'),
      decision: decisionText(decision, {
        ...{ cluster: '', fallback: false, steps: null, attempts: null, queuedAs: id },
        ...(typeof end === 'string' ? {} : { refused: end.reason }),
        membership: user.membership,
        mapping: user.mapping,
      }),
      error,
    });
  }
}

function errorOf({ reason, message }: Refusal): EndError | null {
  const error = refusalError(reason);
  return error === null ? null : { ...error, message };
}
