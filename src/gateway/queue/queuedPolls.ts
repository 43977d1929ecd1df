import type { RefusalReason } from '../../routing/refusal.ts';
import type { WaitPlace } from '../admission/admission.ts';
import type { ProxiedRequest } from '../proxiedRequest.ts';
import type { StoredOutcome } from './storedOutcome.ts';

/** Requests for one query that are held at a time; of more, the oldest is answered at once. */
const MAX_POLLS = 4;

/** What is said of a query that waits, beside how long it has. */
export interface QueuedState {
  readonly group: string;
  /** What decided about the group, and the rule that did; null where this replica does not know. */
  readonly decidedBy: string | null;
  readonly rule: string | null;
  /** Null where another replica holds it. */
  readonly place: WaitPlace | null;
}

/** What requests for queries that wait are answered with. */
export interface PollAnswers {
  /** Answers that a query waits. @param token of this request */
  waiting(proxied: ProxiedRequest, id: string, token: number, waitedMs: number, state: QueuedState): void;
  /** Answers with what came of it. */
  outcome(proxied: ProxiedRequest, id: string, outcome: StoredOutcome): void;
  /** Answers that nobody has the query, or nobody has it any more. */
  gone(proxied: ProxiedRequest, id: string): void;
  /** Answers a call of kill_query that took a waiting query out. */
  killed(proxied: ProxiedRequest, id: string): void;
  /** Refuses; the message is about the query. */
  refuse(proxied: ProxiedRequest, id: string, reason: RefusalReason, message: string): void;
}

interface OpenPoll {
  readonly proxied: ProxiedRequest;
  readonly token: number;
  readonly timer: NodeJS.Timeout;
}

/** The open requests of a client for its query: each is held for a time, until something is known. */
export class QueuedPolls {
  readonly #open = new Map<ProxiedRequest, OpenPoll>();

  get size(): number {
    return this.#open.size;
  }

  /**
   * Holds a request.
   * @param holdMs longest time
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

  /** Answers all. */
  answerAll(answer: (proxied: ProxiedRequest, token: number) => void): void {
    for (const poll of [...this.#open.values()]) {
      this.#end(poll);
      answer(poll.proxied, poll.token);
    }
  }

  #end(poll: OpenPoll): void {
    clearTimeout(poll.timer);
    this.#open.delete(poll.proxied);
  }
}
