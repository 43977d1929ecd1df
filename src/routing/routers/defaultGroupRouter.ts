import type { GroupAnswer, Router } from './router.ts';

/** Chooses the default group for requests without another decision. */
export class DefaultGroupRouter implements Router {
  readonly name = 'default';
  readonly step = null;
  readonly #group: string;

  /** @param group `routing.defaultRoutingGroup` */
  constructor(group: string) {
    this.#group = group;
  }

  isAsked(): boolean {
    return true;
  }

  needsAnalysis(): boolean {
    return false;
  }

  route(): GroupAnswer {
    const choice = { group: this.#group, cluster: null, rule: null, onUnavailable: 'fallback' } as const;
    return { says: 'group', choice, findings: null };
  }
}
