import { firstHeader } from '../../model/rawHeaders.ts';
import type { RuleRequest } from '../../rules/decision.ts';
import { nothing, type Router, type RouterAnswer } from './router.ts';

/** Chooses the group in the routing group header. */
export class HeaderRouter implements Router {
  readonly name = 'header';
  readonly step = null;
  readonly #key: string;

  /** @param key name of the header in lower case */
  constructor(key: string) {
    this.#key = key;
  }

  isAsked(): boolean {
    return true;
  }

  needsAnalysis(): boolean {
    return false;
  }

  route({ headers }: RuleRequest): RouterAnswer {
    const group = firstHeader(headers, this.#key);
    if (group === undefined || group === '') return nothing;
    return { says: 'group', choice: { group, cluster: null, rule: null, onUnavailable: 'fallback' }, findings: null };
  }
}
