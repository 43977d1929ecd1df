import { firstHeader } from '../../model/rawHeaders.ts';
import { decideExternally, decideGroup, type GroupDecision } from '../../routing/groupDecision.ts';
import type { RoutingTable } from '../../routing/routingTable.ts';
import { noTrace, type RuleDecision, type RuleRequest } from '../../rules/decision.ts';
import type { BodyStart } from '../body.ts';
import type { DataPlaneContext, ProxiedRequest } from '../dataPlaneContext.ts';
import type { ExternalRules } from '../external/externalRules.ts';
import type { Analysis } from '../requestAnalyzer.ts';
import { ProxiedRuleRequest } from './proxiedRuleRequest.ts';
import type { RequestSteps } from './requestSteps.ts';

/**
 * Decides routing groups: by rules, the external rules service, the header, or the default
 * (docs/compatibility.md#routing-groups).
 */
export class RoutingGroups {
  readonly #context: DataPlaneContext;
  readonly #steps: RequestSteps;
  readonly #groupHeader: string;
  /** Null: rules and header decide. */
  readonly service: ExternalRules | null;

  constructor(context: DataPlaneContext, steps: RequestSteps, service: ExternalRules | null) {
    this.#context = context;
    this.#steps = steps;
    this.#groupHeader = context.names.headerKey('Routing-Group');
    this.service = service;
  }

  /** Whether whoever decides reads what the analysis finds. */
  needsAnalysis(table: RoutingTable): boolean {
    return table.rules?.needsAnalysis === true || this.service?.needsAnalysis === true;
  }

  /** What the rules say; null where there are none. */
  askRules(
    proxied: ProxiedRequest,
    table: RoutingTable,
    analysis: Analysis,
    body: BodyStart | null,
    analyzed: boolean,
  ): RuleDecision | null {
    if (table.rules === null) return null;
    proxied.trace?.step('rules');
    return table.rules.decide(this.ruleRequest(proxied, analysis, body, analyzed && table.rules.needsAnalysis));
  }

  /** The group by what the rules said, or by the header. */
  groupOf(proxied: ProxiedRequest, ruled: RuleDecision | null): GroupDecision {
    const header =
      ruled === null || ruled.useHeader ? firstHeader(proxied.request.rawHeaders, this.#groupHeader) : undefined;
    return decideGroup(ruled, header, this.#context.settings().defaultRoutingGroup);
  }

  /** Lets the external rules service decide, where rules have not denied the request before. */
  askService(
    proxied: ProxiedRequest,
    service: ExternalRules,
    ruled: RuleDecision | null,
    request: RuleRequest,
    next: (decision: GroupDecision) => void,
  ): void {
    proxied.trace?.step('rules service');
    this.#steps.settle(proxied, service.ask(request), (answer) => {
      const { defaultRoutingGroup, propagateErrors } = this.#context.settings();
      if (answer.outcome === 'errors' && answer.errors.length > 0 && propagateErrors) {
        const message = `The external rules service refused the request: ${answer.errors.join('; ')}`;
        this.#context.refuse(proxied, { reason: 'external_errors', message, queryId: null, list: answer.errors });
        return;
      }
      const header = firstHeader(proxied.request.rawHeaders, this.#groupHeader);
      next(decideExternally(answer, ruled?.trace ?? noTrace, header, defaultRoutingGroup));
    });
  }

  /** Refuses a request that a rule's failure rejects; whether it did. */
  refuseRejected(proxied: ProxiedRequest, ruled: RuleDecision | null): boolean {
    if (ruled === null || ruled.rejected === null) return false;
    this.#context.refuse(proxied, { reason: 'rule_failed', message: ruled.rejected.message, queryId: null });
    return true;
  }

  /** The request as rules and the external rules service see it. */
  ruleRequest(proxied: ProxiedRequest, analysis: Analysis, body: BodyStart | null, analyzed: boolean): RuleRequest {
    return new ProxiedRuleRequest(proxied, analyzed ? analysis : null, body, this.#context.headers);
  }
}
