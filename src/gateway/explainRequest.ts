import { GatewayError } from '../model/errors.ts';
import { headerValues } from '../model/rawHeaders.ts';
import { explainRouting, type RoutingExplanation } from '../routing/explanation.ts';
import type { RoutingTable } from '../routing/routingTable.ts';
import type { RoutingTableHolder } from '../routing/tableHolder.ts';
import { placedText, type RuleDraft } from '../rules/compile/ruleDraft.ts';
import type { RuleRequest, RuleSet } from '../rules/decision.ts';
import type { RuleCompiler, TriedRule } from '../rules/ruleCompiler.ts';
import { type DescribedRequest, type DescriptionReader, describedRuleRequest } from './describedRequest.ts';

/** What a request would come to, and what was seen of it. */
export interface ExplainedRequest extends RoutingExplanation {
  readonly request: {
    readonly isSubmission: boolean;
    /** Null: none was recognised, or request analysis is off. */
    readonly user: string | null;
    /** Null: request analysis is off. */
    readonly query: {
      readonly queryType: string;
      readonly resourceGroupQueryType: string;
      readonly tables: readonly string[];
      readonly catalogs: readonly string[];
      readonly schemas: readonly string[];
      readonly errorMessage: string | null;
    } | null;
  };
}

/** Explains described requests. */
export interface ExplainRequest {
  /** What would become of a request now. */
  (description: DescribedRequest): ExplainedRequest;
  /**
   * What would become of it with one more rule, in place of the rule of its name or added; nothing is kept of it.
   * @throws GatewayError EG_MALFORMED (the rule does not compile), EG_IMPOSSIBLE (rules are not asked at all)
   */
  withRule(description: DescribedRequest, draft: RuleDraft): ExplainedRequest;
}

/**
 * Makes the explanation of described requests: the same steps as for a real one, with nothing sent and nobody asked.
 * @param defaultGroup `routing.defaultRoutingGroup`, as it is now
 * @param tryRule makes the rule set of the rules in force with a draft among them
 */
export function requestExplanation(
  table: RoutingTableHolder,
  reader: DescriptionReader,
  defaultGroup: () => string,
  tryRule: RuleCompiler['tryRule'],
): ExplainRequest {
  const groupKey = reader.names.headerKey('Routing-Group');
  const explained = (description: DescribedRequest, current: RoutingTable, rules: RuleSet | null) => {
    const request = describedRuleRequest(description, reader);
    const ruled = rules === null ? null : rules.decide(request);
    const header = headerValues(request.headers, groupKey)[0];
    return { ...explainRouting(current, ruled, header, defaultGroup()), request: seen(request) };
  };
  return Object.assign((description: DescribedRequest) => explained(description, table.current, table.current.rules), {
    withRule: (description: DescribedRequest, draft: RuleDraft) =>
      explained(description, table.current, triedRules(tryRule(draft))),
  });
}

function triedRules(tried: TriedRule | null): RuleSet {
  if (tried === null) {
    throw new GatewayError('EG_IMPOSSIBLE', 'routingRules.rulesEngineEnabled is false: no rule is asked', {
      field: 'rule',
    });
  }
  if ('ruleSet' in tried) return tried.ruleSet;
  const problems = tried.problems.map((problem) => ({ ...problem, field: `rule.${problem.field}` }));
  throw new GatewayError('EG_MALFORMED', placedText(problems), { problems, field: problems[0]?.field ?? 'rule' });
}

function seen({ isSubmission, user, queryProperties }: RuleRequest): ExplainedRequest['request'] {
  if (queryProperties === null) return { isSubmission, user: user?.user ?? null, query: null };
  const { queryType, resourceGroupQueryType, tables, catalogs, schemas, errorMessage } = queryProperties;
  return {
    isSubmission,
    user: user?.user ?? null,
    query: {
      queryType,
      resourceGroupQueryType,
      tables: tables.map((parts) => parts.join('.')),
      catalogs,
      schemas,
      errorMessage,
    },
  };
}
