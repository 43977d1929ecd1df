import type { StatusDraft } from '../../kinds/status.ts';
import type { Kind } from '../../model/resource.ts';

/** Types that are only there at times: after a restart no draft may say that they are ours. */
const transient = ['DeletionsHeld', 'Drift', 'Failing', 'HealthCredentials', 'Paused', 'Stalled'];

/** Which types of conditions the gateway writes; all others in a status belong to another user. */
export class OwnConditions {
  readonly #types = new Map<Kind, Set<string>>();

  note(kind: Kind, { conditions }: StatusDraft): void {
    const types = this.#types.get(kind) ?? new Set(transient);
    for (const { type } of conditions) types.add(type);
    this.#types.set(kind, types);
  }

  has(kind: Kind, type: string): boolean {
    return this.#types.get(kind)?.has(type) ?? false;
  }
}
