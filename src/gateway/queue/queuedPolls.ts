import type { RefusalReason } from '../../routing/refusal.ts';
import type { WaitPlace } from '../admission/admission.ts';
import type { ProxiedRequest } from '../proxiedRequest.ts';
import type { StoredOutcome } from './storedOutcome.ts';

/** Maximum number of waiting requests for one query; of more, the oldest gets an immediate response. */
const MAX_POLLS = 4;

/** State of a queued query, in addition to its waiting time. */
export interface QueuedState {
  readonly group: string;
  /** Origin of the group decision, and its rule; null if unknown here. */
  readonly decidedBy: string | null;
  readonly rule: string | null;
  /** Null if another replica has it. */
  readonly place: WaitPlace | null;
}

export interface PollResponses {
  /** Responds that a query is queued. @param token of this request */
  waiting(proxied: ProxiedRequest, id: string, token: number, waitedMs: number, state: QueuedState): void;
  outcome(proxied: ProxiedRequest, id: string, outcome: StoredOutcome): void;
  /** Responds that the query is unknown, or removed. */
  unknown(proxied: ProxiedRequest, id: string): void;
  /** Responds to a kill_query call that removed a queued query. */
  killed(proxied: ProxiedRequest, id: string): void;
  /** Rejects; the message is about the query. */
  reject(proxied: ProxiedRequest, id: string, reason: RefusalReason, message: string): void;
}

interface OpenPoll {
  readonly proxied: ProxiedRequest;
  readonly token: number;
  readonly timer: NodeJS.Timeout;
}

/** Waiting requests of a client for its query, each with a time limit. */
export class QueuedPolls {
  readonly #open = new Map<ProxiedRequest, OpenPoll>();

  get size(): number {
    return this.#open.size;
  }

  /**
   * Holds a request.
   * @param holdMs maximum wait
   * @param late called after it
   */
  hold(proxied: ProxiedRequest, token: number, holdMs: number, late: (proxied: ProxiedRequest, token: number) => void) {
    if (this.#open.size >= MAX_POLLS) {
      const [oldest] = this.#open.values();
      if (oldest !== undefined) {
        this.#end(oldest);
        late(oldest.proxied, oldest.token);
      }
    }
    const poll: OpenPoll = {
      proxied,
      token,
      timer: setTimeout(() => {
        this.#end(poll);
        late(proxied, token);
      }, holdMs),
    };
    this.#open.set(proxied, poll);
    proxied.response.once('close', () => this.#end(poll));
  }

  respondAll(response: (proxied: ProxiedRequest, token: number) => void): void {
    for (const poll of [...this.#open.values()]) {
      this.#end(poll);
      response(poll.proxied, poll.token);
    }
  }

  #end(poll: OpenPoll): void {
    clearTimeout(poll.timer);
    this.#open.delete(poll.proxied);
  }
}
