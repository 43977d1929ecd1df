import { GatewayError } from '../../model/errors.ts';

/** Most questions answer at once; of those about callers who are not known yet; and of these from one network. */
const MAX_OPEN = 64;
const MAX_NEW = 32;
const MAX_NEW_OF_NETWORK = 8;

/**
 * Questions that wait for a response of the API server, each response once however many calls wait for it. Half of the
 * room is kept for callers who are known, and no network takes more than a quarter of the rest.
 */
export class ApiQuestions {
  readonly #open = new Map<string, Promise<unknown>>();
  readonly #newOf = new Map<string, number>();
  #new = 0;

  /**
   * @param network where a caller who is not known yet comes from; null for one who is known
   * @throws GatewayError EG_TOO_MANY_ATTEMPTS where too many questions of the network wait, EG_IDENTITY_UNAVAILABLE
   *   where too many wait at all, and for any failure of `ask`
   */
  once<T>(key: string, network: string | null, ask: () => Promise<T>): Promise<T> {
    const waiting = this.#open.get(key);
    if (waiting !== undefined) return waiting as Promise<T>;
    const refusal = this.#refusal(network);
    if (refusal !== null) return Promise.reject(refusal);
    this.#count(network, 1);
    const answer = ask().catch((cause: unknown) => Promise.reject(identityUnavailable(cause)));
    this.#open.set(key, answer);
    const forget = () => {
      this.#open.delete(key);
      this.#count(network, -1);
    };
    answer.then(forget, forget);
    return answer;
  }

  #refusal(network: string | null): GatewayError | null {
    if (network !== null && (this.#newOf.get(network) ?? 0) >= MAX_NEW_OF_NETWORK) {
      const message = 'Too many tokens from this address wait to be checked; try again in 1 s.';
      return new GatewayError('EG_TOO_MANY_ATTEMPTS', message, { retryAfterSeconds: 1 });
    }
    if (this.#open.size < MAX_OPEN && (network === null || this.#new < MAX_NEW)) return null;
    return identityUnavailable(new Error('too many questions wait'));
  }

  #count(network: string | null, change: 1 | -1): void {
    if (network === null) return;
    this.#new += change;
    const count = (this.#newOf.get(network) ?? 0) + change;
    if (count === 0) this.#newOf.delete(network);
    else this.#newOf.set(network, count);
  }
}

function identityUnavailable(cause: unknown): GatewayError {
  const message = 'The Kubernetes API server does not answer whether the call is allowed; try again soon.';
  return new GatewayError('EG_IDENTITY_UNAVAILABLE', message, { cause });
}
