import type { Refusal } from '../../routing/refusal.ts';
import type { Admission, AdmissionAnswer, AdmissionRequest, AdmissionWait } from './admission.ts';

const now: AdmissionAnswer = { answer: 'now' };

/**
 * Several admissions in turn: the first that does not say *now* answers. After a wait the ones behind it are asked, so
 * that a submission has passed all of them when it is sent on; the first wait's longest time bounds all of it.
 */
export class AdmissionChain implements Admission {
  readonly #admissions: readonly Admission[];

  constructor(admissions: readonly Admission[]) {
    this.#admissions = admissions;
  }

  admit(request: AdmissionRequest): AdmissionAnswer {
    return this.#admitFrom(0, request);
  }

  #admitFrom(first: number, request: AdmissionRequest): AdmissionAnswer {
    for (let index = first; index < this.#admissions.length; index++) {
      const answer = (this.#admissions[index] as Admission).admit(request);
      if (answer.answer === 'wait' && index + 1 < this.#admissions.length)
        return this.#goOn(answer, index + 1, request);
      if (answer.answer !== 'now') return answer;
    }
    return now;
  }

  /** A wait, with what the admissions behind it say when it is over. */
  #goOn(wait: AdmissionWait, next: number, request: AdmissionRequest): AdmissionWait {
    return {
      ...wait,
      begin: async (signal) => {
        const refusal = await wait.begin(signal);
        if (refusal !== null || signal.aborted) return refusal;
        const answer = this.#admitFrom(next, request);
        if (answer.answer === 'now') return null;
        return answer.answer === 'refuse' ? answer.refusal : await beginWithin(answer, signal);
      },
    };
  }
}

/** Begins a wait that ends by its own time too: its caller knows only that of the wait before. */
async function beginWithin({ atMost, late, begin }: AdmissionWait, signal: AbortSignal): Promise<Refusal | null> {
  const giveUp = new AbortController();
  const { promise, resolve } = Promise.withResolvers<Refusal>();
  const timer = setTimeout(() => {
    giveUp.abort();
    resolve(late);
  }, atMost);
  try {
    return await Promise.race([begin(AbortSignal.any([signal, giveUp.signal])), promise]);
  } finally {
    clearTimeout(timer);
  }
}
