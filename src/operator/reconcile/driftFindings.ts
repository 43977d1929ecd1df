import type { Clock } from '../../model/clock.ts';
import { type Condition, type ConditionDraft, conditionsAt } from '../../model/condition.ts';

/** How long a foreign write that was put back is shown at most, in milliseconds. */
const SHOWN_MS = 24 * 3_600_000;

/** A foreign write that was put back. */
interface Finding {
  readonly reason: string;
  readonly message: string;
  readonly generation: number;
  /** What the resource gave then, as text. */
  readonly row: string;
  /** Milliseconds since 1970. */
  readonly since: number;
}

/**
 * Foreign writes that were put back, by `keyText`: the condition `Drift` of a resource, until the resource is changed or a
 * day has passed. Another replica that becomes the leader goes on from the condition itself.
 */
export class DriftFindings {
  readonly #clock: Clock;
  /** Null: over, whatever an older status says. */
  readonly #findings = new Map<string, Finding | null>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Notes what was put back. @param row what the resource gives, as text */
  note(key: string, generation: number, row: string, reason: string, message: string): void {
    this.#findings.set(key, { reason, message, generation, row, since: this.#clock.now() });
  }

  /**
   * The condition of a resource as it is now; null when there is nothing to say.
   * @param before the condition that its status has
   */
  condition(key: string, generation: number, row: string, before: Condition | undefined): ConditionDraft | null {
    const entry = this.#findings.get(key);
    const finding = entry === undefined ? findingOf(before, row) : entry;
    // Nothing is kept of that: a status that the last leader wrote may be read later.
    if (finding === null) return null;
    const isShown = finding.generation === generation && finding.row === row && !this.#isOver(finding);
    this.#findings.set(key, isShown ? finding : null);
    return isShown ? conditionsAt(generation)('Drift', 'True', finding.reason, finding.message) : null;
  }

  /** Keys whose time is over and whose condition is still there. */
  get over(): readonly string[] {
    return this.#findings
      .entries()
      .filter(([, finding]) => finding !== null && this.#isOver(finding))
      .map(([key]) => key)
      .toArray();
  }

  /** Drops the finding of a resource that was deleted. */
  forget(key: string): void {
    this.#findings.delete(key);
  }

  #isOver({ since }: Finding): boolean {
    return this.#clock.now() - since >= SHOWN_MS;
  }
}

function findingOf(condition: Condition | undefined, row: string): Finding | null {
  if (condition?.status !== 'True') return null;
  const { reason, message, observedGeneration = 0, lastTransitionTime } = condition;
  return { reason, message, generation: observedGeneration, row, since: Date.parse(lastTransitionTime) };
}
