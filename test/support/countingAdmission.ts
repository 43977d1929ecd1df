import type { Admission, AdmissionRequest, AdmissionResponse } from '../../src/gateway/admission/admission.ts';
import type { Refusal } from '../../src/routing/refusal.ts';

/** An admission of a test: places that the test gives, in the order in which submissions came. */
export class CountingAdmission implements Admission {
  /** Submissions that wait, the first one first. */
  readonly waiting: { readonly request: AdmissionRequest; readonly admit: (refusal: Refusal | null) => void }[] = [];
  /** How many are admitted at once. */
  places: number;
  readonly #atMost: number;
  readonly #hold: number;
  /** Submissions that were moved first before they wait. */
  readonly #isFirst = new Set<AdmissionRequest>();

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

  admit(request: AdmissionRequest): AdmissionResponse {
    if (this.places > 0) {
      this.places--;
      return { kind: 'now' };
    }
    const place = {
      why: () => 'the test says so',
      position: () => {
        const index = this.waiting.findIndex((one) => one.request === request);
        return index < 0 ? null : { position: index + 1, waiting: this.waiting.length };
      },
      moveFirst: () => {
        const index = this.waiting.findIndex((one) => one.request === request);
        if (index >= 0) this.waiting.unshift(...this.waiting.splice(index, 1));
        else this.#isFirst.add(request);
      },
    };
    return {
      kind: 'wait',
      place,
      atMost: this.#atMost,
      hold: this.#hold,
      late: () => ({ reason: 'queue_timeout', message: `The query waited for ${this.#atMost} ms`, queryId: null }),
      begin: (signal) => {
        const { promise, resolve } = Promise.withResolvers<Refusal | null>();
        const waiting = { request, admit: resolve };
        this.waiting.push(waiting);
        this.waiting.sort((one, other) => (other.request.waitedMs ?? 0) - (one.request.waitedMs ?? 0));
        if (this.#isFirst.has(request)) place.moveFirst();
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
