import type { Admission, AdmissionAnswer, AdmissionRequest } from '../../src/gateway/admission/admission.ts';
import type { Refusal } from '../../src/routing/refusal.ts';

/** An admission of a test: places that the test gives, in the order in which submissions came. */
export class CountingAdmission implements Admission {
  /** Submissions that wait, the first one first. */
  readonly waiting: { readonly request: AdmissionRequest; readonly admit: (refusal: Refusal | null) => void }[] = [];
  /** How many are admitted at once. */
  places: number;
  readonly #atMost: number;
  readonly #hold: number;

  /**
   * @param places how many are admitted at once
   * @param atMost longest wait, milliseconds
   * @param hold how long requests are held, milliseconds
   */
  constructor(places = 0, atMost = 60_000, hold = 0) {
    this.places = places;
    this.#atMost = atMost;
    this.#hold = hold;
  }

  admit(request: AdmissionRequest): AdmissionAnswer {
    if (this.places > 0) {
      this.places--;
      return { answer: 'now' };
    }
    return {
      answer: 'wait',
      atMost: this.#atMost,
      hold: this.#hold,
      late: { reason: 'queue_timeout', message: `The query waited for ${this.#atMost} ms`, queryId: null },
      begin: (signal) => {
        const { promise, resolve } = Promise.withResolvers<Refusal | null>();
        const waiting = { request, admit: resolve };
        this.waiting.push(waiting);
        this.waiting.sort((one, other) => (other.request.waitedMs ?? 0) - (one.request.waitedMs ?? 0));
        signal.addEventListener('abort', () => {
          const index = this.waiting.indexOf(waiting);
          if (index >= 0) this.waiting.splice(index, 1);
        });
        return promise;
      },
    };
  }

  /** Admits the first one, or refuses it. */
  next(refusal: Refusal | null = null): void {
    this.waiting.shift()?.admit(refusal);
  }
}
