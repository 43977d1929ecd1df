import { nothing, type Router, type RouterAnswer } from '../../routing/routers/router.ts';
import type { RuleRequest } from '../../rules/decision.ts';
import type { ExternalRules } from './externalRules.ts';

/**
 * Calls the external rules service (docs/rules.md#an-external-rules-service) and uses its group; the default group if
 * it reports errors, and the header if it fails.
 */
export class ExternalRouter implements Router {
  readonly name = 'external';
  readonly step = 'rules service';
  readonly #service: ExternalRules;
  readonly #propagateErrors: boolean;

  /** @param propagateErrors whether errors of the service are the client's response */
  constructor(service: ExternalRules, propagateErrors: boolean) {
    this.#service = service;
    this.#propagateErrors = propagateErrors;
  }

  isAsked(): boolean {
    return true;
  }

  needsAnalysis(): boolean {
    return this.#service.needsAnalysis;
  }

  async route(request: RuleRequest): Promise<RouterAnswer> {
    const external = await this.#service.request(request);
    const findings = { external };
    switch (external.outcome) {
      case 'answered': {
        const { routingGroup: group } = external;
        return { says: 'group', choice: { group, cluster: null, rule: null, onUnavailable: 'fallback' }, findings };
      }
      case 'errors': {
        const { errors } = external;
        const instead = { ...nothing, asks: 'last', findings } as const;
        if (errors.length === 0 || !this.#propagateErrors) return instead;
        const message = `The external rules service refused the request: ${errors.join('; ')}`;
        const refusal = { reason: 'external_errors', message, queryId: null, list: errors } as const;
        return { says: 'refusal', refusal, rule: null, instead };
      }
      default:
        return { ...nothing, findings };
    }
  }
}
