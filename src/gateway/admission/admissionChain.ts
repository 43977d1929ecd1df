import type { Refusal } from '../../routing/refusal.ts';
import type { ClusterEntry } from '../../routing/routingTable.ts';
import type {
  Admission,
  AdmissionRequest,
  AdmissionResponse,
  AdmissionWait,
  QuerySlots,
  QueuePosition,
  WaitPlace,
} from './admission.ts';

const now: AdmissionResponse = { kind: 'now' };

/**
 * Several admissions in sequence: the first wait or rejection is the result. After a wait the remaining ones are
 * checked, so that a submission has passed all of them when it is sent; the first wait's maximum time is the total
 * limit. Only the last one may admit with slots.
 */
export class AdmissionChain implements Admission {
  readonly #admissions: readonly Admission[];
  readonly #now: () => number;

  constructor(admissions: readonly Admission[], now: () => number) {
    this.#admissions = admissions;
    this.#now = now;
  }

  admit(request: AdmissionRequest): AdmissionResponse {
    return this.#admitFrom(0, request);
  }

  #admitFrom(first: number, request: AdmissionRequest): AdmissionResponse {
    for (let index = first; index < this.#admissions.length; index++) {
      const response = (this.#admissions[index] as Admission).admit(request);
      if (response.kind === 'wait' && index + 1 < this.#admissions.length)
        return this.#continue(response, index + 1, request);
      if (response.kind !== 'now' || response.slots !== undefined) return response;
    }
    return now;
  }

  #continue(wait: AdmissionWait, next: number, request: AdmissionRequest): AdmissionWait {
    const place = new ChangingPlace(wait.place ?? null);
    const since = this.#now() - (request.waitedMs ?? 0);
    const slots = new LaterSlots(() => `${place.why()}; waited ${((this.#now() - since) / 1000).toFixed(1)} s`);
    return {
      ...wait,
      slots,
      place,
      begin: async (signal) => {
        const refusal = await wait.begin(signal);
        if (refusal !== null || signal.aborted) return refusal;
        slots.endFirstWait();
        const response = this.#admitFrom(next, request);
        if (response.kind === 'wait') place.become(response.place ?? null);
        if (response.kind !== 'reject' && response.slots !== undefined) slots.become(response.slots);
        if (response.kind === 'now') return null;
        return response.kind === 'reject' ? response.refusal : await beginWithin(response, signal);
      },
    };
  }
}

/** State of a submission with several consecutive waits. */
class ChangingPlace implements WaitPlace {
  #place: WaitPlace | null;
  #isMoved = false;

  constructor(place: WaitPlace | null) {
    this.#place = place;
  }

  become(place: WaitPlace | null): void {
    this.#place = place;
    if (this.#isMoved) place?.moveFirst();
  }

  why(): string {
    return this.#place?.why() ?? 'its turn has not come';
  }

  position(): QueuePosition | null {
    return this.#place?.position() ?? null;
  }

  moveFirst(): void {
    this.#isMoved = true;
    this.#place?.moveFirst();
  }
}

/** Slots of a submission that first waits for something else. */
class LaterSlots implements QuerySlots {
  #slots: QuerySlots | null = null;
  #isReleased = false;
  readonly #textOfFirst: () => string;
  #first: string | null = null;
  #chosen: string | null = null;

  /** @param textOfFirst description of the first wait for the trace */
  constructor(textOfFirst: () => string) {
    this.#textOfFirst = textOfFirst;
  }

  endFirstWait(): void {
    this.#first ??= this.#textOfFirst();
  }

  become(slots: QuerySlots): void {
    this.#slots = slots;
    if (this.#isReleased) slots.release();
  }

  get note(): string {
    const first = this.#first ?? this.#textOfFirst();
    const later = this.#slots?.note ?? null;
    if (later !== null) return `${first}; then ${later}`;
    return this.#chosen === null ? first : `${first}; admitted to ${this.#chosen}`;
  }

  beginChoice(): void {
    this.#slots?.beginChoice();
  }

  takeCluster(cluster: ClusterEntry): Refusal | null {
    this.#chosen = cluster.name;
    return this.#slots?.takeCluster(cluster) ?? null;
  }

  bind(queryId: string, cluster: string): void {
    this.#slots?.bind(queryId, cluster);
  }

  release(): void {
    this.#isReleased = true;
    this.endFirstWait();
    this.#slots?.release();
  }
}

/** Begins a wait with its own time limit: the caller only knows the limit of the previous wait. */
async function beginWithin(
  { atMost, late, noteLate, begin }: AdmissionWait,
  signal: AbortSignal,
): Promise<Refusal | null> {
  const giveUp = new AbortController();
  const { promise, resolve } = Promise.withResolvers<Refusal>();
  const timer = setTimeout(() => {
    giveUp.abort();
    noteLate?.();
    resolve(late);
  }, atMost);
  try {
    return await Promise.race([begin(AbortSignal.any([signal, giveUp.signal])), promise]);
  } finally {
    clearTimeout(timer);
  }
}
