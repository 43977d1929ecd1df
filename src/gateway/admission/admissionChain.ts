import type { Refusal } from '../../routing/refusal.ts';
import type { ClusterEntry } from '../../routing/routingTable.ts';
import type { Admission, AdmissionAnswer, AdmissionRequest, AdmissionWait, QuerySlots } from './admission.ts';

const now: AdmissionAnswer = { answer: 'now' };

/**
 * Several admissions in turn: the first that does not say *now* answers. After a wait the ones behind it are asked, so
 * that a submission has passed all of them when it is sent on; the first wait's longest time bounds all of it. Only the last one
 * may answer *now* with slots.
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
      if (answer.answer !== 'now' || answer.slots !== undefined) return answer;
    }
    return now;
  }

  /** A wait, with what the admissions behind it say when it is over. */
  #goOn(wait: AdmissionWait, next: number, request: AdmissionRequest): AdmissionWait {
    const slots = new LaterSlots();
    return {
      ...wait,
      slots,
      begin: async (signal) => {
        const refusal = await wait.begin(signal);
        if (refusal !== null || signal.aborted) return refusal;
        const answer = this.#admitFrom(next, request);
        if (answer.answer !== 'refuse' && answer.slots !== undefined) slots.become(answer.slots);
        if (answer.answer === 'now') return null;
        return answer.answer === 'refuse' ? answer.refusal : await beginWithin(answer, signal);
      },
    };
  }
}

/** Slots of a submission that waits for something else first. */
class LaterSlots implements QuerySlots {
  #slots: QuerySlots | null = null;
  #isReleased = false;

  become(slots: QuerySlots): void {
    this.#slots = slots;
    if (this.#isReleased) slots.release();
  }

  get note(): string | null {
    return this.#slots?.note ?? null;
  }

  beginChoice(): void {
    this.#slots?.beginChoice();
  }

  takeCluster(cluster: ClusterEntry): Refusal | null {
    return this.#slots?.takeCluster(cluster) ?? null;
  }

  bind(queryId: string, cluster: string): void {
    this.#slots?.bind(queryId, cluster);
  }

  release(): void {
    this.#isReleased = true;
    this.#slots?.release();
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
