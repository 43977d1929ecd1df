import { GatewayError } from '../../model/errors.ts';
import type { Membership } from '../../model/membership.ts';
import { headerValues, type RawHeaders } from '../../model/rawHeaders.ts';
import type { NameMapping, RequestUser } from '../../model/requestUser.ts';
import type { HasCapacity } from '../../routing/eligibleClusters.ts';
import {
  explainRouting,
  type RoutingExplanation,
  routingOf,
  type TransactionOwner,
} from '../../routing/explanation.ts';
import type { GroupDecision } from '../../routing/groupDecision.ts';
import { GroupRouter } from '../../routing/groupRouter.ts';
import type { Refusal } from '../../routing/refusal.ts';
import type { RoutingTable } from '../../routing/routingTable.ts';
import type { RoutingTableHolder } from '../../routing/tableHolder.ts';
import { transactionIdOf } from '../../routing/transactionId.ts';
import { userRefusal } from '../../routing/userRefusal.ts';
import { placedText, type RuleDraft } from '../../rules/compile/ruleDraft.ts';
import { readValues } from '../../rules/decide/readValues.ts';
import type { ReadCondition, RuleRequest, RuleSet, RuleTrace } from '../../rules/decision.ts';
import type { RuleCompiler, TriedRule } from '../../rules/ruleCompiler.ts';
import type { AnalyzeLongRequest } from '../../sql/analyzeRequest.ts';
import {
  awaitedRuleRequest,
  type DescribedRequest,
  type DescriptionReader,
  describedHeaders,
  describedUser,
  isDescribedSubmission,
} from './describedRequest.ts';

export interface ExplainedRequest extends RoutingExplanation {
  /** Conditions of evaluated rules: rules with an effect first, 50 at most. */
  readonly conditions: readonly ReadCondition[];
  /** The limits that it would wait for now, or null. */
  readonly waitsFor: string | null;
  readonly request: {
    readonly isSubmission: boolean;
    /** Null: none was recognized, or request analysis is disabled. */
    readonly user: string | null;
    /** Result of the user mapping; null if the user's name is not mapped. */
    readonly userMapping: Pick<NameMapping, 'from'> | null;
    /** Groups of the user, by source; null: no source of groups is configured, or request analysis is disabled. */
    readonly groups: Membership['sources'] | null;
    /** Null: request analysis is disabled. */
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

const MAX_CONDITIONS = 50;

/** Admission checks for explanations; default: none. */
export interface ExplainedAdmission {
  readonly hasRoom?: HasCapacity;
  /** The limits that a submission would wait for now, or null. */
  readonly whyItWaits?: (submission: {
    readonly decision: GroupDecision;
    readonly user: RequestUser;
    readonly headers: RawHeaders;
  }) => string | null;
}

export interface ExplainRequest {
  /**
   * Explains the current routing of a request.
   * @param began the cluster of its transaction; null outside of known transactions
   */
  (description: DescribedRequest, began: TransactionOwner | null): Promise<ExplainedRequest>;
  /**
   * Explains it with one more rule, which replaces the rule with its name or is added; stores nothing.
   * @throws GatewayError EG_MALFORMED (the rule does not compile), EG_IMPOSSIBLE (rules are disabled)
   */
  withRule(description: DescribedRequest, draft: RuleDraft, began: TransactionOwner | null): Promise<ExplainedRequest>;
  /** Lower-case names of headers that identify a user, in addition to those of the protocol and of HTTP. */
  readonly identityHeaders: readonly string[];
  /** Id of the transaction of a described statement, or null. */
  transactionOf(description: DescribedRequest): string | null;
}

/**
 * Makes the explanation of described requests: the same steps as for a real one, with nothing sent and no one asked.
 * @param defaultGroup `routing.defaultRoutingGroup`
 * @param tryRule makes the rule set of the rules active with a draft among them
 * @param admission what would let it wait; nothing is taken of limits
 */
export function requestExplanation(
  table: RoutingTableHolder,
  reader: DescriptionReader<AnalyzeLongRequest>,
  defaultGroup: string,
  tryRule: RuleCompiler['tryRule'],
  admission: ExplainedAdmission,
): ExplainRequest {
  const chain = new GroupRouter(reader.names, defaultGroup);
  const transactionKey = reader.names.headerKey('Transaction-Id');
  const explained = async (description: DescribedRequest, current: RoutingTable, began: TransactionOwner | null) => {
    const request = await awaitedRuleRequest(description, reader);
    const routed = await routingOf(chain, request, current);
    const sender = describedUser(description, request.headers, reader);
    const { conflict } = describedHeaders(description, names);
    const refusal: Refusal | null =
      conflict === null ? userRefusal(sender) : { reason: 'header_conflict', message: conflict, queryId: null };
    const routing = refusal === null ? routed : { ...routed, refused: { refusal, rule: null } };
    const hasRoom: HasCapacity = (cluster) => admission.hasRoom?.(cluster) ?? true;
    const explanation = explainRouting(current, routing, defaultGroup, began, hasRoom);
    const { decision, refused } = routing;
    // Only submissions wait, except statements of transactions and calls of kill_query.
    const mayWait = refused === null && began === null && request.isSubmission && !isKill(request);
    const user = request.user ?? { user: null, userInfo: null };
    const why = mayWait ? (admission.whyItWaits?.({ decision, user, headers: request.headers }) ?? null) : null;
    const message = why === null ? explanation.message : `${explanation.message}; it would wait: ${why}`;
    const conditions = conditionsRead(current.rules, explanation.rules, request);
    return { ...explanation, message, waitsFor: why, conditions, request: describe(request, sender) };
  };
  const { names, analyzeRequest } = reader;
  /** Thousands of conditions would take seconds. */
  const conditionsRead = (rules: RuleSet | null, trace: readonly RuleTrace[], request: RuleRequest) => {
    const texts = new Map(rules?.conditions?.().map((each) => [`${each.origin}/${each.rule}`, each.condition]));
    const reached = trace.filter(({ outcome }) => outcome !== 'skipped');
    const acting = reached.filter(({ outcome }) => outcome !== 'not-matched');
    const others = reached.filter(({ outcome }) => outcome === 'not-matched');
    return [...acting, ...others].slice(0, MAX_CONDITIONS).flatMap(({ rule, origin }): ReadCondition[] => {
      const condition = texts.get(`${origin}/${rule}`);
      if (condition === undefined) return [];
      return [{ rule, origin, condition, values: readValues(condition, request, { names, analyzeRequest }) }];
    });
  };
  const now = (description: DescribedRequest, began: TransactionOwner | null) =>
    explained(description, table.current, began);
  return Object.assign(now, {
    identityHeaders: (reader.identityHeaders ?? []).map((name) => names.ownHeader(name).toLowerCase()),
    withRule: async (description: DescribedRequest, draft: RuleDraft, began: TransactionOwner | null) =>
      await explained(description, { ...table.current, rules: triedRules(tryRule(draft)) }, began),
    transactionOf(description: DescribedRequest) {
      if (!isDescribedSubmission(description, reader)) return null;
      return transactionIdOf(headerValues(describedHeaders(description, names).lines, transactionKey)[0]);
    },
  });
}

function isKill({ queryProperties }: RuleRequest): boolean {
  return queryProperties?.queryId != null;
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

function describe(
  { isSubmission, user, queryProperties }: RuleRequest,
  { mapping }: RequestUser,
): ExplainedRequest['request'] {
  const groups = user?.membership?.sources ?? null;
  const userMapping = mapping === undefined ? null : { from: mapping.from };
  if (queryProperties === null) return { isSubmission, user: user?.user ?? null, userMapping, groups, query: null };
  const { queryType, resourceGroupQueryType, tables, catalogs, schemas, errorMessage } = queryProperties;
  return {
    isSubmission,
    user: user?.user ?? null,
    userMapping,
    groups,
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
